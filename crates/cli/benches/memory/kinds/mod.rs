//! Kinds of input, each as dense as its format allows. This bench and a test of `evidence` measure their memory.

pub mod binary;
pub mod text;

/// A kind of input.
pub struct Kind {
    pub name: &'static str,
    /// The name of the file, in a recording or to import.
    pub file: &'static str,
    pub is_own: bool,
    /// Generates about this number of bytes.
    pub make: fn(usize) -> Vec<u8>,
}

impl Kind {
    /// True for a packed recording.
    pub fn is_pack(&self) -> bool {
        self.file.ends_with(".tar.zst")
    }
}

pub fn all() -> impl Iterator<Item = &'static Kind> {
    text::KINDS.iter().chain(binary::KINDS)
}

/// The manifest beside the input in a recording.
pub const MANIFEST: &[u8] =
    br#"{"schema": "bootscope.recording/1", "state": "finished", "time_base": "host", "subject": {"cpus": 1}}"#;
pub const LOG: &[u8] = b"6,1,0,-;Linux version 6.1.0\n6,2,100000,-;Run /init as init process\n";

const fn imported(name: &'static str, make: fn(usize) -> Vec<u8>) -> Kind {
    Kind { name, file: "00-input", is_own: false, make }
}

const fn imported_as(name: &'static str, file: &'static str, make: fn(usize) -> Vec<u8>) -> Kind {
    Kind { name, file, is_own: false, make }
}

const fn own(name: &'static str, file: &'static str, make: fn(usize) -> Vec<u8>) -> Kind {
    Kind { name, file, is_own: true, make }
}
