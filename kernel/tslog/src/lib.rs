#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]

pub mod counter;
mod global;
mod image;
pub mod layout;
mod log;
mod macros;
mod name;
mod record;
mod slots;
mod sync;
mod text;

#[cfg(test)]
mod testing;

pub use global::{Kernel, Scope, add_range, copy, log, rebase, set_ticks_hz, start, start_in, write_text};
#[cfg(feature = "on")]
#[doc(hidden)]
pub use global::{record, record_event_of, record_thread, source_of, write_for};
pub use image::{AddressRange, Head, Heads, Image, Place, Slot, SlotCounts, Wrong, find};
pub use log::{Counts, Log, Region};
pub use name::{NAME_BYTES_MAX, Name};
pub use record::{Entry, Kind};
pub use slots::Words;
pub use text::{Dump, write_image_text};
