//! Kernels of commits: built by the user's command in a work tree of our own, and kept by what went into them.
//!
//! What is built is named by the hash of the commit's tree, of the command and of the kernel's path: two commits with the
//! same tree are built once, and a search that goes on builds nothing twice. The command runs in a process group of its own,
//! which is killed when the time is up or the user stops; what it says goes into a log.

use super::git::{Commit, GitError, Worktree};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

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
    /// The user's own tree, which the command is told of as `$BOOTSCOPE_SOURCE`.
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

/// How often a build is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long what was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

impl Builder {
    /// A commit's kernel; `stop` is asked now and then.
    pub fn build(&self, commit: &Commit, tree: &Worktree, stop: &mut dyn FnMut() -> bool) -> Result<Built, BuildError> {
        let kept = self.kept(commit);
        if kept.is_file() {
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
        let name: String = key.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.cache.join(name)
    }

    /// Whole, or not at all.
    fn keep(&self, made: &Path, kept: &Path) -> Result<(), BuildError> {
        let failed = |why| BuildError::Io { doing: "keep a kernel as", path: kept.to_owned(), why };
        fs::create_dir_all(&self.cache).map_err(failed)?;
        let partial = kept.with_extension(format!("partial-{}", std::process::id()));
        let copied = fs::copy(made, &partial).and_then(|_| fs::rename(&partial, kept));
        copied.map_err(|why| {
            let _ = fs::remove_file(&partial);
            failed(why)
        })
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
        command.arg("-c").arg(&self.command).current_dir(tree).stdin(Stdio::null()).stdout(out).stderr(err);
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
                end(&mut child);
                return Ok(if stopped { Ended::Stopped } else { Ended::Timeout });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How a command ended.
enum Ended {
    Exit(ExitStatus),
    Timeout,
    Stopped,
}

/// Ends a command and all that it started in its group: asked first, then killed.
fn end(child: &mut std::process::Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| {
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    signal(Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK);
    }
    signal(Signal::KILL);
    let _ = child.wait();
}
