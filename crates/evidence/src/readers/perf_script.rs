//! The reader of [`perf_script`](crate::formats::perf_script).

use crate::boot::Boot;
use crate::formats::perf_script::{Samples, recognise};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Own, Reader};
use timeline::{DiagnosticKind, Diagnostics};

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

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.files.used(DiagnosticKind::SecondSamples, &mut boot.timeline.diagnostics)?;
        let samples = Samples::read(&file.name, &file.bytes, &mut boot.timeline.diagnostics).ok()?;
        if samples.unsampled_cpus > 0 {
            let how_many = samples.unsampled_cpus.min(64);
            (0..how_many)
                .for_each(|_| boot.timeline.diagnostics.note(DiagnosticKind::CpuUnsampled, || file.name.clone()));
        }
        // Defects of the lists are reported where calls are named.
        let symbols = boot.lists.names_alone(&mut Diagnostics::default());
        boot.timeline.sampled = Some(samples.named(&symbols, &mut boot.timeline.names));
        None
    }
}
