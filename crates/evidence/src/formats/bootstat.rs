//! Chrome OS's `bootstat`: the time of each named event of a boot.
//!
//! ```text
//! /tmp/uptime-chrome-exec     3.41 2.27      /proc/uptime at the event: seconds since the kernel began, seconds that CPUs idled
//!                             4.67 4.71      the same event again
//! /tmp/disk-chrome-exec       65 0 16392 …   /sys/block/DISK/stat at the event
//! /tmp/uptime-chrome-exec:3.41 2.27          `grep . /tmp/uptime-*`
//! ```
//! (Chromium OS, platform2, `bootstat/bootstat_log.c`.) In a tar, the name of a file contains the event's name. Each
//! event becomes a mark. The files with a disk's counters are counted, not used: the timeline has no amounts.

use crate::input::text::{Lines, lossy, seconds, shorten, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The name of this evidence in diagnostics, and of its track.
pub(crate) const NAME: &str = "bootstat";
/// The resolution of `/proc/uptime`.
pub(crate) const TICK: Ns = Ns::from_ms(10);
/// The event at which Chrome OS shows its login prompt.
pub(crate) const LOGIN: &str = "login-prompt-visible";
/// The program cuts longer names.
const NAME_BYTES_MAX: usize = 64;
/// A thousand times the number of events that Chrome OS logs.
const EVENTS_MAX: usize = 1 << 16;

/// An event of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub name: String,
    /// Its time on the kernel's clock.
    pub at: Ns,
}

/// Reads `3.41 2.27`.
fn uptime(line: &[u8]) -> Option<Ns> {
    let (ns, 2, rest) = seconds(line)? else { return None };
    let (_, 2, b"") = seconds(rest.strip_prefix(b" ")?)? else { return None };
    i64::try_from(ns).ok().map(Ns)
}

/// The event's name in `uptime-chrome-exec`, perhaps after folders.
fn event_of<'a>(path: &'a [u8], kind: &[u8]) -> Option<&'a [u8]> {
    let file = path.rsplit(|byte| matches!(byte, b'/' | b':')).next()?;
    file.strip_prefix(kind).filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)
}

/// Reads `/tmp/uptime-chrome-exec:3.41 2.27`.
pub(crate) fn named(line: &[u8]) -> Option<(&[u8], Ns)> {
    let colon = memchr::memrchr(b':', line)?;
    Some((event_of(&line[..colon], b"uptime-")?, uptime(&line[colon + 1..])?))
}

/// True for a disk's counters: eleven or more numbers.
fn is_disk(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.clone().count() >= 11 && words.all(|word| whole_number(word).is_some())
}

/// All events of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// The events, in the order in which they were read.
    pub events: Vec<Event>,
}

impl Events {
    fn add(&mut self, name: &[u8], at: Ns, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) {
        if self.events.len() == EVENTS_MAX {
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            return;
        }
        self.events.push(Event { name: shorten(&lossy(name)), at });
    }

    /// Adds the lines of `grep . /tmp/uptime-*`; other lines are skipped.
    pub(crate) fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        for line in Lines::new(bytes) {
            if let Some((name, at)) = named(line.bytes.trim_ascii_end()) {
                self.add(name, at, diagnostics, || format!("{file}:{}", line.number));
            }
        }
    }

    /// Takes a file that is recognised by its name. Returns true if it is one of bootstat's.
    pub(crate) fn take(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> bool {
        let lines = || Lines::new(bytes).filter(|line| !line.bytes.is_empty());
        if event_of(file.as_bytes(), b"disk-").is_some() && lines().next().is_some_and(|line| is_disk(line.bytes)) {
            diagnostics.note_about(DiagnosticKind::ReadingsUnused, "disks", || file.to_owned());
            return true;
        }
        let Some(name) = event_of(file.as_bytes(), b"uptime-") else { return false };
        if lines().next().is_none_or(|line| uptime(line.bytes).is_none()) {
            return false;
        }
        for line in lines() {
            let place = || format!("{file}:{}", line.number);
            match uptime(line.bytes) {
                Some(at) => self.add(name, at, diagnostics, place),
                None => diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_files_are_recognised_or_refused() {
        assert_eq!(named(b"/tmp/uptime-a:b:1.00 2.00"), None);
        assert_eq!(named(b"x.tar:tmp/uptime-a:1.05 2.00"), Some((&b"a"[..], Ns::from_ms(1_050))));
        for other in ["uptime-:1.00 2.00", "uptime-a:1.0 2.00", "uptime-a:1.00 2.00 3", "up:1.00 2.00", "uptime-a:"] {
            assert_eq!(named(other.as_bytes()), None, "{other}");
        }
        let (mut events, mut diagnostics) = (Events::default(), Diagnostics::default());
        assert!(events.take("a/uptime-x\x1b", b"1.00 2.00\nrubbish\n3.00 4.00\n", &mut diagnostics));
        assert!(!events.take("a/uptime-x", b"hello\n", &mut diagnostics));
        assert!(!events.take("a/disk-x", b"1 2 3\n", &mut diagnostics));
        assert_eq!((events.events.len(), diagnostics.count(DiagnosticKind::LinesUnreadable)), (2, 1));
    }
}
