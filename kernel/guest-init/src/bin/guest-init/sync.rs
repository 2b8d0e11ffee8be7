//! Sync points: the same moment on two clocks. With them, the host joins its own clock, the guest's ticks, the trace's
//! clock and the kernel log's clock. Each is taken several times, because any single one may be disturbed.

use crate::arch::Port;
use crate::arch::port_io::tsc;
use crate::mounts::Mounts;
use guest_init::messages::{Message, SYNC_TEXT, SyncPlace};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The number of times that each is taken. The kernel accepts ten lines from an open /dev/kmsg before it begins to drop
/// them.
const SYNC_POINTS: u32 = 4;

/// Takes ticks against the host's clock, which stamps the first byte of each line.
pub fn ticks(port: Port) {
    for _ in 0..SYNC_POINTS {
        port.send_message(&Message::Tick { tsc: tsc() });
    }
}

/// Takes ticks against the kernel's clocks.
pub fn clock(port: Port) {
    for _ in 0..SYNC_POINTS {
        let before = tsc();
        let monotonic = clock_gettime(ClockId::Monotonic);
        let boottime = clock_gettime(ClockId::Boottime);
        let after = tsc();
        port.send_message(&Message::Clock { before, after, monotonic_ns: ns(monotonic), boottime_ns: ns(boottime) });
    }
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Takes ticks against the trace and the kernel log. Tracing is switched off after the last mark, so that gathering
/// does not push the boot out of the trace buffer. Messages are sent only then, because a line takes longer than all
/// the marks.
pub fn logs(port: Port, mounts: &Mounts) {
    let mut messages = Vec::new();
    if let Some(tracing) = &mounts.tracing {
        let marked = mark(&tracing.join("trace_marker"), SyncPlace::Trace, "", &mut messages);
        let off = open(&tracing.join("tracing_on")).and_then(|mut file| file.write_all(b"0"));
        for (what, result) in [("trace_marker", marked), ("tracing_on", off)] {
            result.unwrap_or_else(|e| port.report_lack(what, e));
        }
    }
    // Level 7, debug: it reaches no console unless the user enabled all levels.
    let marked = mark(&mounts.kmsg, SyncPlace::Kmsg, "<7>", &mut messages);
    marked.unwrap_or_else(|e| port.report_lack("kmsg", e));
    messages.iter().for_each(|message| port.send_message(message));
    clock(port);
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

fn mark(path: &Path, place: SyncPlace, prefix: &str, messages: &mut Vec<Message>) -> io::Result<()> {
    let mut file = open(path)?;
    for seq in 1..=SYNC_POINTS {
        let line = format!("{prefix}{SYNC_TEXT} {seq}\n");
        let before = tsc();
        file.write_all(line.as_bytes())?;
        let after = tsc();
        messages.push(Message::Sync { place, before, after, seq });
    }
    Ok(())
}
