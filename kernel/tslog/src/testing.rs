//! What the tests of this crate share.

use crate::log::Log;
use crate::name::Name;
use crate::record::{Entry, Kind};

/// A record of thread 16.
pub fn entry(ticks: u64, kind: Kind, name: &'static str) -> Entry {
    Entry { ticks, thread: 16, kind, name: Name::from(name), detail: Name::NONE }
}

/// What a copy of the log's memory has in it. Nobody writes while it is made.
pub fn bytes_of(log: Log) -> Vec<u8> {
    // SAFETY: a region is that long, initialised, and not written now.
    unsafe { core::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) }.to_vec()
}

/// Writes into a log whose names are literals, or in memory that is never freed.
pub fn write(log: Log, entry: &Entry) {
    // SAFETY: they are, in all tests.
    unsafe { log.write(entry.to_words()) };
}
