//! The recording: a folder with what one boot said, byte for byte, and how it was run.
//!
//! ```text
//! boots/a/
//!   recording.json          how it was run and how it ended (schema "bootscope.recording/1")
//!   console.log             a stream: bytes as they came
//!   console.idx             its lines: `<byte offset of the line's first byte> <ns since time zero>`
//!   kmsg.log trace.txt …    evidence: under its own name only when whole
//!   trace.txt.partial       evidence that was being written when the recorder was killed
//! ```
//! Streams are appended as they come. `recording.json` says `running` from the start and is replaced
//! by rename at the end, so what a killed recorder leaves behind is readable. The folder is flat:
//! every name is one plain component ([`is_plain_name`]).
//!
//! This crate knows files and nothing of what is in them; nothing here parses evidence.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod beside;
mod date;
mod error;
mod import;
mod key;
mod lock;
mod manifest;
mod names;
mod open;
mod own_folder;
mod pack;
mod packed;
mod patch;
mod regular;
mod seal;
mod spec;
mod stream;
mod watched;
mod write;

pub use beside::{beside, private_beside, private_folder, private_folder_in};
pub use date::rfc3339;
pub use error::{Diagnostic, Error, Oddity, advice};
pub use import::{Known, Source, import, import_known};
pub use key::Key;
pub use lock::{Locked, LockedElsewhere};
pub use manifest::{
    End, EndMark, Evidence, Host, Input, InputRole, Manifest, Measured, Outcome, OutcomeKind, Overhead, SCHEMA_VERSION,
    State, Subject, TimeBase, Vmm,
};
pub use names::{CAPTURE, REGISTERS, VMM_STREAM, WATCH, is_for_people, whole_name};
pub use open::{Condition, Lost, NotKnown, Recording, read_file};
pub use own_folder::own_folder;
pub use pack::{InMemory, may_be_written, pack};
pub use patch::{Edit, Patch};
pub use regular::{
    check_no_link, check_regular, open_disk, open_regular, open_to_append, read_regular, read_regular_text,
};
pub use seal::{Sealer, key_path};
pub use spec::{
    Accel, Board, Difference, GuestSpec, Init, ObserveSpec, Page, SymbolFile, Then, Until, VmmKind, is_unit_name,
};
pub use stream::{Stream, StreamEnd};
pub use watched::Watched;
pub use write::{Partial, Writer};

/// The file that makes a folder a recording.
pub const MANIFEST_NAME: &str = "recording.json";

/// Ending of a file that is not whole (yet).
pub const PARTIAL_SUFFIX: &str = ".partial";

/// The most bytes that one file of a recording, or a packed recording in all, may take in memory.
pub const BYTES_MAX: u64 = 1 << 30;

/// The most that is imported from a pipe, which does not tell how much will come.
pub const PIPE_BYTES_MAX: u64 = 256 << 20;

/// The most that is read of a file that people write by hand, or that bootscope keeps between runs.
pub const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Whether `name` may be a file's name in a recording: one component of printable ASCII that is not
/// hidden, cannot climb out and means the same on every file system.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let ok = |b: u8| b.is_ascii_alphanumeric() || b"-_.+,@=".contains(&b);
    (1..=200).contains(&name.len()) && name.bytes().all(ok) && !name.starts_with(['.', '-']) && !name.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::is_plain_name;

    #[test]
    fn names_that_climb_or_hide_are_refused() {
        for good in ["console.log", "00-serial.log", "a", "kallsyms.gz", "x..y"] {
            assert!(is_plain_name(good), "{good}");
        }
        for bad in ["", ".", "..", "../x", "/x", "a/b", ".hidden", "-rf", "a\n", "ä", "x."] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(!is_plain_name(&"x".repeat(201)));
    }
}
