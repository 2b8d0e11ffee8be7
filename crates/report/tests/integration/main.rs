//! The views of boots and benches, compared with expected output.

mod bench;
mod exports;
mod first_screen;
mod metrics;
mod page;
mod sample;
mod terminal;
