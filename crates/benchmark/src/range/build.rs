//! Builds the kernels of commits, by the user's command in a separate work tree, and keeps each by a hash of its inputs.
//!
//! What is built is named by the hash of the commit's tree, of the command and of the kernel's path: two commits with the
//! same tree are built once, and a search that goes on builds nothing twice. The command runs in a process group of its own,
//! which is killed when the time is up or the user stops; what it says goes into a log. A guard in the group kills it too when
//! bootscope itself is killed: it waits for the end of a pipe that only bootscope holds open.

use super::git::{Commit, GitError, Worktree};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

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
    #[error("cannot {doing} {path}: {why}")]
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
/// How often a build is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long what was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// The same where the user waits for it.
const GRACE_STOPPED: Duration = Duration::from_millis(100);

/// Runs its argument as a command, and kills the whole process group as soon as standard input ends. What was started in a
/// session of its own is in another group, and stays. A TERM is the command's: the guard's shell waits until that has ended.
const GUARDED: &str = r#"
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } &
guard=$!
trap : TERM
sh -c "$1" 3<&-
status=$?
kill -KILL $guard 2>/dev/null
exit $status
"#;

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
            Ended::Stopped => Ok(Built::Stopped),
            Ended::Timeout => cannot(format!("the build took more than {:?}", self.timeout)),
            Ended::Exit(status) if !status.success() => cannot(format!("the build failed ({status})")),
            Ended::Exit(_) if !made.is_file() => cannot(format!("the build made no {}", self.kernel.display())),
            Ended::Exit(_) => {
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
        fs::create_dir_all(&self.cache).map_err(failed)?;
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
    ) -> Result<Ended, BuildError> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |why| BuildError::Io { doing, path, why }
        };
        fs::create_dir_all(&self.logs).map_err(failed("make the folder", &self.logs))?;
        let out = File::create(log).map_err(failed("write", log))?;
        let err = out.try_clone().map_err(failed("write", log))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARDED, "sh"]).arg(&self.command).current_dir(tree);
        command.stdin(Stdio::piped()).stdout(out).stderr(err);
        command.env("BOOTSCOPE_SOURCE", &self.source).env("BOOTSCOPE_COMMIT", &commit.id);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        let mut child = command.process_group(0).spawn().map_err(failed("start sh in", tree))?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(failed("wait for the build in", tree))? {
                return Ok(Ended::Exit(status));
            }
            let stopped = stop();
            if stopped || began.elapsed() >= self.timeout {
                end(&mut child, if stopped { GRACE_STOPPED } else { GRACE });
                return Ok(if stopped { Ended::Stopped } else { Ended::Timeout });
            }
            std::thread::sleep(LOOK);
        }
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

/// How a command ended.
enum Ended {
    Exit(ExitStatus),
    Timeout,
    Stopped,
}

/// Ends a command and all that it started in its group: asked first, then killed.
fn end(child: &mut std::process::Child, grace: Duration) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| {
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    signal(Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < grace && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK);
    }
    signal(Signal::KILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_is_asked_to_end_may_clean_up() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let cleaned = folder.path().join("cleaned");
        let build = format!(
            "trap 'sleep 0.3; touch {}; exit 1' TERM; touch {}; sleep 60 & wait",
            cleaned.display(),
            started.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", GUARDED, "sh", &build]).stdin(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while !started.exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the build did not start");
            std::thread::sleep(LOOK);
        }
        end(&mut child, Duration::from_secs(30));
        assert!(cleaned.exists(), "killed before it had cleaned up");
    }

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
