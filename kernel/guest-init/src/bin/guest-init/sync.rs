//! Sync points: the same moment on two clocks. The host joins its own clock, the guest's ticks, the trace's clock and
//! the kernel log's by them; each comes several times, because any single one may be disturbed.

use crate::arch::Port;
use crate::arch::port_io::tsc;
use crate::mounts::Mounts;
use guest_init::messages::{Message, SYNC_TEXT, SyncPlace};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// How often each is taken. The kernel takes ten lines from an open /dev/kmsg before it begins to drop them.
const TIMES: u32 = 4;

/// Ticks against the host's clock: it stamps the first byte of each line.
pub fn ticks(port: Port) {
    for _ in 0..TIMES {
        port.say(&Message::Tick { tsc: tsc() });
    }
}

/// Ticks against the kernel's clocks.
pub fn clock(port: Port) {
    for _ in 0..TIMES {
        let before = tsc();
        let monotonic = clock_gettime(ClockId::Monotonic);
        let boottime = clock_gettime(ClockId::Boottime);
        let after = tsc();
        port.say(&Message::Clock { before, after, monotonic_ns: ns(monotonic), boottime_ns: ns(boottime) });
    }
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ticks against the trace and the kernel log. Tracing is switched off behind the last mark, so that gathering does not
/// push the boot out of its buffer; only then is anything said, since a line takes longer than all the marks.
pub fn logs(port: Port, mounts: &Mounts) {
    let mut words = Vec::new();
    if let Some(tracing) = &mounts.tracing {
        let marked = mark(&tracing.join("trace_marker"), SyncPlace::Trace, "", &mut words);
        let off = open(&tracing.join("tracing_on")).and_then(|mut file| file.write_all(b"0"));
        for (what, result) in [("trace_marker", marked), ("tracing_on", off)] {
            result.unwrap_or_else(|e| port.lack(what, e));
        }
    }
    // Level 7, debug: it reaches no console unless the user asked for everything.
    let marked = mark(&mounts.kmsg, SyncPlace::Kmsg, "<7>", &mut words);
    marked.unwrap_or_else(|e| port.lack("kmsg", e));
    words.iter().for_each(|word| port.say(word));
    clock(port);
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

fn mark(path: &Path, place: SyncPlace, prefix: &str, words: &mut Vec<Message>) -> io::Result<()> {
    let mut file = open(path)?;
    for seq in 1..=TIMES {
        let line = format!("{prefix}{SYNC_TEXT} {seq}\n");
        let before = tsc();
        file.write_all(line.as_bytes())?;
        let after = tsc();
        words.push(Message::Sync { place, before, after, seq });
    }
    Ok(())
}
