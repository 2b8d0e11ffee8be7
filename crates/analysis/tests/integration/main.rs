//! Tests of the boot path, its tables, its holds and what-if savings, against models that take no shortcuts.

mod common;
#[path = "../../../../tests/cpu.rs"]
mod cpu;
mod holds;
mod one_cpu;
mod path;
mod priced;
mod tables;
mod what_if;
