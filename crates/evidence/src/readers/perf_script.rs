//! The reader of [`perf_script`](crate::formats::perf_script).

use crate::boot::Found;
use crate::formats::perf_script::{Samples, recognise};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Own, Reader};
use timeline::{DiagnosticKind, Diagnostics, Timeline};

/// The files of a recording, of which the first is used.
#[derive(Default)]
pub(crate) struct Files {
    files: FirstOf,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("samples.txt")]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        let read = recognise(bytes).then(|| Samples::read("", bytes, &mut Diagnostics::default()).ok()).flatten()?;
        Some(format!("samples ({} of them)", read.samples.len()))
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.add(input);
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.files.used(DiagnosticKind::SecondSamples, &mut timeline.diagnostics)?;
        let samples = Samples::read(&file.name, &file.bytes, &mut timeline.diagnostics).ok()?;
        if samples.unsampled_cpus > 0 {
            let how_many = samples.unsampled_cpus.min(64);
            (0..how_many).for_each(|_| timeline.diagnostics.note(DiagnosticKind::CpuUnsampled, || file.name.clone()));
        }
        // Defects of the lists are reported where calls are named.
        let symbols = found.lists.names_alone(&mut Diagnostics::default());
        timeline.sampled = Some(samples.named(&symbols, &mut timeline.names));
        None
    }
}
