//! The reader of [`cbmem`](crate::formats::cbmem).

use crate::boot::Found;
use crate::formats::cbmem::{PROGRAM, is_row, is_table, raw, read};
use crate::input::text::Line;
use crate::input::{FirstOf, Input};
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::reader::{Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, Timeline};

/// The files with such a table. Only the first is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["coreboot timestamps (cbmem)"]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        raw::is_table(bytes).then(|| self.kinds()[0].to_owned())
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        (!line.bytes.contains(&b'\t') && is_row(line.bytes)).then_some(0)
    }

    fn min_lines(&self) -> u64 {
        2
    }

    /// Other formats also have three numbers and a word between tabs.
    fn may_be_line(&self, line: Line<'_>) -> Option<usize> {
        is_row(line.bytes).then_some(0)
    }

    fn may_be_whole(&self, bytes: &[u8]) -> Option<String> {
        is_table(bytes).then(|| self.kinds()[0].to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let first = self.0.used_about(DiagnosticKind::SecondStatement, PROGRAM, diagnostics)?;
        is_table(&first.bytes).then(|| BeforeKernel::of(read(&first.name, &first.bytes, diagnostics)))?
    }
}
