//! The reader of [`fpdt`](crate::formats::fpdt).

use crate::boot::Found;
use crate::formats::fpdt::{
    ACPI_HEADER_BYTES, BOOT_TABLE, BOOT_TABLE_HEADER_BYTES, RESUME_TABLE, TABLE, Times, by_name, is_table, read, steps,
    value,
};
use crate::input::text::{Line, whole_number};
use crate::input::{File, Input};
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::reader::{Evidence, Reader};
use std::rc::Rc;
use timeline::{Diagnostics, Timeline};

/// The files of one machine.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
    /// The values of files that are recognised by their name alone.
    single: Times,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["UEFI boot times (/sys/firmware/acpi/fpdt)"]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        let kind = if is_table(bytes, TABLE, ACPI_HEADER_BYTES) {
            "ACPI table FPDT, which has addresses and no times"
        } else if is_table(bytes, BOOT_TABLE, BOOT_TABLE_HEADER_BYTES) {
            "UEFI boot times (FBPT)"
        } else if is_table(bytes, RESUME_TABLE, BOOT_TABLE_HEADER_BYTES) {
            "UEFI times of a resume from sleep (S3PT), which are no part of a boot"
        } else {
            return None;
        };
        Some(kind.to_owned())
    }

    fn take(&mut self, name: &str, bytes: &[u8], _diagnostics: &mut Diagnostics) -> crate::readers::reader::Taken {
        let Some((which, ns)) = by_name(name).zip(whole_number(bytes.trim_ascii())) else {
            return crate::readers::reader::Taken::Nothing;
        };
        self.single.0[which] = ns;
        crate::readers::reader::Taken::All(self.kinds()[0].to_owned())
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
        let diagnostics = &mut timeline.diagnostics;
        let mut times = self.single;
        for file in &self.files {
            let found = read(&file.name, &file.bytes, diagnostics);
            for (known, found) in times.0.iter_mut().zip(found.0) {
                *known = if *known == 0 { found } else { *known };
            }
        }
        let file = self.files.first().map_or("", |file| &*file.name);
        BeforeKernel::of(steps(times, file, diagnostics))
    }
}
