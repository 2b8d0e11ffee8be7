//! A log in memory, from the writers' side: it is started in a static or in memory found at boot, then any thread or
//! interrupt writes into it.

use crate::image::Slot;
use crate::layout::{self, Header, Record, TicksSource};
use crate::name::Name;
use crate::record::Entry;
use crate::slots::{Reserved, Slots, Words};
use core::mem::size_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

/// Room for a log in a static. It is all zeros, so it takes no room in the kernel's file.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Region<const RECORDS: usize, const ARENA_BYTES: usize> {
    header: Header,
    records: [Record; RECORDS],
    arena: Arena<ARENA_BYTES>,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Arena<const BYTES: usize>([AtomicU8; BYTES]);

impl<const RECORDS: usize, const ARENA_BYTES: usize> Region<RECORDS, ARENA_BYTES> {
    /// An empty region, which is not a log until it is started.
    pub const fn new() -> Self {
        Region {
            header: Header::new(),
            records: [const { Record::new() }; RECORDS],
            arena: Arena([const { AtomicU8::new(0) }; ARENA_BYTES]),
        }
    }
}

impl<const RECORDS: usize, const ARENA_BYTES: usize> Default for Region<RECORDS, ARENA_BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

/// A started log. A copy of this value refers to the same log.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// The header of a region that is never freed. The fixed part of the header is correct.
    base: NonNull<Header>,
}

// SAFETY: a region consists of atomics only.
unsafe impl Send for Log {}
// SAFETY: likewise.
unsafe impl Sync for Log {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of reserved slots, whole and half-written.
    pub reserved: u64,
    /// Number of events that found no slot.
    pub dropped: u64,
    /// Number of events before the log was started.
    pub before_start: u64,
    /// Number of names that were cut because the arena was full.
    pub arena_overflows: u64,
}

impl Log {
    /// Starts a log in a static. A second start in the same static continues the log.
    pub fn start<const RECORDS: usize, const ARENA_BYTES: usize>(
        region: &'static Region<RECORDS, ARENA_BYTES>,
        source: TicksSource,
    ) -> Log {
        const { assert!(size_of::<Region<RECORDS, ARENA_BYTES>>() as u64 <= layout::REGION_BYTES_MAX) };
        let log = Log { base: NonNull::from(region).cast() };
        log.write_header(RECORDS as u64, ARENA_BYTES as u64, source);
        log
    }

    /// Clears memory and starts a log in it. The log has as many records as fit beside `arena_bytes` for copied names.
    ///
    /// Returns `None` if the memory is not 64-byte aligned, has no room for a record, or is larger than
    /// [`REGION_BYTES_MAX`](layout::REGION_BYTES_MAX).
    ///
    /// # Safety
    /// The memory is ordinary (cached) memory, readable and writable. Only the log uses it, and it is never freed.
    pub unsafe fn start_in(memory: NonNull<u8>, bytes: usize, arena_bytes: usize, source: TicksSource) -> Option<Log> {
        // The arena begins at a multiple of 64, which may cost up to 63 bytes.
        let for_records =
            (bytes / 64 * 64).checked_sub(layout::HEADER_BYTES)?.checked_sub(arena_bytes.checked_add(63)? / 64 * 64)?;
        let capacity = for_records / layout::RECORD_BYTES;
        if memory.addr().get() % 64 != 0 || capacity == 0 || bytes as u64 > layout::REGION_BYTES_MAX {
            return None;
        }
        // SAFETY: the caller promises that the memory is `bytes` long and that only the log uses it.
        unsafe { memory.write_bytes(0, bytes) };
        let log = Log { base: memory.cast() };
        log.write_header(capacity as u64, arena_bytes as u64, source);
        Some(log)
    }

    /// Returns the log whose header is at `base`.
    ///
    /// # Safety
    /// [`Log::base`] returned the address, or the memory at such an address is now mapped at `base`.
    #[cfg(feature = "on")]
    pub(crate) unsafe fn at(base: NonNull<Header>) -> Log {
        Log { base }
    }

    /// Address of the log, which is the address of its header.
    pub fn base(self) -> NonNull<Header> {
        self.base
    }

    /// Length of the whole region.
    pub fn bytes(self) -> usize {
        (self.arena_offset() + self.header().arena_bytes.load(Ordering::Relaxed)) as usize
    }

    fn write_header(self, capacity: u64, arena_bytes: u64, source: TicksSource) {
        let header = self.header();
        let virt = self.base.addr().get() as u64;
        header.version.store(layout::VERSION, Ordering::Relaxed);
        header.header_bytes.store(layout::HEADER_BYTES as u32, Ordering::Relaxed);
        header.record_bytes.store(layout::RECORD_BYTES as u32, Ordering::Relaxed);
        header.ranges_max.store(layout::RANGES_MAX as u32, Ordering::Relaxed);
        header.capacity.store(capacity, Ordering::Relaxed);
        header.arena_bytes.store(arena_bytes, Ordering::Relaxed);
        header.region_virt.store(virt, Ordering::Relaxed);
        header.region_virt_now.store(virt, Ordering::Relaxed);
        header.ticks_source.store(source as u32, Ordering::Relaxed);
        let fixed = layout::fixed_part(capacity, arena_bytes, virt, source as u32);
        header.check.store(layout::check(&fixed), Ordering::Relaxed);
        let magic = layout::magic();
        header.magic[0].store(magic[0], Ordering::Relaxed);
        header.magic[1].store(magic[1], Ordering::Release);
    }

    pub(crate) fn header(self) -> &'static Header {
        // SAFETY: a region begins with its header and is never freed.
        unsafe { self.base.as_ref() }
    }

    #[inline(always)]
    fn slots(self) -> Slots<'static> {
        let header = self.header();
        let capacity = header.capacity.load(Ordering::Relaxed) as usize;
        // SAFETY: `start` and `start_in` made sure that `capacity` records follow the header. They are never freed.
        let records = unsafe { core::slice::from_raw_parts(self.base.add(1).cast().as_ptr(), capacity) };
        Slots { next: &header.next, records }
    }

    fn arena_offset(self) -> u64 {
        layout::arena_offset(self.header().capacity.load(Ordering::Relaxed))
    }

    fn arena(self) -> &'static [AtomicU8] {
        let bytes = self.header().arena_bytes.load(Ordering::Relaxed) as usize;
        // SAFETY: `start` and `start_in` made sure that `bytes` bytes follow the records. They are never freed.
        unsafe { core::slice::from_raw_parts(self.base.byte_add(self.arena_offset() as usize).cast().as_ptr(), bytes) }
    }

    /// Takes a slot, which the caller has to fill; [`Log::write`] does both. If the log is full, counts the event as dropped
    /// and returns `None`.
    #[inline(always)]
    pub(crate) fn reserve(self) -> Option<Reserved<'static>> {
        self.slots().reserve()
    }

    /// Writes a record, whose words [`Entry::to_words`] makes. If the log is full, counts the record as dropped.
    ///
    /// # Safety
    /// The kernel reads the names when it prints its own log. They must stay at the recorded addresses until then.
    #[inline(always)]
    pub unsafe fn write(self, words: Words) {
        if let Some(slot) = self.reserve() {
            slot.fill(words);
        }
    }

    /// The present content of a slot below [`Counts::reserved`].
    pub fn slot(self, slot: u64) -> Slot {
        match usize::try_from(slot).ok().and_then(|slot| self.slots().read(slot)) {
            None => Slot::HalfWritten,
            Some(words) => Entry::from_words(words).map_or(Slot::Malformed, Slot::Whole),
        }
    }

    /// The counts so far.
    pub fn counts(self) -> Counts {
        let header = self.header();
        let reserved = self.slots().reserved() as u64;
        Counts {
            reserved,
            dropped: header.next.load(Ordering::Relaxed).saturating_sub(header.capacity.load(Ordering::Relaxed)),
            before_start: header.before_start.load(Ordering::Relaxed),
            arena_overflows: header.arena_overflows.load(Ordering::Relaxed),
        }
    }

    /// Copies a name that does not live for ever into the arena. If the name does not fit, its end is cut off and the cut is
    /// counted. If no byte of it fits, the name is `(arena-full)`.
    ///
    /// Takes time linear in the length. Two copies of one name take room twice: copy once, where the kernel gives the name.
    pub fn copy(self, text: &str) -> Name {
        const FULL: &str = "(arena-full)";
        let header = self.header();
        let arena = self.arena();
        let wanted = text.len().min(usize::from(u16::MAX));
        let mut fits = 0;
        let took = header.arena_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            fits = floor_char_boundary(text, wanted.min(arena.len() - used as usize));
            (fits > 0).then(|| used + fits as u64)
        });
        if fits < text.len() {
            header.arena_overflows.fetch_add(1, Ordering::Relaxed);
        }
        let Ok(at) = took else {
            return Name::from(if text.is_empty() { "" } else { FULL });
        };
        let place = &arena[at as usize..][..fits];
        for (to, from) in place.iter().zip(text.as_bytes()) {
            to.store(*from, Ordering::Relaxed);
        }
        Name { address: place.as_ptr().expose_provenance() as u64, bytes: fits as u16, flags: 0 }
    }

    /// Sets the counter's rate in ticks per second, unless it is already set.
    #[cfg(feature = "on")]
    pub(crate) fn set_ticks_hz_if_unknown(self, hz: u64) {
        let _ = self.header().ticks_hz.compare_exchange(0, hz, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Adds to the number of events that came before the log was started.
    #[cfg(feature = "on")]
    pub(crate) fn add_before_start(self, events: u64) {
        self.header().before_start.fetch_add(events, Ordering::Relaxed);
    }

    /// Stores the log's new address, and which slots hold addresses from before the move.
    #[cfg(feature = "on")]
    pub(crate) fn moved(self) {
        let header = self.header();
        header.region_virt_now.store(self.base.addr().get() as u64, Ordering::Relaxed);
        header.moved_at.store(header.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Present address of a record's name. Returns `None` if the name lies outside of the log and was recorded before the
    /// kernel moved itself: the old address may hold anything now.
    pub(crate) fn name_now(self, slot: u64, address: u64) -> Option<u64> {
        let header = self.header();
        let now = header.region_virt_now.load(Ordering::Relaxed);
        let bases = [header.region_virt.load(Ordering::Relaxed), now];
        let mut offsets = bases.iter().filter_map(|virt| address.checked_sub(*virt));
        match offsets.find(|offset| *offset < self.bytes() as u64) {
            Some(offset) => Some(now + offset),
            None => (slot >= header.moved_at.load(Ordering::Relaxed)).then_some(address),
        }
    }

    /// The counter's rate in ticks per second; 0 if it is not set yet.
    pub(crate) fn ticks_hz(self) -> u64 {
        self.header().ticks_hz.load(Ordering::Relaxed)
    }

    /// Sets the counter's rate in ticks per second. Call it as soon as the rate is known.
    pub fn set_ticks_hz(self, hz: u64) {
        self.header().ticks_hz.store(hz, Ordering::Relaxed);
    }

    /// Records that the `bytes` at virtual address `virt` are at physical address `phys`, for readers of memory images. If
    /// several ranges contain a name, readers use the first. Returns false if there is no room for another range.
    pub fn add_range(self, virt: u64, phys: u64, bytes: u64) -> bool {
        let header = self.header();
        let taken = header.ranges_used.fetch_add(1, Ordering::Relaxed);
        let Some(range) = header.ranges.get(taken as usize) else { return false };
        range.virt.store(virt, Ordering::Relaxed);
        range.phys.store(phys, Ordering::Relaxed);
        // Stored last: a reader that sees a length sees the addresses too.
        range.bytes.store(bytes, Ordering::Release);
        true
    }
}

/// Largest boundary between characters that is not above `at`. `at` is at most the length.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use crate::testing::{entry, write};

    /// A log in memory that no other test uses.
    macro_rules! fresh {
        ($records:literal, $arena_bytes:literal) => {{
            static REGION: Region<$records, $arena_bytes> = Region::new();
            Log::start(&REGION, TicksSource::Tsc)
        }};
    }

    #[test]
    fn an_interrupt_between_reserve_and_fill_gets_the_next_slot() {
        let log = fresh!(4, 0);
        let interrupted = log.reserve().expect("it is empty");
        assert_eq!(log.slot(0), Slot::HalfWritten);
        let nmi = entry(2, Kind::Event, "nmi");
        write(log, &nmi);
        assert_eq!(log.counts().reserved, 2);
        assert_eq!((log.slot(0), log.slot(1)), (Slot::HalfWritten, Slot::Whole(nmi)));
        let late = entry(1, Kind::Enter, "interrupted");
        interrupted.fill(late.to_words());
        assert_eq!((log.slot(0), log.slot(1)), (Slot::Whole(late), Slot::Whole(nmi)));
    }

    #[test]
    fn a_full_log_keeps_the_beginning_and_counts_the_rest() {
        let log = fresh!(3, 0);
        for n in 0..10 {
            write(log, &entry(n, Kind::Event, "event"));
        }
        assert_eq!(log.counts(), Counts { reserved: 3, dropped: 7, ..Counts::default() });
        assert_eq!(log.slot(2), Slot::Whole(entry(2, Kind::Event, "event")));
        assert_eq!(log.slot(3), Slot::HalfWritten);
    }

    #[test]
    fn started_again_it_goes_on() {
        static REGION: Region<4, 0> = Region::new();
        write(Log::start(&REGION, TicksSource::Tsc), &entry(1, Kind::Enter, "first"));
        let log = Log::start(&REGION, TicksSource::Tsc);
        write(log, &entry(2, Kind::Enter, "second"));
        assert_eq!(log.counts().reserved, 2);
    }

    #[test]
    fn memory_found_at_boot_holds_what_fits() {
        #[repr(align(64))]
        struct Memory([u8; 1024]);
        let check = |offset: usize, bytes: usize, arena_bytes: usize, capacity: Option<u64>| {
            let memory = Box::leak(Box::new(Memory([0xff; 1024])));
            let place = NonNull::from(&mut memory.0[offset]);
            // SAFETY: leaked memory is never freed, and `bytes` of it follow `offset`.
            let log = unsafe { Log::start_in(place, bytes, arena_bytes, TicksSource::Tsc) };
            assert_eq!(log.map(|log| log.header().capacity.load(Ordering::Relaxed)), capacity, "{bytes} {arena_bytes}");
            if let Some(log) = log {
                assert!(log.bytes() <= bytes);
                assert_eq!(log.counts(), Counts::default());
                for n in 0..20 {
                    write(log, &entry(n, Kind::Event, "event"));
                }
                assert_eq!(log.counts().reserved + log.counts().dropped, 20);
                log.copy("a name");
            }
            // The bytes behind the memory are untouched.
            assert!(memory.0[offset + bytes..].iter().all(|byte| *byte == 0xff));
        };
        check(0, 1024, 0, Some(12));
        check(0, 1023, 0, Some(11));
        check(0, 1024, 100, Some(9));
        check(64, 960, 1, Some(9));
        check(0, 512 + 64, 0, Some(1));
        check(0, 512 + 63, 0, None);
        check(0, 512 + 64, 1, None);
        check(8, 1000, 0, None);
        check(0, 100, 0, None);
        check(0, 1024, usize::MAX, None);
    }

    #[test]
    fn the_arena_cuts_what_does_not_fit_and_counts_it() {
        let log = fresh!(1, 10);
        let check = |name: &str, bytes: Option<usize>, overflows: u64| {
            let copied = log.copy(name);
            assert_eq!((copied.bytes(), log.counts().arena_overflows), (bytes, overflows), "{name}");
            copied
        };
        let first = check("usbus", Some(5), 0);
        check("", None, 0);
        assert_eq!(check("da0", Some(3), 0).address(), first.address() + 5);
        // Two bytes are left, and the first character has three.
        check("€uro", Some(12), 1);
        check("xyz", Some(2), 2);
        check("full", Some(12), 3);
        assert_eq!(log.header().arena_used.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_ninth_range_is_refused() {
        let log = fresh!(1, 0);
        let added: Vec<bool> = (0..9).map(|n| log.add_range(n << 20, n << 30, 1 << 20)).collect();
        assert_eq!(added, [true, true, true, true, true, true, true, true, false]);
    }
}
