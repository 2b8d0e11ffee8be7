//! Builds, boots and compares the commits of a repository.

mod bisect;
mod each_commit;
mod workshop;

use crate::{Notes, Watcher};
use anyhow::{Context, bail};
use benchmark::range::Repo;
use machine::RecordOptions;
use report::{Bisected, CommitRange};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use workshop::Workshop;

/// The user's request for measuring a range of commits.
pub struct Request {
    /// The commits, as git rev-list takes them.
    pub range: Vec<String>,
    /// The command that builds a kernel.
    pub build: String,
    /// True to search for the first slow commit.
    pub bisect: bool,
    /// The repository; `None`: that of the current folder.
    pub repo: Option<PathBuf>,
    /// True to count a merge as one commit.
    pub first_parent: bool,
    /// The number of rounds; `None`: enough for a verdict.
    pub runs: Option<u32>,
    /// The longest a build may take.
    pub build_timeout: Duration,
    /// The folder of built kernels; `None`: in the user's cache.
    pub cache: Option<PathBuf>,
    /// The number of built kernels to keep.
    pub keep_builds: usize,
    /// The folder of all boots; `None`: one named after the range.
    pub folder: Option<PathBuf>,
    /// The options that boot each kernel.
    pub options: RecordOptions,
    /// The built kernel's path in the tree.
    pub kernel: Option<PathBuf>,
}

/// The result of a search.
pub enum RangeResult {
    /// The result of a bisection.
    Bisected(Box<Bisected>),
    /// The result of measuring each commit.
    Each {
        /// The commits and their times.
        range: CommitRange,
        /// True if every commit was measured and nothing stopped it.
        is_complete: bool,
    },
}

/// Bisects the range, or benches each commit.
///
/// # Errors
/// If the range does not exist, the good end does not boot, or no commit can be built.
pub fn run(request: Request, watcher: &mut dyn Watcher, notes: &dyn Notes) -> anyhow::Result<RangeResult> {
    let kernel = kernel_in_tree(request.kernel.as_deref())?;
    let repo = Repo::open(request.repo.as_deref().unwrap_or(Path::new(".")))?;
    if repo.is_dirty()? {
        notes.note("what is changed in your tree and in no commit is no part of the range");
    }
    let cache = match &request.cache {
        Some(cache) => cache.clone(),
        None => cache_folder().context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache")?,
    };
    let cache = std::path::absolute(&cache).with_context(|| format!("cannot use {}", cache.display()))?;
    let plan = workshop::Plan {
        repo: &repo,
        kernel,
        command: &request.build,
        timeout: request.build_timeout,
        cache,
        options: request.options.clone(),
    };
    plan.tidy(request.keep_builds, notes);
    if request.bisect {
        let ends = bisect::Ends::of(&repo, &request.range)?;
        let folder = request.folder.clone().unwrap_or_else(|| ends.folder());
        Ok(RangeResult::Bisected(Box::new(bisect::run(ends, Workshop::new(plan, &folder, watcher, notes)?)?)))
    } else {
        let folder = request.folder.clone().unwrap_or_else(each_commit::folder);
        each_commit::run(&request, Workshop::new(plan, &folder, watcher, notes)?)
    }
}

/// Checks the kernel's path: it must be the same in the tree of every commit.
fn kernel_in_tree(kernel: Option<&Path>) -> anyhow::Result<PathBuf> {
    let kernel = kernel.context("--kernel is missing: give the built kernel's path in the tree")?;
    let inside = kernel.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside {
        bail!("--kernel {} is no path in the tree: give it from the tree's top, without ..", kernel.display());
    }
    Ok(kernel.to_owned())
}

fn cache_folder() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_file("builds")
}
