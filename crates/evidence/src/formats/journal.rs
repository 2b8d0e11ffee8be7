//! The journal of a boot, as `journalctl -o export` and `journalctl -o json` print it.
//!
//! ```text
//! __REALTIME_TIMESTAMP=1795527173881392        export: a field in each line, a blank line after each entry
//! __MONOTONIC_TIMESTAMP=118021864              µs, when journald got it; the kernel's own stamp is _SOURCE_MONOTONIC_TIMESTAMP
//! _BOOT_ID=3ca79f8a0a1b489eb76396f606dc8a01
//! MESSAGE                                      a value with lines of its own: its length as u64, little-endian, then its bytes
//! {"__MONOTONIC_TIMESTAMP":"118021864","MESSAGE":"Started …"}     json: an entry in each line; a value may be a list of bytes
//! ```
//! (systemd's `docs/JOURNAL_EXPORT_FORMATS.md`, systemd.journal-fields(7).) systemd says in it what it starts and when that is done, each
//! kind of message with a number of its own (`src/systemd/sd-messages.h`). Times are those of the clock that does not jump. If no entry
//! has one, [`dated`] places them by the wall clock.
//!
//! The other forms: [`short`] and [`verbose`]; JSON with a field in each line (`json-pretty`), behind `data: ` (`json-sse`), and behind
//! a byte of its own (`json-seq`).
//!
//! The last of several boots counts, unless another is chosen. Only the fields of [`Entry`] are kept.

mod dated;
mod short;
mod verbose;

pub(crate) use short::{has_lengths, is_dated};

use crate::formats::several_boots::boot_number;
use crate::input::records_max;
use crate::input::text::{Lines, lossy, whole_number};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The format's name in diagnostics.
pub(crate) const NAME: &str = "journal";
/// Longer messages are cut.
const MESSAGE_BYTES_MAX: usize = 2048;
const FIELD_BYTES_MAX: usize = 512;
/// Memory of an entry beside its texts, here and on the timeline, in bytes.
const ENTRY_COST: usize = 700;
/// The entries of this number of boots are counted apart; those of earlier ones together.
const MAX_BOOTS: usize = 100;
/// A longer line of JSON is not read: each of its values takes more in memory than in the line.
const JSON_BYTES_MAX: usize = 1 << 20;

/// An event that systemd reports: of a unit, or of the whole boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A unit begins to start.
    UnitStarting,
    /// A unit is active.
    UnitStarted,
    /// A unit did not get active.
    UnitFailed,
    /// The boot is done.
    StartupFinished,
}

const KINDS: [(&str, Kind); 4] = [
    ("7d4958e842da4a758f6c1cdc7b36dcc5", Kind::UnitStarting),
    ("39f53479d3a045ac8e11786248231fbf", Kind::UnitStarted),
    ("be02cf6855d2428ba40df7e9d022f03d", Kind::UnitFailed),
    ("b07a249cd024414a82dd00cd181378ff", Kind::StartupFinished),
];

/// A message, and the fields that are kept of its entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The time of the message, on the kernel's clock.
    pub at: Option<Ns>,
    /// The id of its boot; empty if the journal has none.
    pub boot: String,
    /// The sender: its syslog identifier, or else the name of its command.
    pub identifier: String,
    /// The sender's process.
    pub pid: Option<u64>,
    pub message: String,
    /// The priority, 0 (emergency) to 7 (debug).
    pub priority: u8,
    /// True if it comes from the kernel's log.
    pub(crate) is_kernels: bool,
    /// The event that it reports, if systemd sent it.
    pub kind: Option<Kind>,
    /// The unit that the event is about.
    pub unit: String,
    /// The durations of kernel, initrd and user space, in the entry that reports the end of the boot.
    pub took: [Option<Ns>; 3],
    /// The time when journald received it. It counts if the sender gives no time.
    received: Option<Ns>,
    /// The time by the wall clock, if nothing else is known.
    wall: Option<Ns>,
    has_field: bool,
}

/// The entries of one boot, and the numbers of entries of the other boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The entries of the last boot, in the order of the file; after [`Journal::choose`] those of the chosen boot.
    pub entries: Vec<Entry>,
    /// The number of boots between the chosen one and the end of the journal. Without a choice it is the last boot in which a program
    /// has a message, of the last two.
    behind: usize,
    is_chosen: bool,
    /// The entries of at most `behind` boots before the last.
    older: VecDeque<Vec<Entry>>,
    /// Their number.
    older_entries: usize,
    /// The numbers of entries of the boots before the last.
    counts: VecDeque<u64>,
    /// The number of bytes that were read, in all files together.
    bytes: usize,
    /// True if lengths are cut to milliseconds, as in text for people.
    pub(crate) is_rounded: bool,
    /// The resolution of the wall clock's times, if there are no others; else 0.
    pub(crate) resolution: Ns,
    /// True if the zero of the kernel's clock is unknown: times count from the first message of a program.
    pub(crate) is_zero_unknown: bool,
}

fn us(value: &[u8]) -> Option<Ns> {
    Some(Ns(i64::try_from(whole_number(value)?).ok()?.checked_mul(1000)?))
}

fn text(value: &[u8], most: usize) -> String {
    let mut text = lossy(&value[..value.len().min(most)]).into_owned();
    // A byte that is no text has become three.
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl Entry {
    /// True if the kernel is the sender by its name.
    pub(crate) fn names_the_kernel(&self) -> bool {
        self.identifier.as_bytes() == short::KERNEL
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        self.has_field = true;
        match name {
            b"__MONOTONIC_TIMESTAMP" => self.received = us(value),
            // The sender's time comes later in the entry, and is the better one.
            b"__REALTIME_TIMESTAMP" | b"_SOURCE_REALTIME_TIMESTAMP" => self.wall = us(value),
            b"_SOURCE_MONOTONIC_TIMESTAMP" => self.at = us(value),
            b"_BOOT_ID" => self.boot = text(value, FIELD_BYTES_MAX),
            b"SYSLOG_IDENTIFIER" => self.identifier = text(value, FIELD_BYTES_MAX),
            b"_COMM" if self.identifier.is_empty() => self.identifier = text(value, FIELD_BYTES_MAX),
            b"_PID" => self.pid = whole_number(value),
            b"SYSLOG_PID" if self.pid.is_none() => self.pid = whole_number(value),
            b"MESSAGE" => self.message = text(value, MESSAGE_BYTES_MAX),
            b"PRIORITY" => self.priority = whole_number(value).map_or(6, |level| (level & 7) as u8),
            b"_TRANSPORT" => self.is_kernels = value == b"kernel",
            b"MESSAGE_ID" => self.kind = KINDS.iter().find(|(id, _)| id.as_bytes() == value).map(|(_, kind)| *kind),
            b"UNIT" => self.unit = text(value, FIELD_BYTES_MAX),
            b"KERNEL_USEC" => self.took[0] = us(value),
            b"INITRD_USEC" => self.took[1] = us(value),
            b"USERSPACE_USEC" => self.took[2] = us(value),
            _ => {}
        }
    }
}

/// True if bytes begin as a journal does, in any of its formats.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let line = Lines::new(bytes).next().map_or(&b""[..], |line| line.bytes);
    let is_pretty = line == b"{" && Lines::new(bytes).nth(1).is_some_and(|line| is_pretty_field(line.bytes));
    is_pretty || is_line(line) || verbose::begins(bytes) || short::is_monotonic(bytes) || is_readable_dated(bytes)
}

/// True for a journal with dates alone. If it has measured lengths of initcalls, these say more than whole seconds.
fn is_readable_dated(bytes: &[u8]) -> bool {
    short::is_dated(bytes) && !has_lengths(bytes)
}

/// A field in a line of its own, of which journald writes the name with underscores.
fn is_pretty_field(line: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"\"_", b"\"MESSAGE", b"\"PRIORITY"];
    names.iter().any(|name| line.trim_ascii_start().starts_with(name))
}

/// A line that only a journal has.
pub(crate) fn is_line(line: &[u8]) -> bool {
    const LOOKED_AT: usize = 4096;
    let line = unwrapped(line);
    let head = &line[..line.len().min(LOOKED_AT)];
    if head.first() == Some(&b'{') {
        let stamps: [&[u8]; 2] = [b"\"__MONOTONIC_TIMESTAMP\"", b"\"__REALTIME_TIMESTAMP\""];
        return stamps.iter().any(|stamp| memchr::memmem::find(head, stamp).is_some());
    }
    let stamp =
        [&b"__MONOTONIC_TIMESTAMP="[..], b"__REALTIME_TIMESTAMP="].iter().find_map(|key| head.strip_prefix(*key));
    head.starts_with(b"__CURSOR=s=") || stamp.is_some_and(|stamp| whole_number(stamp.trim_ascii()).is_some())
}

/// An entry of `json-sse` or `json-seq` without what stands before it.
fn unwrapped(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data: ").or_else(|| line.strip_prefix(b"\x1e")).unwrap_or(line)
}

impl Journal {
    /// A journal of which the boot with this number is wanted: 0 is the last, -1 the one before. Without a number, it is the last one
    /// that reached user space.
    pub(crate) fn of_boot(number: Option<i32>) -> Journal {
        let behind = number.map_or(1, |number| number.unsigned_abs() as usize);
        Journal { behind, is_chosen: number.is_some(), ..Journal::default() }
    }

    /// Leaves the entries of the wanted boot, and counts those of all others.
    pub fn choose(&mut self, diagnostics: &mut Diagnostics) {
        let ran = |entries: &[Entry]| entries.iter().any(|entry| !entry.is_kernels && !entry.names_the_kernel());
        let is_before_better = || self.older.front().is_some_and(|older| ran(older) && !ran(&self.entries));
        if !self.is_chosen && !is_before_better() {
            self.behind = 0;
        }
        let all: Vec<u64> = self.counts.iter().copied().chain([self.entries.len() as u64]).collect();
        if self.behind >= all.len() {
            let about = boot_number(self.behind);
            return diagnostics.note_about(DiagnosticKind::LogBootMissing, &about, || NAME.to_owned());
        }
        for (behind, count) in all.iter().rev().enumerate().filter(|(behind, _)| *behind != self.behind) {
            let about = format!("boot {} of the journal", boot_number(behind));
            diagnostics.add(DiagnosticKind::LogOtherBoot, &about, *count, None, || NAME.to_owned());
        }
        if let Some(chosen) = self.older.pop_front().filter(|_| self.behind > 0) {
            self.entries = chosen;
        }
        self.older.clear();
        if self.entries.iter().all(|entry| entry.at.is_none()) && self.entries.iter().any(|entry| entry.wall.is_some())
        {
            self.resolution = self.resolution.max(Ns::from_us(1));
            let placed = dated::place(&mut self.entries, self.resolution);
            self.is_zero_unknown = !placed.is_zero_known;
            diagnostics.note_many(DiagnosticKind::WallClockSet, placed.times_set, || NAME.to_owned());
        }
    }

    /// Ends a boot of which more follow.
    fn end_boot(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        self.counts.push_back(entries.len() as u64);
        if self.counts.len() > MAX_BOOTS {
            let first = self.counts.pop_front().unwrap_or_default();
            self.counts.front_mut().into_iter().for_each(|next| *next += first);
        }
        self.older.push_back(entries);
        while self.older.len() > self.behind {
            self.older.pop_front();
        }
        self.older_entries = self.older.iter().map(Vec::len).sum();
    }

    /// Adds the entries of a file. Counts the lines that cannot be read.
    pub fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if verbose::begins(bytes) {
            return verbose::read(self, file, bytes, diagnostics);
        }
        let is_dated = short::is_dated(bytes);
        if is_dated || short::is_monotonic(bytes) {
            self.is_rounded = true;
            self.resolution = if is_dated { dated::resolution(bytes) } else { Ns::ZERO };
            return short::read(self, file, bytes, diagnostics);
        }
        let (mut lines, mut entry) = (Lines::new(bytes), Entry::default());
        while let Some(line) = lines.next() {
            let place = || format!("{file}:{}", line.number);
            match unwrapped(line.bytes) {
                b"{" => match pretty(&mut lines).and_then(|entry| row(&entry)) {
                    Some(row) => self.add(row, place, diagnostics),
                    None => diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
                },
                b"" => self.add(std::mem::take(&mut entry), place, diagnostics),
                json @ [b'{', ..] => match row(json) {
                    Some(row) => self.add(row, place, diagnostics),
                    None => diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
                },
                text if memchr::memchr(b'=', text).is_some() => {
                    let equals = memchr::memchr(b'=', text).unwrap_or(0);
                    entry.set(&text[..equals], &text[equals + 1..]);
                }
                name if is_field(name) => match binary(lines.rest()) {
                    Some(value) => {
                        entry.set(name, value);
                        lines.take_line(8 + value.len());
                    }
                    None => {
                        diagnostics.note_about(DiagnosticKind::FileCut, file, || file.to_owned());
                        break;
                    }
                },
                _ => diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
            }
        }
        self.add(entry, || file.to_owned(), diagnostics);
    }

    fn add(&mut self, mut entry: Entry, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        if !entry.has_field {
            return;
        }
        entry.at = entry.at.or(entry.received);
        entry.wall = entry.wall.filter(|_| entry.at.is_none());
        if self.entries.len() + self.older_entries >= records_max(self.bytes, ENTRY_COST) {
            if self.is_chosen || self.older_entries == 0 {
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                return;
            }
            // The boot before the last is kept only where there is room.
            self.older.clear();
            self.older_entries = 0;
        }
        let last = self.entries.last().map_or("", |last| &last.boot);
        if !last.is_empty() && !entry.boot.is_empty() && last != entry.boot {
            self.end_boot();
        }
        self.entries.push(entry);
    }
}

/// Names of fields have capitals, digits and underscores.
fn is_field(name: &[u8]) -> bool {
    name.len() <= 64 && name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// A value with its length before it, and the end of its line behind it.
fn binary(rest: &[u8]) -> Option<&[u8]> {
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let value = rest.get(..length)?;
    (rest.get(length) == Some(&b'\n')).then_some(value)
}

/// The rest of an entry of which the first line is `{`, and that `{`. It ends with the line `}`.
fn pretty(lines: &mut Lines<'_>) -> Option<Vec<u8>> {
    let rest = lines.rest();
    let mut length = 0;
    loop {
        let line = lines.next()?.bytes;
        length += line.len() + 1;
        if line == b"}" {
            let inner = rest.get(..length.min(rest.len())).filter(|inner| inner.len() <= JSON_BYTES_MAX)?;
            return Some([b"{", inner].concat());
        }
    }
}

/// An entry of the JSON.
fn row(line: &[u8]) -> Option<Entry> {
    #[derive(Deserialize)]
    struct Fields(std::collections::BTreeMap<String, Value>);
    let line = Some(line).filter(|line| line.len() <= JSON_BYTES_MAX)?;
    let Fields(fields) = serde_json::from_slice(line).ok()?;
    let mut entry = Entry::default();
    for (name, value) in &fields {
        match value {
            Value::String(text) => entry.set(name.as_bytes(), text.as_bytes()),
            // If a field occurs several times, its first value counts.
            Value::Array(all) => match all.first() {
                Some(Value::String(text)) => entry.set(name.as_bytes(), text.as_bytes()),
                _ => entry.set(name.as_bytes(), &bytes_of(all)),
            },
            _ => {}
        }
    }
    entry.has_field.then_some(entry)
}

fn bytes_of(all: &[Value]) -> Vec<u8> {
    all.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Journal, Diagnostics) {
        let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
        journal.read("a", bytes, &mut diagnostics);
        (journal, diagnostics)
    }

    const ENTRY: &[u8] = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=5\n__MONOTONIC_TIMESTAMP=7000\n_BOOT_ID=b\nMESSAGE\n\
        \x05\0\0\0\0\0\0\0a\nb=c\n_COMM=sshd\n_PID=9\nPRIORITY=3\n\n";

    #[test]
    fn both_formats_say_the_same() {
        let (export, diagnostics) = read(ENTRY);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let json = br#"{"__MONOTONIC_TIMESTAMP":"7000","_BOOT_ID":"b","MESSAGE":[97,10,98,61,99],"_COMM":"sshd","_PID":"9","PRIORITY":"3"}"#;
        let (json, _) = read(json);
        assert_eq!(export.entries, json.entries);
        let entry = &export.entries[0];
        assert_eq!(
            (entry.at, &*entry.message, &*entry.identifier, entry.pid),
            (Some(Ns(7_000_000)), "a\nb=c", "sshd", Some(9))
        );
        assert!(begins(ENTRY) && !begins(b"[    0.000000] Linux version 6.1\n") && !begins(b""));
    }

    #[test]
    fn a_journal_cut_anywhere_is_read_as_far_as_it_goes() {
        let two = [ENTRY, ENTRY].concat();
        for length in 0..two.len() {
            let (journal, _) = read(&two[..length]);
            assert!(journal.entries.len() <= 2);
            assert_eq!(journal.entries.len() == 2, length >= ENTRY.len() + "__CURSOR=".len(), "{length}");
        }
        let huge = b"MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffabc\n";
        assert_eq!(read(huge).1.count(DiagnosticKind::FileCut), 1);
    }

    #[test]
    fn the_last_boot_counts_unless_another_is_chosen() {
        let text = b"_BOOT_ID=a\nMESSAGE=1\n\n_BOOT_ID=a\nMESSAGE=2\n\n_BOOT_ID=b\nMESSAGE=3\n\nMESSAGE=4\n\n";
        let of_boot = |number: i32| {
            let (mut journal, mut diagnostics) = (Journal::of_boot(Some(number)), Diagnostics::default());
            journal.read("a", text, &mut diagnostics);
            journal.choose(&mut diagnostics);
            let counts =
                [DiagnosticKind::LogOtherBoot, DiagnosticKind::LogBootMissing].map(|kind| diagnostics.count(kind));
            (journal.entries.into_iter().map(|entry| entry.message).collect::<Vec<String>>(), counts)
        };
        let said = |messages: &[&str]| messages.iter().map(|message| (*message).to_owned()).collect::<Vec<String>>();
        assert_eq!(of_boot(0), (said(&["3", "4"]), [2, 0]));
        assert_eq!(of_boot(-1), (said(&["1", "2"]), [2, 0]));
        assert_eq!(of_boot(-2), (said(&["3", "4"]), [0, 1]), "there is no such boot");
    }
}
