//! Files that appear under their name only when whole, and folders for a moment. Each is new, so that nobody else can have put
//! a file or a link of theirs there: a shared folder such as `/tmp` is everybody's.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::PARTIAL_SUFFIX;

/// A new file in the folder of `path`, to be written and then renamed to `path` with [`NamedTempFile::persist`]. Dropped
/// before that, it is removed. Its name begins with that of `path`, so that one which a kill left behind is known.
///
/// # Errors
/// If it cannot be made.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    // The user's umask says who may read it, as with any other file.
    beside_with(path, 0o666)
}

/// The same of a file that only its owner may read: it holds a machine's secrets.
///
/// # Errors
/// If it cannot be made.
pub fn private_beside(path: &Path) -> io::Result<NamedTempFile> {
    beside_with(path, 0o600)
}

/// A folder of a random name that nobody else may enter, where temporary files go (`$TMPDIR`). It goes with all that is in it
/// when it is dropped.
///
/// # Errors
/// If it cannot be made.
pub fn private_folder() -> io::Result<TempDir> {
    private_folder_in(&std::env::temp_dir())
}

/// The same in another folder.
///
/// # Errors
/// If it cannot be made.
pub fn private_folder_in(parent: &Path) -> io::Result<TempDir> {
    Builder::new().prefix("bootscope-").permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

fn beside_with(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
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
    fn a_file_is_whole_or_not_there() {
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
    fn a_folder_for_a_moment_has_another_name_each_time_and_nobody_else_may_enter() {
        let dir = tempfile::tempdir().unwrap();
        let made = [(); 2].map(|()| private_folder_in(dir.path()).unwrap());
        assert_ne!(made[0].path(), made[1].path());
        for folder in &made {
            let name = folder.path().file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("bootscope-") && !name.contains(&std::process::id().to_string()), "{name}");
            assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(made);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
