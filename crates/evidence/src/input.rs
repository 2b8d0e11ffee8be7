//! Files in the form that readers receive. Their contents are the readers' concern.

pub(crate) mod bytes;
pub mod index;
pub(crate) mod recent;
pub(crate) mod text;

use crate::input::index::Index;
use std::rc::Rc;
use std::sync::Arc;
use timeline::{DiagnosticKind, Diagnostics};

/// Largest size of an unpacked file.
pub const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// A log is a tenth of its size when it is packed. What becomes more than this for each of its bytes is no log.
const UNPACKED_RATIO_MAX: u64 = 200;
/// A small file may become this much, whatever its ratio.
const UNPACKED_BYTES_SMALL: u64 = 64 << 20;

/// The most that a compressed file of this length becomes: [`UNPACKED_BYTES_MAX`] bytes, and less if it is small.
pub(crate) fn unpacked_bytes_max(packed: &[u8]) -> u64 {
    (packed.len() as u64).saturating_mul(UNPACKED_RATIO_MAX).clamp(UNPACKED_BYTES_SMALL, UNPACKED_BYTES_MAX)
}

/// A file's records may take this memory, in bytes, plus [`RECORDS_BYTES_EACH`] for each byte of the file. A log of a
/// real boot takes less. A file that is made to be dense has more records in its bytes, and those beyond the bound are
/// counted.
const RECORDS_BYTES: usize = 16 << 20;
const RECORDS_BYTES_EACH: usize = 4;

/// The largest number of records to keep from a file of `bytes` bytes. `cost` is the memory of one record in bytes,
/// including its part of the timeline.
pub(crate) fn records_max(bytes: usize, cost: usize) -> usize {
    bytes.saturating_mul(RECORDS_BYTES_EACH).saturating_add(RECORDS_BYTES) / cost
}

/// Imported files are numbered: `00-serial.log`.
pub(crate) fn is_imported(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits >= 2 && name.as_bytes().get(digits) == Some(&b'-')
}

/// A file and its name.
pub(crate) struct File {
    pub name: String,
    pub bytes: Arc<Vec<u8>>,
}

/// A file for a reader, with the arrival time of each line if it was recorded.
#[derive(Clone)]
pub(crate) struct Input {
    pub file: Rc<File>,
    pub index: Index,
}

/// The files of a format of which only the first can be used.
#[derive(Default)]
pub(crate) struct FirstOf(Vec<Rc<File>>);

impl FirstOf {
    pub(crate) fn add(&mut self, input: Input) {
        self.0.push(input.file);
    }

    /// True if there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file that is used. The others are counted as `further`.
    pub(crate) fn used(&self, further: DiagnosticKind, diagnostics: &mut Diagnostics) -> Option<&Rc<File>> {
        self.used_about(further, "", diagnostics)
    }

    /// The same, with a diagnostic that names the evidence.
    pub(crate) fn used_about(
        &self,
        further: DiagnosticKind,
        about: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<&Rc<File>> {
        let (first, others) = self.0.split_first()?;
        for other in others {
            diagnostics.note_about(further, about, || other.name.clone());
        }
        Some(first)
    }
}
