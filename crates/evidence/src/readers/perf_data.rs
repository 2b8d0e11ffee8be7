//! The reader of [`perf_data`](crate::formats::perf_data).

use crate::boot::Boot;
use crate::boot::offers::Offers;
use crate::formats::ftrace::Trace;
use crate::formats::perf_data::{PerfData, recognise};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Reader};
use std::cell::Cell;
use timeline::{DiagnosticKind, Diagnostics, Os};

/// The files of a recording, of which the first is used.
#[derive(Default)]
pub(crate) struct Files {
    files: FirstOf,
    data: PerfData,
}

impl Reader for Files {
    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        recognise(bytes).then(|| "samples (perf.data)".to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.add(input);
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.files.used(DiagnosticKind::SecondSamples, &mut boot.timeline.diagnostics)?;
        self.data = PerfData::read(&file.name, &file.bytes, &mut boot.timeline.diagnostics);
        if self.data.has_samples() && boot.timeline.sampled.is_some() {
            boot.timeline.diagnostics.note(DiagnosticKind::SecondSamples, || file.name.clone());
        } else if self.data.has_samples() {
            // Defects of the lists are reported where calls are named.
            let symbols = boot.lists.names_alone(&mut Diagnostics::default());
            boot.timeline.sampled = Some(self.data.sampled(&symbols, &mut boot.timeline.names));
        }
        let trace = Trace::read(&file.name, self.data.trace(), &mut Diagnostics::default()).ok()?;
        boot.subject.os = Os::Linux;
        Some(Box::new(Tracepoints { trace, is_used: Cell::new(false) }))
    }
}

/// The tracepoints of a file. They are used if there is no other kernel trace.
struct Tracepoints<'f> {
    trace: Trace<'f>,
    is_used: Cell<bool>,
}

impl Evidence for Tracepoints<'_> {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if offers.trace.is_none() {
            self.is_used.set(true);
            self.trace.offer(offers);
        }
    }

    fn threads(&mut self, boot: &mut Boot<'_>) {
        if self.is_used.get() {
            self.trace.threads(boot);
        } else {
            boot.timeline.diagnostics.note(DiagnosticKind::SecondTrace, || self.trace.file().to_owned());
        }
    }

    fn phases(&mut self, boot: &mut Boot<'_>) {
        if self.is_used.get() {
            self.trace.phases(boot);
        }
    }
}
