//! The lists of functions of a recording: the kernel's own, those that the user gave, and one from the kernel's image.
//!
//! They name functions for other evidence; alone they say nothing about a boot. [`super::symbols`] has the format of a
//! list, and the rule for several names at one address.

use crate::boot::arch;
use crate::formats::firmware_images::FirmwareImages;
use crate::formats::symbols::{Known, List, Symbols};
use crate::input::File;
use crate::input::recent::Recent;
use std::rc::Rc;
use std::sync::Arc;
use timeline::Diagnostics;

/// Lists by their names; the last one used is last.
static LISTS: Recent<String, Arc<Known>> = Recent::new();

/// Reads a list, or takes it from [`LISTS`].
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

/// The lists as other evidence uses them.
#[derive(Clone, Default)]
pub(crate) struct Lists<'f> {
    pub(crate) files: &'f [Rc<File>],
    /// The programs of UEFI firmware.
    pub(crate) programs: Arc<FirmwareImages>,
}

impl Lists<'_> {
    /// Returns names for the `called` addresses of a guest of architecture `target`. `entered` is the physical address
    /// at which the kernel's image was entered.
    pub(crate) fn names(
        &self,
        called: impl Iterator<Item = u64>,
        target: &str,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        if self.files.is_empty() {
            return Symbols::default().with_programs(self.programs.clone());
        }
        let lists = self.files.iter().map(|file| (&*file.name, list(file, diagnostics))).collect();
        let image = arch::of(target).map(|arch| &arch.facts.linux.image);
        let symbols = Symbols::of(lists, &called.collect::<Vec<u64>>(), image, entered, diagnostics);
        symbols.with_programs(self.programs.clone())
    }

    /// Returns the names without knowledge of called addresses.
    pub(crate) fn names_alone(&self, diagnostics: &mut Diagnostics) -> Symbols {
        self.names(std::iter::empty(), "", None, diagnostics)
    }
}
