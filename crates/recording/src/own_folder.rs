//! Folders that belong to the user.
//!
//! In a folder that every user may write, such as `/tmp`, another user can create a folder of any name that can be
//! guessed. That user could read what is written there, and put links in place of its files.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Creates the folder and its parents. Returns false if it already exists.
///
/// # Errors
/// If the folder cannot be created. Also if it exists in a folder that every user may write, and another user owns it
/// or may write into it.
pub fn own_folder(dir: &Path) -> io::Result<bool> {
    // An empty path is the folder of a file that was named without one: the current folder.
    if dir.as_os_str().is_empty() {
        return Ok(false);
    }
    if let Some(above) = dir.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => Ok(true),
        Err(_) if dir.is_dir() => match is_open_to_others(dir)? {
            true => Err(io::Error::other(
                "it is there already, in a folder where everybody may write, and is not yours alone, so others could change \
                 what is written into it; name a new folder",
            )),
            false => Ok(false),
        },
        Err(error) => Err(error),
    }
}

/// True if every user may create a folder there, and the folder is not the user's alone.
fn is_open_to_others(dir: &Path) -> io::Result<bool> {
    // Only the user can choose `.` and `/`.
    let Some(name) = dir.file_name() else { return Ok(false) };
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if above.metadata()?.mode() & (OTHERS_WRITE | STICKY) == 0 {
        return Ok(false);
    }
    // Check the link and not its target: the link is what another user can create.
    let meta = above.join(name).symlink_metadata()?;
    let is_users = meta.is_dir() && meta.uid() == geteuid().as_raw();
    Ok(!is_users || others_write(&meta))
}

fn others_write(meta: &Metadata) -> bool {
    let group_writes = meta.mode() & GROUP_WRITES != 0 && meta.gid() != getegid().as_raw();
    group_writes || meta.mode() & OTHERS_WRITE != 0
}

/// The path without links of a file that only this user and root can change or replace. So a file that was checked is
/// still the same when another program opens it by this path.
///
/// # Errors
/// If the file is not there, or if another user could change it, or a folder above it.
pub fn unchangeable(path: &Path) -> io::Result<PathBuf> {
    let path = fs::canonicalize(path)?;
    for part in path.ancestors() {
        let meta = part.symlink_metadata()?;
        let is_ours = [0, geteuid().as_raw()].contains(&meta.uid());
        // In a sticky folder, only the owner of a file can replace it.
        let is_sticky = meta.is_dir() && meta.mode() & STICKY != 0;
        if !is_ours || others_write(&meta) && !is_sticky {
            return Err(io::Error::other(format!("another user could change {}", part.display())));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_that_others_could_replace_is_changeable() {
        let dir = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("vmlinuz");
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        let real = fs::canonicalize(&file).unwrap();
        for (of_folder, of_file, is_fine) in [
            (0o755, 0o644, true),
            (0o1777, 0o644, true),
            (0o777, 0o644, false),
            (0o755, 0o666, false),
            (0o1777, 0o602, false),
        ] {
            set(&folder, of_folder);
            set(&file, of_file);
            for path in [&file, &link] {
                let found = unchangeable(path).ok();
                assert_eq!(found, is_fine.then(|| real.clone()), "{of_folder:o} {of_file:o}");
            }
        }
        assert!(unchangeable(&folder.join("nothing")).is_err());
    }

    #[test]
    fn a_folder_in_a_shared_one_has_to_be_the_users_own() {
        let dir = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let (shared, private) = (dir.path().join("shared"), dir.path().join("private"));
        for above in [&shared, &private] {
            assert!(own_folder(&above.join("boot")).unwrap(), "it was made, and so was the one above it");
            fs::create_dir(above.join("open")).unwrap();
            set(&above.join("open"), 0o777);
            symlink(above.join("boot"), above.join("link")).unwrap();
            set(&above.join("boot"), 0o755);
        }
        set(&shared, 0o1777);
        set(&private, 0o755);
        for (path, is_taken) in [("boot", true), ("open", false), ("link", false), ("link/", false)] {
            assert_eq!(own_folder(&shared.join(path)).is_ok(), is_taken, "{path}");
            assert!(!own_folder(&private.join(path)).unwrap(), "{path}");
        }
        let refused = own_folder(&shared.join("open")).unwrap_err().to_string();
        assert!(refused.contains("not yours alone"), "{refused}");
        fs::write(shared.join("file"), "").unwrap();
        assert_eq!(own_folder(&shared.join("file")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(own_folder(&shared.join("file/boot")).is_err());
        assert!(!own_folder(Path::new(".")).unwrap() && !own_folder(Path::new("/")).unwrap());
    }
}
