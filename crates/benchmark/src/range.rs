//! A range of commits: the cost of each, and the first slow one.
//!
//! [`Search`] decides what to measure next and when to stop; it does no I/O. [`Repo`] and [`Builder`] check commits out and
//! build their kernels, in a separate work tree. [`Memory`] keeps a search's measurements on disk, so that it can resume.
//! The caller boots, as everywhere in this crate.

mod build;
pub mod exact;
mod git;
mod image;
mod memory;
pub mod one_boot;
mod ratios;
mod search;
mod steps;

pub use build::{BuildError, Builder, Built, tidy};
pub use git::{Commit, GitError, Repo, Worktree};
pub use memory::{COMMIT, Failed, IMAGE, Memory, MemoryError, SEARCH, SearchOf};
pub use ratios::{log_ratios, mean_ratio};
pub use search::{Answer, Found, Image, Measure, Search, Step, Verdict, run};
pub use steps::steps;
