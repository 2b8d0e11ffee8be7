//! Git, as far as a range of commits needs it: by the user's own `git`, without touching their tree, index, branch or stash.
//!
//! Commits are checked out in a work tree of its own (`git worktree`). What a repository's configuration would run on that
//! occasion (hooks, a file monitor) is not run, and `git status` is asked without refreshing the user's index.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A repository.
#[derive(Clone, Debug)]
pub struct Repo {
    top: PathBuf,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its whole name, hexadecimal.
    pub id: String,
    /// Its tree's.
    pub tree: String,
    /// Those of its parents.
    pub parents: Vec<String>,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// As short as people write it.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It is not there.
    #[error("git cannot be started ({0}): install it")]
    Missing(std::io::Error),
    /// It refused.
    #[error("git {command}: {said}")]
    Refused {
        /// What was asked.
        command: String,
        /// What it said.
        said: String,
    },
}

impl Repo {
    /// The repository that a folder is in.
    pub fn open(folder: &Path) -> Result<Repo, GitError> {
        let top = Repo { top: folder.to_owned() }.ask(["rev-parse", "--show-toplevel"])?;
        Ok(Repo { top: PathBuf::from(top.trim_end()) })
    }

    /// Its top folder.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Commits as `git rev-list` takes them, the oldest first.
    pub fn commits(&self, words: &[String], first_parent: bool) -> Result<Vec<Commit>, GitError> {
        let mut command =
            vec!["log", "--reverse", "--topo-order", "--no-show-signature", "--format=%H%x00%T%x00%P%x00%s%x00"];
        command.extend(first_parent.then_some("--first-parent"));
        command.push("--end-of-options");
        command.extend(words.iter().map(String::as_str));
        command.push("--");
        match self.run(command)? {
            (true, said) => Ok(parsed(&said)),
            (false, said) => {
                let what = format!("{} names no commits of {}", words.join(" "), self.top.display());
                Err(refused("log", &format!("{what}: {}", said.trim())))
            }
        }
    }

    /// One commit.
    pub fn commit(&self, name: &str) -> Result<Commit, GitError> {
        // It must be one, or a range would be taken for its end.
        let id = self.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
        let id = id.map_err(|_| refused("rev-parse", &format!("{name} is no commit of {}", self.top.display())))?;
        let said = self.ask(["log", "-1", "--no-show-signature", "--format=%H%x00%T%x00%P%x00%s%x00", id.trim()])?;
        parsed(&said).pop().ok_or_else(|| refused("log", "it named no commit"))
    }

    /// The commits just outside of a range, which its first ones grow on.
    pub fn boundary(&self, words: &[String]) -> Result<Vec<String>, GitError> {
        let mut command = vec!["rev-list", "--boundary", "--end-of-options"];
        command.extend(words.iter().map(String::as_str));
        command.push("--");
        let said = self.ask(command)?;
        Ok(said.lines().filter_map(|line| line.strip_prefix('-')).map(str::to_owned).collect())
    }

    /// Where two lines of commits parted; none if they have nothing in common.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        match self.run(["merge-base", one, other])? {
            (true, said) => Ok(Some(said.trim().to_owned())),
            (false, _) => Ok(None),
        }
    }

    /// Whether there are changes that no commit has.
    pub fn is_dirty(&self) -> Result<bool, GitError> {
        Ok(!self.ask(["status", "--porcelain", "--untracked-files=no"])?.is_empty())
    }

    fn ask<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String, GitError> {
        let arguments: Vec<S> = arguments.into_iter().collect();
        match self.run(&arguments)? {
            (true, said) => Ok(said),
            (false, said) => {
                let command: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
                Err(refused(&command.join(" "), &said))
            }
        }
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<(bool, String), GitError> {
        run(&self.top, arguments)
    }
}

fn refused(command: &str, said: &str) -> GitError {
    GitError::Refused { command: command.to_owned(), said: said.trim().replace('\n', "; ") }
}

/// Whether it did it, and what it said: its output, or else its error.
fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Result<(bool, String), GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-optional-locks", "--no-pager"]);
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"]);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    // Of a git that we may be started by: they name another tree or index.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    let output = command.output().map_err(GitError::Missing)?;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Records of four fields, each ended by NUL, with a line end between records.
fn parsed(said: &str) -> Vec<Commit> {
    let fields: Vec<&str> = said.split('\0').collect();
    let commit = |four: &[&str]| Commit {
        id: four[0].trim().to_owned(),
        tree: four[1].to_owned(),
        parents: four[2].split_whitespace().map(str::to_owned).collect(),
        subject: four[3].to_owned(),
    };
    fields.chunks_exact(4).map(commit).collect()
}

/// A work tree of our own, gone when it is dropped. One that a kill left behind is taken over.
#[derive(Debug)]
pub struct Worktree {
    repo: Repo,
    path: PathBuf,
}

impl Worktree {
    /// Makes it in a folder that is not there, or that was one of ours.
    pub fn make(repo: &Repo, path: &Path) -> Result<Worktree, GitError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let made = Worktree { repo: repo.clone(), path };
        made.remove();
        let add = ["worktree", "add", "--detach", "--no-checkout", "--force"].map(OsStr::new);
        repo.ask(add.into_iter().chain([made.path.as_os_str(), OsStr::new("HEAD")]))?;
        Ok(made)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a commit out. What builds left behind stays, so that the next one is quick.
    pub fn checkout(&self, commit: &Commit) -> Result<(), GitError> {
        match run(&self.path, ["checkout", "--quiet", "--force", "--detach", &commit.id])? {
            (true, _) => Ok(()),
            (false, said) => Err(refused(&format!("checkout {}", commit.short()), &said)),
        }
    }

    /// Removes it, and git's note of it. If something is left, it does no harm, and `git worktree prune` removes it.
    fn remove(&self) {
        let remove = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
        let _ = self.repo.run(remove.into_iter().chain([self.path.as_os_str()]));
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read() {
        let said = "a1\0t1\0\0first, with \"quotes\"\0\nb2\0t2\0a1 c3\0\0\n";
        let found = parsed(said);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].id.as_str(), found[0].subject.as_str()), ("a1", "first, with \"quotes\""));
        assert_eq!((found[1].id.as_str(), found[1].parents.len()), ("b2", 2));
        assert!(parsed("").is_empty());
    }
}
