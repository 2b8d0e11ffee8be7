//! FreeBSD's boottrace(4): a table of events, each with its time.
//!
//! ```text
//!  CPU      msecs      delta process                  event                                      PID CPUtime IBlks OBlks
//!    0   44872811          0 kernel                   sysinit 0x2100001                            0    0.00     0     0
//!    1   44875861         12 init                     multi-user start                             1    0.20    14     2
//! ```
//! (sys/kern/kern_boottrace.c, `sysctl -n kern.boottrace.log`.) Milliseconds count from the start of the machine's clock, long before
//! the first event. The columns of a process and of an event are cut to their width.

use crate::input::text::{Lines, lossy, number, skip_spaces, word};
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The name of this evidence in diagnostics.
pub(crate) const NAME: &str = "boottrace";
/// Words of init(8) when it starts what serves users.
pub(crate) const MULTI_USER: &str = "multi-user start";
/// The table of a kernel has at most some thousand entries.
const EVENTS_MAX: usize = 1 << 16;

/// An event of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Since the first event.
    pub at: Ns,
    pub process: String,
    pub name: String,
    pub pid: u64,
}

/// The columns' names.
fn is_header(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    [&b"CPU"[..], b"msecs", b"delta", b"process", b"event"].iter().all(|column| words.next() == Some(*column))
}

/// The process, the event and the numbers behind them.
fn row(line: &[u8]) -> Option<(u64, &[u8], &[u8], u64)> {
    let (_, rest) = number(skip_spaces(line))?;
    let (ms, rest) = number(skip_spaces(rest.strip_prefix(b" ")?))?;
    let (_, rest) = number(skip_spaces(rest.strip_prefix(b" ")?))?;
    let (process, rest) = word(skip_spaces(rest.strip_prefix(b" ")?));
    // Behind the event: PID, CPU time, and blocks read and written.
    let mut rest = skip_spaces(rest).trim_ascii_end();
    let mut pid = &b""[..];
    for _ in 0..4 {
        let at = memchr::memrchr(b' ', rest)?;
        pid = &rest[at + 1..];
        rest = rest[..at].trim_ascii_end();
    }
    let (pid, b"") = number(pid)? else { return None };
    (!rest.is_empty()).then_some((ms, process, rest, pid))
}

/// The events of one boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub events: Vec<Event>,
    began_ms: u64,
}

impl Events {
    /// Takes the table out of a file. Returns the number of rows, and the lines of the table.
    pub(crate) fn take(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> (u64, Range<usize>) {
        let (mut rows, mut table) = (0, 0..0);
        for line in Lines::new(bytes) {
            if rows == 0 && table.is_empty() {
                if is_header(line.bytes) {
                    table = line.offset..line.offset + line.bytes.len();
                }
                continue;
            }
            let place = || format!("{file}:{}", line.number);
            let Some((ms, process, name, pid)) = row(line.bytes) else {
                if table.end + 2 >= line.offset && !line.bytes.trim_ascii().is_empty() && !is_header(line.bytes) {
                    diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
                }
                continue;
            };
            rows += 1;
            table.end = line.offset + line.bytes.len();
            if self.events.len() >= EVENTS_MAX {
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                continue;
            }
            if self.events.is_empty() {
                self.began_ms = ms;
            }
            let since = i64::try_from(ms.saturating_sub(self.began_ms)).unwrap_or(i64::MAX / 1_000_000);
            let last = self.events.last().map_or(Ns::ZERO, |last| last.at);
            let at = Ns(since.saturating_mul(1_000_000));
            if at < last {
                diagnostics.note(DiagnosticKind::ClockBack, place);
            }
            let (process, name) = (lossy(process).into_owned(), lossy(name).into_owned());
            self.events.push(Event { at: at.max(last), process, name, pid });
        }
        (rows, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_an_event_of_several_words() {
        let line = b"   1   27561333        129 init                     init(8) starting...                          1    0.00     4     0";
        assert_eq!(row(line), Some((27_561_333, &b"init"[..], &b"init(8) starting..."[..], 1)));
        for line in [&b""[..], b"1 2 3", b"1 2 3 init x 1 0.0 4", b"1 2 3 init x y z w v"] {
            assert_eq!(row(line), None);
        }
    }

    #[test]
    fn a_table_is_taken_out_of_a_log() {
        let text = b"# sysctl kern.boottrace.log\n CPU      msecs      delta process event PID CPUtime IBlks OBlks\n\
            0 500 0 kernel sysinit 0x1 0 0.00 0 0\n0 503 3 kernel mountroot 0 0.00 0 0\ncut 1\n0 502 0 init up 1 0.00 0 0\nlogin:\n";
        let mut diagnostics = Diagnostics::default();
        let mut events = Events::default();
        let (rows, table) = events.take("a", text, &mut diagnostics);
        assert_eq!((rows, &text[table.end..]), (3, &b"\nlogin:\n"[..]));
        let found: Vec<_> = events.events.iter().map(|event| (event.at.0 / 1_000_000, event.name.as_str())).collect();
        assert_eq!(found, [(0, "sysinit 0x1"), (3, "mountroot"), (3, "up")]);
        let counts = [DiagnosticKind::LinesUnreadable, DiagnosticKind::ClockBack].map(|kind| diagnostics.count(kind));
        assert_eq!(counts, [2, 1]);
    }
}
