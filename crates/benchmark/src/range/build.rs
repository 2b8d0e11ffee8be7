//! Builds the kernels of commits with the user's command in a separate work tree, and caches each by a hash of its inputs.
//!
//! The name of a cached kernel is a hash of the commit's tree, the command and the kernel's path. So two commits with the
//! same tree are built once, and a resumed search builds nothing twice.

use super::git::{Commit, GitError, Worktree};
use super::image::hash_of;
use crate::hex;
use crate::process_group::{self, CommandEnd};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The user's build command and the folders that it uses.
#[derive(Debug)]
pub struct Builder {
    /// The build command, run by `sh -c`.
    pub command: String,
    /// Path of the built kernel in the work tree.
    pub kernel: PathBuf,
    /// Maximum time of a build.
    pub timeout: Duration,
    /// Folder of the cached kernels.
    pub cache: PathBuf,
    /// Folder of the build logs.
    pub logs: PathBuf,
    /// The user's tree; the command gets its path in `$BOOTSCOPE_SOURCE`.
    pub source: PathBuf,
}

/// Result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The kernel was built, or was in the cache.
    Kernel {
        /// Path of the kernel.
        path: PathBuf,
        /// Hash of what is booted of it.
        image: String,
        /// True if it was in the cache.
        cached: bool,
    },
    /// The commit does not build. The text has the reason and the path of the log.
    CannotSay(String),
    /// The user stopped it.
    Stopped,
}

/// An error that prevents all builds.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Git refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// The operation: `write`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// Number of hexadecimal digits in a cached kernel's name.
const NAME_DIGITS: usize = 32;

/// Contents of an image that do not follow from its sources, by the variable that sets each: the time, the user, the host
/// and the number of the build. Equal sources give equal images only if these are equal, too. A variable
/// that the user has set is left as it is.
const SAME_IN_ALL_BUILDS: [(&str, &str); 6] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "user"),
    ("KBUILD_BUILD_HOST", "host"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("LOCALVERSION", ""),
    ("SOURCE_DATE_EPOCH", "0"),
];

impl Builder {
    /// Returns a commit's kernel, from the cache or newly built. Calls `stop` regularly and ends the build if it returns true.
    pub fn build(&self, commit: &Commit, tree: &Worktree, stop: &mut dyn FnMut() -> bool) -> Result<Built, BuildError> {
        let kept = self.cache_path(commit);
        if kept.is_file() {
            // The modification time records the last use. If it cannot be set, the kernel only seems older than it is.
            let _ = File::open(&kept).and_then(|file| file.set_modified(SystemTime::now()));
            return kernel(kept, true);
        }
        tree.checkout(commit)?;
        let made = tree.path().join(&self.kernel);
        // Remove the kernel of an earlier commit, so that it is not taken for this one's.
        let _ = fs::remove_file(&made);
        let log = self.logs.join(format!("{}.log", commit.short()));
        let ended = self.run(commit, tree.path(), &log, stop)?;
        let cannot = |why: String| Ok(Built::CannotSay(format!("{why}; its log is {}", log.display())));
        match ended {
            CommandEnd::Stopped => Ok(Built::Stopped),
            CommandEnd::Timeout => cannot(format!("the build took more than {:?}", self.timeout)),
            CommandEnd::Exit(status) if !status.success() => cannot(format!("the build failed ({status})")),
            CommandEnd::Exit(_) if !made.is_file() => cannot(format!("the build made no {}", self.kernel.display())),
            CommandEnd::Exit(_) => {
                self.keep(&made, &kept)?;
                kernel(kept, false)
            }
        }
    }

    /// Path of a commit's kernel in the cache.
    fn cache_path(&self, commit: &Commit) -> PathBuf {
        let kernel = self.kernel.to_string_lossy();
        let same = SAME_IN_ALL_BUILDS.map(|(name, value)| {
            std::env::var_os(name).map_or_else(|| value.to_owned(), |set| set.to_string_lossy().into_owned())
        });
        let key = Sha256::digest(format!("{}\0{}\0{kernel}\0{}", commit.tree, self.command, same.join("\0")));
        self.cache.join(hex(&key[..NAME_DIGITS / 2]))
    }

    /// Copies a kernel to the cache, completely or not at all.
    fn keep(&self, made: &Path, kept: &Path) -> Result<(), BuildError> {
        let failed = |why| BuildError::Io { doing: "keep a kernel as", path: kept.to_owned(), why };
        recording::own_folder(&self.cache).map_err(failed)?;
        let partial = recording::beside(kept).map_err(failed)?;
        fs::copy(made, partial.path()).map_err(failed)?;
        partial.persist(kept).map_err(|why| failed(why.error))?;
        Ok(())
    }

    fn run(
        &self,
        commit: &Commit,
        tree: &Path,
        log: &Path,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<CommandEnd, BuildError> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |why| BuildError::Io { doing, path, why }
        };
        recording::own_folder(&self.logs).map_err(failed("make the folder", &self.logs))?;
        // Create a new file: a symbolic link in its place is removed, not followed.
        let _ = fs::remove_file(log);
        let out = File::create_new(log).map_err(failed("write", log))?;
        let mut command = process_group::command(&self.command, tree);
        command.env("BOOTSCOPE_SOURCE", &self.source).env("BOOTSCOPE_COMMIT", &commit.id);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        for (name, value) in SAME_IN_ALL_BUILDS.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            command.env(name, value);
        }
        process_group::run(command, out, self.timeout, stop).map_err(failed("run the build in", tree))
    }
}

/// A built kernel, with the hash of what is booted.
fn kernel(path: PathBuf, cached: bool) -> Result<Built, BuildError> {
    match hash_of(&path) {
        Ok(image) => Ok(Built::Kernel { path, image, cached }),
        Err(why) => Err(BuildError::Io { doing: "read", path, why }),
    }
}

/// Removes the least recently used kernels until `keep` are left. Kernels used within `idle` stay in any case, because another
/// search may be about to boot them. Removes incomplete copies of killed searches, too. Returns the number of removed files.
///
/// # Errors
/// If the folder cannot be read. A file that cannot be removed stays, without an error.
pub fn tidy(cache: &Path, keep: usize, idle: Duration) -> io::Result<usize> {
    let mut kernels = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let (name, meta) = (entry.file_name(), entry.metadata()?);
        let name = name.to_string_lossy();
        let (stem, partial) = name.split_once(".partial-").map_or((&*name, false), |(stem, _)| (stem, true));
        // Work trees are folders, and files with other names are not bootscope's.
        if meta.is_file() && stem.len() == NAME_DIGITS && stem.bytes().all(|b| b.is_ascii_hexdigit()) {
            kernels.push((partial, meta.modified()?, entry.path()));
        }
    }
    // Complete ones first, and of those the latest used first.
    kernels.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    let unused = |used: &SystemTime| used.elapsed().is_ok_and(|since| since >= idle);
    let old = kernels.iter().enumerate();
    let old = old.filter(|(place, (partial, used, _))| (*partial || *place >= keep) && unused(used));
    Ok(old.filter(|(_, (.., path))| fs::remove_file(path).is_ok()).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_were_used_last_are_kept() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, days: u32| {
            let path = folder.path().join(name);
            File::create(&path).unwrap().set_modified(SystemTime::now() - DAY * days).unwrap();
        };
        let kernel = |n: u32| format!("{n:032x}");
        (0..6).for_each(|n| make(&kernel(n), n));
        make(&format!("{}.partial-17", kernel(9)), 2);
        make(&format!("{}.partial-18", kernel(9)), 0);
        make("notes of the user's", 100);
        fs::create_dir(folder.path().join("tree-home")).unwrap();
        // Two of the six are to stay, and the third was used 2 days ago.
        assert_eq!(tidy(folder.path(), 2, DAY * 3 - DAY / 2).unwrap(), 3);
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let partial = |pid| format!("{}.partial-{pid}", kernel(9));
        let expected = [
            kernel(0),
            kernel(1),
            kernel(2),
            partial(17),
            partial(18),
            "notes of the user's".into(),
            "tree-home".into(),
        ];
        assert_eq!(left, expected);
        assert_eq!(tidy(folder.path(), 2, DAY / 2).unwrap(), 2, "the third, and the half-copied one");
        assert_eq!(tidy(folder.path(), 0, Duration::from_secs(3600)).unwrap(), 1);
        assert!(folder.path().join(kernel(0)).exists(), "one may be about to boot it");
        assert!(tidy(&folder.path().join("nowhere"), 0, DAY).is_err());
    }
}
