//! The reader of [`silence`](crate::formats::silence).

use crate::boot::Found;
use crate::formats::silence::read;
use crate::input::Input;
use crate::readers::reader::{Evidence, Own, Reader};
use timeline::{Diagnostics, Timeline};

/// The file of a recording.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Input>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("silence.txt")]
    }

    /// Only a recording shows when time zero was.
    fn wants_files(&self) -> bool {
        false
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input);
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = &self.file.as_ref()?.file;
        timeline.silences = Some(read(&file.name, &file.bytes, &mut timeline.diagnostics));
        None
    }
}
