//! Runs the user's `git` for a range of commits, without touching the user's tree, index, branch or stash.
//!
//! Commits are checked out in a separate work tree (`git worktree`). Hooks and file monitors of the repository's configuration
//! do not run, and `git status` does not refresh the user's index.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A repository.
#[derive(Clone, Debug)]
pub struct Repo {
    top: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Full hash, hexadecimal.
    pub id: String,
    /// Hash of its tree.
    pub tree: String,
    /// Hashes of its parents.
    pub parents: Vec<String>,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// The first 12 digits of the hash.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// An error of a git command.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git cannot be started.
    #[error("git cannot be started ({0}): install it")]
    Missing(std::io::Error),
    /// The command failed.
    #[error("git {command}: {said}")]
    Refused {
        /// The command's arguments.
        command: String,
        /// The command's error text.
        said: String,
    },
}

impl Repo {
    /// Finds the repository that contains a folder.
    pub fn open(folder: &Path) -> Result<Repo, GitError> {
        let top = Repo { top: folder.to_owned() }.ask(["rev-parse", "--show-toplevel"])?;
        Ok(Repo { top: PathBuf::from(top.trim_end()) })
    }

    /// The top folder of the user's work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The commits of a range, oldest first. `words` are arguments as of `git rev-list`.
    pub fn commits(&self, words: &[String], first_parent: bool) -> Result<Vec<Commit>, GitError> {
        let mut command =
            vec!["log", "--reverse", "--topo-order", "--no-show-signature", "--format=%H%x00%T%x00%P%x00%s%x00"];
        command.extend(first_parent.then_some("--first-parent"));
        command.push("--end-of-options");
        command.extend(words.iter().map(String::as_str));
        command.push("--");
        match self.run(command)? {
            (true, output) => Ok(parse_commits(&output)),
            (false, output) => {
                let what = format!("{} names no commits of {}", words.join(" "), self.top.display());
                Err(refused("log", &format!("{what}: {}", output.trim())))
            }
        }
    }

    /// Finds a commit by its name.
    pub fn commit(&self, name: &str) -> Result<Commit, GitError> {
        // Resolve the name to a single commit first: `git log -1` would accept a range and return its end.
        let id = self.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
        let id = id.map_err(|_| refused("rev-parse", &format!("{name} is no commit of {}", self.top.display())))?;
        let output = self.ask(["log", "-1", "--no-show-signature", "--format=%H%x00%T%x00%P%x00%s%x00", id.trim()])?;
        parse_commits(&output).pop().ok_or_else(|| refused("log", "it named no commit"))
    }

    /// The commits just outside of a range: the parents of its first commits.
    pub fn boundary(&self, words: &[String]) -> Result<Vec<String>, GitError> {
        let mut command = vec!["rev-list", "--boundary", "--end-of-options"];
        command.extend(words.iter().map(String::as_str));
        command.push("--");
        let output = self.ask(command)?;
        Ok(output.lines().filter_map(|line| line.strip_prefix('-')).map(str::to_owned).collect())
    }

    /// The last common ancestor of two commits. `None` if they have no common history.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        match self.run(["merge-base", one, other])? {
            (true, output) => Ok(Some(output.trim().to_owned())),
            (false, _) => Ok(None),
        }
    }

    /// True if tracked files have uncommitted changes.
    pub fn is_dirty(&self) -> Result<bool, GitError> {
        Ok(!self.ask(["status", "--porcelain", "--untracked-files=no"])?.is_empty())
    }

    fn ask<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String, GitError> {
        let arguments: Vec<S> = arguments.into_iter().collect();
        match self.run(&arguments)? {
            (true, output) => Ok(output),
            (false, output) => {
                let command: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
                Err(refused(&command.join(" "), &output))
            }
        }
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<(bool, String), GitError> {
        run(&self.top, arguments)
    }
}

fn refused(command: &str, error_text: &str) -> GitError {
    GitError::Refused { command: command.to_owned(), said: error_text.trim().replace('\n', "; ") }
}

/// Runs git. Returns true and its output, or false and its error text.
fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Result<(bool, String), GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-optional-locks", "--no-pager"]);
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"]);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    // A git that started bootscope may have set these; they name another tree or index.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    let output = command.output().map_err(GitError::Missing)?;
    let text = if output.status.success() { output.stdout } else { output.stderr };
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Parses records of four fields, each terminated by NUL, with a newline between records.
fn parse_commits(output: &str) -> Vec<Commit> {
    let fields: Vec<&str> = output.split('\0').collect();
    let commit = |four: &[&str]| Commit {
        id: four[0].trim().to_owned(),
        tree: four[1].to_owned(),
        parents: four[2].split_whitespace().map(str::to_owned).collect(),
        subject: four[3].to_owned(),
    };
    fields.chunks_exact(4).map(commit).collect()
}

/// A temporary work tree, which is removed on drop. Replaces one that a killed search left behind.
#[derive(Debug)]
pub struct Worktree {
    repo: Repo,
    path: PathBuf,
}

impl Worktree {
    /// Creates a work tree in a folder that does not exist or is a work tree of an earlier search.
    pub fn make(repo: &Repo, path: &Path) -> Result<Worktree, GitError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let made = Worktree { repo: repo.clone(), path };
        made.remove();
        let add = ["worktree", "add", "--detach", "--no-checkout", "--force"].map(OsStr::new);
        repo.ask(add.into_iter().chain([made.path.as_os_str(), OsStr::new("HEAD")]))?;
        Ok(made)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a commit out. Files of earlier builds stay, so that the next build is quick.
    pub fn checkout(&self, commit: &Commit) -> Result<(), GitError> {
        match run(&self.path, ["checkout", "--quiet", "--force", "--detach", &commit.id])? {
            (true, _) => Ok(()),
            (false, output) => Err(refused(&format!("checkout {}", commit.short()), &output)),
        }
    }

    /// Removes the work tree and git's record of it. A remnant does no harm, and `git worktree prune` removes it.
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
        let output = "a1\0t1\0\0first, with \"quotes\"\0\nb2\0t2\0a1 c3\0\0\n";
        let found = parse_commits(output);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].id.as_str(), found[0].subject.as_str()), ("a1", "first, with \"quotes\""));
        assert_eq!((found[1].id.as_str(), found[1].parents.len()), ("b2", 2));
        assert!(parse_commits("").is_empty());
    }

    #[test]
    fn a_repository_lists_its_commits_and_refuses_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let config = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
            let (done, output) = run(folder.path(), config.iter().chain(words)).unwrap();
            assert!(done, "{words:?}: {output}");
        };
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
        git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
        let repo = Repo::open(folder.path()).unwrap();
        let commits = repo.commits(&["HEAD".to_owned()], false).unwrap();
        assert_eq!(commits.iter().map(|commit| commit.subject.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!((&commits[0].parents, &commits[1].parents), (&vec![], &vec![commits[0].id.clone()]));
        assert_eq!(repo.commit("HEAD").unwrap(), commits[1]);
        assert!(!repo.is_dirty().unwrap());
        let error = repo.commit("gone").unwrap_err().to_string();
        assert!(error.contains("gone is no commit of"), "{error}");
    }
}
