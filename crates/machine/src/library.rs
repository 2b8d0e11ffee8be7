//! Finding what bootscope needs at run time beside itself: guest-init, the VMM's plugin, the reference
//! kernel, and what is copied to other machines.

use std::path::{Path, PathBuf};

/// The reference kernel.
pub(crate) const LAB: &str = "lab";
/// The plugin for the VMM; one object for every version of its interface.
pub(crate) const PLUGIN: &str = "bootscope-qemu.so";

/// The program that captures what a running machine knows of its boot.
const CAPTURE: &str = "bootscope-capture";

/// Where the program is that `capture --ssh` copies to other machines; none where it was not built.
#[must_use]
pub fn capture_program() -> Option<PathBuf> {
    find(CAPTURE)
}

/// The file `name`: in `$BOOTSCOPE_LIB`, in `../lib/bootscope` as seen from the executable, or beside it, in this order.
/// Beside it comes last because a build folder has a guest-init there that was not linked for a guest.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.canonicalize().ok()?;
    let beside = beside.parent()?;
    let own = std::env::var_os("BOOTSCOPE_LIB").map(PathBuf::from);
    find_in(name, own.as_deref(), beside)
}

fn find_in(name: &str, own: Option<&Path>, beside: &Path) -> Option<PathBuf> {
    let installed = beside.join("../lib/bootscope");
    let folders = own.into_iter().chain([&*installed, beside]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_users_own_folder_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib, own) = (dir.path().join("bin"), dir.path().join("lib/bootscope"), dir.path().join("own"));
        for folder in [&bin, &lib, &own] {
            fs::create_dir_all(folder).unwrap();
        }
        assert_eq!(find_in("x", Some(&own), &bin), None);
        fs::write(bin.join("x"), "").unwrap();
        assert_eq!(find_in("x", Some(&own), &bin), Some(bin.join("x")));
        fs::write(lib.join("x"), "").unwrap();
        assert_eq!(find_in("x", None, &bin), Some(bin.join("../lib/bootscope/x")));
        fs::write(own.join("x"), "").unwrap();
        assert_eq!(find_in("x", Some(&own), &bin), Some(own.join("x")));
    }
}
