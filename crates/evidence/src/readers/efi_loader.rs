//! The reader of [`efi_loader`](crate::formats::efi_loader).

use crate::boot::Found;
use crate::formats::efi_loader::{Times, read, steps, value, variable};
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::reader::{Evidence, Reader, Taken};
use std::rc::Rc;
use timeline::{Diagnostics, Timeline};

/// The files of one machine.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
    /// The values of variables' own files.
    single: Times,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["times of an EFI boot loader"]
    }

    fn take(&mut self, name: &str, bytes: &[u8], _diagnostics: &mut Diagnostics) -> Taken {
        let Some((which, us)) = variable(name, bytes) else { return Taken::Nothing };
        self.single.0[which] = us;
        Taken::All(self.kinds()[0].to_owned())
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        value(line.bytes).map(|_| 0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.files.is_empty() || self.single != Times::default()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let mut times = self.single;
        for file in &self.files {
            for (known, found) in times.0.iter_mut().zip(read(&file.bytes).0) {
                *known = if *known == 0 { found } else { *known };
            }
        }
        let file = self.files.first().map_or("", |file| &*file.name);
        BeforeKernel::of(steps(times, file, &mut timeline.diagnostics))
    }
}
