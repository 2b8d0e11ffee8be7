//! The log as a host reads it: out of bytes that somebody else's machine wrote, perhaps while it died.
//!
//! Nothing is trusted. A header that does not hold together is refused with what is wrong in it; then every slot is
//! looked at once, and is whole, half-written, malformed or missing. Memory and time are bounded by the bytes handed in.

use crate::layout::{self, HEADER_BYTES, Header, RANGES_MAX, RECORD_BYTES, REGION_BYTES_MAX, TicksSource};
use crate::name::Name;
use crate::record::Entry;
use core::cmp::Reverse;
use core::fmt;
use core::mem::offset_of;

/// Where the magic is in a piece of memory, at any multiple of 8 from its start. Whether a header is there,
/// [`Head::parse`] says.
///
/// A piece that is followed by another should overlap it by [`HEADER_BYTES`]. Linear; a word is looked at once.
pub fn find(memory: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let [first, second] = layout::magic();
    let words = memory.chunks_exact(8).enumerate();
    words.filter(move |(_, bytes)| word(bytes) == first).map(|(at, _)| 8 * at).filter(move |at| {
        let next = memory.get(at + 8..at + 16);
        next.is_some_and(|bytes| word(bytes) == second)
    })
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Fewer bytes than a header has.
    Short {
        /// How many there are.
        bytes: usize,
    },
    /// It does not begin with the magic.
    Magic,
    /// A version that is not known here.
    Version(u32),
    /// The fixed part does not add up: half-written, or not a header.
    Check {
        /// The sum that stands there.
        stored: u32,
        /// The sum of what stands there.
        computed: u32,
    },
    /// Sizes of header or record, or the number of ranges, are not this version's.
    Sizes,
    /// It says that it is longer than any log.
    Region {
        /// How many records there are to be.
        capacity: u64,
        /// How long the arena is to be.
        arena_bytes: u64,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Short { bytes } => write!(f, "a log's header has {HEADER_BYTES} bytes, here are {bytes}"),
            Wrong::Magic => f.write_str("no log: the magic is missing"),
            Wrong::Version(found) => {
                write!(f, "the log's layout is version {found}, only {} is known: update bootscope", layout::VERSION)
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
    /// Where it is in physical memory.
    pub phys: u64,
    /// How long it is; 0: not used.
    pub bytes: u64,
}

impl AddressRange {
    /// How far into the range an address is.
    fn within(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.virt).filter(|within| *within < self.bytes)
    }
}

/// A header that holds together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// How many slots there are.
    pub capacity: u64,
    /// The length of the arena.
    pub arena_bytes: u64,
    /// The header's own address when the log was started.
    pub region_virt: u64,
    /// And since the kernel moved itself.
    pub region_virt_now: u64,
    /// What counts.
    pub ticks_source: TicksSource,
    /// Ticks in a second, if the kernel knew.
    pub ticks_hz: Option<u64>,
    /// How many events there were before the log was started.
    pub before_start: u64,
    /// How many bytes of the arena are used.
    pub arena_used: u64,
    /// How many names were cut because the arena was full.
    pub arena_overflows: u64,
    /// How many ranges were refused for lack of room.
    pub ranges_refused: u32,
    /// Where virtual addresses are; unused ones have no length.
    pub ranges: [AddressRange; RANGES_MAX],
    /// How many events asked for a slot.
    pub next: u64,
}

impl Head {
    /// Reads a header from the first [`HEADER_BYTES`] bytes.
    ///
    /// # Errors
    /// When they are no header, or one that does not hold together.
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

    /// The length of the whole region: how much to read after the header was found. At most a little more than
    /// [`REGION_BYTES_MAX`].
    pub fn region_bytes(&self) -> u64 {
        layout::arena_offset(self.capacity) + self.arena_bytes
    }

    /// How many slots are reserved.
    pub fn reserved(&self) -> u64 {
        self.next.min(self.capacity)
    }

    /// How many events found no slot.
    pub fn dropped(&self) -> u64 {
        self.next - self.reserved()
    }

    /// Where an address is.
    pub fn place(&self, address: u64) -> Place {
        let bytes = self.region_bytes();
        let region = [self.region_virt, self.region_virt_now];
        let own = region.iter().find_map(|&virt| AddressRange { virt, phys: 0, bytes }.within(address));
        if let Some(offset) = own {
            return Place::Region { offset };
        }
        let outside = self.ranges.iter().find_map(|range| {
            let within = range.within(address)?;
            Some(Place::Physical { phys: range.phys.checked_add(within)?, bytes: range.bytes - within })
        });
        outside.unwrap_or(Place::Unknown)
    }
}

/// Headers found in one memory, of which one is to be read: an older boot's may lie beside, and a header whose records were
/// cleared since claims what it no longer has. Keeps the few that claim most, however many are added.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    kept: [Option<(u64, Head)>; Heads::KEPT],
    /// How many were added.
    pub found: u64,
}

impl Heads {
    const KEPT: usize = 16;

    /// Takes in a header, and where it was found.
    pub fn add(&mut self, at: u64, head: Head) {
        self.found += 1;
        let claim = |kept: &Option<(u64, Head)>| kept.map(|(_, head)| head.reserved());
        if let Some(least) = self.kept.iter_mut().min_by_key(|kept| claim(kept)) {
            if claim(least).is_none_or(|claimed| claimed < head.reserved()) {
                *least = Some((at, head));
            }
        }
    }

    /// The header with the most whole records, which `whole` counts: [`SlotCounts::whole`]. It is asked from the greatest
    /// claim down, until no other can have more. None if there are no headers.
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

/// Where a virtual address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the region itself.
    Region {
        /// How far from the header.
        offset: u64,
    },
    /// In physical memory.
    Physical {
        /// The address.
        phys: u64,
        /// How far the range goes on from there.
        bytes: u64,
    },
    /// In no range.
    Unknown,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A record.
    Whole(Entry),
    /// Reserved, not yet written: the writer was interrupted, for ever if the machine is dead.
    HalfWritten,
    /// No recorder of this version wrote that.
    Malformed,
}

/// What is in all slots. The sum of all is the number of events that asked for a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Records.
    pub whole: u64,
    /// Reserved and not yet written.
    pub half_written: u64,
    /// Written by no recorder of this version.
    pub malformed: u64,
    /// Reserved, but past the end of the bytes.
    pub missing: u64,
    /// Found no slot, because the log was full.
    pub dropped: u64,
}

/// A log in memory that was copied from somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    head: Head,
    region: &'a [u8],
}

impl<'a> Image<'a> {
    /// Reads a region that begins at `bytes[0]`. More bytes than it has are no harm; what is missing of it is counted.
    ///
    /// # Errors
    /// As [`Head::parse`].
    pub fn new(bytes: &'a [u8]) -> Result<Image<'a>, Wrong> {
        let head = Head::parse(bytes)?;
        let end = usize::try_from(head.region_bytes()).unwrap_or(usize::MAX).min(bytes.len());
        Ok(Image { head, region: &bytes[..end] })
    }

    /// The header.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How many bytes of the region there are.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// All reserved slots that the bytes hold, in the order in which they were reserved.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + 'a {
        let reserved = usize::try_from(self.head.reserved()).unwrap_or(usize::MAX);
        self.region[HEADER_BYTES..].chunks_exact(RECORD_BYTES).take(reserved).map(slot)
    }

    /// Counts what is in the slots. Linear.
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

    /// The bytes at an address, as many as are wanted and can be had: for a name of unknown length, up to its NUL.
    ///
    /// `read_phys` fills a buffer from a physical address, or says false if some of it cannot be read. It is asked for
    /// pieces that do not cross a multiple of 64. None if the address is in no range or cannot be read.
    pub fn name_bytes<'b>(
        &self,
        name: Name,
        buffer: &'b mut [u8],
        read_phys: &mut dyn FnMut(u64, &mut [u8]) -> bool,
    ) -> Option<&'b [u8]> {
        let wanted = name.bytes().unwrap_or(buffer.len()).min(buffer.len());
        let buffer = &mut buffer[..wanted];
        let got = match self.head.place(name.address()) {
            Place::Region { offset } => copy_from(self.region, offset, buffer)?,
            Place::Physical { phys, bytes } => {
                let within = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
                read_pieces(phys, &mut buffer[..within], name.bytes().is_none(), read_phys)?
            }
            Place::Unknown => return None,
        };
        let got = &buffer[..got];
        match name.bytes() {
            Some(_) => Some(got),
            None => got.split(|byte| *byte == 0).next(),
        }
    }
}

/// At least one byte, or none can be had.
fn copy_from(region: &[u8], offset: u64, buffer: &mut [u8]) -> Option<usize> {
    let rest = region.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())?;
    let bytes = rest.len().min(buffer.len());
    buffer[..bytes].copy_from_slice(&rest[..bytes]);
    Some(bytes)
}

/// Reads on until the buffer is full, a piece cannot be read, or, if asked for, a NUL was read.
fn read_pieces(
    phys: u64,
    buffer: &mut [u8],
    until_nul: bool,
    read_phys: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<usize> {
    let mut got = 0;
    while got < buffer.len() {
        let Some(at) = phys.checked_add(got as u64) else { break };
        let piece_bytes = (64 - (at % 64) as usize).min(buffer.len() - got);
        let piece = &mut buffer[got..got + piece_bytes];
        if !read_phys(at, piece) {
            break;
        }
        got += piece_bytes;
        if until_nul && piece.contains(&0) {
            break;
        }
    }
    (got > 0).then_some(got)
}

fn slot(bytes: &[u8]) -> Slot {
    let words: [u64; 5] = core::array::from_fn(|n| word(&bytes[8 * n..8 * n + 8]));
    match words[4] {
        0 => Slot::HalfWritten,
        _ => Entry::from_words(words).map_or(Slot::Malformed, Slot::Whole),
    }
}

/// Up to eight bytes, little-endian.
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
    fn a_header_that_does_not_hold_together_says_why() {
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
        let mut check = |address: u64, bytes: u16, found: Option<&str>| {
            let name = Name { address, bytes, flags: 0 };
            assert_eq!(image.name_bytes(name, &mut [0; 100], &mut read_phys), found.map(str::as_bytes));
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
    fn of_several_headers_the_one_with_most_whole_records_is_read() {
        let head = |next: u64| Head { next, ..head_of(fixed_part(100, 0, 0, 0)) };
        // Claim and whole records; the place is the number.
        let check = |logs: &[(u64, u64)], fullest: Option<u64>, asked: usize| {
            let mut heads = Heads::default();
            (0u64..).zip(logs).for_each(|(at, (claim, _))| heads.add(at, head(*claim)));
            assert_eq!(heads.found, logs.len() as u64);
            let mut count = 0;
            let found = heads.fullest(|at, _| {
                count += 1;
                logs[at as usize].1
            });
            assert_eq!((found.map(|(at, _)| at), count), (fullest, asked), "{logs:?}");
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
        /// Whatever is in memory, each event is counted once and no name is longer than asked for.
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
                for length in [0, 1, 65_535] {
                    let name = Name { address, bytes: length, flags: 0 };
                    let found = image.name_bytes(name, &mut [0; 200], &mut read_phys).map_or(0, <[u8]>::len);
                    prop_assert!(found <= 200);
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
