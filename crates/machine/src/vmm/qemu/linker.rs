//! What glibc's dynamic linker says about its own work at the start of QEMU.
//!
//! It writes into a file whose name it makes itself (`PATH.<pid>`), so it is given a folder of its own, outside the
//! recording, that nobody else may write into. The text is there before the program's own first instruction: the
//! folder is emptied and removed as soon as QEMU has said anything, so that hardly a kill can leave it behind.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::clock::monotonic_ns;

/// A folder that the linker writes into, and then what it wrote.
#[derive(Debug)]
pub(super) struct Linker {
    dir: Option<PathBuf>,
    text: String,
}

impl Linker {
    /// Makes the folder; none where it cannot be made, and then the linker is not asked.
    pub(super) fn ask() -> Option<Linker> {
        let user = xdg::BaseDirectories::new();
        Linker::ask_in(user.get_runtime_directory().unwrap_or(&std::env::temp_dir()))
    }

    fn ask_in(parent: &Path) -> Option<Linker> {
        let dir = parent.join(format!("bootscope-{}-{}", std::process::id(), monotonic_ns()));
        // It must not be there yet: one that is would be somebody else's.
        DirBuilder::new().mode(0o700).create(&dir).ok()?;
        Some(Linker { dir: Some(dir), text: String::new() })
    }

    /// The value of `LD_DEBUG_OUTPUT`.
    pub(super) fn output(&self) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join("linker"))
    }

    /// Reads what there is, if that was not done yet, and removes the folder.
    pub(super) fn read(&mut self) -> &str {
        if let Some(dir) = self.dir.take() {
            let files = fs::read_dir(&dir).into_iter().flatten().flatten();
            self.text = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
            // It holds nothing that is still needed; where it cannot be removed, that is all.
            let _ = fs::remove_dir_all(&dir);
        }
        &self.text
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        self.read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_gone_once_it_is_read() {
        let parent = tempfile::tempdir().unwrap();
        let left = || fs::read_dir(parent.path()).unwrap().count();
        let mut linker = Linker::ask_in(parent.path()).unwrap();
        fs::write(linker.output().unwrap().with_extension("17"), "statistics").unwrap();
        assert_eq!(left(), 1);
        assert_eq!(linker.read(), "statistics");
        assert_eq!((left(), linker.read()), (0, "statistics"));
        drop(Linker::ask_in(parent.path()));
        assert_eq!(left(), 0);
        assert!(Linker::ask_in(&parent.path().join("gone")).is_none());
    }
}
