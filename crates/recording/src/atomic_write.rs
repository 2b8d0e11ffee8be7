//! Files that appear under their name only when complete, and temporary folders.
//!
//! Each is created new. In a shared folder such as `/tmp`, another user cannot put a file or a link in its place.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::PARTIAL_SUFFIX;

/// A new file in the folder of `path`. The caller writes it and renames it to `path` with [`NamedTempFile::persist`]. A
/// drop before that removes it. Its name begins with that of `path`, so a file that a killed process left is
/// recognisable.
///
/// # Errors
/// If the file cannot be created.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    // The user's umask limits access to it, as for any other file.
    new_file_beside(path, 0o666)
}

/// As [`beside`], but only the owner may read the file: it holds a machine's secrets.
///
/// # Errors
/// If the file cannot be created.
pub fn private_beside(path: &Path) -> io::Result<NamedTempFile> {
    new_file_beside(path, 0o600)
}

/// A temporary folder in `$TMPDIR` with a random name, which only its owner may enter. A drop removes it and its
/// content.
///
/// # Errors
/// If the folder cannot be created.
pub fn private_folder() -> io::Result<TempDir> {
    private_folder_in(&std::env::temp_dir())
}

/// As [`private_folder`], in the folder `parent`.
///
/// # Errors
/// If the folder cannot be created.
pub fn private_folder_in(parent: &Path) -> io::Result<TempDir> {
    Builder::new().prefix("bootscope-").permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

fn new_file_beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut prefix = path.file_name().map_or_else(OsString::new, OsString::from);
    prefix.push(PARTIAL_SUFFIX);
    prefix.push("-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Builder::new().prefix(&prefix).permissions(Permissions::from_mode(mode)).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::{beside, private_beside, private_folder_in};
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_complete_or_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.html");
        let names = || fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let mut file = beside(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(names()[0].to_str().unwrap().starts_with("a.html.partial-") && names().len() == 1);
        drop(file);
        assert!(names().is_empty(), "what was given up is gone");
        fs::write(&path, "old").unwrap();
        let mut file = beside(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.persist(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), vec!["a.html".into()]));
        fs::write(dir.path().join("plain"), "").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("a.html"), mode("plain"));
        private_beside(&dir.path().join("secret")).unwrap().persist(dir.path().join("secret")).unwrap();
        assert_eq!(mode("secret") & 0o777, 0o600);
    }

    #[test]
    fn a_temporary_folder_has_a_random_name_and_only_its_owner_may_enter() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [(); 2].map(|()| private_folder_in(dir.path()).unwrap());
        assert_ne!(folders[0].path(), folders[1].path());
        for folder in &folders {
            let name = folder.path().file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("bootscope-") && !name.contains(&std::process::id().to_string()), "{name}");
            assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(folders);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
