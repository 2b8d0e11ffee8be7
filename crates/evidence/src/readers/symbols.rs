//! Recognises and reads the files of lists of functions. [`super::lists`] answers questions about them.

use crate::boot::Found;
use crate::boot::lists::Lists;
use crate::formats::firmware_images::{self, FirmwareImages};
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::reader::{Evidence, Own, Reader};
use std::rc::Rc;
use std::sync::Arc;
use timeline::{Diagnostics, FileLoss, Timeline};

/// The position of [`firmware_images::FILE`] among the reader's own files.
const OF_FIRMWARE: usize = 3;

/// The lists, in order of precedence.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
    /// The programs of UEFI firmware, which name code without functions.
    programs: Option<Rc<File>>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["kernel symbols"]
    }

    fn own(&self) -> &'static [Own] {
        &[
            Own::Packed("kallsyms.gz"),
            Own::PackedNumbered("symbols"),
            Own::Packed("image-symbols.gz"),
            Own::Plain(firmware_images::FILE),
        ]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::FunctionNames
    }

    /// Recognises an imported list by the name that the user gave it.
    fn loss_by_name(&self, file: &str) -> Option<FileLoss> {
        (file.contains("symbols") || file.starts_with("kallsyms")).then_some(FileLoss::FunctionNames)
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_symbol(line.bytes).then_some(0)
    }

    fn add(&mut self, own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        match own {
            Some(OF_FIRMWARE) => drop(self.programs.get_or_insert(input.file)),
            _ => self.files.push(input.file),
        }
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let read = |file: &Rc<File>| FirmwareImages::read(&file.name, &file.bytes, &mut timeline.diagnostics);
        let programs = Arc::new(self.programs.as_ref().map(read).unwrap_or_default());
        *found.lists = Lists { files: &self.files, programs };
        None
    }
}

/// True for lines such as `ffffffff81000000 T _text`.
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
