//! The recorder without the command line: small guests made by the tests, in each VMM.

mod cloud_hypervisor;
mod common;
mod firecracker;
mod kernels;
mod memory;
mod sectors;
mod silent_boards;
