//! Sets the commit for `bootscope --version`: $BOOTSCOPE_COMMIT, else that of the git clone around the sources. Sources
//! without git, as from a tarball, have no commit.

use std::path::{Path, PathBuf};
use std::{env, process::Command};

/// The digits shown of the commit's 40. Git's own abbreviation depends on how much of the history a clone has.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BOOTSCOPE_COMMIT");
    let environment = env::var("BOOTSCOPE_COMMIT").ok().filter(|commit| !commit.is_empty());
    // A debug build does not follow git: otherwise each commit would rebuild sixty test programs.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = environment.or_else(|| is_release.then(of_git).flatten());
    let number = env::var("CARGO_PKG_VERSION").expect("Cargo sets it");
    let version = match commit {
        Some(commit) => format!("{number} (commit {})", commit.chars().take(DIGITS).collect::<String>()),
        None => number,
    };
    println!("cargo::rustc-env=BOOTSCOPE_VERSION={version}");
}

/// The commit of the clone, if these sources are its root and not a folder inside another repository.
fn of_git() -> Option<String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let root = Path::new(&package).join("../..").canonicalize().ok()?;
    if Path::new(&git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // The first two change with each checkout, the others with each commit.
    let branch = git(&root, &["rev-parse", "--symbolic-full-name", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
        let file = git(&root, &["rev-parse", "--git-path", name]).map(|path| root.join(PathBuf::from(path)));
        // A missing file would make cargo run this script at each build.
        if let Some(file) = file.filter(|file| file.is_file()) {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    git(&root, &["rev-parse", "HEAD"])
}

/// The output of git; `None` if git is missing or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
