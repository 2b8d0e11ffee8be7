//! What glibc's dynamic linker says about its own work at the start of QEMU.
//!
//! It writes into a file whose name it makes itself (`PATH.<pid>`), so it is given a folder of its own, outside the
//! recording, that nobody else may write into. The text is there before the program's own first instruction: the
//! folder is emptied and removed as soon as QEMU has said anything, so that hardly a kill can leave it behind.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::vmm::folder::socket_folder;

/// A folder that the linker writes into, and then what it wrote.
#[derive(Debug)]
pub(super) struct Linker {
    folder: Option<TempDir>,
    text: String,
}

impl Linker {
    /// Makes the folder; none where it cannot be made, and then the linker is not asked.
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

    /// Reads what there is, if that was not done yet, and removes the folder: it holds nothing that is still needed.
    pub(super) fn read(&mut self) -> &str {
        if let Some(folder) = self.folder.take() {
            self.text = written(folder.path());
        }
        &self.text
    }
}

/// All that was written into a folder.
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
