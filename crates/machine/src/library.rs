//! Finds the files that bootscope needs at run time: guest-init, the VMM's plugin, the reference kernel, and the programs that it copies to
//! other machines.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The reference kernel.
pub(crate) const LAB: &str = "lab";
/// The VMM's plugin: one object for every version of its interface.
pub(crate) const PLUGIN: &str = "bootscope-qemu.so";

/// The program that captures the boot evidence of a running machine.
const CAPTURE: &str = "bootscope-capture";

/// The program that `capture --ssh` copies to other machines.
///
/// # Errors
/// If it is not there. The message says how to get it.
pub fn capture_program() -> Result<PathBuf, String> {
    find(CAPTURE).ok_or_else(|| missing(CAPTURE))
}

/// The program that answers queries of a lake.
const LAKE: &str = "bootscope-lake";

/// The program that answers queries of a lake, from the folders of the other helpers or from `$PATH`.
///
/// # Errors
/// If it is not there. The message says where it was searched for, and how to get it.
pub fn lake_program() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH");
    find(LAKE).or_else(|| find_in_path(LAKE, path.as_deref()?)).ok_or_else(|| match executable_folder() {
        Some(beside) => missing_engine(user_folder().as_deref(), &beside),
        None => format!("{LAKE} is not installed: `make lake` in bootscope's sources builds it"),
    })
}

fn find_in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn missing_engine(user_path: Option<&Path>, beside: &Path) -> String {
    let places = places(user_path, beside);
    format!(
        "{LAKE} is not installed: it is not in {places}, nor in $PATH. `make lake` in bootscope's sources builds it"
    )
}

/// The file `name`: in `$BOOTSCOPE_LIB`, in `../lib/bootscope` as seen from the executable, or beside it, in this order. The last place
/// comes last because a build folder has a guest-init there that was not linked for a guest.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, user_folder().as_deref(), &executable_folder()?)
}

/// A message that `name` is missing, where it was searched for, and how to get it.
pub(crate) fn missing(name: &str) -> String {
    match executable_folder() {
        Some(beside) => missing_in(name, user_folder().as_deref(), &beside),
        None => format!("{name} was not looked for: where the program is, the system does not say; set $BOOTSCOPE_LIB"),
    }
}

/// The folder that the user sets.
fn user_folder() -> Option<PathBuf> {
    std::env::var_os("BOOTSCOPE_LIB").map(PathBuf::from)
}

/// The executable's folder.
fn executable_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.canonicalize().ok()?.parent()?.to_path_buf())
}

fn find_in(name: &str, user_path: Option<&Path>, beside: &Path) -> Option<PathBuf> {
    let installed = beside.join("../lib/bootscope");
    let folders = user_path.into_iter().chain([&*installed, beside]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A message for a missing helper. `cargo install` brings the program alone, so the command to run depends on the program's folder.
fn missing_in(name: &str, user_path: Option<&Path>, beside: &Path) -> String {
    let remedy = match beside.ends_with("bin") {
        true => format!("make install-helpers PREFIX={}", prefix(beside).display()),
        false => "make build".to_owned(),
    };
    format!("{name} is not in {}: run `{remedy}` in bootscope's sources", places(user_path, beside))
}

/// The folders that [`find_in`] searches, as text.
fn places(user_path: Option<&Path>, beside: &Path) -> String {
    let user_path =
        user_path.map(|user_path| format!("$BOOTSCOPE_LIB ({}), ", user_path.display())).unwrap_or_default();
    format!("{user_path}{} or {}", prefix(beside).join("lib/bootscope").display(), beside.display())
}

fn prefix(beside: &Path) -> &Path {
    beside.parent().unwrap_or(Path::new("/"))
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

    #[test]
    fn a_missing_file_is_named_with_the_command_that_installs_it() {
        let installed = missing_in("guest-init", None, Path::new("/home/u/.cargo/bin"));
        assert_eq!(
            installed,
            "guest-init is not in /home/u/.cargo/lib/bootscope or /home/u/.cargo/bin: run \
             `make install-helpers PREFIX=/home/u/.cargo` in bootscope's sources"
        );
        let built = missing_in("lab", Some(Path::new("/own")), Path::new("/src/target/release"));
        assert_eq!(
            built,
            "lab is not in $BOOTSCOPE_LIB (/own), /src/target/lib/bootscope or /src/target/release: run \
             `make build` in bootscope's sources"
        );
    }

    #[test]
    fn the_engine_is_also_found_in_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([Path::new("no-such"), dir.path()]).unwrap();
        assert_eq!(find_in_path("x", &path), None);
        fs::write(dir.path().join("x"), "").unwrap();
        assert_eq!(find_in_path("x", &path), Some(dir.path().join("x")));
        assert_eq!(find_in_path("library.rs", OsStr::new("src")), None, "the folder that one happens to be in");
        assert_eq!(
            missing_engine(Some(Path::new("/own")), Path::new("/usr/bin")),
            "bootscope-lake is not installed: it is not in $BOOTSCOPE_LIB (/own), /usr/lib/bootscope or /usr/bin, nor in \
             $PATH. `make lake` in bootscope's sources builds it"
        );
    }
}
