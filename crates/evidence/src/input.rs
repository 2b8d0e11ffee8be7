//! Files as readers are given them. What is in one is its reader's to say.

pub(crate) mod bytes;
pub mod index;
pub(crate) mod recent;
pub(crate) mod text;

use crate::input::index::Index;
use std::rc::Rc;
use std::sync::Arc;
use timeline::{DiagnosticKind, Diagnostics};

/// The most that a compressed file may become.
pub const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// What the records of a file may take in memory: this, and so much for each of its bytes. A log of a real boot takes less. One
/// that was made dense has more records in its bytes, and those beyond the bound are counted.
const RECORDS_BYTES: usize = 16 << 20;
const RECORDS_BYTES_EACH: usize = 4;

/// The most records that are kept of so many bytes, each of which takes `cost` bytes in memory: with what is made of it on the timeline.
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

/// A file that a reader is given, and when each line of it arrived, if somebody noted that.
#[derive(Clone)]
pub(crate) struct Input {
    pub file: Rc<File>,
    pub index: Index,
}

/// The files of a format of which one can be used: the first.
#[derive(Default)]
pub(crate) struct FirstOf(Vec<Rc<File>>);

impl FirstOf {
    /// Takes a file.
    pub fn add(&mut self, input: Input) {
        self.0.push(input.file);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one that is used; the others are counted as `further`.
    pub fn used(&self, further: DiagnosticKind, diagnostics: &mut Diagnostics) -> Option<&Rc<File>> {
        self.used_about(further, "", diagnostics)
    }

    /// The same, where what is counted says of what it is.
    pub fn used_about(&self, further: DiagnosticKind, about: &str, diagnostics: &mut Diagnostics) -> Option<&Rc<File>> {
        let (first, others) = self.0.split_first()?;
        for other in others {
            diagnostics.note_about(further, about, || other.name.clone());
        }
        Some(first)
    }
}
