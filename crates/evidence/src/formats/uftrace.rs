//! A data directory of uftrace's: every call of a program's own functions, by thread.
//!
//! ```text
//! 19674.dat       calls of thread 19674: records of 16 bytes, a stamp and a word (type 2 bits, more 1, mark 3, depth 10, address 48)
//! sid-….map       where a program and its libraries were mapped, as /proc/PID/maps has it
//! t.sym           functions of t: address in the file, type, name
//! task.txt        SESS timestamp=1.5 pid=7 sid=… exename="/sbin/init"      FORK timestamp=1.6 pid=8 ppid=7
//! info            what it is of
//! ```
//! (uftrace, `doc/uftrace-data.md` and `utils/…`, version 0.13.) A directory is imported as an archive (`tar czf`). Stamps are
//! `CLOCK_MONOTONIC`, which the kernel's own clock follows. Arguments behind a record have no length: they are passed over up to
//! the next word that can begin a record. Sessions' own libraries are all looked up in the first map that has the address.

pub(crate) mod calls;
pub(crate) mod names;

use timeline::{Diagnostics, Ns};

/// What views call it.
pub(crate) const NAME: &str = "uftrace";
/// What an entered function takes in memory on the timeline, and its name if it is new; that it is left takes nothing.
pub(crate) const ENTRY_COST: usize = 100;
pub(crate) const NAME_COST: usize = 120;

/// When each entry and exit in a thread's file was. What is no record is counted.
pub fn stamps(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Ns> {
    calls::all(bytes, file, diagnostics).into_iter().map(|call| call.at).collect()
}
