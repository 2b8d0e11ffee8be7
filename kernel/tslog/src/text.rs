//! The log as text, exactly as FreeBSD's `sysctl -b debug.tslog` prints it (sys/kern/kern_tslog.c):
//!
//! ```text
//! 0x<thread> <ticks> ENTER|EXIT|THREAD|EVENT <name>[ <detail>]
//! ```
//!
//! Thread in hexadecimal, ticks in decimal, a line per record in the order of the slots. A missing name is `(null)`, a
//! missing detail is not printed. What could break a line or a column is replaced and counted: white space in a name by
//! `_`, control characters by `?`, bytes that are not UTF-8 by U+FFFD, an empty name by `(empty)`. A name at an address
//! that cannot be read, or that was recorded before the kernel moved itself, is printed as `@0x<address>`.
//!
//! What the text cannot say otherwise stands in last lines of the same form, with thread 0 and the last record's ticks,
//! and only if there is something to say: `EVENT TSLOG dropped 17`. The words are `dropped`, `half-written`, `strange` (malformed),
//! `missing`, `before-start`, and `hz` for the counter's rate.

use crate::image::{Image, Slot};
use crate::log::Log;
use crate::name::{NAME_BYTES_MAX, Name};
use crate::record::Entry;
use core::cell::Cell;
use core::fmt::{self, Write};

/// What the last line calls malformed slots: a word of the text format, which readers know.
const MALFORMED: &str = "strange";
/// Names of an image are printed up to so many bytes for each byte of its region, and so many more: a few bytes of names
/// in a hostile image would else be printed a thousand times over. Names of a kernel have 20 bytes, a record 40.
const NAMES_BYTES_PER_BYTE: usize = 4;
const NAMES_BYTES_MORE: usize = 1 << 20;

/// What was printed, and what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Records printed.
    pub records: u64,
    /// Events that found no slot.
    pub dropped: u64,
    /// Slots reserved and not yet written.
    pub half_written: u64,
    /// Slots that no recorder of this version wrote.
    pub malformed: u64,
    /// Slots that the image no longer holds.
    pub missing: u64,
    /// Events before the log was started.
    pub before_start: u64,
    /// Names at addresses that could not be read.
    pub unresolved: u64,
    /// Names longer than [`NAME_BYTES_MAX`], or not readable to their end.
    pub cut: u64,
    /// Names printed as addresses because the names of an image came to more than is printed.
    pub left_out: u64,
    /// Names in which something was replaced, and empty ones.
    pub mended: u64,
}

/// Prints a log out of an image of memory. `read_phys` is as in [`Image::name_bytes`].
///
/// # Errors
/// Those of `out`.
pub fn write_image_text<W: Write>(
    image: &Image<'_>,
    out: &mut W,
    read_phys: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Result<Dump, fmt::Error> {
    let counts = image.counts();
    let dump = Dump {
        dropped: counts.dropped,
        missing: counts.missing,
        before_start: image.head().before_start,
        ..Dump::default()
    };
    let ticks_hz = image.head().ticks_hz.unwrap_or(0);
    let mut read = |name: Name, buffer: &mut [u8]| image.name_bytes(name, buffer, read_phys).map(<[u8]>::len);
    let names_left = image.bytes().saturating_mul(NAMES_BYTES_PER_BYTE).saturating_add(NAMES_BYTES_MORE);
    Printer { out, dump, names_left, ticks_hz, last_ticks: 0, read: &mut read }.all(image.slots())
}

/// Prints a log in which others may still be writing.
///
/// # Safety
/// The names in it are at addresses that can be read, for as long as they say or up to a NUL: those in the log itself, and
/// those recorded since it was last moved.
pub(crate) unsafe fn write_live_text<W: Write>(log: Log, out: &mut W) -> Result<Dump, fmt::Error> {
    // First: what is recorded from now on, perhaps by printing, is not part of it.
    let counts = log.counts();
    let dump = Dump { dropped: counts.dropped, before_start: counts.before_start, ..Dump::default() };
    let printing = Cell::new(0);
    let slots = (0..counts.reserved).inspect(|slot| printing.set(*slot)).map(|slot| log.slot(slot));
    let mut read = |name: Name, buffer: &mut [u8]| {
        let address = log.name_now(printing.get(), name.address())?;
        // SAFETY: the caller's promise is the same.
        Some(unsafe { copy_live(Name { address, ..name }, buffer) })
    };
    Printer { out, dump, names_left: usize::MAX, ticks_hz: log.ticks_hz(), last_ticks: 0, read: &mut read }.all(slots)
}

/// # Safety
/// The name is at an address that can be read, for as long as it says or up to a NUL.
unsafe fn copy_live(name: Name, buffer: &mut [u8]) -> usize {
    let bytes: *const u8 = core::ptr::with_exposed_provenance(name.address() as usize);
    let wanted = name.bytes().unwrap_or(usize::MAX).min(buffer.len());
    for (at, to) in buffer[..wanted].iter_mut().enumerate() {
        // SAFETY: within the length that the name says, or not past the first NUL.
        *to = unsafe { bytes.add(at).read() };
        if name.bytes().is_none() && *to == 0 {
            return at;
        }
    }
    wanted
}

struct Printer<'a, W> {
    out: &'a mut W,
    dump: Dump,
    /// So many bytes of names may still be printed.
    names_left: usize,
    /// 0: not known.
    ticks_hz: u64,
    last_ticks: u64,
    /// Fills a buffer with a name, without its NUL, and says how long it is; None if it cannot be read.
    read: &'a mut dyn FnMut(Name, &mut [u8]) -> Option<usize>,
}

impl<W: Write> Printer<'_, W> {
    fn all(mut self, slots: impl Iterator<Item = Slot>) -> Result<Dump, fmt::Error> {
        for slot in slots {
            match slot {
                Slot::Whole(entry) => self.record(&entry)?,
                Slot::HalfWritten => self.dump.half_written += 1,
                Slot::Malformed => self.dump.malformed += 1,
            }
        }
        let Dump { dropped, half_written, malformed, missing, before_start, .. } = self.dump;
        self.last_words("dropped", dropped)?;
        self.last_words("half-written", half_written)?;
        self.last_words(MALFORMED, malformed)?;
        self.last_words("missing", missing)?;
        self.last_words("before-start", before_start)?;
        self.last_words("hz", self.ticks_hz)?;
        Ok(self.dump)
    }

    fn record(&mut self, entry: &Entry) -> fmt::Result {
        self.dump.records += 1;
        self.last_ticks = entry.ticks;
        write!(self.out, "{:#x} {} {} ", entry.thread, entry.ticks, entry.kind.as_str())?;
        if entry.name.is_none() {
            self.out.write_str("(null)")?;
        } else {
            self.name(entry.name, b'_')?;
        }
        if !entry.detail.is_none() {
            self.out.write_char(' ')?;
            self.name(entry.detail, b' ')?;
        }
        self.out.write_char('\n')
    }

    /// `space`: what a space is printed as.
    fn name(&mut self, name: Name, space: u8) -> fmt::Result {
        // One more, to see that a name is longer.
        let mut buffer = [0; NAME_BYTES_MAX + 1];
        let Some(bytes) = (self.read)(name, &mut buffer) else {
            self.dump.unresolved += 1;
            return write!(self.out, "@{:#x}", name.address());
        };
        let wanted = name.bytes().unwrap_or(bytes);
        self.dump.cut += u64::from(bytes < wanted || bytes > NAME_BYTES_MAX);
        let mut shown = name.shown(&buffer[..bytes.min(NAME_BYTES_MAX)]);
        if self.names_left < shown.len() {
            self.dump.left_out += 1;
            return write!(self.out, "@{:#x}", name.address());
        }
        self.names_left -= shown.len();
        // A line that ends after its kind would be taken for one that was cut.
        if shown.is_empty() && space == b'_' {
            shown = b"(empty)";
            self.dump.mended += 1;
        }
        let mended = mended(shown, space, self.out)?;
        self.dump.mended += u64::from(mended);
        Ok(())
    }

    fn last_words(&mut self, what: &str, count: u64) -> fmt::Result {
        if count == 0 {
            return Ok(());
        }
        writeln!(self.out, "0x0 {} EVENT TSLOG {what} {count}", self.last_ticks)
    }
}

/// Prints bytes so that they stay in their line and column; says whether something had to be replaced.
fn mended<W: Write>(bytes: &[u8], space: u8, out: &mut W) -> Result<bool, fmt::Error> {
    let mut mended = false;
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            let shown = match char {
                ' ' => char::from(space),
                _ if char.is_whitespace() && space != b' ' => '_',
                _ if char.is_control() => '?',
                _ => char,
            };
            mended |= shown != char;
            out.write_char(shown)?;
        }
        if !chunk.invalid().is_empty() {
            mended = true;
            out.write_char(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(mended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TicksSource;
    use crate::log::Region;
    use crate::record::Kind;
    use crate::testing::{bytes_of, write};

    /// Memory for names, and what to fill it with: reading in pieces stays within.
    #[repr(align(64))]
    struct Names([u8; 2048]);

    type Event<'a> = (Kind, Option<&'a [u8]>, Option<&'a [u8]>);

    /// Records events with names that are these bytes, and prints them from inside and from an image, which agree.
    /// A name ends before its first NUL, if it has one.
    fn print(events: &[Event], log: Log) -> (String, Dump) {
        let names = Box::leak(Box::new(Names([0; 2048])));
        let mut used = 0;
        let start = names.0.as_ptr().expose_provenance() as u64;
        let mut name = |bytes: Option<&[u8]>| {
            let Some(bytes) = bytes else { return Name::NONE };
            names.0[used..used + bytes.len()].copy_from_slice(bytes);
            let address = start + used as u64;
            used += bytes.len();
            Name { address, bytes: if bytes.contains(&0) { 0 } else { bytes.len() as u16 }, flags: 0 }
        };
        for (n, (kind, first, second)) in (0..).zip(events) {
            let (first, second) = (name(*first), name(*second));
            let entry = Entry { ticks: 1_000_000 + n, thread: 0xf00, kind: *kind, name: first, detail: second };
            write(log, &entry);
        }
        log.add_range(start, 0x1000, 2048);
        let mut live = String::new();
        // SAFETY: the names are in memory that is never freed, and each is within it.
        let dump = unsafe { write_live_text(log, &mut live) }.expect("a string takes all");
        let mut read_phys = |phys: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(&names.0[phys as usize - 0x1000..][..buffer.len()]);
            true
        };
        let (bytes, mut from_image) = (bytes_of(log), String::new());
        let image = Image::new(&bytes).expect("a header");
        let same = write_image_text(&image, &mut from_image, &mut read_phys).expect("a string takes all");
        assert_eq!((&live, dump), (&from_image, same));
        (live, dump)
    }

    #[test]
    fn it_is_freebsds_text() {
        static REGION: Region<8, 0> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        let (text, dump) = print(
            &[
                (Kind::Enter, Some(b"hammer_time\0"), None),
                (Kind::Enter, Some(b"SYSINIT"), Some(b"clocks")),
                (Kind::Exit, Some(b"SYSINIT"), Some(b"clocks")),
                (Kind::Thread, Some(b"usbus0"), None),
                (Kind::Event, Some(b"WAIT"), Some(b"root mount\0")),
                (Kind::Event, None, None),
                (Kind::Exit, Some(b"none"), Some(b"\0")),
                (Kind::Thread, Some(b"\0"), None),
            ],
            log,
        );
        let expected = "0xf00 1000000 ENTER hammer_time\n\
                        0xf00 1000001 ENTER SYSINIT clocks\n\
                        0xf00 1000002 EXIT SYSINIT clocks\n\
                        0xf00 1000003 THREAD usbus0\n\
                        0xf00 1000004 EVENT WAIT root mount\n\
                        0xf00 1000005 EVENT (null)\n\
                        0xf00 1000006 EXIT none \n\
                        0xf00 1000007 THREAD (empty)\n";
        assert_eq!(text, expected);
        assert_eq!(dump, Dump { records: 8, mended: 1, ..Dump::default() });
    }

    #[test]
    fn what_would_break_a_line_or_a_column_is_replaced() {
        static REGION: Region<8, 0> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        let (text, dump) = print(
            &[
                (Kind::Enter, Some(b"<A as B>\tc"), Some(b"two words\n0x0 1 EXIT x")),
                (Kind::Enter, Some(b"\xff\x1b[31m"), Some("größer €".as_bytes())),
            ],
            log,
        );
        let expected = "0xf00 1000000 ENTER <A_as_B>_c two words?0x0 1 EXIT x\n\
                        0xf00 1000001 ENTER \u{fffd}?[31m größer €\n";
        assert_eq!(text, expected);
        assert_eq!(dump, Dump { records: 2, mended: 3, ..Dump::default() });
    }

    #[test]
    fn what_is_not_there_is_said_at_the_end() {
        static REGION: Region<2, 0> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        let _interrupted = log.reserve();
        log.set_ticks_hz(24_000_000);
        let (text, dump) = print(&[(Kind::Enter, Some(b"a"), None), (Kind::Exit, Some(b"a"), None)], log);
        let expected = "0xf00 1000000 ENTER a\n\
                        0x0 1000000 EVENT TSLOG dropped 1\n\
                        0x0 1000000 EVENT TSLOG half-written 1\n\
                        0x0 1000000 EVENT TSLOG hz 24000000\n";
        assert_eq!(text, expected);
        assert_eq!(dump, Dump { records: 1, dropped: 1, half_written: 1, ..Dump::default() });
    }

    #[test]
    fn a_long_name_is_cut_and_an_unreadable_one_is_an_address() {
        static REGION: Region<4, 0> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        let long = [b'x'; NAME_BYTES_MAX + 20];
        let (text, dump) = print(&[(Kind::Enter, Some(&long), None)], log);
        assert_eq!(text.len(), "0xf00 1000000 ENTER \n".len() + NAME_BYTES_MAX);
        assert_eq!(dump, Dump { records: 1, cut: 1, ..Dump::default() });

        let bytes = bytes_of(log);
        let image = Image::new(&bytes).expect("a header");
        let mut text = String::new();
        let dump = write_image_text(&image, &mut text, &mut |_, _| false).expect("a string takes all");
        assert!(text.starts_with("0xf00 1000000 ENTER @0x"), "{text}");
        assert_eq!(dump, Dump { records: 1, unresolved: 1, ..Dump::default() });
    }
}
