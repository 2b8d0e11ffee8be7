//! The views of boots and benches, compared with what they were.

mod bench;
mod exports;
mod metrics;
mod page;
mod sample;
mod terminal;
