//! Boots a machine in a VMM, watches it, and transfers its evidence into a recording.
//!
//! [`record`] takes options and returns a finished recording and an outcome. Time zero is taken just before the VMM is executed. A thread
//! that does nothing else stamps everything that the machine prints on arrival. An [`Outcome`](recording::Outcome) says how the boot ended:
//! at its end mark, or by a panic, a reset, a hang, a timeout, or the end of the VMM. An [`Error`] means that no recording could be made.
//!
//! This crate reads the guest's output only as far as watching needs it: guest-init's messages, the line of a panic, the line of the end
//! mark. It does not interpret the evidence. It never writes the user's files, and no VMM outlives its recorder.

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod accel;
mod arch;
mod awaited;
mod check;
mod child;
mod choose;
mod clock;
mod cpu_time;
pub mod debug_info;
mod ending;
mod error;
mod file_head;
pub mod foreign;
mod functions;
pub mod gdb;
mod guest_channel;
mod guest_profiles;
mod hang;
mod hash;
mod host;
mod image;
pub mod initrd;
mod kernel_file;
pub mod kernel_image;
mod kernel_line;
mod lab;
mod library;
mod lines;
mod logged_units;
mod memo;
pub mod memory;
mod modules;
mod observe;
mod option_table;
mod options;
mod packed;
mod physical_memory;
pub mod pin;
mod plain_boot;
mod plain_machine;
mod profile;
mod record;
mod refusal;
mod root;
mod stops;
mod symbols;
mod tracers;
mod transfer;
mod vmm;
mod vmm_line;
mod watch;

pub use choose::{choose_arch, usual_program};
pub use clock::monotonic_ns;
pub use error::Error;
pub use lab::lab;
pub use library::{capture_program, lake_program};
pub use observe::{Observer, Progress, Silent, Stage, stop_on_signals};
pub use options::RecordOptions;
pub use plain_boot::time_plain;
pub use plain_machine::{Given, fit_machine};
pub use record::{Recorded, check_patches, foresee, record};
pub use recording::{
    Accel, Board, Field, GuestSpec, Init, ObserveSpec, Patch, Setting, SymbolFile, Target, Then, Until, VmmKind,
    Watched,
};
pub use refusal::{Refusal, Text, Words};
pub use vmm::qemu::{MtreeError, ram_extents};
