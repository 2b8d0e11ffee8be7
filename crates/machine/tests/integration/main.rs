//! The recorder without the command line: small guests of the tests' own, in each VMM.

mod cloud_hypervisor;
mod common;
mod firecracker;
mod kernels;
mod memory;
mod sectors;
mod silent_boards;
