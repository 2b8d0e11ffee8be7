//! The layout of the log in memory, version 1. `include/tslog.h` is the C half; both halves assert the same offsets.
//!
//! A log is one *region*: 64-byte aligned, contiguous in virtual and in physical memory, little-endian. It has a header of
//! 512 bytes, then the records, and from the next multiple of 64 bytes the arena of copied names.
//!
//! ```text
//! header, written once, when the log is started
//!    0  u8[16]  magic          89 54 53 4c 4f 47 0d 0a  c3 1d 9b e2 a7 75 08 f6; stored last
//!   16  u32     version        1
//!   20  u32     header_bytes   512
//!   24  u32     record_bytes   40
//!   28  u32     ranges_max     8
//!   32  u64     capacity       slots for records
//!   40  u64     arena_bytes
//!   48  u64     region_virt    the header's address when the log was started
//!   56  u32     ticks_source   0 unknown, 1 x86 TSC, 2 aarch64 CNTVCT, 3 riscv64 time, 4 the kernel's own counter
//!   60  u32     check          FNV-1a over bytes 0..60, taken as fifteen 32-bit words
//! header, changing
//!   64  u64     ticks_hz       0: not known yet
//!   72  u64     region_virt_now  the header's address since the kernel moved itself, else equal to region_virt
//!   80  u64     before_start   events before the log was started: lost
//!   88  u64     arena_used     bytes
//!   96  u64     arena_overflows  names that were cut because the arena was full
//!  104  u32     ranges_used    ranges ever added; those past ranges_max were refused
//!  108  u32     0
//!  112  u64     moved_at       slots below this were reserved before the kernel moved itself; 0: it did not move
//!  120  …128    0
//!  128  u64     next           slots ever reserved; next - capacity, if positive, records were dropped
//!  136  …192    0              (next has a cache line of its own)
//!  192  {u64 virt, u64 phys, u64 bytes}[8]  ranges; bytes is stored last, and 0 means that the range is unused
//!  384  …512    0
//! record, at 512 + 40 * slot
//!    0  u64     ticks          the raw counter
//!    8  u64     thread
//!   16  u64     name           the address of a string; 0: no string
//!   24  u64     detail         likewise
//!   32  u16     name_bytes     0: the name ends before its first NUL
//!   34  u16     detail_bytes   likewise
//!   36  u8      kind           1 ENTER, 2 EXIT, 3 THREAD, 4 EVENT
//!   37  u8      flags          bit 0: the name is the path of an item inside the function that is meant, or the last
//!                              1024 bytes of a longer path
//!   38  u16     mark           0x5354
//! ```
//!
//! Bytes 32..40 of a record are stored last and as one 64-bit word. While they are 0, the record is half-written (its
//! slot is below `next`) or its slot was never reserved.
//!
//! **Addresses.** A name's address is virtual, as it was when the event happened. If it lies within the region's length
//! from `region_virt` or from `region_virt_now`, the name is in the region itself. Else the first range that contains the
//! address gives the place in physical memory. Names recorded before paging have physical addresses: they need a range with
//! `virt` equal to `phys`.
//!
//! **Finding it.** The magic occurs nowhere else: programs that write it or search for it hold it masked. It lies at a
//! multiple of 64. Copies of a header (a crash dump in memory, an older boot's log) pass the check too, so a search may find
//! several.

use crate::sync::AtomicU64;
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicU32;

pub use crate::slots::Record;

/// Version of the layout described here.
pub const VERSION: u32 = 1;
/// Length of the header; the records follow it.
pub const HEADER_BYTES: usize = 512;
/// Length of a record.
pub const RECORD_BYTES: usize = 40;
/// Number of address ranges that the header has room for.
pub const RANGES_MAX: usize = 8;
/// Default number of records in a log: 10 MiB.
pub const DEFAULT_RECORDS: usize = 262_144;
/// Default size of a log's arena.
pub const DEFAULT_ARENA_BYTES: usize = 65_536;
/// Readers take a longer region for garbage, so that arithmetic on offsets cannot overflow.
pub const REGION_BYTES_MAX: u64 = 1 << 40;

/// The counter that a log's ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TicksSource {
    /// The header does not name the counter.
    Unknown = 0,
    /// The time stamp counter of x86.
    Tsc = 1,
    /// CNTVCT_EL0, the virtual count of aarch64's generic timer.
    Cntvct = 2,
    /// The `time` CSR of RISC-V.
    RiscvTime = 3,
    /// A counter that the kernel chose.
    Own = 4,
}

impl TicksSource {
    /// Reads the value that a header holds. Any value not listed here is `Unknown`.
    pub fn from_u32(value: u32) -> TicksSource {
        match value {
            1 => TicksSource::Tsc,
            2 => TicksSource::Cntvct,
            3 => TicksSource::RiscvTime,
            4 => TicksSource::Own,
            _ => TicksSource::Unknown,
        }
    }
}

/// A range of virtual addresses and where it lies in physical memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Range {
    pub virt: AtomicU64,
    pub phys: AtomicU64,
    pub bytes: AtomicU64,
}

/// The header of a region.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Header {
    pub(crate) magic: [AtomicU64; 2],
    pub(crate) version: AtomicU32,
    pub(crate) header_bytes: AtomicU32,
    pub(crate) record_bytes: AtomicU32,
    pub(crate) ranges_max: AtomicU32,
    pub(crate) capacity: AtomicU64,
    pub(crate) arena_bytes: AtomicU64,
    pub(crate) region_virt: AtomicU64,
    pub(crate) ticks_source: AtomicU32,
    pub(crate) check: AtomicU32,

    pub(crate) ticks_hz: AtomicU64,
    pub(crate) region_virt_now: AtomicU64,
    pub(crate) before_start: AtomicU64,
    pub(crate) arena_used: AtomicU64,
    pub(crate) arena_overflows: AtomicU64,
    pub(crate) ranges_used: AtomicU32,
    reserved_108: AtomicU32,
    pub(crate) moved_at: AtomicU64,
    reserved_120: AtomicU64,

    pub(crate) next: AtomicU64,
    reserved_next: [AtomicU64; 7],
    pub(crate) ranges: [Range; RANGES_MAX],
    reserved_end: [AtomicU64; 16],
}

const _: () = {
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(offset_of!(Header, version) == 16);
    assert!(offset_of!(Header, capacity) == 32);
    assert!(offset_of!(Header, arena_bytes) == 40);
    assert!(offset_of!(Header, region_virt) == 48);
    assert!(offset_of!(Header, ticks_source) == 56);
    assert!(offset_of!(Header, check) == 60);
    assert!(offset_of!(Header, ticks_hz) == 64);
    assert!(offset_of!(Header, region_virt_now) == 72);
    assert!(offset_of!(Header, before_start) == 80);
    assert!(offset_of!(Header, arena_used) == 88);
    assert!(offset_of!(Header, arena_overflows) == 96);
    assert!(offset_of!(Header, ranges_used) == 104);
    assert!(offset_of!(Header, moved_at) == 112);
    assert!(offset_of!(Header, next) == 128);
    assert!(offset_of!(Header, ranges) == 192);
    assert!(size_of::<Range>() == 24);
    assert!(size_of::<Record>() == RECORD_BYTES);
    assert!(offset_of!(Record, thread) == 8);
    assert!(offset_of!(Record, name) == 16);
    assert!(offset_of!(Record, detail) == 24);
    assert!(offset_of!(Record, word) == 32);
};

#[cfg(not(all(target_endian = "little", target_has_atomic = "64")))]
compile_error!("tslog's layout is little-endian, and its writer needs 64-bit atomics");

impl Header {
    pub(crate) const fn new() -> Header {
        Header {
            magic: [const { AtomicU64::new(0) }; 2],
            version: AtomicU32::new(0),
            header_bytes: AtomicU32::new(0),
            record_bytes: AtomicU32::new(0),
            ranges_max: AtomicU32::new(0),
            capacity: AtomicU64::new(0),
            arena_bytes: AtomicU64::new(0),
            region_virt: AtomicU64::new(0),
            ticks_source: AtomicU32::new(0),
            check: AtomicU32::new(0),
            ticks_hz: AtomicU64::new(0),
            region_virt_now: AtomicU64::new(0),
            before_start: AtomicU64::new(0),
            arena_used: AtomicU64::new(0),
            arena_overflows: AtomicU64::new(0),
            ranges_used: AtomicU32::new(0),
            reserved_108: AtomicU32::new(0),
            moved_at: AtomicU64::new(0),
            reserved_120: AtomicU64::new(0),
            next: AtomicU64::new(0),
            reserved_next: [const { AtomicU64::new(0) }; 7],
            ranges: [const { Range { virt: AtomicU64::new(0), phys: AtomicU64::new(0), bytes: AtomicU64::new(0) } };
                RANGES_MAX],
            reserved_end: [const { AtomicU64::new(0) }; 16],
        }
    }
}

impl Record {
    pub(crate) const fn new() -> Record {
        Record {
            ticks: AtomicU64::new(0),
            thread: AtomicU64::new(0),
            name: AtomicU64::new(0),
            detail: AtomicU64::new(0),
            word: AtomicU64::new(0),
        }
    }
}

/// Offset of the arena in a region with `capacity` slots. The capacity is at most `REGION_BYTES_MAX / RECORD_BYTES`.
pub(crate) const fn arena_offset(capacity: u64) -> u64 {
    (HEADER_BYTES as u64 + capacity * RECORD_BYTES as u64).next_multiple_of(64)
}

/// The two words of the magic. They are computed at run time, so that no compiled program contains them.
pub(crate) fn magic() -> [u64; 2] {
    const MASK: u64 = 0x5aa5_33cc_0ff0_9669;
    const MASKED: [u64; 2] = [
        u64::from_le_bytes([0x89, 0x54, 0x53, 0x4c, 0x4f, 0x47, 0x0d, 0x0a]) ^ MASK,
        u64::from_le_bytes([0xc3, 0x1d, 0x9b, 0xe2, 0xa7, 0x75, 0x08, 0xf6]) ^ MASK,
    ];
    let mask = core::hint::black_box(MASK);
    [MASKED[0] ^ mask, MASKED[1] ^ mask]
}

/// The first 60 bytes of a header, from the fields that differ between logs.
pub(crate) fn fixed_part(capacity: u64, arena_bytes: u64, region_virt: u64, ticks_source: u32) -> [u8; 60] {
    let magic = magic();
    let sizes = [VERSION, HEADER_BYTES as u32, RECORD_BYTES as u32, RANGES_MAX as u32];
    let mut fixed = [0; 60];
    fixed[..8].copy_from_slice(&magic[0].to_le_bytes());
    fixed[8..16].copy_from_slice(&magic[1].to_le_bytes());
    for (bytes, size) in fixed[16..32].chunks_exact_mut(4).zip(sizes) {
        bytes.copy_from_slice(&size.to_le_bytes());
    }
    fixed[32..40].copy_from_slice(&capacity.to_le_bytes());
    fixed[40..48].copy_from_slice(&arena_bytes.to_le_bytes());
    fixed[48..56].copy_from_slice(&region_virt.to_le_bytes());
    fixed[56..60].copy_from_slice(&ticks_source.to_le_bytes());
    fixed
}

/// FNV-1a over the fixed part of a header, a 32-bit word at a time.
pub(crate) fn check(fixed: &[u8; 60]) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    fixed.chunks_exact(4).fold(0x811c_9dc5, |sum, bytes| (sum ^ word(bytes)).wrapping_mul(0x0100_0193))
}
