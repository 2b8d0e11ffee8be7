//! The reader of [`perf_data`](crate::formats::perf_data).

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::ftrace::Trace;
use crate::formats::perf_data::{PerfData, recognise};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Reader};
use std::cell::Cell;
use timeline::{DiagnosticKind, Diagnostics, Os, Timeline};

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

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.files.used(DiagnosticKind::SecondSamples, &mut timeline.diagnostics)?;
        self.data = PerfData::read(&file.name, &file.bytes, &mut timeline.diagnostics);
        if self.data.has_samples() && timeline.sampled.is_some() {
            timeline.diagnostics.note(DiagnosticKind::SecondSamples, || file.name.clone());
        } else if self.data.has_samples() {
            // Defects of the lists are reported where calls are named.
            let symbols = found.lists.names_alone(&mut Diagnostics::default());
            timeline.sampled = Some(self.data.take_sampled(&symbols, &mut timeline.names));
        }
        let trace = Trace::read(&file.name, self.data.trace(), &mut Diagnostics::default()).ok()?;
        found.subject.os = Os::Linux;
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

    fn threads(&mut self, boot: &mut Placing<'_>) {
        if self.is_used.get() {
            self.trace.threads(boot);
        } else {
            boot.timeline.diagnostics.note(DiagnosticKind::SecondTrace, || self.trace.file().to_owned());
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        if self.is_used.get() {
            self.trace.phases(boot);
        }
    }
}
