//! The lists of functions of a recording: the kernel's own, those that it was given, one out of the kernel's image.
//!
//! They name what other evidence saw run; alone they say nothing of a boot. What a list looks like, and which of several
//! names an address has, is in [`super::symbols`].

use super::symbols::Symbols;
use crate::boot::Boot;
use crate::reader::{Evidence, File, Input, Own, Reader};
use crate::text::Line;
use std::rc::Rc;
use timeline::Diagnostics;

/// Lists, the first of which goes first.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["kernel symbols"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Packed("kallsyms.gz"), Own::PackedNumbered("symbols"), Own::Packed("image-symbols.gz")]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_symbol(line.bytes).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.push(input.file);
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        boot.lists = Lists(&self.files);
        None
    }
}

/// The lists as others ask them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lists<'f>(&'f [Rc<File>]);

impl Lists<'_> {
    /// The names of what was called; the kernel's image was `entered` at this physical address.
    pub fn names(
        self,
        called: impl Iterator<Item = u64>,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        if self.0.is_empty() {
            return Symbols::default();
        }
        let lists: Vec<(&str, &[u8])> = self.0.iter().map(|file| (&*file.name, &*file.bytes)).collect();
        Symbols::read_all(&lists, &called.collect::<Vec<u64>>(), entered, diagnostics)
    }
}

/// `ffffffff81000000 T _text`
fn is_symbol(text: &[u8]) -> bool {
    if !text.first().is_some_and(|first| first.is_ascii_digit() || (b'a'..=b'f').contains(first)) {
        return false;
    }
    let Some(space) = text.iter().take(17).position(|&b| b == b' ').filter(|at| [8, 16].contains(at)) else {
        return false;
    };
    text[..space].iter().all(u8::is_ascii_hexdigit)
        && text.get(space + 1).is_some_and(u8::is_ascii_alphabetic)
        && text.get(space + 2) == Some(&b' ')
        && text.len() > space + 3
}
