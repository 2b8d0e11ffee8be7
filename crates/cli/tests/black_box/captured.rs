//! The boot of the machine that one is on.

mod capture;
mod capture_container;
