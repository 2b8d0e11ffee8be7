//! Whose a page frame is: which memory a driver may map as borrowed, and what the check of it (`check=frame-ownership`) counts.
//!
//! Usable memory is the frame allocator's, also where it has given it to somebody or has not come to it yet. A driver gets
//! some only from the allocator. What it may borrow is everything else: registers, and tables of the firmware's.

use crate::memory_map::{FRAME_BYTES, Region, USABLE};
use core::fmt;
use core::ops::Range;

/// Why memory cannot be borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is nothing to map.
    Empty,
    /// It ends beyond the last address.
    Wraps,
    /// A frame of it is the allocator's.
    Owned {
        /// The first one, by number.
        frame: u64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Empty => f.write_str("no byte to map"),
            Refused::Wraps => f.write_str("it ends beyond the last address"),
            Refused::Owned { frame } => write!(f, "frame {frame} is the frame allocator's"),
        }
    }
}

impl core::error::Error for Refused {}

/// The frames that hold these bytes.
pub fn frames_of(phys: u64, bytes: u64) -> Result<Range<u64>, Refused> {
    let last = bytes.checked_sub(1).ok_or(Refused::Empty)?;
    let last = phys.checked_add(last).ok_or(Refused::Wraps)?;
    Ok(phys / FRAME_BYTES..last / FRAME_BYTES + 1)
}

/// The frames that hold these bytes, if none of them is the allocator's.
pub fn borrow(map: &[Region], phys: u64, bytes: u64) -> Result<Range<u64>, Refused> {
    let frames = frames_of(phys, bytes)?;
    let owned = |region: &Region| {
        let of_region = frames_of(region.from, region.bytes.min(u64::MAX - region.from)).ok()?;
        let first = frames.start.max(of_region.start);
        (first < frames.end.min(of_region.end)).then_some(first)
    };
    match map.iter().filter(|region| region.kind == USABLE).filter_map(owned).min() {
        Some(frame) => Err(Refused::Owned { frame }),
        None => Ok(frames),
    }
}

/// What the check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames that drivers took.
    pub taken: i64,
    /// Those that were not free again after all of it was unmapped.
    pub kept: i64,
    /// Mappings of a frame of somebody else's that were not refused.
    pub owned_borrowed: u64,
    /// Frames that were given to somebody while a driver had them mapped.
    pub given_twice: u64,
}

impl Seen {
    /// Whether every frame had one owner, and came back. A check in which drivers took none is none.
    pub fn is_correct(&self) -> bool {
        self.taken > 0 && self.kept == 0 && self.owned_borrowed == 0 && self.given_twice == 0
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { taken, kept, owned_borrowed, given_twice } = self;
        write!(f, "drivers took {taken} frames, {kept} did not come back")?;
        write!(f, ", {owned_borrowed} borrowed that were owned, {given_twice} given out while mapped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    const MAP: [Region; 4] = [
        Region { from: 0, bytes: 0x9fc00, kind: USABLE },
        Region { from: 0xf0000, bytes: 0x10000, kind: 2 },
        Region { from: 0x10_0000, bytes: 0x7ee_0000, kind: USABLE },
        Region { from: u64::MAX - 0xfff, bytes: u64::MAX, kind: USABLE },
    ];

    #[test]
    fn what_the_allocator_owns_is_refused_and_the_rest_is_not() {
        let check = |phys, bytes, expected| assert_eq!(borrow(&MAP, phys, bytes), expected, "{phys:#x} {bytes:#x}");
        check(0xfeb0_0010, 0x20, Ok(0xfeb00..0xfeb01));
        check(0xf0000, 0x10000, Ok(0xf0..0x100));
        check(0x7fe_0000, 1, Ok(0x7fe0..0x7fe1));
        // One byte is enough, at either end and in between; a frame that is usable in part is owned.
        check(0xf0000, 0x10001, Err(Refused::Owned { frame: 0x100 }));
        check(0x7fd_ffff, 2, Err(Refused::Owned { frame: 0x7fdf }));
        check(0x20_0000, 4096, Err(Refused::Owned { frame: 0x200 }));
        check(0x9f800, 0x900, Err(Refused::Owned { frame: 0x9f }));
        check(0x9fff0, 8, Err(Refused::Owned { frame: 0x9f }));
        check(0, u64::MAX, Err(Refused::Owned { frame: 0 }));
        check(u64::MAX, 1, Err(Refused::Owned { frame: u64::MAX / FRAME_BYTES }));
        check(0xfeb0_0000, 0, Err(Refused::Empty));
        check(u64::MAX, 2, Err(Refused::Wraps));
    }

    #[test]
    fn each_kind_of_damage_alone_is_broken() {
        let well = Seen { taken: 7, ..Seen::default() };
        assert!(well.is_correct());
        for broken in [
            Seen { taken: 0, ..well },
            Seen { kept: 1, ..well },
            Seen { kept: -1, ..well },
            Seen { owned_borrowed: 1, ..well },
            Seen { given_twice: 1, ..well },
        ] {
            assert!(!broken.is_correct(), "{broken:?}");
        }
        assert!(format!("{well}").starts_with("drivers took 7 frames, 0 did not come back, 0 borrowed"));
    }

    proptest::proptest! {
        #[test]
        fn no_frame_of_usable_memory_is_ever_borrowed(
            map in proptest::collection::vec((0u64..1 << 20, 0u64..1 << 18, 1u32..3), 0..8),
            phys in 0u64..1 << 21,
            bytes in 0u64..1 << 18,
        ) {
            let map: Vec<Region> = map.into_iter().map(|(from, bytes, kind)| Region { from, bytes, kind }).collect();
            let is_usable = |byte: u64| {
                map.iter().any(|r| r.kind == USABLE && (r.from..r.from + r.bytes).contains(&byte))
            };
            let frame_is = |frame: u64| (frame * FRAME_BYTES..(frame + 1) * FRAME_BYTES).any(is_usable);
            match borrow(&map, phys, bytes) {
                Ok(frames) => assert!(!frames.into_iter().any(frame_is)),
                Err(Refused::Owned { frame }) => assert!(frame_is(frame)),
                Err(error) => assert_eq!((error, bytes), (Refused::Empty, 0)),
            }
        }
    }
}
