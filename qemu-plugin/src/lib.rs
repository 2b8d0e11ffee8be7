//! A QEMU plugin that records the first execution of each block of guest code, and on request every call.
//!
//! QEMU translates a block of guest code right before it runs it for the first time. The first-execution trace uses
//! only the translation callback. This callback costs nothing once code is translated, needs nothing in the guest, and
//! works from the reset vector on. It does not name the vCPU. So if several threads run vCPUs, the first block of each
//! thread gets a callback that reports the vCPU once. That callback costs a call each time the block runs.
//!
//! The first executions of a boot show its regions (firmware, decompressor, kernel, …). They also show the length of
//! the first call of each call site: the block that ends in the call and the block at its return address both run for
//! the first time. To follow calls, the plugin also requests a callback at each run of a block. It requests another at
//! the memory access or the `hlt` that ends some blocks.
//!
//! The first-execution trace allocates nothing after the plugin is installed. Following calls allocates when a block is
//! translated for the first time; that memory is kept. It also allocates for a stack that is new or deeper than ever
//! (`calls::stacks`). Everything else fills tables reserved at the start. All memory has limits that no guest can
//! exceed.
//!
//! With `exits`, it also counts the accesses that leave the guest, by their instructions. This requests a callback at
//! each access to memory.
//!
//! Under `-icount`, it also records when the guest waited for its clock, with `timed_waits`.
//!
//! `plugin` has QEMU's callbacks, `waiting` those at halts and at reads of clocks, `follower` those that follow calls,
//! `exit_counter` those that count accesses, and `api` QEMU's interface. `recorder` makes the first-execution trace, with `known_blocks` (the set of recorded blocks), `ending` (a block's last instruction) and
//! `encode` (the buffer). `calls` follows calls, `exits` counts accesses. The crate `plugin_formats` has the files' formats. QEMU's
//! pointers, its end (`exclusion`), clocks and reserved memory need `unsafe`; nothing else may use it. Its soundness
//! never depends on the guest.

#![deny(unsafe_code)]

pub mod arch;
pub mod calls;
pub mod encode;
pub mod ending;
pub mod exclusion;
pub mod exits;
pub mod known_blocks;
pub mod recorder;
pub mod timed_waits;

// Not in the test program and not in the fuzzer, which run without QEMU and its functions.
#[cfg(all(feature = "qemu", not(test)))]
mod api;
#[cfg(all(feature = "qemu", not(test)))]
mod exit_counter;
#[cfg(all(feature = "qemu", not(test)))]
mod follower;
#[cfg(all(feature = "qemu", not(test)))]
mod plugin;
#[cfg(all(feature = "qemu", not(test)))]
mod waiting;
