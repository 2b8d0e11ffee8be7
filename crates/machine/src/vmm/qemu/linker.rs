//! Collects the statistics that glibc's dynamic linker writes at the start of QEMU.
//!
//! The linker chooses the name of its file (`PATH.<pid>`), so it gets a folder outside the recording that no other user may write
//! into. It writes before the program's own first instruction. So the folder is read and removed at QEMU's first output, and
//! a kill can hardly leave it behind.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::vmm::socket_folder::socket_folder;

/// The folder that the linker writes into. Once the folder is removed, the text that it contained.
#[derive(Debug)]
pub(super) struct Linker {
    folder: Option<TempDir>,
    text: String,
}

impl Linker {
    /// Makes the folder. Returns `None` if that fails, and then no statistics are requested.
    pub(super) fn ask() -> Option<Linker> {
        Some(Linker::ask_in(socket_folder().ok()?))
    }

    fn ask_in(folder: TempDir) -> Linker {
        Linker { folder: Some(folder), text: String::new() }
    }

    /// The value of `LD_DEBUG_OUTPUT`.
    pub(super) fn output(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.path().join("linker"))
    }

    /// Returns the text. The first call reads it and removes the folder.
    pub(super) fn read(&mut self) -> &str {
        if let Some(folder) = self.folder.take() {
            self.text = written(folder.path());
        }
        &self.text
    }
}

/// The text of all files in a folder.
fn written(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_gone_once_it_is_read() {
        let parent = tempfile::tempdir().unwrap();
        let left = || fs::read_dir(parent.path()).unwrap().count();
        let mut linker = Linker::ask_in(recording::private_folder_in(parent.path()).unwrap());
        fs::write(linker.output().unwrap().with_extension("17"), "statistics").unwrap();
        assert_eq!(left(), 1);
        assert_eq!(linker.read(), "statistics");
        assert_eq!((left(), linker.read()), (0, "statistics"));
        drop(Linker::ask_in(recording::private_folder_in(parent.path()).unwrap()));
        assert_eq!(left(), 0);
        assert!(recording::private_folder_in(&parent.path().join("gone")).is_err());
    }
}
