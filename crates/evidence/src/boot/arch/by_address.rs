//! Finds the stages of a boot by addresses alone, on architectures whose code is not decoded.
//!
//! The firmware lasts until the kernel runs at its own addresses. Where the kernel was entered before that is not known. Code that is not
//! recognised is left out, never guessed.

use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::FirstExecutions;
use std::ops::RangeBounds;

/// The kernel: the first block among its addresses.
pub(super) fn kernel(run: &FirstExecutions, addresses: impl RangeBounds<u64>, why: &str) -> Vec<Region> {
    let first = run.blocks.iter().find(|block| addresses.contains(&block.address));
    first.map(|block| Region::of(Stage::EarlyKernel, &block, why)).into_iter().collect()
}
