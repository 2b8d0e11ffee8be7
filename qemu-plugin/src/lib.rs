//! A QEMU plugin that notes when each piece of guest code ran for the first time.
//!
//! QEMU translates a block of guest code right before it runs it for the first time. For first runs this plugin asks for
//! the translation callback: it costs nothing once code is translated, needs nothing in the guest, and works from the
//! reset vector on. It does not say which vCPU it is for. So where several threads run them, the first block of each
//! thread gets a callback that says so, once, and costs a call each time that block runs.
//!
//! From a boot's first runs follow the regions (firmware, decompressor, kernel, …), and for each call site how long its
//! first call took: the block that ends in the call, and the block at its return address, both run for the first time.
//! Where calls are followed it also asks for a callback at each run of a block, and at the memory access or the `hlt` that
//! ends some blocks.
//!
//! First runs allocate nothing once the plugin is installed. Followed calls allocate when a block is translated for the
//! first time, which they keep for good, and where a stack is new or becomes deeper than ever (`calls::stacks`). Otherwise they only fill
//! tables whose room was reserved at the start. All of it has limits that no guest can pass.
//!
//! `plugin` is what QEMU calls, `follower` its callbacks of followed calls, and `api` what it offers. `recorder` keeps the
//! first runs, with `seen` (which blocks are known), `ending` (how a block ends) and `encode` (the buffer). `calls` follows
//! calls. The formats of both files are in the crate `plugin_formats`. What QEMU hands over, its end (`exclusion`), clocks and reserved
//! memory need `unsafe`; nothing else may have any. None of it rests on what a guest does.

#![deny(unsafe_code)]

pub mod arch;
pub mod calls;
pub mod encode;
pub mod ending;
pub mod exclusion;
pub mod recorder;
pub mod seen;

// Not in the test program and not in the fuzzer, which have no QEMU around them to find the interface's functions in.
#[cfg(all(feature = "qemu", not(test)))]
mod api;
#[cfg(all(feature = "qemu", not(test)))]
mod follower;
#[cfg(all(feature = "qemu", not(test)))]
mod plugin;
