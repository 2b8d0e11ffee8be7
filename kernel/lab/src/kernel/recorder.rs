//! Embeds the recorder in this kernel: the running thread's id, and the start of the log in the first line of `kmain`.
//!
//! The hooks are `tslog`'s macros, in these places: `sysinit.rs` (the shim around each SYSINIT), `device_if.m` through
//! `build/interface.rs` (probe and attach), `vfs.rs`, `clock.rs` (`DELAY`), `console.rs` (`_vprintf`), `thread.rs`
//! (creation), `hold.rs` (waits and holds). Without the feature `tslog` all of them compile to nothing.

use crate::{cpu, thread};

tslog::kernel!(thread = cpu::thread_id);

/// Starts the log: 262 144 records and 64 KiB of copied names in .bss. The running code is thread0 from the first instruction
/// on. Names are at their linked addresses, or in the heap.
pub fn start() {
    cpu::this().thread_id.set(thread::id_of(0));
    tslog::start!();
    tslog::thread!(thread::id_of(0), "thread0");
    // All memory is identity mapped, except stacks, which hold no names.
    tslog::add_range(0, 0, 1 << 40);
}
