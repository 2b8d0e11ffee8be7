//! The lab: a small kernel that boots in QEMU, with the recorder inside from the first line of `kmain`.
//!
//! Read `kmain`, then `hammer_time`, then `mi_startup` in `sysinit.rs`: that is the boot. After them it goes on in
//! `init.rs`. Every slow spot is chosen on the command line (`src/switches.rs`); without any, all of it is quick.
//!
//! Threads are cooperative: one gives up its CPU where it waits, and nowhere else (but see `preempt.rs`). Virtual addresses are physical ones,
//! but for what `paging.rs` says.

#![no_std]
#![no_main]
// A binary's items are nobody's interface.
#![allow(missing_docs)]
#![cfg_attr(
    not(feature = "tslog"),
    allow(dead_code, unused_variables, clippy::single_match, reason = "what only the log uses")
)]

extern crate alloc;

use lab::switches::Kind;

mod acpi_tables;
mod announce;
mod answer;
mod apic;
mod ata;
mod atkbdc;
mod boot;
mod cache;
mod calls;
mod cam;
mod chain;
mod chatty;
mod checks;
mod clock;
mod console;
mod contexts;
mod cpu;
mod descriptors;
mod device;
mod em;
mod ena;
mod entry;
mod events;
mod exit;
mod framebuffer;
mod geli;
mod heap;
mod hold;
mod hpt;
mod init;
mod intrhook;
mod isa;
mod kthread;
mod lock;
mod mem;
mod memory;
mod nexus;
mod nvme;
mod paging;
mod panic;
mod pci;
mod phys;
mod pit;
mod preempt;
mod probe_read;
mod recorder;
mod registers;
mod sampling;
mod sched_cost;
mod script;
mod services;
mod shootdown;
mod signal_check;
mod smp;
mod syscall;
mod sysinit;
mod thread;
mod tlb_check;
mod trap;
mod uart;
mod usb;
mod vfs;
mod vm_page;
mod vmem;
mod wait;

/// Where `pvh_entry` calls: the boot's table of contents.
#[unsafe(no_mangle)]
extern "sysv64" fn kmain(start_info: u64) -> ! {
    recorder::start(); // the log, before anything that could be slow
    hammer_time(start_info); // this machine
    sysinit::mi_startup(); // everything that a SYSINIT declares; the last ones make init a thread
    thread::idle_for_ever() // thread0 has nothing left to do
}

/// What depends on the machine and comes before everything else.
#[inline(never)]
fn hammer_time(start_info: u64) {
    let _scope = tslog::scope!("hammer_time");
    uart::start(); // somewhere to print
    boot::take(start_info); // command line, memory map, initrd
    pit::start(); // a clock, so that DELAY works: also where a script asks for one at this stage
    script::at(Kind::Stage, "pit");
    stage("descriptors", descriptors::load); // segments, and stacks for interrupts
    stage("trap", trap::load); // from here on a fault is a panic, not a triple fault
    stage("memory", memory::find); // what is free
    sampling::start(); // from here on samples are taken, if there are to be any
    stage("paging", paging::start); // page tables of our own
    stage("vmem", vmem::start); // addresses to map something at
    stage("heap", heap::start); // now `alloc` works
    stage("syscall", syscall::start); // how user processes call
    stage("thread", thread::start); // this is thread0
    stage("keyboard", atkbdc::reset_early); // for a debugger that would want one
    boot::report();
}

fn stage(name: &'static str, step: fn()) {
    script::at(Kind::Stage, name);
    step();
}
