//! What of the reference kernel can be understood, and tested, without a machine under it.
//!
//! The kernel is the binary of this package (`src/kernel/main.rs`, which reads as the table of contents of its boot).
//! This library holds its decisions as plain functions over plain data: no registers, no locks, no `unsafe`, no
//! allocation, no console. The kernel links it as it is; on a host it is ordinary Rust, and so are its tests.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// What the kernel prints last where no table says how the machine is switched off: it resets it, which ends a boot too.
pub const RESETS_INSTEAD: &str = "exit: no ACPI, so a reset";

pub mod calibrate;
pub mod calls;
pub mod cells;
pub mod cpio;
pub mod experiments;
pub mod frames;
pub mod keys;
pub mod memory_map;
pub mod memory_use;
pub mod order;
pub mod ownership;
pub mod places;
pub mod queue;
pub mod switches;
pub mod ticks;
pub mod verdict;
pub mod vmem;

#[cfg(test)]
#[path = "../build/interface.rs"]
mod interface;
