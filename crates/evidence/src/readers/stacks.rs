//! The reader of [`stacks`](crate::formats::stacks).

use crate::boot::Found;
use crate::formats::stacks::{Stacks, recognise};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, Timeline};

/// The files of a recording, of which the first is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn may_be_whole(&self, bytes: &[u8]) -> Option<String> {
        recognise(bytes).map(str::to_owned)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.0.used(DiagnosticKind::SecondSamples, &mut timeline.diagnostics)?;
        if timeline.sampled.is_some() {
            timeline.diagnostics.note(DiagnosticKind::SecondSamples, || file.name.clone());
            return None;
        }
        let stacks = Stacks::read(&file.name, &file.bytes, &mut timeline.diagnostics);
        timeline.sampled = Some(stacks.sampled(&mut timeline.names));
        None
    }
}
