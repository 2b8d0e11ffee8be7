//! The kernel's messages, in every form that logs give them.
//!
//! ```text
//! 6,339,5140900,-;NET: Registered protocol family 10        /dev/kmsg: priority,sequence,µs,flags;text
//!  SUBSYSTEM=net                                            … and what belongs to the record above
//! [    0.260204] initcall spawn_ksoftirqd+0x0/0x58 …        dmesg, or a console
//! <6>[    1.234567][    T1] calling  acpi_init …            with level and caller
//! [2.104881 0.000123] [    0.260204] Brought up 1 CPUs      with the stamp of the serial line's logger
//! Nov 21 10:11:12 box kernel: [    0.260204] …              syslog, journal
//! [    1.23456[    1.234570] a message printed into another one
//! ```
//! A console also holds what is not the kernel's: each line of it is a [`Line`] without stamp. The
//! text is kept without carriage returns, escape sequences and control characters; the file keeps
//! them. A stamp of 0.000000 does not count: the clock did not run yet.

mod clean;
mod damage;
pub(crate) mod dmesg_json;
mod host_stamp;
mod imported;
mod kmsg;
mod loader_stamp;
mod mail;
mod own_stamp;
mod prefix;
mod resolution;
mod sorted;
mod stamp;
mod vendor;

use crate::NotThisFormat;
use crate::formats::other_kernels;
use crate::formats::vmm_log;
use crate::input::records_max;
use crate::input::text;
use crate::input::text::{Lines, lossy};
pub(crate) use clean::{Cleaner, is_unclean};
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics, Ns};

use host_stamp::{DMESG_T, WHOLE_SECONDS};
pub(crate) use host_stamp::{GRABSERIAL, Loggers, after_date, date_of};
pub(crate) use kmsg::{escape, record as kmsg_record};
pub use loader_stamp::LoaderStamp;
pub(crate) use loader_stamp::LoaderStamps;
pub(crate) use prefix::Prefix;
pub(crate) use stamp::after_stamp;

/// The format's name in diagnostics.
const NAME: &str = "kernel log";
/// Memory of a message, in bytes: its [`Line`], its mark and its name on the timeline, and what is made of it.
const LINE_COST: usize = 260;
/// A message is cut behind this. A kernel's has 1 KiB, and a program's on the console is a line.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The texts of a file may be this much longer than the file: a byte that is not text becomes three.
const TEXT_BYTES_MORE: usize = 4 << 20;
const COMMENTS_MAX: usize = 64;

/// The thread or interrupt that printed a message.
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
    /// True if it was printed before the kernel's clock ran: its stamp is 0.000000.
    pub before_clock: bool,
    /// The stamp of the serial line's logger, counted from the first such stamp.
    pub host_stamp: Option<Ns>,
    /// The stamp of firmware, a boot loader or a hypervisor, if one of them printed it.
    pub loader_stamp: Option<LoaderStamp>,
    /// Its level, 0 (emergency) to 7 (debug).
    pub level: Option<u8>,
    pub caller: Option<Caller>,
    /// Its sequence number in `/dev/kmsg`.
    pub seq: Option<u64>,
    /// The offset in the file of the line that it stands in, in bytes.
    pub offset: u64,
    /// That line's number, from 1.
    pub number: u32,
    /// In [`KernelLog`]'s text; a file has at most 1 GiB, of which replacing bytes that are no
    /// text makes at most three.
    text: Range<u32>,
}

impl Line {
    fn text_range(&self) -> Range<usize> {
        self.text.start as usize..self.text.end as usize
    }

    /// A line that only its logger may have stamped.
    fn unstamped(host_stamp: Option<Ns>, offset: u64, number: u32) -> Line {
        Line {
            stamp: None,
            before_clock: false,
            host_stamp,
            loader_stamp: None,
            level: None,
            caller: None,
            seq: None,
            offset,
            number,
            text: 0..0,
        }
    }
}

/// The numbers of the file's lines of each kind:
/// `lines = records - glued + continuations + comments + blank + unreadable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lines: u64,
    /// Messages found.
    pub records: u64,
    /// The messages among these that began in the middle of a line.
    pub glued: u64,
    /// Lines that belong to the record before them.
    pub continuations: u64,
    /// Lines that begin with `#` in a file of records, and lines of a VMM.
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
    /// The numbers of lines of each kind.
    pub counts: Counts,
    /// Messages that are missing, by their sequence numbers.
    pub lost: u64,
    /// Comments (`# how: …`) of a file of records.
    pub comments: Vec<String>,
    /// The name of the program that stamped the lines, if one did.
    pub logger: Option<&'static str>,
    /// The number of the last line of a kernel that started this one by kexec, where a logger stamped both.
    pub earlier: Option<u32>,
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
    pub(crate) fn read_line(
        file: &str,
        bytes: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Result<KernelLog, NotThisFormat> {
        let mut reader = Reader::read(file, bytes, diagnostics)?;
        damage::unstamp(file, &mut reader.log, reader.diagnostics);
        reader.note_steps_back();
        Ok(reader.log)
    }

    /// The same of a log taken elsewhere, which can hold several boots, or lack its beginning. The last boot that reached process 1
    /// counts.
    ///
    /// # Errors
    /// As [`KernelLog::read`].
    pub(crate) fn read_imported(
        file: &str,
        bytes: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Result<KernelLog, NotThisFormat> {
        KernelLog::read_boot(file, bytes, None, diagnostics)
    }

    /// The same, where the user may have chosen the boot: 0 is the last, -1 the one before.
    ///
    /// # Errors
    /// As [`KernelLog::read`].
    pub(crate) fn read_boot(
        file: &str,
        bytes: &[u8],
        boot: Option<i32>,
        diagnostics: &mut Diagnostics,
    ) -> Result<KernelLog, NotThisFormat> {
        let mut reader = Reader::read(file, bytes, diagnostics)?;
        reader.keep_boot(boot);
        reader.cut_at_suspend();
        reader.drop_times_of_reading();
        reader.join_counters();
        reader.count_from_zero();
        reader.note_missing_beginning();
        if !reader.is_sorted {
            reader.unstamp_strays();
            reader.note_steps_back();
        }
        Ok(reader.log)
    }

    /// The log made of lines that another reader took from its file, each with a stamp.
    pub(crate) fn of_stamped<'a>(
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
        &self.text[line.text_range()]
    }

    /// All texts, one after the other without anything between.
    pub(crate) fn all_text(&self) -> &str {
        &self.text
    }

    /// Forgets what a logger stamped.
    pub(crate) fn forget_host_stamps(&mut self) {
        self.lines.iter_mut().for_each(|line| line.host_stamp = None);
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

/// A line of a console that a program logged, and the time when it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampedLine<'a> {
    pub at: Ns,
    /// The line, without its end.
    pub text: &'a [u8],
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The number of its line in the file, from 1.
    pub number: u32,
}

struct Reader<'d> {
    file: &'d str,
    diagnostics: &'d mut Diagnostics,
    log: KernelLog,
    /// The indices of lines that are a kernel's first words and have its stamp. A program may print such words without
    /// a stamp.
    banners: Vec<usize>,
    /// The first stamp of the text form, also one of 0.000000.
    first_stamp: Option<Ns>,
    /// The most messages that are kept, and the most bytes of their texts.
    max: (usize, usize),
    loader_stamps: LoaderStamps,
    /// True if the lines are in order of their lengths, and not of their stamps.
    is_sorted: bool,
    /// True if a daemon read the messages from the kernel's buffer.
    is_from_daemon: bool,
}

/// The first words of Linux's first message, or of one soon after it.
const BANNER: &[u8] = b"Linux version ";

/// True for the first message of a kernel, or one soon after it.
fn is_banner(text: &[u8]) -> bool {
    text.starts_with(BANNER) || other_kernels::is_first_message(text)
}

/// A log whose first stamp is this late or later has lost its beginning.
const BEGINNING_MAX: Ns = Ns::from_ms(1000);

impl<'d> Reader<'d> {
    fn new(file: &'d str, diagnostics: &'d mut Diagnostics) -> Self {
        let (max, loader_stamps) = ((usize::MAX, usize::MAX), LoaderStamps::default());
        Reader {
            file,
            diagnostics,
            log: KernelLog::default(),
            banners: Vec::new(),
            first_stamp: None,
            max,
            loader_stamps,
            is_sorted: false,
            is_from_daemon: false,
        }
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

    /// True if no more messages are kept. It then counts the lines of the rest of the file, from `line` on.
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
        self.loader_stamps = LoaderStamps::detect(bytes, &loggers);
        let mut cleaner = Cleaner::default();
        let quoted = mail::is_quoted(bytes);
        let (mut wrap, mut has_banner) = (mail::Wrap::default(), false);
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next() {
            if self.is_full(line, &lines) {
                break;
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
            if vmm_log::entry(text).is_some() {
                self.log.counts.comments += 1;
                continue;
            }
            let (mut host_stamp, text) = loggers.strip(text);
            if text.trim_ascii().is_empty() {
                self.log.counts.blank += 1;
                continue;
            }
            let is_own = loggers.is_own();
            let dmesg = [Some(DMESG_T), Some(host_stamp::DMESG_H), Some(WHOLE_SECONDS)];
            let wall_clock = host_stamp.take_if(|_| is_own || dmesg.contains(&self.log.logger));
            if wrap.goes_on(text) && host_stamp.is_none() && wall_clock.is_none() {
                self.log.go_on(text.trim_ascii());
                self.diagnostics.note(DiagnosticKind::LogLineWrapped, place);
                wrap = mail::Wrap::default();
                continue;
            }
            let restored = sorted::restored(text);
            self.is_sorted |= restored.is_some();
            let text = restored.as_deref().unwrap_or(text);
            let first = self.log.lines.len();
            if is_banner(text) {
                let begins = match wall_clock {
                    Some(stamp) if is_own || self.log.logger == Some(WHOLE_SECONDS) => self.begins_a_boot(text, stamp),
                    // A wall clock goes on from boot to boot.
                    Some(_) => true,
                    // In a log with stamps, a first message without one begins another boot if it occurs again.
                    None => is_own && std::mem::replace(&mut has_banner, true),
                };
                self.banners.extend(begins.then_some(first));
            }
            self.messages(text, host_stamp, line.offset as u64, line.number);
            // These stamps are the system's own.
            self.log.lines[first..].iter_mut().for_each(|line| line.stamp = line.stamp.or(wall_clock));
            wrap = match self.log.lines.last().filter(|last| last.stamp.is_some()) {
                Some(last) => mail::Wrap::after(unquoted, self.log.text(last)),
                None => mail::Wrap::default(),
            };
        }
        self.is_from_daemon = loggers.has_origin();
    }

    /// True if a banner with this stamp is a kernel's own: its clock has just begun. A banner that a program writes to
    /// /dev/kmsg has a later stamp than the line before it.
    fn begins_a_boot(&self, text: &[u8], stamp: Ns) -> bool {
        let before = self.log.lines.iter().rev().find_map(|line| line.stamp);
        // Several of a boot's first lines may be such words, each other ones: no time passes between them.
        let since = self.banners.last().map_or(&[][..], |banner| &self.log.lines[*banner..]);
        let is_other = since.first().is_some_and(|line| self.log.text(line).as_bytes().get(..8) != text.get(..8));
        let is_same = is_other && since.iter().all(|line| line.stamp.is_none_or(|other| other <= stamp));
        before.is_none_or(|before| stamp <= BEGINNING_MAX && stamp <= before) && !is_same
    }

    /// The message that a line begins with, and those that were printed into it.
    fn messages(&mut self, text: &[u8], host_stamp: Option<Ns>, offset: u64, number: u32) {
        if let Some((stamp, text)) = self.loader_stamps.strip(text) {
            let line = Line { loader_stamp: Some(stamp), ..Line::unstamped(host_stamp, offset, number) };
            return self.push(line, text);
        }
        let (mut prefix, mut text) = Prefix::strip(text);
        loop {
            let next = stamp::find_glued(text);
            let own = &text[..next.map_or(text.len(), |at| at)];
            let line = Line {
                stamp: prefix.stamp,
                before_clock: prefix.stamped && prefix.stamp.is_none(),
                level: prefix.level,
                caller: prefix.caller,
                ..Line::unstamped(host_stamp, offset, number)
            };
            if prefix.stamped {
                self.first_stamp.get_or_insert(prefix.stamp.unwrap_or_default());
                if is_banner(own) && self.begins_a_boot(own, prefix.stamp.unwrap_or_default()) {
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
mod tests;
