//! Builds the kernels of commits, by the user's command in a separate work tree, and keeps each by a hash of its inputs.
//!
//! What is built is named by the hash of the commit's tree, of the command and of the kernel's path: two commits with the
//! same tree are built once, and a search that goes on builds nothing twice.

use super::git::{Commit, GitError, Worktree};
use crate::guarded::{self, CommandEnd};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Builds kernels.
#[derive(Debug)]
pub struct Builder {
    /// What is run, by `sh -c`.
    pub command: String,
    /// Where the kernel then is, in the tree.
    pub kernel: PathBuf,
    /// How long a build may take.
    pub timeout: Duration,
    /// Where kernels are kept.
    pub cache: PathBuf,
    /// Where logs go.
    pub logs: PathBuf,
    /// The user's own tree; the command has its path in `$BOOTSCOPE_SOURCE`.
    pub source: PathBuf,
}

/// What came of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The kernel.
    Kernel {
        /// Where it is.
        path: PathBuf,
        /// Whether it was there already.
        cached: bool,
    },
    /// It does not build: why, and where the log is.
    CannotSay(String),
    /// The user stopped it.
    Stopped,
}

/// Why nothing can be built at all.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Git refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// `write`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// Hexadecimal digits of a kernel's name.
const NAME_DIGITS: usize = 32;

impl Builder {
    /// A commit's kernel; `stop` is asked now and then.
    pub fn build(&self, commit: &Commit, tree: &Worktree, stop: &mut dyn FnMut() -> bool) -> Result<Built, BuildError> {
        let kept = self.kept(commit);
        if kept.is_file() {
            // Its last use is its age; where that cannot be noted it only looks older than it is.
            let _ = File::open(&kept).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(Built::Kernel { path: kept, cached: true });
        }
        tree.checkout(commit)?;
        let made = tree.path().join(&self.kernel);
        // One of an earlier commit is not this one's.
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
                Ok(Built::Kernel { path: kept, cached: false })
            }
        }
    }

    /// Where the kernel of a commit is kept.
    fn kept(&self, commit: &Commit) -> PathBuf {
        let kernel = self.kernel.to_string_lossy();
        let key = Sha256::digest(format!("{}\0{}\0{kernel}", commit.tree, self.command));
        let name: String = key.iter().take(NAME_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
        self.cache.join(name)
    }

    /// Whole, or not at all.
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
        // A new file: a link in its place goes, and is not followed.
        let _ = fs::remove_file(log);
        let out = File::create_new(log).map_err(failed("write", log))?;
        let mut command = guarded::command(&self.command, tree);
        command.env("BOOTSCOPE_SOURCE", &self.source).env("BOOTSCOPE_COMMIT", &commit.id);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        guarded::run(command, out, self.timeout, stop).map_err(failed("run the build in", tree))
    }
}

/// Removes kernels that were not used for longest, and leaves so many; what was used within `idle` stays in any case, for
/// another search may be about to boot it. What a killed one left half-copied goes too. How many files were removed.
///
/// # Errors
/// If the folder cannot be read; a file that cannot be removed stays.
pub fn tidy(cache: &Path, keep: usize, idle: Duration) -> io::Result<usize> {
    let mut kernels = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let (name, meta) = (entry.file_name(), entry.metadata()?);
        let name = name.to_string_lossy();
        let (stem, partial) = name.split_once(".partial-").map_or((&*name, false), |(stem, _)| (stem, true));
        // Work trees are folders, and what is called otherwise is not ours.
        if meta.is_file() && stem.len() == NAME_DIGITS && stem.bytes().all(|b| b.is_ascii_hexdigit()) {
            kernels.push((partial, meta.modified()?, entry.path()));
        }
    }
    // Whole ones first, the latest used first.
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
        // Of the six two are to stay, and the third was used 2 days ago.
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
