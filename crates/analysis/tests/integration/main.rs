//! The boot path, its tables, who held up whom, and what-if: against models that take no short cut.

mod common;
#[path = "../../../../tests/cpu.rs"]
mod cpu;
mod holds;
mod one_cpu;
mod path;
mod tables;
mod what_if;
