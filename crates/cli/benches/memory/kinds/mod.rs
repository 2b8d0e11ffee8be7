//! Kinds of input, each as dense as its format allows: what they take in memory is measured here, and by a test of `evidence`.

pub mod binary;
pub mod text;

/// A kind of input.
pub struct Kind {
    pub name: &'static str,
    /// The name of its file: of our own recordings, or one that is imported.
    pub file: &'static str,
    pub is_own: bool,
    /// Makes about so many bytes of it.
    pub make: fn(usize) -> Vec<u8>,
}

impl Kind {
    /// Whether it is a packed recording.
    pub fn is_pack(&self) -> bool {
        self.file.ends_with(".tar.zst")
    }
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    text::KINDS.iter().chain(binary::KINDS)
}

/// What a recording of our own has beside the input.
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
