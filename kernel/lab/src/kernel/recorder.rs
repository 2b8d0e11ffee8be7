//! The recorder, as this kernel embeds it: which thread runs, and the first line of `kmain`.
//!
//! Hooks are `tslog`'s own macros wherever they stand: `sysinit.rs` (the shim around each SYSINIT), `device_if.m` by way
//! of `build/interface.rs` (probe and attach), `vfs.rs`, `clock.rs` (`DELAY`), `console.rs` (`_vprintf`), `thread.rs`
//! (creation), `hold.rs` (waits and holds). Without the feature `tslog` all of them are nothing.

use crate::{cpu, thread};

tslog::kernel!(thread = cpu::thread_id);

/// What runs is thread0, from the first instruction on. Starts the log: 262 144 records and 64 KiB of copied names in
/// .bss. Names are where they were linked, or in the heap.
pub fn start() {
    cpu::this().thread_id.set(thread::id_of(0));
    tslog::start!();
    tslog::thread!(thread::id_of(0), "thread0");
    // All memory is mapped onto itself, but for stacks, which hold no names.
    tslog::add_range(0, 0, 1 << 40);
}
