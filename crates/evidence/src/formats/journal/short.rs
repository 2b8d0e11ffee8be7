//! The journal as `journalctl` prints it for people, with the kernel's clock or with a date ([`super::dated`]).
//!
//! ```text
//! [    5.123456] host systemd[1]: Started x.service - X.     -o short-monotonic: seconds of the clock that does not jump
//! Nov 24 13:58:21 host kernel: Linux version 6.1.0           -o short, which is what it prints unasked: whole seconds of the wall clock
//! -- Boot e7c77a60f35b4e7288600b4bbf632929 --                before each boot but the first; `-- Reboot --` until systemd 248
//! ```
//! (systemd's `src/shared/logs-show.c`, output_short.) With `--no-hostname` the host is missing. A message's further lines are indented.
//! It has no priorities and no message numbers: systemd's messages about units are recognised by their words.
//!
//! The form looks like a kernel's own log, but it also has the messages of services. All lines of a journal name the
//! same host, and each names its sender. This distinguishes it from a kernel's log.

use super::{Entry, FIELD_BYTES_MAX, Journal, Kind, MESSAGE_BYTES_MAX, NAME, text};
use crate::formats::kernel_log::{Prefix, after_date, after_stamp, date_of};
use crate::formats::systemd_analyze::{Finished, Stage};
use crate::formats::systemd_words;
use crate::formats::systemd_words::Becomes;
use crate::input::text::{Lines, lossy, whole_number, word};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Lines that are looked at to know the form.
const LOOKED_AT: usize = 500;
/// At most one line in this number may have another form: a sender's name can have several words.
const OTHERS: usize = 20;
/// The kernel's name in `journalctl`'s lines.
pub(super) const KERNEL: &[u8] = b"kernel";
const SYSTEMD: &[u8] = b"systemd";
const FINISHED: &[u8] = b"Startup finished in ";
/// Priorities are not printed: as a message without one.
const INFORMATION: u8 = 6;

/// A message and its sender.
struct Said<'a> {
    host: &'a [u8],
    by: &'a [u8],
    pid: Option<u64>,
    message: &'a [u8],
}

/// `host systemd[1]: Started …`, or without the host.
fn said(rest: &[u8]) -> Option<Said<'_>> {
    let (first, after) = word(rest);
    let (host, (by, message)) = if first.ends_with(b":") { (&b""[..], (first, after)) } else { (first, word(after)) };
    let by = by.strip_suffix(b":")?;
    let (by, pid) = match by.strip_suffix(b"]").and_then(|by| Some((by, memchr::memrchr(b'[', by)?))) {
        Some((inner, at)) => (&inner[..at], Some(whole_number(&inner[at + 1..])?)),
        None => (by, None),
    };
    let is_name = |name: &[u8]| !name.iter().any(|byte| b":[]<>=\"".contains(byte));
    (is_name(host) && !by.is_empty() && is_name(by)).then_some(Said { host, by, pid, message })
}

/// True if the lines are a journal's. `begins` returns the rest of a line behind its time, if it has one. `is_kernels`
/// is true for a message that the kernel can have in such a journal.
fn is_journal<'a>(
    bytes: &'a [u8],
    begins: impl Fn(&'a [u8]) -> Option<&'a [u8]>,
    is_kernels: impl Fn(&[u8]) -> bool,
) -> bool {
    let is_own = |line: &&[u8]| !line.is_empty() && !line.starts_with(b" ") && !line.starts_with(b"-- ");
    let lines = Lines::new(bytes).map(|line| line.bytes).filter(is_own).take(LOOKED_AT);
    let (mut all, mut fit, mut speakers, mut host) = (0, 0, 0, None);
    for line in lines {
        all += 1;
        let Some(said) = begins(line).and_then(said) else { continue };
        fit += usize::from(*host.get_or_insert(said.host) == said.host);
        // A driver and its device look like a host and a sender: `[    1.5] pci 0000:00:01.0: …`.
        speakers += usize::from(match said.by {
            KERNEL if said.pid.is_none() => is_kernels(said.message),
            // A kernel's log has such lines too, from programs that write into it, but without a host.
            _ => said.pid.is_some() && !said.host.is_empty(),
        });
    }
    speakers > 0 && fit + all / OTHERS >= all
}

/// True if bytes are a journal with the kernel's clock.
pub(super) fn is_monotonic(bytes: &[u8]) -> bool {
    is_journal(bytes, |line| after_stamp(line).map(|(_, rest)| rest), |_| true)
}

/// True if bytes are a journal with times of the wall clock only. A file of syslog also has the kernel's stamps.
pub(crate) fn is_dated(bytes: &[u8]) -> bool {
    let is_without_stamp = |message: &[u8]| !Prefix::strip(message).0.stamped;
    let has_stamp = || {
        let messages = Lines::new(bytes).take(LOOKED_AT).filter_map(|line| said(after_date(line.bytes)?));
        messages.filter(|said| said.by == KERNEL).any(|said| !is_without_stamp(said.message))
    };
    is_journal(bytes, after_date, is_without_stamp) && !has_stamp()
}

/// The messages of a journal with dates.
fn dated(bytes: &[u8]) -> impl Iterator<Item = Said<'_>> {
    Lines::new(bytes).filter_map(|line| said(after_date(line.bytes)?))
}

/// True if a journal with dates alone has measured lengths of initcalls in its text.
pub(crate) fn has_lengths(bytes: &[u8]) -> bool {
    dated(bytes).any(|said| {
        said.by == KERNEL
            && said.message.starts_with(b"initcall ")
            && memchr::memmem::find(said.message, b" usecs").is_some()
    })
}

/// Adds the entries of a journal with the kernel's clock, or with dates.
pub(super) fn read(journal: &mut Journal, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
    let mut lines = ShortLines { boot: String::new(), has_kernel: false, open: None };
    let is_dated = journal.resolution > Ns::ZERO;
    for line in Lines::new(bytes) {
        let place = || format!("{file}:{}", line.number);
        if line.bytes.starts_with(b"-- ") {
            lines.comment(line.bytes, journal, place, diagnostics);
            continue;
        }
        if lines.goes_on(line.bytes) {
            continue;
        }
        let stamped =
            if is_dated { date_of(line.bytes) } else { after_stamp(line.bytes).map(|(at, rest)| (at.0, rest)) };
        let Some((at, said)) = stamped.and_then(|(at, rest)| Some((Ns(at), said(rest)?))) else {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
            continue;
        };
        let mut next = Entry { boot: lines.boot.clone(), ..entry(at, &said) };
        if is_dated {
            (next.wall, next.at) = (next.at.take(), None);
        }
        let begins = next.is_kernels && next.message.starts_with("Linux version ");
        let whole = lines.open.replace(next).unwrap_or_default();
        journal.add(whole, place, diagnostics);
        if begins && std::mem::replace(&mut lines.has_kernel, true) {
            journal.end_boot();
        }
    }
    journal.add(lines.open.unwrap_or_default(), || file.to_owned(), diagnostics);
}

/// The lines of one file that were read so far.
struct ShortLines {
    boot: String,
    /// True if the boot has its kernel's first message.
    has_kernel: bool,
    /// The last entry, which may go on.
    open: Option<Entry>,
}

impl ShortLines {
    /// A line of journalctl's own.
    fn comment(
        &mut self,
        line: &[u8],
        journal: &mut Journal,
        place: impl FnOnce() -> String,
        diagnostics: &mut Diagnostics,
    ) {
        let id = line.strip_prefix(b"-- Boot ").map(|id| text(word(id).0, FIELD_BYTES_MAX));
        if id.is_none() && !line.starts_with(b"-- Reboot") {
            return;
        }
        // The first boot of a file has no such line.
        if let Some(last) = self.open.take() {
            journal.add(last, place, diagnostics);
            if self.boot.is_empty() || id.is_none() {
                journal.end_boot();
            }
        }
        self.boot = id.unwrap_or_default();
        self.has_kernel = false;
    }

    /// True for a further line of the last entry.
    fn goes_on(&mut self, line: &[u8]) -> bool {
        let (b' ', Some(entry)) = (line.first().unwrap_or(&b' '), &mut self.open) else { return false };
        let left = MESSAGE_BYTES_MAX.saturating_sub(entry.message.len() + 1);
        let more = line.trim_ascii();
        entry.message.push('\n');
        entry.message.push_str(&lossy(&more[..more.len().min(left)]));
        true
    }
}

fn entry(at: Ns, said: &Said<'_>) -> Entry {
    let message = text(said.message, MESSAGE_BYTES_MAX);
    let is_systemds = said.by == SYSTEMD && said.pid == Some(1);
    let unit = systemd_words::said_of_unit(&message).filter(|_| is_systemds);
    let kind = unit.map(|(_, becomes)| match becomes {
        Becomes::Starting => Kind::UnitStarting,
        Becomes::Active => Kind::UnitStarted,
        Becomes::Failed => Kind::UnitFailed,
    });
    let is_finished = is_systemds && said.message.starts_with(FINISHED);
    let finished = Finished::read(said.message).filter(|_| is_finished);
    let took = |stage| finished.as_ref().and_then(|finished| finished.took(stage));
    Entry {
        at: Some(at),
        identifier: text(said.by, FIELD_BYTES_MAX),
        pid: said.pid,
        priority: INFORMATION,
        is_kernels: said.by == KERNEL && said.pid.is_none(),
        kind: kind.or(is_finished.then_some(Kind::StartupFinished)),
        unit: unit.map_or(String::new(), |(unit, _)| unit.to_owned()),
        took: [Stage::Kernel, Stage::Initrd, Stage::Userspace].map(took),
        message,
        has_field: true,
        ..Entry::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "[    0.000000] box kernel: Linux version 6.1\n\
        [    1.500000] box systemd[1]: Starting a.service - A...\n\
        [    2.000000] box sshd[77]: one\n              two\n\
        [    2.500000] box systemd[1]: Started a.service - A.\n";

    #[test]
    fn who_speaks_and_when() {
        let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
        journal.read("j", SHORT.as_bytes(), &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let said: Vec<_> =
            journal.entries.iter().map(|e| (e.at.unwrap().0 / 1_000_000, &*e.identifier, e.pid)).collect();
        let systemd = ("systemd", Some(1));
        assert_eq!(
            said,
            [
                (0, "kernel", None),
                (1_500, systemd.0, systemd.1),
                (2_000, "sshd", Some(77)),
                (2_500, systemd.0, systemd.1)
            ]
        );
        assert_eq!(journal.entries.iter().map(|e| e.is_kernels).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(journal.entries[2].message, "one\ntwo");
        let units: Vec<_> = journal.entries.iter().filter_map(|e| Some((e.kind?, &*e.unit))).collect();
        assert_eq!(units, [(Kind::UnitStarting, "a.service"), (Kind::UnitStarted, "a.service")]);
    }

    #[test]
    fn the_last_boot_counts_here_too() {
        let text = format!("{SHORT}-- Boot 0123456789abcdef0123456789abcdef --\n[    0.100000] box kernel: b\n");
        let mut journal = Journal::default();
        journal.read(
            "j",
            text.replacen('[', "-- Boot 00000000000000000000000000000000 --\n[", 1).as_bytes(),
            &mut Diagnostics::default(),
        );
        let mut diagnostics = Diagnostics::default();
        journal.choose(&mut diagnostics);
        assert_eq!((journal.entries.len(), diagnostics.count(timeline::DiagnosticKind::LogOtherBoot)), (1, 4));
    }

    #[test]
    fn a_kernels_own_log_is_none() {
        let not = [
            "[    0.000000] Linux version 6.1\n[    0.100000] pci 0000:00:01.0: found\n",
            "[    0.100000] pci 0000:00:01.0: found\n[    0.200000] pci 0000:00:02.0: found\n",
            "[    9.000000] systemd[1]: Started a.service - A.\n[    9.100000] systemd[1]: Started b.service - B.\n",
            "[    0.100000] box kernel: a\n[    0.200000] other kernel: b\n",
            "",
        ];
        assert_eq!(not.map(|text| is_monotonic(text.as_bytes())), [false; 5]);
        assert!(is_monotonic(SHORT.as_bytes()) && is_monotonic(SHORT.replace(" box ", " ").as_bytes()));
    }

    #[test]
    fn a_journal_with_dates_alone() {
        for stamp in [
            "Nov 24 13:58:21",
            "Nov 24 13:58:21.337100",
            "2026-11-24T13:58:21+0000",
            "1795528701.337100",
            "Tue 2026-11-24 13:58:21 UTC",
        ] {
            let text: String = SHORT
                .lines()
                .map(|line| match line.split_once("] ") {
                    Some((_, rest)) => format!("{stamp} {rest}\n"),
                    None => format!("{line}\n"),
                })
                .collect();
            assert!(is_dated(text.as_bytes()), "{text}");
        }
        // syslog's file of the kernel's messages, and a serial line that a logger stamped.
        assert!(!is_dated(b"Nov 21 10:11:12 box kernel: [    0.260204] smp: up\nNov 21 10:11:12 box sshd[7]: up\n"));
        assert!(!is_dated(b"Nov 21 10:11:12 [    0.260204] smp: up\nNov 21 10:11:12 pci 0000:00:01.0: up\n"));
    }
}
