//! Reads a data directory of uftrace: every call of a program's own functions, by thread.
//!
//! ```text
//! 19674.dat       calls of thread 19674: 16-byte records, a stamp and a word
//!                 (type 2 bits, more 1, mark 3, depth 10, address 48)
//! sid-….map       where a program and its libraries were mapped, as /proc/PID/maps has it
//! t.sym           functions of t: address in the file, type, name
//! task.txt        SESS timestamp=1.5 pid=7 sid=… exename="/sbin/init"      FORK timestamp=1.6 pid=8 ppid=7
//! info            about the traced program and machine
//! ```
//! (uftrace, `doc/uftrace-data.md` and `utils/…`, version 0.13.) The directory is imported as an archive (`tar czf`).
//! Stamps are `CLOCK_MONOTONIC`, which the kernel's own clock follows. Arguments behind a record have no length: the
//! reader skips to the next word that can begin a record. Addresses of all sessions are looked up in the first map that
//! has the address.

pub(crate) mod calls;
pub(crate) mod names;

use timeline::{Diagnostics, Ns};

/// The format's name in diagnostics.
pub(crate) const NAME: &str = "uftrace";
/// The bytes that an entered function takes on the timeline, and those of a new name. A function's exit takes none.
pub(crate) const ENTRY_COST: usize = 190;
pub(crate) const NAME_COST: usize = 120;

/// Returns the time of each entry and exit in a thread's file. Bytes that are not a record are counted.
pub fn stamps(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Ns> {
    let mut calls = calls::Calls::of(bytes);
    let stamps = calls.by_ref().map(|call| call.at).collect();
    calls.count_unreadable(file, diagnostics);
    stamps
}
