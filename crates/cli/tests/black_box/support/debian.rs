//! A Debian with its own init as one initrd, with files of a test in it.

use super::boots::Scratch;
use super::{run, skip};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root file system, made once by `scripts/make-rootfs`; `None` if that is not possible, with a printed reason.
pub fn rootfs() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-rootfs");
    let made = run(&mut Command::new(script));
    if made.status == 77 {
        skip(&made.stderr.replace('\n', " "));
        return None;
    }
    let made = made.exits(0);
    Some(PathBuf::from(made.text().trim()))
}

/// The folder in which systemd looks for units.
pub const UNITS: &str = "etc/systemd/system";

/// The root file system with more files in it. Those in `bin` are executable.
pub fn with_files(rootfs: &Path, scratch: &Scratch, more: &[(String, Vec<u8>)]) -> PathBuf {
    let (files, initrd) = (scratch.path("files"), scratch.path("initrd.cpio"));
    for (path, bytes) in more {
        let path = files.join(path);
        fs::create_dir_all(path.parent().expect("it is below the root")).unwrap();
        fs::write(&path, bytes).unwrap();
        let mode = if path.parent().is_some_and(|folder| folder.ends_with("bin")) { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let archive = "find . -mindepth 1 | cpio --quiet --create --format=newc --owner=0:0";
    let more = Command::new("sh").args(["-c", archive]).current_dir(&files).output().unwrap();
    assert!(more.status.success(), "{}", String::from_utf8_lossy(&more.stderr));
    fs::write(&initrd, [fs::read(rootfs).unwrap(), more.stdout].concat()).unwrap();
    initrd
}
