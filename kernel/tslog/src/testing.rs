//! Helpers that the unit tests of this crate share.

use crate::log::Log;
use crate::name::Name;
use crate::record::{Entry, Kind};

/// A record of thread 16.
pub fn entry(ticks: u64, kind: Kind, name: &'static str) -> Entry {
    Entry { ticks, thread: 16, kind, name: Name::from(name), detail: Name::NONE }
}

/// A copy of the log's memory. No thread may write into the log meanwhile.
pub fn bytes_of(log: Log) -> Vec<u8> {
    // SAFETY: a region has `log.bytes()` initialised bytes, and no thread writes into it now.
    unsafe { core::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) }.to_vec()
}

/// Writes a record whose names are literals, or in memory that is never freed.
pub fn write(log: Log, entry: &Entry) {
    // SAFETY: the names are such, in all tests.
    unsafe { log.write(entry.to_words()) };
}
