//! Boots of whole kernels: their recordings, and the options to boot them.

mod async_waits;
mod growth;
mod initcalls;
mod kernels;
mod like;
mod login;
mod other_guests;
mod overhead;
mod patch;
mod record;
mod root;
mod sampled;
mod second_kernel;
mod serial_boards;
mod u_boot;
mod uefi;
