//! A range of commits: what each costs, and which is the first that is slow.
//!
//! [`Search`] decides what to measure next and when to stop; it does no I/O. [`Repo`] and [`Builder`] check commits out and
//! build their kernels, in a separate work tree. [`Memory`] is what a search leaves on disk, so that it can go on. The caller
//! boots, as everywhere in this crate.

mod build;
mod git;
mod memory;
mod ratios;
mod search;
mod steps;

pub use build::{BuildError, Builder, Built, tidy};
pub use git::{Commit, GitError, Repo, Worktree};
pub use memory::{COMMIT, Failed, Memory, MemoryError, SEARCH, SearchOf};
pub use ratios::{log_ratios, mean_ratio};
pub use search::{Answer, Found, Measure, Search, Step, Verdict, run};
pub use steps::steps;
