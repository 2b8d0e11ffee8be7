//! The lab: a small kernel that boots in QEMU, with the recorder inside from the first line of `kmain`.
//!
//! To read the boot, read `kmain`, then `hammer_time`, then `mi_startup` in `sysinit.rs`, then `init.rs`. The command line
//! chooses every slow part (`src/switches.rs`). With an empty command line every part is quick.
//!
//! Threads are cooperative: a thread gives up its CPU only where it waits (except as in `preempt.rs`). Virtual addresses equal
//! physical ones, with the exceptions in `paging.rs`.

#![no_std]
#![no_main]
// The items of a binary are not an interface.
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

/// The first Rust function, which `pvh_entry` calls. It is the boot's table of contents.
#[unsafe(no_mangle)]
extern "sysv64" fn kmain(start_info: u64) -> ! {
    recorder::start(); // the log, before anything that could be slow
    hammer_time(start_info); // this machine
    sysinit::mi_startup(); // all SYSINITs; the last ones create the thread init
    thread::idle_for_ever() // thread0 has no more work
}

/// The machine-dependent part, which comes before everything else.
#[inline(never)]
fn hammer_time(start_info: u64) {
    let _scope = tslog::scope!("hammer_time");
    uart::start(); // a port to print on
    boot::take(start_info); // command line, memory map, initrd
    pit::start(); // a clock, so that DELAY works, also for a scripted delay at this stage
    script::at(Kind::Stage, "pit");
    stage("descriptors", descriptors::load); // segments, and stacks for interrupts
    stage("trap", trap::load); // from here on a fault is a panic, not a triple fault
    stage("memory", memory::find); // the free memory
    sampling::start(); // from here on the CPU is sampled, if the command line asks for it
    stage("paging", paging::start); // the kernel's page tables
    stage("vmem", vmem::start); // addresses for mappings
    stage("heap", heap::start); // now `alloc` works
    stage("syscall", syscall::start); // the entry of system calls
    stage("thread", thread::start); // this is thread0
    stage("keyboard", atkbdc::reset_early); // for a debugger that needs a keyboard
    boot::report();
}

fn stage(name: &'static str, step: fn()) {
    script::at(Kind::Stage, name);
    step();
}
