//! The decisions of the reference kernel, which can be tested without its machine.
//!
//! The kernel is the binary of this package (`src/kernel/main.rs`, which reads as the table of contents of its boot). This
//! library holds the kernel's decisions as plain functions over plain data. It must not use registers, locks, `unsafe`,
//! allocation or a console. The kernel links it unchanged; on a host it is ordinary Rust with ordinary tests.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// The kernel's last line if no ACPI table says how to switch the machine off. It resets the machine instead, which also ends
/// the boot.
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
