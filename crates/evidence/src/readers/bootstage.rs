//! The reader of [`bootstage`](crate::formats::bootstage).

use crate::boot::Found;
use crate::formats::bootstage::{HEADING, NODE, PROGRAM, blob, read};
use crate::input::text::Line;
use crate::input::{FirstOf, Input};
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::reader::{Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, Timeline};

/// The files with such a report. Only the first is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["U-Boot stages (bootstage report)", "U-Boot stages (device tree)"]
    }

    /// A device tree without stages is not recognised.
    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        let has_stages = blob::is_tree(bytes) && !blob::records(bytes).0.is_empty();
        has_stages.then(|| "U-Boot stages (device tree blob)".to_owned())
    }

    /// Recognises only the headings, because other formats also have two numbers and a word.
    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        let text = line.bytes.trim_ascii();
        if text.starts_with(HEADING) {
            return Some(0);
        }
        (text == NODE).then_some(1)
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
        BeforeKernel::of(read(&first.name, &first.bytes, diagnostics))
    }
}
