//! Captures of the boot of a running machine.

mod capture;
mod capture_container;
