//! A sampling profiler for kernels: takes samples in a non-maskable interrupt, and writes them as text later.
//!
//! A kernel has interrupts off almost everywhere, so a timer's ordinary interrupt samples little of it. A non-maskable
//! interrupt (NMI) samples all of it. Its handler calls [`Cpu::sample`]. That walks the interrupted stack by frame pointers
//! ([`walk`]) and puts the addresses into this CPU's ring ([`Ring`]). Nothing waits, allocates or takes a lock. Samples that
//! find no room are counted. Another CPU, or the same one later, drains the ring and writes it as text in the form of
//! `perf script` ([`text`]).
//!
//! ```
//! use sampler::{Cpu, Interrupted, Moment, Stack, Stacks};
//! use std::sync::atomic::AtomicU64;
//!
//! struct Kernel;
//! impl Stacks for Kernel {
//!     fn stack_of(&self, address: u64) -> Option<Stack> {
//!         (0x1000..0x9000).contains(&address).then_some(Stack { range: 0x1000..0x9000, is_interrupts: false })
//!     }
//!     fn word(&self, _address: u64) -> u64 { 0 } // reads memory in a stack that `stack_of` returned
//! }
//!
//! let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
//! let cpu = Cpu::new(&words);
//! // In the NMI's handler:
//! let at = Interrupted { ip: 0x40_0000, stack_pointer: 0x8000, frame_pointer: 0x8010, is_user: false };
//! cpu.sample(&Kernel, &at, Moment { ticks: 17, thread: 3 });
//! // Later, anywhere:
//! cpu.drain(|sample| assert_eq!(sample.frames[0], 0x40_0000));
//! assert_eq!(cpu.lost(), 0);
//! ```
//!
//! The kernel sends the NMIs, has an entry that saves registers on a separate stack, and is built with frame pointers
//! (`-C force-frame-pointers=yes`).
//!
//! The method is that of Redox's kernel profiler (Lorentzon, *Significant performance and correctness improvements to
//! the kernel*, 2024).

#![no_std]
#![forbid(unsafe_code)]

mod cpu;
mod ring;
pub mod text;
pub mod walk;

pub use cpu::{Cpu, Moment, Outcome};
pub use ring::{FRAMES_MAX, Ring, Sample};
pub use walk::{End, Interrupted, Stack, Stacks};
