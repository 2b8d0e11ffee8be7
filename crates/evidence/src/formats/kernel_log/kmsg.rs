//! `/dev/kmsg` records: `priority,sequence,microseconds,flags[,caller=T1];text`.
//!
//! Bytes that cannot be printed are escaped as `\xNN` (a backslash is `\x5c`), so a record is one line;
//! lines that begin with a space carry the device it is about. Sequence numbers have no gaps unless
//! records were lost. Stamps may have a fraction (`1500002.750`) where their writer knew nanoseconds.

use super::{COMMENTS_MAX, Caller, Line, MESSAGE_BYTES_MAX, Reader, is_banner};
use crate::input::text::{Lines, lossy, number};
use std::fmt::Write as _;
use timeline::{DiagnosticKind, Ns};

/// A record, its text still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub level: u8,
    pub seq: u64,
    pub ns: i64,
    pub caller: Option<Caller>,
    pub text: &'a [u8],
}

/// Takes a record apart.
pub(crate) fn record(line: &[u8]) -> Option<Record<'_>> {
    let (priority, rest) = number(line)?;
    let (seq, rest) = number(rest.strip_prefix(b",")?)?;
    let (us, rest) = number(rest.strip_prefix(b",")?)?;
    let ns = i64::try_from(us.checked_mul(1000)?).ok()?;
    let (below_us, rest) = match rest.strip_prefix(b".") {
        Some(fraction) => below_microsecond(fraction)?,
        None => (0, rest),
    };
    let semicolon = memchr::memchr(b';', rest)?;
    let (flags, text) = (rest[..semicolon].strip_prefix(b",")?, &rest[semicolon + 1..]);
    let caller = flags.split(|&b| b == b',').find_map(|flag| caller(flag.strip_prefix(b"caller=")?));
    Some(Record { level: (priority & 7) as u8, seq, ns: ns.checked_add(below_us)?, caller, text })
}

/// The digits after a microsecond, as nanoseconds.
fn below_microsecond(fraction: &[u8]) -> Option<(i64, &[u8])> {
    let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut ns = 0;
    for digit in fraction[..digits].iter().chain(b"00").take(3) {
        ns = ns * 10 + i64::from(digit - b'0');
    }
    (digits > 0).then(|| (ns, &fraction[digits..]))
}

fn caller(text: &[u8]) -> Option<Caller> {
    let (kind, digits) = text.split_first()?;
    let id = number(digits).filter(|(_, rest)| rest.is_empty()).and_then(|(id, _)| u32::try_from(id).ok())?;
    match kind {
        b'T' => Some(Caller::Thread(id)),
        b'C' => Some(Caller::Cpu(id)),
        _ => None,
    }
}

/// Appends a text as the kernel writes it, with `\xNN` for what cannot stand in a line.
pub(crate) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\x5c"),
            c if c.is_ascii_control() => _ = write!(out, "\\x{:02x}", u32::from(c)),
            c => out.push(c),
        }
    }
}

/// Undoes `\xNN`.
fn unescape<'a>(text: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memchr(b'\\', text).is_none() {
        return text;
    }
    buffer.clear();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        let byte = match (first, after) {
            (b'\\', [b'x', high, low, behind @ ..]) => hex(*high, *low).inspect(|_| rest = behind),
            _ => None,
        };
        buffer.push(byte.unwrap_or(*first));
    }
    buffer
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |b: u8| (b as char).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

impl Reader<'_> {
    pub(super) fn read_kmsg(&mut self, bytes: &[u8]) {
        let mut last_seq = None;
        let mut buffer = Vec::new();
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next() {
            if self.is_full(line, &lines) {
                return;
            }
            self.log.counts.lines += 1;
            let text = line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes);
            match text.first() {
                None => self.log.counts.blank += 1,
                Some(b' ') => self.log.counts.continuations += 1,
                Some(b'#') => {
                    self.log.counts.comments += 1;
                    if self.log.comments.len() < COMMENTS_MAX {
                        let text = text[1..].trim_ascii();
                        self.log.comments.push(lossy(&text[..text.len().min(MESSAGE_BYTES_MAX)]).into_owned());
                    }
                }
                _ => match record(text).filter(|_| line.whole) {
                    Some(record) => {
                        let is_banner = is_banner(record.text) && self.begins_a_boot(record.text, Ns(record.ns));
                        if is_banner {
                            self.banners.push(self.log.lines.len());
                            // Each boot numbers its records anew.
                            last_seq = last_seq.filter(|last| record.seq > *last);
                        }
                        self.sequence(record.seq, &mut last_seq, line.number);
                        let stamped = Line {
                            stamp: Some(Ns(record.ns)).filter(|&ns| ns > Ns::ZERO),
                            before_clock: record.ns == 0,
                            level: Some(record.level),
                            caller: record.caller,
                            seq: Some(record.seq),
                            ..Line::unstamped(None, line.offset as u64, line.number)
                        };
                        self.push(stamped, unescape(record.text, &mut buffer));
                    }
                    None => {
                        self.log.counts.unreadable += 1;
                        let place = || format!("{}:{}", self.file, line.number);
                        self.diagnostics.note(DiagnosticKind::KmsgRecordUnreadable, place);
                    }
                },
            }
        }
    }

    /// Numbers that are missing are records that are.
    fn sequence(&mut self, seq: u64, last: &mut Option<u64>, number: u32) {
        let place = || format!("{}:{number}", self.file);
        let missing = match *last {
            None => {
                self.diagnostics.note_many(DiagnosticKind::KmsgOverwritten, seq, place);
                seq
            }
            Some(last) if seq <= last => {
                self.diagnostics.note(DiagnosticKind::KmsgOutOfOrder, place);
                0
            }
            Some(last) => {
                self.diagnostics.note_many(DiagnosticKind::KmsgMissing, seq - last - 1, place);
                seq - last - 1
            }
        };
        self.log.lost = self.log.lost.saturating_add(missing);
        *last = Some(last.map_or(seq, |last| last.max(seq)));
    }
}
