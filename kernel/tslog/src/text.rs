//! The log as text, exactly as FreeBSD's `sysctl -b debug.tslog` prints it (sys/kern/kern_tslog.c):
//!
//! ```text
//! 0x<thread> <ticks> ENTER|EXIT|THREAD|EVENT <name>[ <detail>]
//! ```
//!
//! The thread is in hexadecimal, the ticks are in decimal. Each record is one line, in the order of the slots. A missing
//! name is `(null)`, a missing detail is not printed. Characters that could break a line or a column are replaced and
//! counted: white space in a name by `_`, control characters by `?`, bytes that are not UTF-8 by U+FFFD, an empty name by
//! `(empty)`. A name is printed as `@0x<address>` if its address cannot be read, or if it was recorded before the kernel
//! moved itself.
//!
//! The last lines hold counts in the same form, with thread 0 and the last record's ticks: `EVENT TSLOG dropped 17`. Each
//! is printed only if its count is not 0. The words are `dropped`, `half-written`, `strange` (malformed), `missing`,
//! `before-start`, and `hz` for the counter's rate.

use crate::image::{Image, Slot};
use crate::log::Log;
use crate::name::{NAME_BYTES_MAX, Name};
use crate::record::Entry;
use core::cell::Cell;
use core::fmt::{self, Write};

/// Word for malformed slots in the last lines. It is part of the text format that readers parse.
const MALFORMED: &str = "strange";
/// Bound on the names printed of an image: 4 bytes for each byte of the region, plus [`MAX_EXTRA_NAME_BYTES`]. Without
/// the bound, a hostile image could have a few bytes of names printed a thousand times. A kernel's names have about 20
/// bytes, a record has 40.
const MAX_NAME_BYTES_PER_BYTE: usize = 4;
const MAX_EXTRA_NAME_BYTES: usize = 1 << 20;

/// Counts of what was printed and what could not be printed.
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
    /// Slots past the end of the image.
    pub missing: u64,
    /// Events before the log was started.
    pub before_start: u64,
    /// Names at addresses that could not be read.
    pub unresolved: u64,
    /// Names longer than [`NAME_BYTES_MAX`], or not readable to their end.
    pub cut: u64,
    /// Names printed as addresses because the names of the image exceeded the bound on printed bytes.
    pub left_out: u64,
    /// Names in which a character was replaced, and empty names.
    pub mended: u64,
}

/// Prints a log out of an image of memory. `read_phys` works as in [`Image::name_bytes`].
///
/// # Errors
/// Returns the errors of `out`.
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
    let names_left = image.bytes().saturating_mul(MAX_NAME_BYTES_PER_BYTE).saturating_add(MAX_EXTRA_NAME_BYTES);
    Printer { out, dump, names_left, ticks_hz, last_ticks: 0, read: &mut read }.all(image.slots())
}

/// Prints a log while other threads may still write into it.
///
/// # Safety
/// Names in the log itself, and names recorded since its last move, can be read at their addresses, for their length or up
/// to a NUL.
pub(crate) unsafe fn write_live_text<W: Write>(log: Log, out: &mut W) -> Result<Dump, fmt::Error> {
    // Taken first: events from now on, perhaps caused by printing, are not part of the output.
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

/// Copies a name without its NUL and returns its length, at most the buffer's.
///
/// # Safety
/// The name can be read at its address, for its length or up to a NUL.
unsafe fn copy_live(name: Name, buffer: &mut [u8]) -> usize {
    let bytes: *const u8 = core::ptr::with_exposed_provenance(name.address() as usize);
    let wanted = name.bytes().unwrap_or(usize::MAX).min(buffer.len());
    for (at, to) in buffer[..wanted].iter_mut().enumerate() {
        // SAFETY: the byte is within the name's length, or not past its first NUL.
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
    /// Number of bytes of names that may still be printed.
    names_left: usize,
    /// 0: not known.
    ticks_hz: u64,
    last_ticks: u64,
    /// Fills a buffer with a name, without its NUL, and returns its length. Returns `None` if the name cannot be read.
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

    /// Prints a name, with each space as `space`.
    fn name(&mut self, name: Name, space: u8) -> fmt::Result {
        // One more byte, to see that a name is longer.
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
        // A reader would take a line that ends after its kind for a cut line.
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

/// Prints bytes so that they stay in their line and column. Returns true if a character was replaced.
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

    /// Memory for names, aligned so that reading in pieces of 64 bytes stays within it.
    #[repr(align(64))]
    struct Names([u8; 2048]);

    type Event<'a> = (Kind, Option<&'a [u8]>, Option<&'a [u8]>);

    /// Records events with these bytes as names. Prints the live log and an image of it, and checks that both texts agree.
    /// If a name has a NUL, it ends before the first one.
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
    fn missing_records_are_counted_in_the_last_lines() {
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
