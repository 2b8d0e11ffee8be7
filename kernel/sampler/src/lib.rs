//! A sampling profiler for kernels: what to do in a non-maskable interrupt, and how to read it afterwards.
//!
//! A kernel has interrupts off almost everywhere, so a timer's ordinary interrupt sees little of it. A non-maskable one
//! (NMI) sees all. Its handler calls [`Cpu::sample`], which walks the interrupted stack by frame pointers ([`walk`]) and
//! puts what it found into this CPU's ring ([`Ring`]). Nothing waits, allocates or takes a lock. What finds no room is
//! counted. Another CPU, or the same one later, drains the ring and writes it as text that `perf script` users know
//! ([`text`]).
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
//!     fn word(&self, _address: u64) -> u64 { 0 } // reads memory that `stack_of` vouched for
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
//! What it leaves to the kernel: sending the NMIs, an entry that saves registers on a stack of its own, and building with
//! frame pointers (`-C force-frame-pointers=yes`).
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
