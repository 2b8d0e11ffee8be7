//! The kernel's messages, in whatever dress they come.
//!
//! ```text
//! 6,339,5140900,-;NET: Registered protocol family 10        /dev/kmsg: priority,sequence,µs,flags;text
//!  SUBSYSTEM=net                                            … and what belongs to the record above
//! [    0.260204] initcall spawn_ksoftirqd+0x0/0x58 …        dmesg, or a console
//! <6>[    1.234567][    T1] calling  acpi_init …            with level and caller
//! [2.104881 0.000123] [    0.260204] Brought up 1 CPUs      with the stamp of whoever logged the serial line
//! Nov 21 10:11:12 box kernel: [    0.260204] …              syslog, journal
//! [    1.23456[    1.234570] a message printed into another one
//! ```
//! A console also holds what is not the kernel's: each line of it is a [`Line`] without stamp. The
//! text is kept without carriage returns, escape sequences and control characters; the file keeps
//! them. A stamp of 0.000000 is none: the clock did not run yet.

mod clean;
mod damage;
mod host_stamp;
mod kmsg;
mod mail;
mod prefix;
mod stamp;
mod vendor;

use crate::NotThisFormat;
use crate::input::records_max;
use crate::input::text;
use crate::input::text::{Lines, lossy};
pub(crate) use clean::{Cleaner, is_unclean};
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics, Ns};

pub(crate) use host_stamp::{DMESG_T, Loggers, after_date};
pub(crate) use kmsg::record as kmsg_record;
pub(crate) use prefix::Prefix;
pub(crate) use stamp::after_stamp;

/// What diagnostics call it.
const NAME: &str = "kernel log";
/// What a message takes in memory: its [`Line`], its mark and its name on the timeline, and what is made of it.
const LINE_COST: usize = 260;
/// A message is cut behind this. A kernel's has 1 KiB, and a program's on the console is a line.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// What the texts of a file may have more than the file: a byte that is no text becomes three.
const TEXT_BYTES_MORE: usize = 4 << 20;
const COMMENTS_MAX: usize = 64;

/// Who printed a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A thread, by its id.
    Thread(u32),
    /// An interrupt on a CPU.
    Cpu(u32),
}

/// One message, or one line of something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The kernel's stamp, since its clock's start. None if it has none, or 0.000000.
    pub stamp: Option<Ns>,
    /// What the logger of the serial line stamped, since the first such stamp.
    pub host_stamp: Option<Ns>,
    /// Its level, 0 (emergency) to 7 (debug).
    pub level: Option<u8>,
    /// Who printed it.
    pub caller: Option<Caller>,
    /// Its sequence number in `/dev/kmsg`.
    pub seq: Option<u64>,
    /// Where the file's line that it stands in starts, in bytes.
    pub offset: u64,
    /// That line's number, from 1.
    pub number: u32,
    /// In [`KernelLog`]'s text; a file has at most 1 GiB, of which replacing bytes that are no
    /// text makes at most three.
    text: Range<u32>,
}

/// How many lines of the file were what:
/// `lines = records - glued + continuations + comments + blank + unreadable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines in all.
    pub lines: u64,
    /// Messages found.
    pub records: u64,
    /// Of these, messages that began in the middle of a line.
    pub glued: u64,
    /// Lines that belong to the record before them.
    pub continuations: u64,
    /// Lines that begin with `#` in a file of records.
    pub comments: u64,
    /// Lines with nothing in them.
    pub blank: u64,
    /// Lines that should have been records.
    pub unreadable: u64,
}

/// All messages, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// The messages.
    pub lines: Vec<Line>,
    /// How many lines were what.
    pub counts: Counts,
    /// Messages that are missing, by their sequence numbers.
    pub lost: u64,
    /// Comments (`# how: …`) of a file of records.
    pub comments: Vec<String>,
    /// Who stamped the serial line, if anybody did.
    pub logger: Option<&'static str>,
    text: String,
}

impl KernelLog {
    /// Reads a file of `/dev/kmsg` records, if its first line that is not a comment is one; any
    /// other text as lines of a console or of dmesg.
    ///
    /// # Errors
    /// If there is no line in it.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Result<KernelLog, NotThisFormat> {
        let mut reader = Reader::read(file, bytes, diagnostics)?;
        reader.note_steps_back();
        Ok(reader.log)
    }

    /// The same of a console that came by a serial line, which damages some of what it carries.
    ///
    /// # Errors
    /// As [`KernelLog::read`].
    pub fn read_line(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Result<KernelLog, NotThisFormat> {
        let mut reader = Reader::read(file, bytes, diagnostics)?;
        damage::unstamp(file, &mut reader.log, reader.diagnostics);
        reader.note_steps_back();
        Ok(reader.log)
    }

    /// The same of a log taken elsewhere, which can hold several boots, or lack its beginning. The last boot counts.
    ///
    /// # Errors
    /// As [`KernelLog::read`].
    pub fn read_imported(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Result<KernelLog, NotThisFormat> {
        let mut reader = Reader::read(file, bytes, diagnostics)?;
        reader.keep_last_boot();
        reader.note_missing_beginning();
        reader.unstamp_strays();
        reader.note_steps_back();
        Ok(reader.log)
    }

    /// The log of which somebody else picked the lines, and stamped each.
    pub fn of_stamped<'a>(
        file: &str,
        logger: &'static str,
        lines: impl Iterator<Item = StampedLine<'a>>,
        diagnostics: &mut Diagnostics,
    ) -> KernelLog {
        let mut reader = Reader::new(file, diagnostics);
        reader.log.logger = Some(logger);
        let mut cleaner = Cleaner::default();
        for line in lines {
            reader.log.counts.lines += 1;
            let (text, controls) = cleaner.clean(line.text);
            let place = || format!("{file}:{}", line.number);
            reader.diagnostics.note_many(DiagnosticKind::LogControlCharacters, controls, place);
            reader.messages(text, Some(line.at), line.offset, line.number);
        }
        reader.note_steps_back();
        reader.log
    }

    /// A line's text.
    pub fn text(&self, line: &Line) -> &str {
        &self.text[line.text.start as usize..line.text.end as usize]
    }

    /// All texts, one after the other without anything between.
    pub(crate) fn all_text(&self) -> &str {
        &self.text
    }

    /// A line that belongs to the last message.
    fn go_on(&mut self, text: &[u8]) {
        self.counts.continuations += 1;
        let Some(last) = self.lines.last_mut().filter(|last| last.text.end as usize == self.text.len()) else { return };
        if !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.text.push_str(&lossy(&text[..text.len().min(MESSAGE_BYTES_MAX)]));
        last.text.end = u32::try_from(self.text.len()).unwrap_or(last.text.end);
    }

    fn push(&mut self, line: Line, text: &[u8]) {
        let start = self.text.len();
        match std::str::from_utf8(text) {
            Ok(text) => self.text.push_str(text),
            Err(_) => self.text.push_str(&lossy(text)),
        }
        self.counts.records += 1;
        match (u32::try_from(start), u32::try_from(self.text.len())) {
            (Ok(start), Ok(end)) => self.lines.push(Line { text: start..end, ..line }),
            // Beyond what can be counted: the line is kept, its text is not.
            _ => {
                self.text.truncate(start);
                self.lines.push(Line { text: 0..0, ..line });
            }
        }
    }
}

/// A line of a console that a program heard, and when it did.
#[derive(Clone, Copy, Debug)]
pub struct StampedLine<'a> {
    /// When.
    pub at: Ns,
    /// The line, without its end.
    pub text: &'a [u8],
    /// Where in the file it stands, in bytes.
    pub offset: u64,
    /// The number of its line in the file, from 1.
    pub number: u32,
}

/// Whether a stamp is a whole number of ticks of a clock that counts timer interrupts, as printk cuts it to microseconds.
fn is_whole_ticks(stamp: Ns) -> bool {
    const HZ: [i128; 4] = [100, 250, 300, 1000];
    let us = i128::from(stamp.0 / 1000);
    HZ.iter().any(|hz| (us * hz + 999_999) / 1_000_000 * 1_000_000 / hz == us)
}

struct Reader<'d> {
    file: &'d str,
    diagnostics: &'d mut Diagnostics,
    log: KernelLog,
    /// Which lines are a kernel's first words, with its stamp. Without it, anybody may have printed them.
    banners: Vec<usize>,
    /// The first stamp of the text form, also one of 0.000000.
    first_stamp: Option<Ns>,
    /// The most messages that are kept, and the most bytes of their texts.
    max: (usize, usize),
}

/// A stamp is stray if it is ahead of the next one by more than this.
const STRAY_MIN: Ns = Ns::from_ms(100);
/// This number of stray lines may follow each other.
const STRAYS_MAX: usize = 8;
/// What a Linux kernel says first, or nearly so.
const BANNER: &[u8] = b"Linux version ";
/// A kernel that said nothing for so long has lost its beginning.
const BEGINNING_MAX: Ns = Ns::from_ms(1000);

impl<'d> Reader<'d> {
    fn new(file: &'d str, diagnostics: &'d mut Diagnostics) -> Self {
        let max = (usize::MAX, usize::MAX);
        Reader { file, diagnostics, log: KernelLog::default(), banners: Vec::new(), first_stamp: None, max }
    }

    fn read(file: &'d str, bytes: &[u8], diagnostics: &'d mut Diagnostics) -> Result<Self, NotThisFormat> {
        let mut reader = Reader::new(file, diagnostics);
        reader.max = (records_max(bytes.len(), LINE_COST), bytes.len() + TEXT_BYTES_MORE);
        // Touching memory is most of the cost, so none is touched twice.
        let lines = memchr::memchr_iter(b'\n', bytes).count() + 1;
        reader.log.lines.reserve_exact(lines.min(reader.max.0));
        reader.log.text.reserve_exact(bytes.len());
        let mut first = Lines::new(bytes).filter(|l| !l.bytes.trim_ascii().is_empty() && !l.bytes.starts_with(b"#"));
        match first.next().or(Lines::new(bytes).next()) {
            None => {
                let found = "the file is empty".to_owned();
                return Err(NotThisFormat { file: file.to_owned(), expected: "a kernel log", found });
            }
            Some(line) if kmsg_record(line.bytes).is_some() => reader.read_kmsg(bytes),
            Some(_) => reader.read_text(bytes),
        }
        Ok(reader)
    }

    /// Drops the boots before the last. It begins behind the last stamp that is later than its banner's: a kernel may say a
    /// little before its banner, and firmware lines have no stamp. A log with its newest line first is one boot.
    fn keep_last_boot(&mut self) {
        if self.is_newest_first() {
            return;
        }
        let Some((&banner, earlier)) = self.banners.split_last() else { return };
        let lines = &mut self.log.lines;
        let began = lines[banner].stamp.unwrap_or_default();
        let later = lines[..banner].iter().rposition(|line| line.stamp.is_some_and(|stamp| stamp > began));
        let begin = match (later.map(|at| at + 1), earlier.last()) {
            (None, None) => return,
            (Some(at), Some(&earlier)) if at <= earlier => banner,
            (Some(at), _) => at,
            (None, Some(_)) => banner,
        };
        let (others, place) = (begin as u64, lines[0].number);
        self.diagnostics.note_many(DiagnosticKind::LogOtherBoot, others, || format!("{}:{place}", self.file));
        lines.drain(..begin);
        let text = lines.first().map_or(0, |line| line.text.start);
        self.log.text.drain(..text as usize);
        for line in lines {
            line.text = line.text.start.saturating_sub(text)..line.text.end.saturating_sub(text);
        }
    }

    /// Whether stamps go down more often than up, and the banner comes last.
    fn is_newest_first(&self) -> bool {
        if self.banners.last() != self.log.lines.len().checked_sub(1).as_ref() {
            return false;
        }
        let stamps = || self.log.lines.iter().filter_map(|line| line.stamp);
        let steps = stamps().zip(stamps().skip(1));
        let (up, down) =
            steps.fold((0, 0), |(up, down): (u64, u64), (a, b)| (up + u64::from(b > a), down + u64::from(b < a)));
        down > up
    }

    fn note_missing_beginning(&mut self) {
        if self.banners.is_empty() && self.first_stamp.is_some_and(|first| first >= BEGINNING_MAX) {
            self.diagnostics.note(DiagnosticKind::LogBeginningMissing, || self.file.to_owned());
        }
    }

    /// A stamp earlier than the one before it: two CPUs' clocks, two boots in one file, or lines out of order.
    ///
    /// The first one in a boot is none of these if all before it are whole ticks: until the kernel has found its counter, its
    /// clock counts timer interrupts, and then it begins anew.
    fn note_steps_back(&mut self) {
        let mut before = Ns(i64::MIN);
        let mut counted_ticks = true;
        for (stamp, number) in self.log.lines.iter().filter_map(|line| Some((line.stamp?, line.number))) {
            let clock_found = counted_ticks && stamp < before && !is_whole_ticks(stamp);
            counted_ticks &= is_whole_ticks(stamp);
            if stamp < before && !clock_found {
                self.diagnostics.note(DiagnosticKind::LogClockBack, || format!("{}:{number}", self.file));
            }
            before = stamp;
        }
    }

    /// Takes the stamps off lines that lie far ahead of all that follows, though what stands before them does not: a digit too
    /// many, or a line of another log. Such a stamp is that line's fault, not the boot's length.
    fn unstamp_strays(&mut self) {
        let stamped: Vec<(usize, Ns)> =
            self.log.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.stamp?))).collect();
        let mut place = 1;
        while place < stamped.len() {
            let before = stamped[place - 1].1;
            let far = |stamp: Ns, next: Ns| stamp - next > STRAY_MIN;
            // The lines from here on that are ahead of the one after them.
            let strays = (1..=STRAYS_MAX).find(|count| {
                let Some(&(_, next)) = stamped.get(place + count) else { return false };
                before <= next && stamped[place..place + count].iter().all(|&(_, stamp)| far(stamp, next))
            });
            // A boot that follows in the same log begins anew and goes on: there nothing stands before it.
            let Some(count) = strays else {
                place += 1;
                continue;
            };
            for &(at, _) in &stamped[place..place + count] {
                let line = &mut self.log.lines[at];
                line.stamp = None;
                let number = line.number;
                self.diagnostics.note(DiagnosticKind::LogClockBack, || format!("{}:{number}", self.file));
            }
            place += count + 1;
        }
    }

    /// Whether no more messages are kept. The rest of the file, from `line` on, is then counted.
    fn is_full(&mut self, line: text::Line<'_>, rest: &Lines<'_>) -> bool {
        let is_full = self.log.lines.len() >= self.max.0 || self.log.text.len() >= self.max.1;
        if is_full {
            let lines = 1 + rest.clone().count() as u64;
            let place = || format!("{}:{}", self.file, line.number);
            self.diagnostics.add(DiagnosticKind::EntriesBeyondBound, NAME, lines, None, place);
        }
        is_full
    }

    /// Keeps a message; what of it is beyond the bound is counted.
    fn push(&mut self, line: Line, text: &[u8]) {
        let kept = &text[..text.len().min(MESSAGE_BYTES_MAX)];
        if kept.len() < text.len() {
            let (about, cut) = ("a message of the kernel log", (text.len() - kept.len()) as u64);
            let place = || format!("{}:{}", self.file, line.number);
            self.diagnostics.add(DiagnosticKind::EntriesBeyondBound, about, cut, None, place);
        }
        self.log.push(line, kept);
    }

    fn read_text(&mut self, bytes: &[u8]) {
        let mut loggers = Loggers::detect(bytes);
        self.log.logger = loggers.name();
        let mut cleaner = Cleaner::default();
        let quoted = mail::is_quoted(bytes);
        let mut wrap = mail::Wrap::default();
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next() {
            if self.is_full(line, &lines) {
                return;
            }
            self.log.counts.lines += 1;
            let unquoted = if quoted { mail::unquote(line.bytes) } else { line.bytes };
            let (text, controls) = cleaner.clean(unquoted);
            let place = || format!("{}:{}", self.file, line.number);
            self.diagnostics.note_many(DiagnosticKind::LogControlCharacters, controls, place);
            if !line.whole {
                self.diagnostics.note(DiagnosticKind::LogCut, place);
            }
            if text.trim_ascii().is_empty() {
                self.log.counts.blank += 1;
                continue;
            }
            let (mut host_stamp, text) = loggers.strip(text);
            let wall_clock = host_stamp.take_if(|_| self.log.logger == Some(host_stamp::DMESG_T));
            if wrap.goes_on(text) && host_stamp.is_none() && wall_clock.is_none() {
                self.log.go_on(text.trim_ascii());
                self.diagnostics.note(DiagnosticKind::LogLineWrapped, place);
                wrap = mail::Wrap::default();
                continue;
            }
            let first = self.log.lines.len();
            self.messages(text, host_stamp, line.offset as u64, line.number);
            // These stamps are the kernel's own, in whole seconds.
            self.log.lines[first..].iter_mut().for_each(|line| line.stamp = line.stamp.or(wall_clock));
            wrap = match self.log.lines.last().filter(|last| last.stamp.is_some()) {
                Some(last) => mail::Wrap::after(unquoted, self.log.text(last)),
                None => mail::Wrap::default(),
            };
        }
    }

    /// Whether a banner with this stamp is a kernel's own: its clock has just begun. A program that writes one to /dev/kmsg
    /// does so later than what stands before it.
    fn begins_a_boot(&self, stamp: Ns) -> bool {
        let before = self.log.lines.iter().rev().find_map(|line| line.stamp);
        stamp < BEGINNING_MAX && before.is_none_or(|before| stamp <= before)
    }

    /// The message that a line begins with, and those that were printed into it.
    fn messages(&mut self, text: &[u8], host_stamp: Option<Ns>, offset: u64, number: u32) {
        let (mut prefix, mut text) = Prefix::strip(text);
        loop {
            let next = stamp::find_glued(text);
            let own = &text[..next.map_or(text.len(), |at| at)];
            let line = Line {
                stamp: prefix.stamp,
                host_stamp,
                level: prefix.level,
                caller: prefix.caller,
                seq: None,
                offset,
                number,
                text: 0..0,
            };
            if prefix.stamped {
                self.first_stamp.get_or_insert(prefix.stamp.unwrap_or_default());
                if own.starts_with(BANNER) && self.begins_a_boot(prefix.stamp.unwrap_or_default()) {
                    self.banners.push(self.log.lines.len());
                }
            }
            self.push(line, own);
            let Some(at) = next.filter(|_| self.log.lines.len() < self.max.0) else { return };
            self.log.counts.glued += 1;
            self.diagnostics.note(DiagnosticKind::MessagesGlued, || format!("{}:{number}", self.file));
            (prefix, text) = Prefix::strip(&text[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (KernelLog, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read("a.log", text, &mut diagnostics).unwrap();
        let c = log.counts;
        assert_eq!(c.lines, c.records - c.glued + c.continuations + c.comments + c.blank + c.unreadable);
        (log, diagnostics)
    }

    #[track_caller]
    fn check(text: &[u8], expected: &[(Option<i64>, &str)]) -> (KernelLog, Diagnostics) {
        let (log, diagnostics) = read(text);
        let found: Vec<_> = log.lines.iter().map(|l| (l.stamp.map(|s| s.0), log.text(l))).collect();
        assert_eq!(found, expected);
        (log, diagnostics)
    }

    #[test]
    fn console_lines() {
        let text = b"\x1bc\x1b[?7l\x1b[2J\r\n[    0.000000] Linux version 6.1.0\r\n<6>[   12.345678][   T17] a [b] 1.5\r\r\nSeaBIOS\n[    1.5";
        let (log, diagnostics) = check(
            text,
            &[
                (None, "Linux version 6.1.0"),
                (Some(12_345_678_000), "a [b] 1.5"),
                (None, "SeaBIOS"),
                (None, "[    1.5"),
            ],
        );
        assert_eq!((log.lines[1].level, log.lines[1].caller), (Some(6), Some(Caller::Thread(17))));
        assert_eq!((log.lines[1].number, log.lines[1].offset), (3, 49));
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogCut), 1);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogControlCharacters), 0);
    }

    /// A mail quotes a log, and wraps its lines.
    #[test]
    fn lines_that_a_mail_wrapped() {
        let wide = "[    0.270363] initcall init_workqueues+0x0/0x39c returned 0 after 9765";
        let expected: &[(Option<i64>, &str)] = &[
            (Some(255_927_000), "hw perfevents: enabled with ARMv7 Cortex-A9 PMU driver, 7 counters available"),
            (Some(270_363_000), "initcall init_workqueues+0x0/0x39c returned 0 after 9765 usecs"),
            (Some(300_000_000), "a"),
            (None, "not the kernel's"),
        ];
        let first = "[    0.255927] hw perfevents: enabled with ARMv7 Cortex-A9 PMU driver, 7";
        for space in ["", " "] {
            let wrapped =
                format!("{first} \ncounters available\n{wide}{space}\nusecs\n[    0.300000] a\nnot the kernel's\n");
            let (_, diagnostics) = check(wrapped.as_bytes(), expected);
            assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogLineWrapped), 2);
            let quoted: String = wrapped.lines().map(|line| format!("> {line}\n")).collect();
            check(quoted.as_bytes(), expected);
        }
        // A console's line ends in a return, one that had room was not wrapped, and what has a stamp stands alone.
        let alone = [
            format!("{wide} \r\nusecs\r\n"),
            "[    0.270363] a short line \nusecs\n".to_owned(),
            format!("{wide} \n[    0.000000] usecs\n"),
        ];
        for text in alone {
            assert_eq!(read(text.as_bytes()).0.lines.len(), 2, "{text}");
        }
    }

    #[test]
    fn messages_printed_into_one_another() {
        let text =
            b"[    1.234500] foo[    1.234600] bar<4>[    1.234700][    C0] baz\nlogin: [    9.000000] x [1] [2.5] y\n";
        let (log, diagnostics) = check(
            text,
            &[
                (Some(1_234_500_000), "foo"),
                (Some(1_234_600_000), "bar"),
                (Some(1_234_700_000), "baz"),
                (None, "login: "),
                (Some(9_000_000_000), "x [1] [2.5] y"),
            ],
        );
        assert_eq!((log.lines[2].level, log.lines[2].caller), (Some(4), Some(Caller::Cpu(0))));
        assert_eq!(diagnostics.count(DiagnosticKind::LogClockBack), 0);
        assert_eq!((log.counts.glued, diagnostics.count(timeline::DiagnosticKind::MessagesGlued)), (3, 3));
    }

    #[test]
    fn stamps_that_step_back() {
        let stamps = [Some(2_000_000_000), Some(1_000_000_000), None, Some(1_500_000_000), Some(1_000_000_000)];
        let expected: Vec<_> = stamps.into_iter().map(|stamp| (stamp, "x")).collect();
        let text = b"[    2.000000] x\n[    1.000000] x\n[    0.000000] x\n[    1.500000] x\n[    1.000000] x\n";
        let (_, diagnostics) = check(text, &expected);
        assert_eq!(diagnostics.count(DiagnosticKind::LogClockBack), 2);
    }

    #[test]
    fn a_stray_stamp_is_that_line_s_fault() {
        let imported = |text: &str| {
            let mut diagnostics = Diagnostics::default();
            let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
            let stamps: Vec<Option<i64>> =
                log.lines.iter().map(|line| line.stamp.map(|stamp| stamp.0 / 1_000_000)).collect();
            (stamps, diagnostics.count(DiagnosticKind::LogClockBack))
        };
        let log = |stamps: &[&str]| stamps.iter().map(|stamp| format!("[{stamp:>12}] x\n")).collect::<String>();
        let found = imported(&log(&["0.100000", "14.451213", "114.461360", "114.461361", "14.466921", "39.300000"]));
        assert_eq!(found, (vec![Some(100), Some(14_451), None, None, Some(14_466), Some(39_300)], 2));
        // Two CPUs' clocks differ by less, and one step back for good is no stray.
        assert_eq!(imported(&log(&["0.100000", "0.150000", "0.110000", "0.160000"])).0[1], Some(150));
        let again = imported(&log(&["5.000000", "9.000000", "1.000000", "2.000000"]));
        assert_eq!((again.0[1], again.1), (Some(9000), 1));
    }

    #[test]
    fn a_vendor_s_prefix_is_no_text() {
        let (log, _) = check(
            b"[    0.100000]  [0:        swapper:    0] Linux version 3.10.0\n[    6.090000]  [0:           init:    1] init: x\n",
            &[(Some(100_000_000), "Linux version 3.10.0"), (Some(6_090_000_000), "init: x")],
        );
        assert_eq!(log.lines[1].caller, Some(Caller::Thread(1)));
        check(
            b"[    0.479428] [    0.479414]@0 audit: a\n[    0.479608] [    0.479605]@0 b\n",
            &[(Some(479_428_000), "audit: a"), (Some(479_608_000), "b")],
        );
    }

    /// As Debian's 6.1 printed it. It happens once in a boot, and before anything else.
    #[test]
    fn a_kernel_that_finds_its_counter_is_no_step_back() {
        let steps = |text: &str| read(text.as_bytes()).1.count(DiagnosticKind::LogClockBack);
        let found = "[    0.000000] Linux version 6.1\n[    0.028000] tsc: Detected 2594.206 MHz processor\n\
                     [    0.000565] tsc: Marking TSC unstable\n[    0.011000] x\n";
        assert_eq!(steps(found), 0);
        assert_eq!(steps(&found.replace("0.028000", "0.036666")), 0, "300 ticks a second");
        assert_eq!(steps(&found.replace("0.028000", "0.028123")), 1, "no whole tick");
        assert_eq!(steps(&format!("{found}[    0.004100] a second one\n")), 1);
        assert_eq!(steps(&format!("{found}{found}")), 1, "two boots in one log");
    }

    #[track_caller]
    fn check_imported(text: &str, expected: &[&str], others: u64, cut: u64) {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        let found: Vec<_> = log.lines.iter().map(|line| log.text(line)).collect();
        assert_eq!(found, expected);
        assert_eq!(log.all_text(), expected.concat());
        let counted = [DiagnosticKind::LogOtherBoot, DiagnosticKind::LogBeginningMissing, DiagnosticKind::LogClockBack];
        assert_eq!(counted.map(|kind| diagnostics.count(kind)), [others, cut, 0]);
    }

    #[test]
    fn of_several_boots_the_last_counts() {
        let first = "[    0.000000] Linux version 5.10\n[    1.000000] a\n[    2.000000] reboot: Restarting\n";
        let second = "SeaBIOS\n[    0.000000] Booting\n[    0.000000] Linux version 6.1\n[    0.500000] b\n";
        let kept = ["SeaBIOS", "Booting", "Linux version 6.1", "b"];
        check_imported(&format!("{first}{second}"), &kept, 3, 0);
        check_imported(&format!("{first}{first}{second}"), &kept, 6, 0);
        check_imported(&format!("[    7.000000] the end of one\n{second}"), &kept, 1, 0);
        check_imported(second, &kept, 0, 0);
        // A boot that stopped before its clock ran.
        let early = "[    0.000000] Linux version 5.10\n";
        check_imported(&format!("{early}{early}[    0.500000] b\n"), &["Linux version 5.10", "b"], 1, 0);
        check_imported(&format!("{first}{early}{early}"), &["Linux version 5.10"], 4, 0);
        // What a program prints of the kernel has no stamp, and sparc64 stamps what it says before its banner.
        check_imported(
            "[    1.000000] a\nLinux version 6.1\n[    2.000000] b\n",
            &["a", "Linux version 6.1", "b"],
            0,
            1,
        );
        check_imported("[    0.000011] P\n[    0.000066] Linux version 5\n", &["P", "Linux version 5"], 0, 0);
        // A program that writes to /dev/kmsg, and a log with its newest line first.
        for at in ["0.900000", "6.000000"] {
            let text =
                format!("[    0.000000] Linux version 6.1\n[    0.500000] b\n[    {at}] Linux version 5.4 reported\n");
            check_imported(&text, &["Linux version 6.1", "b", "Linux version 5.4 reported"], 0, 0);
        }
        let mut diagnostics = Diagnostics::default();
        let newest_first = b"[    2.000000] b\n[    1.000000] a\n[    0.000000] Linux version 6.1\n";
        let log = KernelLog::read_imported("a.log", newest_first, &mut diagnostics).unwrap();
        assert_eq!((log.lines.len(), diagnostics.count(DiagnosticKind::LogOtherBoot)), (3, 0));
    }

    #[test]
    fn a_log_without_its_beginning() {
        check_imported("[    1.000000] a\n", &["a"], 0, 1);
        check_imported("[    0.999999] a\n[    9.000000] b\n", &["a", "b"], 0, 0);
        check_imported("[    0.000000] a\n[    9.000000] b\n", &["a", "b"], 0, 0);
        check_imported("a\nb\n", &["a", "b"], 0, 0);
    }

    #[test]
    fn bytes_that_are_no_text() {
        let (_, diagnostics) = check(b"[    1.000000] a\0\0b\xff\x07\n", &[(Some(1_000_000_000), "ab\u{fffd}")]);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogControlCharacters), 3);
    }

    #[test]
    fn the_stamps_of_serial_loggers() {
        let kernel = |at: &str, second: &str| {
            format!("{at}[    0.000000] Linux version 3.5.7\r\n{second}[    0.250000] Brought up 1 CPUs\r\n")
        };
        let cases = [
            ("grabserial", "[0.000002 0.000002] ", "[0.300002 0.300000] "),
            ("syslog or ts", "Nov 21 23:59:59.9 ", "Nov 22 00:00:00.2 "),
            ("syslog or ts", "Dec 31 23:59:59.9 box kernel: ", "Jan  1 00:00:00.2 box kernel: "),
            ("ts with a time of day", "23:59:59.900000 ", "00:00:00.200000 "),
            ("ts with seconds", "1700000000.100000 ", "1700000000.400000 "),
            ("minicom or tio", "[2026-02-28 23:59:59.900] ", "[2026-03-01 00:00:00.200] "),
            ("minicom or tio", "[23:59:59.900] ", "[00:00:00.200] "),
            (
                "date and time",
                "2026-11-21T10:11:12.500000+00:00 box kernel: ",
                "2026-11-21T10:11:12.800000+00:00 box kernel: ",
            ),
            ("date and time", "2026-11-21 10:11:12,500 ", "2026-11-21 10:11:12,800 "),
            ("a second stamp in brackets", "[   10.100000] ", "[   10.400000] "),
        ];
        for (name, first, second) in cases {
            let (log, diagnostics) = check(
                kernel(first, second).as_bytes(),
                &[(None, "Linux version 3.5.7"), (Some(250_000_000), "Brought up 1 CPUs")],
            );
            assert_eq!(log.logger, Some(name));
            let host: Vec<_> = log.lines.iter().map(|l| l.host_stamp.unwrap().0).collect();
            assert_eq!(host, [0, 300_000_000], "{first}");
            assert!(diagnostics.is_empty(), "{diagnostics:?}");
        }
        // grabserial -m began again at the second line; a line that is missing is no such thing.
        let (log, _) = check(
            b"[5.000000 0.000000] a\n[5.300000 0.300000] b\n[0.250000 0.250000] c\n[9.000000 0.010000] d\n",
            &[(None, "a"), (None, "b"), (None, "c"), (None, "d")],
        );
        let host: Vec<_> = log.lines.iter().map(|l| l.host_stamp.unwrap().0 / 1_000_000).collect();
        assert_eq!(host, [0, 300, 550, 9_300]);
        let (log, _) = check(
            b"[Sat Nov 21 07:17:05 2026] Linux version 6.1\n[Sat Nov 21 07:17:06 2026] smp: up\n",
            &[(Some(0), "Linux version 6.1"), (Some(1_000_000_000), "smp: up")],
        );
        assert_eq!(
            (log.logger, log.lines[1].host_stamp),
            (Some(host_stamp::DMESG_T), None),
            "they are the kernel's own"
        );
        check(
            b"kern  :info  : [    1.500000] a\nkern  :err   : [    2.000000] b\n",
            &[(Some(1_500_000_000), "a"), (Some(2_000_000_000), "b")],
        );
    }

    #[test]
    fn records_of_kmsg() {
        let text = b"# how: ring buffer\n6,3,0,-;Linux version 6.1\n7,4,1500001,-;a\\x5cb\\x0ac\n SUBSYSTEM=acpi\n DEVICE=+acpi:X\n30,5,1500002.750,-,caller=T12;systemd\n4,9,1500003,c,caller=C1;late\n7,9,1,-;again\nrubbish\n7,10,15";
        let (log, diagnostics) = check(
            text,
            &[
                (None, "Linux version 6.1"),
                (Some(1_500_001_000), "a\\b\nc"),
                (Some(1_500_002_750), "systemd"),
                (Some(1_500_003_000), "late"),
                (Some(1_000), "again"),
            ],
        );
        let callers: Vec<_> = log.lines.iter().map(|l| (l.level, l.caller, l.seq)).collect();
        assert_eq!(callers[2], (Some(6), Some(Caller::Thread(12)), Some(5)));
        assert_eq!(callers[3], (Some(4), Some(Caller::Cpu(1)), Some(9)));
        assert_eq!(log.comments, ["how: ring buffer"]);
        assert_eq!((log.lost, log.counts.continuations, log.counts.unreadable), (6, 2, 2));
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgOverwritten), 3);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgMissing), 3);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgOutOfOrder), 1);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgRecordUnreadable), 2);
    }

    #[test]
    fn an_empty_file_is_no_log() {
        let error = KernelLog::read("a.log", b"", &mut Diagnostics::default()).unwrap_err();
        assert_eq!(error.to_string(), "a.log: this is not a kernel log: the file is empty");
    }
}
