//! Files that appear under their name only when whole: each is written beside where it belongs, then renamed.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::PARTIAL_SUFFIX;

/// A new file in the folder of `path`, to be written and then renamed to `path` with [`NamedTempFile::persist`]. Dropped
/// before that, it is removed. Its name begins with that of `path`, so that one which a kill left behind is known.
///
/// # Errors
/// If it cannot be made.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = path.file_name().map_or_else(OsString::new, OsString::from);
    prefix.push(PARTIAL_SUFFIX);
    prefix.push("-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Who may read it is for the user's umask to say, as with any other file.
    Builder::new().prefix(&prefix).permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::beside;
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
    }
}
