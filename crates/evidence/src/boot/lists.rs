//! The lists of functions of a recording: the kernel's own, those that it was given, one out of the kernel's image.
//!
//! They name what other evidence saw run; alone they say nothing of a boot. What a list looks like, and which of several
//! names an address has, is in [`super::symbols`].

use crate::boot::arch;
use crate::formats::symbols::{Known, List, Symbols};
use crate::input::File;
use crate::input::recent::Recent;
use std::rc::Rc;
use std::sync::Arc;
use timeline::Diagnostics;

/// Lists by their names, the last used last.
static LISTS: Recent<String, Arc<Known>> = Recent::new();

/// What a list says.
fn list(file: &File, diagnostics: &mut Diagnostics) -> Arc<List> {
    let again = |name: &String, known: &Arc<Known>| if *name == file.name { known.again(&file.bytes) } else { None };
    let (list, of_reading) = LISTS.find(again).unwrap_or_else(|| {
        let known = Arc::new(Known::read(&file.name, file.bytes.clone()));
        let read = known.again(&file.bytes);
        LISTS.keep(file.name.clone(), known);
        read.unwrap_or_default()
    });
    diagnostics.extend(of_reading);
    list
}

/// The lists as others ask them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lists<'f>(pub(crate) &'f [Rc<File>]);

impl Lists<'_> {
    /// The names of what was called in a guest of that `target`; its kernel's image was `entered` at this physical address.
    pub fn names(
        self,
        called: impl Iterator<Item = u64>,
        target: &str,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        if self.0.is_empty() {
            return Symbols::default();
        }
        let lists = self.0.iter().map(|file| (&*file.name, list(file, diagnostics))).collect();
        let image = arch::of(target).map(|arch| &arch.kernel);
        Symbols::of(lists, &called.collect::<Vec<u64>>(), image, entered, diagnostics)
    }

    /// The names where nothing says what was called.
    pub fn names_alone(self, diagnostics: &mut Diagnostics) -> Symbols {
        self.names(std::iter::empty(), "", None, diagnostics)
    }
}
