//! Reads the log out of an image of another machine's memory, perhaps one that crashed.
//!
//! The reader trusts nothing. It refuses an inconsistent header with the reason. Then it reads every slot once: a slot is
//! whole, half-written, malformed or missing. The size of the image bounds memory and time.

use crate::layout::{self, HEADER_BYTES, Header, RANGES_MAX, RECORD_BYTES, REGION_BYTES_MAX, TicksSource};
use crate::name::Name;
use crate::record::Entry;
use core::cmp::Reverse;
use core::fmt;
use core::mem::offset_of;

/// Offsets of the magic in a piece of memory, at any multiple of 8 from its start. [`Head::parse`] checks that a header is
/// there.
///
/// If another piece follows, the two should overlap by [`HEADER_BYTES`]. Takes linear time and reads each word once.
pub fn find(memory: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let [first, second] = layout::magic();
    let words = memory.chunks_exact(8).enumerate();
    words.filter(move |(_, bytes)| word(bytes) == first).map(|(at, _)| 8 * at).filter(move |at| {
        let next = memory.get(at + 8..at + 16);
        next.is_some_and(|bytes| word(bytes) == second)
    })
}

/// The reason why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There are fewer bytes than a header has.
    Short {
        /// Number of bytes given.
        bytes: usize,
    },
    /// The bytes do not begin with the magic.
    Magic,
    /// The layout's version is unknown to this reader.
    Version(u32),
    /// The checksum of the fixed part is wrong: the header is half-written, or the bytes are not a header.
    Check {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the header's bytes.
        computed: u32,
    },
    /// Sizes of header or record, or the number of ranges, differ from this version's.
    Sizes,
    /// The header claims a region longer than any log.
    Region {
        /// Number of records that the header claims.
        capacity: u64,
        /// Length of the arena that the header claims.
        arena_bytes: u64,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Short { bytes } => write!(f, "a log's header has {HEADER_BYTES} bytes, here are {bytes}"),
            Wrong::Magic => f.write_str("no log: the magic is missing"),
            Wrong::Version(version) => {
                write!(f, "the log's layout is version {version}, only {} is known: update bootscope", layout::VERSION)
            }
            Wrong::Check { stored, computed } => {
                write!(f, "the header's sum is {computed:#010x} and not {stored:#010x} as it says: overwritten or torn")
            }
            Wrong::Sizes => f.write_str("sizes of header, record or ranges are not those of the layout's version"),
            Wrong::Region { capacity, arena_bytes } => {
                write!(f, "{capacity} records and {arena_bytes} bytes of names are more than any log has")
            }
        }
    }
}

impl core::error::Error for Wrong {}

/// A range of virtual addresses and where it lies in physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    /// First virtual address.
    pub virt: u64,
    /// Address of the range in physical memory.
    pub phys: u64,
    /// Length of the range; 0: unused.
    pub bytes: u64,
}

impl AddressRange {
    /// Offset of an address in the range; `None` if the address is outside.
    fn offset_of(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.virt).filter(|offset| *offset < self.bytes)
    }
}

/// A header that passed all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of slots.
    pub capacity: u64,
    /// Length of the arena.
    pub arena_bytes: u64,
    /// Address of the header when the log was started.
    pub region_virt: u64,
    /// Address of the header since the kernel moved itself.
    pub region_virt_now: u64,
    /// The counter that the ticks come from.
    pub ticks_source: TicksSource,
    /// Rate of the counter in ticks per second, if the kernel set it.
    pub ticks_hz: Option<u64>,
    /// Number of events before the log was started.
    pub before_start: u64,
    /// Number of used bytes of the arena.
    pub arena_used: u64,
    /// Number of names that were cut because the arena was full.
    pub arena_overflows: u64,
    /// Number of ranges that were refused for lack of room.
    pub ranges_refused: u32,
    /// Ranges of virtual addresses; an unused range has no length.
    pub ranges: [AddressRange; RANGES_MAX],
    /// Number of events that requested a slot.
    pub next: u64,
}

impl Head {
    /// Reads a header from the first [`HEADER_BYTES`] bytes.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a header, or if the header is inconsistent.
    pub fn parse(bytes: &[u8]) -> Result<Head, Wrong> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Wrong::Short { bytes: bytes.len() })?;
        let u64_at = |at: usize| word(&bytes[at..at + 8]);
        let u32_at = |at: usize| word(&bytes[at..at + 4]) as u32;
        if [u64_at(0), u64_at(8)] != layout::magic() {
            return Err(Wrong::Magic);
        }
        let version = u32_at(offset_of!(Header, version));
        if version != layout::VERSION {
            return Err(Wrong::Version(version));
        }
        let stored = u32_at(offset_of!(Header, check));
        let computed = layout::check(bytes.first_chunk().expect("a header is longer than its fixed part"));
        if stored != computed {
            return Err(Wrong::Check { stored, computed });
        }
        let capacity = u64_at(offset_of!(Header, capacity));
        let arena_bytes = u64_at(offset_of!(Header, arena_bytes));
        let region_virt = u64_at(offset_of!(Header, region_virt));
        let ticks_source = u32_at(offset_of!(Header, ticks_source));
        if bytes[..60] != layout::fixed_part(capacity, arena_bytes, region_virt, ticks_source) {
            return Err(Wrong::Sizes);
        }
        let records_bytes = capacity.checked_mul(RECORD_BYTES as u64);
        let fits =
            records_bytes.and_then(|bytes| bytes.checked_add(arena_bytes)).is_some_and(|b| b <= REGION_BYTES_MAX);
        if !fits || capacity == 0 {
            return Err(Wrong::Region { capacity, arena_bytes });
        }
        let range = |n: usize| {
            let at = offset_of!(Header, ranges) + 24 * n;
            AddressRange { virt: u64_at(at), phys: u64_at(at + 8), bytes: u64_at(at + 16) }
        };
        Ok(Head {
            capacity,
            arena_bytes,
            region_virt,
            region_virt_now: u64_at(offset_of!(Header, region_virt_now)),
            ticks_source: TicksSource::from_u32(ticks_source),
            ticks_hz: Some(u64_at(offset_of!(Header, ticks_hz))).filter(|hz| *hz > 0),
            before_start: u64_at(offset_of!(Header, before_start)),
            arena_used: u64_at(offset_of!(Header, arena_used)),
            arena_overflows: u64_at(offset_of!(Header, arena_overflows)),
            ranges_refused: u32_at(offset_of!(Header, ranges_used)).saturating_sub(RANGES_MAX as u32),
            ranges: core::array::from_fn(range),
            next: u64_at(offset_of!(Header, next)),
        })
    }

    /// Length of the whole region, which is the number of bytes to read from the header on. At most a little more than
    /// [`REGION_BYTES_MAX`].
    pub fn region_bytes(&self) -> u64 {
        layout::arena_offset(self.capacity) + self.arena_bytes
    }

    /// Number of reserved slots.
    pub fn reserved(&self) -> u64 {
        self.next.min(self.capacity)
    }

    /// Number of events that found no slot.
    pub fn dropped(&self) -> u64 {
        self.next - self.reserved()
    }

    /// The place that a virtual address refers to.
    pub fn place(&self, address: u64) -> Place {
        let bytes = self.region_bytes();
        let bases = [self.region_virt, self.region_virt_now];
        let offset = bases.iter().find_map(|&virt| AddressRange { virt, phys: 0, bytes }.offset_of(address));
        if let Some(offset) = offset {
            return Place::Region { offset };
        }
        let outside = self.ranges.iter().find_map(|range| {
            let offset = range.offset_of(address)?;
            Some(Place::Physical { phys: range.phys.checked_add(offset)?, bytes: range.bytes - offset })
        });
        outside.unwrap_or(Place::Unknown)
    }
}

/// Headers found in one memory, to choose one from. An older boot's header may lie beside the current one. A header whose
/// records were cleared afterwards claims records that it no longer has. At most 16 headers are kept: those that claim
/// most records.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    kept: [Option<(u64, Head)>; Heads::MAX_KEPT],
    /// Number of headers added.
    pub found: u64,
}

impl Heads {
    const MAX_KEPT: usize = 16;

    /// Adds a header and the place where it was found.
    pub fn add(&mut self, at: u64, head: Head) {
        self.found += 1;
        let claim = |kept: &Option<(u64, Head)>| kept.map(|(_, head)| head.reserved());
        if let Some(least) = self.kept.iter_mut().min_by_key(|kept| claim(kept)) {
            if claim(least).is_none_or(|claimed| claimed < head.reserved()) {
                *least = Some((at, head));
            }
        }
    }

    /// The header with the most whole records; `None` if there are no headers. `whole` counts the whole records of a
    /// header, as [`SlotCounts::whole`] does. It is called from the greatest claim down, until no other header can have more.
    pub fn fullest(&mut self, mut whole: impl FnMut(u64, &Head) -> u64) -> Option<(u64, Head)> {
        self.kept.sort_unstable_by_key(|kept| kept.map(|(at, head)| (Reverse(head.reserved()), at)));
        let mut best: Option<(u64, u64, Head)> = None;
        for &(at, head) in self.kept.iter().flatten() {
            if best.is_none_or(|(most, ..)| most < head.reserved()) {
                let count = whole(at, &head);
                best = best.filter(|(most, ..)| *most >= count).or(Some((count, at, head)));
            }
        }
        best.map(|(_, at, head)| (at, head))
    }
}

/// The place of a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The address is in the region itself.
    Region {
        /// Offset from the header.
        offset: u64,
    },
    /// The address is in a range that maps to physical memory.
    Physical {
        /// Physical address.
        phys: u64,
        /// Number of bytes from there to the end of the range.
        bytes: u64,
    },
    /// The address is in no range.
    Unknown,
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A whole record.
    Whole(Entry),
    /// The slot is reserved and not yet written: the writer was interrupted, for ever if the machine is dead.
    HalfWritten,
    /// No recorder of this version wrote the content.
    Malformed,
}

/// Counts over all slots. Their sum is the number of events that requested a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Whole records.
    pub whole: u64,
    /// Slots reserved and not yet written.
    pub half_written: u64,
    /// Slots that no recorder of this version wrote.
    pub malformed: u64,
    /// Slots reserved, but past the end of the image.
    pub missing: u64,
    /// Events that found no slot, because the log was full.
    pub dropped: u64,
}

/// A log in a copy of memory.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    head: Head,
    region: &'a [u8],
}

impl<'a> Image<'a> {
    /// Reads a region that begins at `bytes[0]`. Bytes after the region are ignored. Slots past the end of `bytes` count as
    /// missing.
    ///
    /// # Errors
    /// Returns the errors of [`Head::parse`].
    pub fn new(bytes: &'a [u8]) -> Result<Image<'a>, Wrong> {
        let head = Head::parse(bytes)?;
        let end = usize::try_from(head.region_bytes()).unwrap_or(usize::MAX).min(bytes.len());
        Ok(Image { head, region: &bytes[..end] })
    }

    /// The header.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Number of bytes of the region that the image holds.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// All reserved slots that the image holds, in the order in which they were reserved.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + 'a {
        let reserved = usize::try_from(self.head.reserved()).unwrap_or(usize::MAX);
        self.region[HEADER_BYTES..].chunks_exact(RECORD_BYTES).take(reserved).map(slot)
    }

    /// Counts the slots by content, in linear time.
    pub fn counts(&self) -> SlotCounts {
        let mut counts = SlotCounts { dropped: self.head.dropped(), ..SlotCounts::default() };
        for slot in self.slots() {
            match slot {
                Slot::Whole(_) => counts.whole += 1,
                Slot::HalfWritten => counts.half_written += 1,
                Slot::Malformed => counts.malformed += 1,
            }
        }
        counts.missing = self.head.reserved() - counts.whole - counts.half_written - counts.malformed;
        counts
    }

    /// Reads the bytes of a name: its length, or up to its NUL if the length is unknown. At most as many as `buffer` holds
    /// and as can be read. Returns `None` if the address is in no range or cannot be read.
    ///
    /// `read_phys` fills a buffer from a physical address, or returns false if some of it cannot be read. No piece that it
    /// reads crosses a multiple of 64.
    pub fn name_bytes<'b>(
        &self,
        name: Name,
        buffer: &'b mut [u8],
        read_phys: &mut dyn FnMut(u64, &mut [u8]) -> bool,
    ) -> Option<&'b [u8]> {
        let wanted = name.bytes().unwrap_or(buffer.len()).min(buffer.len());
        let buffer = &mut buffer[..wanted];
        let length = match self.head.place(name.address()) {
            Place::Region { offset } => copy_from(self.region, offset, buffer)?,
            Place::Physical { phys, bytes } => {
                let readable = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
                read_pieces(phys, &mut buffer[..readable], name.bytes().is_none(), read_phys)?
            }
            Place::Unknown => return None,
        };
        let read = &buffer[..length];
        match name.bytes() {
            Some(_) => Some(read),
            None => read.split(|byte| *byte == 0).next(),
        }
    }
}

/// Copies bytes of the region and returns their number, at least one. Returns `None` if there is no byte at the offset.
fn copy_from(region: &[u8], offset: u64, buffer: &mut [u8]) -> Option<usize> {
    let rest = region.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())?;
    let bytes = rest.len().min(buffer.len());
    buffer[..bytes].copy_from_slice(&rest[..bytes]);
    Some(bytes)
}

/// Reads pieces until the buffer is full, a piece cannot be read, or, with `until_nul`, a NUL was read. Returns the number
/// of bytes read, or `None` if it is 0.
fn read_pieces(
    phys: u64,
    buffer: &mut [u8],
    until_nul: bool,
    read_phys: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<usize> {
    let mut length = 0;
    while length < buffer.len() {
        let Some(at) = phys.checked_add(length as u64) else { break };
        let piece_bytes = (64 - (at % 64) as usize).min(buffer.len() - length);
        let piece = &mut buffer[length..length + piece_bytes];
        if !read_phys(at, piece) {
            break;
        }
        length += piece_bytes;
        if until_nul && piece.contains(&0) {
            break;
        }
    }
    (length > 0).then_some(length)
}

fn slot(bytes: &[u8]) -> Slot {
    let words: [u64; 5] = core::array::from_fn(|n| word(&bytes[8 * n..8 * n + 8]));
    match words[4] {
        0 => Slot::HalfWritten,
        _ => Entry::from_words(words).map_or(Slot::Malformed, Slot::Whole),
    }
}

/// The little-endian value of up to eight bytes.
fn word(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(bytes) => u64::from_le_bytes(bytes),
        Err(_) => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{check, fixed_part};
    use crate::log::{Log, Region};
    use crate::record::Kind;
    use crate::testing::{bytes_of, entry, write};
    use proptest::prelude::*;

    fn no_memory(_: u64, _: &mut [u8]) -> bool {
        false
    }

    #[test]
    fn what_was_written_is_read() {
        static REGION: Region<4, 64> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        let copied = log.copy("usbus0");
        let thread = Entry { name: copied, ..entry(1, Kind::Thread, "") };
        write(log, &thread);
        let _interrupted = log.reserve();
        write(log, &entry(2, Kind::Enter, "SYSINIT"));
        log.set_ticks_hz(2_445_431_964);
        log.add_range(0xffff_8000_0000_0000, 0x1000, 0x2000);

        let bytes = bytes_of(log);
        assert_eq!(find(&bytes).collect::<Vec<_>>(), [0]);
        let image = Image::new(&bytes).expect("a header");
        let head = image.head();
        assert_eq!((head.capacity, head.next, head.ticks_hz), (4, 3, Some(2_445_431_964)));
        assert_eq!((head.ticks_source, head.arena_used, head.ranges_refused), (TicksSource::Tsc, 6, 0));
        assert_eq!(head.region_bytes(), bytes.len() as u64);
        assert_eq!(head.place(0xffff_8000_0000_0010), Place::Physical { phys: 0x1010, bytes: 0x1ff0 });
        assert_eq!(head.place(0xffff_8000_0000_2000), Place::Unknown);
        let slots: Vec<Slot> = image.slots().collect();
        assert_eq!(slots, [Slot::Whole(thread), Slot::HalfWritten, Slot::Whole(entry(2, Kind::Enter, "SYSINIT"))]);
        assert_eq!(image.counts(), SlotCounts { whole: 2, half_written: 1, ..SlotCounts::default() });
        assert_eq!(image.name_bytes(copied, &mut [0; 32], &mut no_memory), Some(&b"usbus0"[..]));
        assert_eq!(image.name_bytes(copied, &mut [0; 3], &mut no_memory), Some(&b"usb"[..]));
    }

    #[test]
    fn a_full_log_and_one_that_is_cut_are_counted_to_the_last_event() {
        static REGION: Region<4, 0> = Region::new();
        let log = Log::start(&REGION, TicksSource::Tsc);
        for n in 0..7 {
            write(log, &entry(n, Kind::Event, "event"));
        }
        let bytes = bytes_of(log);
        let counts = |end: usize| Image::new(&bytes[..end]).expect("a header").counts();
        assert_eq!(counts(bytes.len()), SlotCounts { whole: 4, dropped: 3, ..SlotCounts::default() });
        assert_eq!(counts(512 + 81), SlotCounts { whole: 2, missing: 2, dropped: 3, ..SlotCounts::default() });
        assert_eq!(Image::new(&bytes[..511]).err(), Some(Wrong::Short { bytes: 511 }));
    }

    #[test]
    fn an_inconsistent_header_is_refused_with_the_reason() {
        static REGION: Region<4, 0> = Region::new();
        let good = bytes_of(Log::start(&REGION, TicksSource::Tsc));
        let with = |at: usize, byte: u8, right_sum: bool| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            if right_sum {
                let sum = check(bytes.first_chunk().expect("60 bytes"));
                bytes[60..64].copy_from_slice(&sum.to_le_bytes());
            }
            Head::parse(&bytes)
        };
        assert_eq!(with(0, 0, true), Err(Wrong::Magic));
        assert_eq!(with(16, 2, false), Err(Wrong::Version(2)));
        assert!(matches!(with(32, 5, false), Err(Wrong::Check { .. })));
        assert_eq!(with(24, 48, true), Err(Wrong::Sizes));
        assert_eq!(with(39, 1, true), Err(Wrong::Region { capacity: 4 | 1 << 56, arena_bytes: 0 }));
        assert_eq!(with(32, 0, true), Err(Wrong::Region { capacity: 0, arena_bytes: 0 }));
        assert!(with(200, 1, false).is_ok());
    }

    #[test]
    fn names_in_physical_memory_are_read_up_to_where_it_ends() {
        let mut head = head_of(fixed_part(1, 0, 0, 0));
        head.ranges[0] = AddressRange { virt: 0x1000, phys: 0x10, bytes: 0x40 };
        let image = Image { head, region: &[] };
        let memory =
            *b"0123456789abcdefdelay\0tail at the end of this memory, which goes on and on and on, for as long";
        let mut read_phys = |at: u64, buffer: &mut [u8]| {
            assert!(at / 64 == (at + buffer.len() as u64 - 1) / 64, "a piece crosses a multiple of 64");
            let part = memory.get(at as usize..at as usize + buffer.len());
            part.map(|part| buffer.copy_from_slice(part)).is_some()
        };
        let mut check = |address: u64, bytes: u16, expected: Option<&str>| {
            let name = Name { address, bytes, flags: 0 };
            assert_eq!(image.name_bytes(name, &mut [0; 100], &mut read_phys), expected.map(str::as_bytes));
        };
        check(0x1000, 0, Some("delay"));
        check(0x1000, 3, Some("del"));
        check(0x1006, 4, Some("tail"));
        // The range ends there.
        check(0x103e, 9, core::str::from_utf8(&memory[0x4e..0x50]).ok());
        check(0x1040, 1, None);
        check(0xfff, 1, None);
    }

    fn head_of(fixed: [u8; 60]) -> Head {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..60].copy_from_slice(&fixed);
        bytes[60..64].copy_from_slice(&check(&fixed).to_le_bytes());
        Head::parse(&bytes).expect("made right")
    }

    #[test]
    fn the_header_with_most_whole_records_is_read() {
        let head = |next: u64| Head { next, ..head_of(fixed_part(100, 0, 0, 0)) };
        // Each log is (claimed records, whole records). Its place is its index.
        let check = |logs: &[(u64, u64)], fullest: Option<u64>, calls: usize| {
            let mut heads = Heads::default();
            (0u64..).zip(logs).for_each(|(at, (claim, _))| heads.add(at, head(*claim)));
            assert_eq!(heads.found, logs.len() as u64);
            let mut count = 0;
            let chosen = heads.fullest(|at, _| {
                count += 1;
                logs[at as usize].1
            });
            assert_eq!((chosen.map(|(at, _)| at), count), (fullest, calls), "{logs:?}");
        };
        check(&[], None, 0);
        check(&[(0, 0)], Some(0), 1);
        check(&[(4, 4), (5, 0)], Some(0), 2);
        check(&[(4, 4), (5, 5), (3, 3)], Some(1), 1);
        check(&[(7, 2), (7, 2)], Some(0), 2);
        let many: Vec<(u64, u64)> = (0..90).map(|n| (n, u64::from(n == 80))).collect();
        check(&many, Some(80), 16);
    }

    proptest! {
        /// For any memory, each event is counted once and no name is longer than the buffer.
        #[test]
        fn any_memory_adds_up(mut bytes in proptest::collection::vec(any::<u8>(), 512..1500), capacity in 0u64..40, arena in 0u64..100) {
            let fixed = fixed_part(capacity, arena, 0x1000, 1);
            bytes[..60].copy_from_slice(&fixed);
            bytes[60..64].copy_from_slice(&check(&fixed).to_le_bytes());
            let Ok(image) = Image::new(&bytes) else {
                prop_assert_eq!(capacity, 0);
                return Ok(());
            };
            let c = image.counts();
            prop_assert_eq!(c.whole + c.half_written + c.malformed + c.missing + c.dropped, image.head().next);
            let mut read_phys = |_: u64, buffer: &mut [u8]| { buffer.fill(b'x'); true };
            for address in [0x1000, 0x1000 + 511, image.head().ranges[0].virt, u64::MAX] {
                for bytes in [0, 1, 65_535] {
                    let name = Name { address, bytes, flags: 0 };
                    let length = image.name_bytes(name, &mut [0; 200], &mut read_phys).map_or(0, <[u8]>::len);
                    prop_assert!(length <= 200);
                }
            }
        }

        #[test]
        fn the_magic_is_found_wherever_it_is(words in proptest::collection::vec(any::<u64>(), 3..100), at in 0usize..98) {
            let mut words = words;
            let at = at.min(words.len() - 2);
            words[at..at + 2].copy_from_slice(&layout::magic());
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(find(&bytes).collect::<Vec<_>>(), [8 * at]);
            prop_assert_eq!(find(&bytes[..8 * at + 15]).count(), 0);
        }
    }
}
