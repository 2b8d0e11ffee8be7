//! A QEMU plugin that notes when each piece of guest code ran for the first time.
//!
//! QEMU translates a block of guest code right before it runs it for the first time. This plugin asks for the
//! translation callback alone: it costs nothing once code is translated, needs nothing in the guest, and works from
//! the reset vector on. From a boot's first runs follow the regions (firmware, decompressor, kernel, …), and for each
//! call site how long its first call took: the block that ends in the call, and the block at its return address, both
//! run for the first time.
//!
//! `plugin` is what QEMU calls and `api` what it offers (the only modules with `unsafe` beside the clock in
//! `recorder`); `recorder` keeps the first runs, with `seen` (which blocks are known), `ending` (how a block ends) and
//! `encode` (the file). No memory is allocated once the plugin is installed.

pub mod arch;
pub mod beginning;
pub mod calls;
pub mod encode;
pub mod ending;
pub mod recorder;
pub mod seen;

// Not in the test program, which has no QEMU around it to find the interface's functions in.
#[cfg(not(test))]
mod api;
#[cfg(not(test))]
mod follower;
#[cfg(not(test))]
mod plugin;
