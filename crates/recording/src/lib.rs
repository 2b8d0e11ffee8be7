//! The recording: a folder with the evidence of one boot, byte for byte, and how that boot was run.
//!
//! ```text
//! boots/a/
//!   recording.json          the options of the boot and its outcome (schema "bootscope.recording/1")
//!   console.log             a stream: its bytes as they arrived
//!   console.idx             its lines: `<byte offset of the line's first byte> <ns since time zero>`
//!   kmsg.log trace.txt …    evidence: under its own name only when complete
//!   trace.txt.partial       evidence that was being written when the recorder was killed
//! ```
//! The recorder appends to streams as bytes arrive. `recording.json` says `running` from the start, and the recorder
//! replaces it by rename at the end. So a killed recorder leaves a readable folder. The folder is flat: every name is
//! one plain component ([`is_plain_name`]).
//!
//! This crate handles files, not their content. It must not parse evidence.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod atomic_write;
mod date;
mod error;
mod file_names;
mod import;
mod key;
mod lock;
mod manifest;
mod open;
mod outcome;
mod own_folder;
mod pack;
mod patch;
mod regular_file;
mod seal;
mod spec;
mod stream;
mod target;
mod unpack;
mod until;
mod watched_variable;
mod write;

pub use atomic_write::{beside, private_beside, private_folder, private_folder_in};
pub use date::{parse_rfc3339, rfc3339};
pub use error::{Diagnostic, Error, Oddity, advice};
pub use file_names::{CAPTURE, REGISTERS, VMM_STREAM, WATCH, is_for_people, whole_name};
pub use import::{Known, Source, import, import_known};
pub use key::Key;
pub use lock::{Locked, LockedElsewhere};
pub use manifest::{
    Evidence, Host, Input, InputRole, Manifest, Measured, Overhead, SCHEMA_VERSION, State, Subject, TimeBase, Vmm,
    boot_key,
};
pub use open::{Condition, Lost, NotKnown, Recording, read_file};
pub use outcome::{End, EndMark, Outcome, OutcomeKind};
pub use own_folder::{own_folder, unchangeable};
pub use pack::{InMemory, may_be_written, pack};
pub use patch::{Edit, Patch};
pub use regular_file::{
    check_no_link, check_regular, open_disk, open_regular, open_to_append, read_regular, read_regular_text,
};
pub use seal::{Sealer, key_path};
pub use spec::{Accel, Difference, Field, GuestSpec, Init, ObserveSpec, Setting, SymbolFile, Then};
pub use stream::{Stream, StreamEnd};
pub use target::{Board, Target, VmmKind};
pub use until::{Page, Until, is_unit_name};
pub use watched_variable::Watched;
pub use write::{Partial, Writer};

/// The file that makes a folder a recording.
pub const MANIFEST_NAME: &str = "recording.json";

/// The ending of a file that is not complete (yet).
pub const PARTIAL_SUFFIX: &str = ".partial";

/// The most bytes that one file of a recording, or a packed recording in all, may take in memory.
pub const BYTES_MAX: u64 = 1 << 30;

/// The most bytes imported from a pipe, whose length is not known in advance.
pub const PIPE_BYTES_MAX: u64 = 256 << 20;

/// The most bytes read from a file that a user writes by hand, or that bootscope keeps between runs.
pub const SMALL_BYTES_MAX: u64 = 16 << 20;

/// True if `name` can be a file's name in a recording. It must be one component of printable ASCII that is not hidden,
/// does not climb out and means the same on every file system.
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
