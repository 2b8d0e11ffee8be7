//! A folder of our own for a moment, outside the recording, that nobody else may enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::clock::monotonic_ns;

/// Gone, with all that is in it, when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes one where the user's other sockets are.
    pub(super) fn new() -> io::Result<Folder> {
        let user = xdg::BaseDirectories::new();
        Folder::new_in(user.get_runtime_directory().unwrap_or(&std::env::temp_dir()))
    }

    pub(super) fn new_in(parent: &Path) -> io::Result<Folder> {
        let folder = parent.join(format!("bootscope-{}-{}", std::process::id(), monotonic_ns()));
        // It must not be there yet: one that is would be somebody else's.
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Folder(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Where it cannot be removed, that is all.
        let _ = fs::remove_dir_all(&self.0);
    }
}
