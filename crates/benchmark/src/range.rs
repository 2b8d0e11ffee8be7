//! A range of commits: what each costs, and which is the first that is slow.
//!
//! [`Search`] decides what to measure next and when it is enough, and touches nothing; [`Repo`] and [`Builder`] bring
//! kernels of commits about, in a work tree of their own. Boots are the caller's, as everywhere in this crate.

mod build;
mod git;
mod search;
mod steps;

pub use build::{BuildError, Builder, Built, tidy};
pub use git::{Commit, GitError, Repo, Worktree};
pub use search::{Answer, Found, Measure, Search, Step, Verdict, run};
pub use steps::steps;
