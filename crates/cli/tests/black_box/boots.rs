//! Boots of whole kernels: what is recorded of them, and how they are told to boot.

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
