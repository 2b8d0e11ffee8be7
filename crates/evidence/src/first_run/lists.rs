//! The lists of functions of a recording: the kernel's own, those that it was given, one out of the kernel's image.
//!
//! They name what other evidence saw run; alone they say nothing of a boot. What a list looks like, and which of several
//! names an address has, is in [`super::symbols`].

use super::symbols::Symbols;
use crate::input::File;
use std::rc::Rc;
use timeline::Diagnostics;

/// The lists as others ask them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lists<'f>(pub(super) &'f [Rc<File>]);

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
