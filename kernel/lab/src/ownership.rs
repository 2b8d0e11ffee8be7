//! The owners of page frames: the memory that a driver may borrow, and the counts of the check `check=frame-ownership`.
//!
//! The frame allocator owns all usable memory, including frames that it has allocated or not initialised yet. A driver gets
//! such memory only from the allocator. It may borrow all other memory: registers, and the firmware's tables.

use crate::memory_map::{FRAME_BYTES, Region, USABLE};
use core::fmt;
use core::ops::Range;

/// The reason why memory cannot be borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no byte to map.
    Empty,
    /// The memory ends beyond the last address.
    Wraps,
    /// The frame allocator owns a frame of the memory.
    Owned {
        /// Number of the first such frame.
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

/// The frames that contain these bytes.
pub fn frames_of(phys: u64, bytes: u64) -> Result<Range<u64>, Refused> {
    let last = bytes.checked_sub(1).ok_or(Refused::Empty)?;
    let last = phys.checked_add(last).ok_or(Refused::Wraps)?;
    Ok(phys / FRAME_BYTES..last / FRAME_BYTES + 1)
}

/// The frames that contain these bytes, if the allocator owns none of them.
pub fn borrow(map: &[Region], phys: u64, bytes: u64) -> Result<Range<u64>, Refused> {
    let frames = frames_of(phys, bytes)?;
    let first_common_frame = |region: &Region| {
        let region_frames = frames_of(region.from, region.bytes.min(u64::MAX - region.from)).ok()?;
        let first = frames.start.max(region_frames.start);
        (first < frames.end.min(region_frames.end)).then_some(first)
    };
    match map.iter().filter(|region| region.kind == USABLE).filter_map(first_common_frame).min() {
        Some(frame) => Err(Refused::Owned { frame }),
        None => Ok(frames),
    }
}

/// The counts of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of frames that drivers took.
    pub taken: i64,
    /// Number of these frames that were not free again after the drivers unmapped them.
    pub kept: i64,
    /// Number of mappings of another owner's frame that were not refused.
    pub owned_borrowed: u64,
    /// Number of frames that were allocated while a driver had them mapped.
    pub given_twice: u64,
}

impl Seen {
    /// True if every frame had one owner and was freed. False if drivers took no frame, because then nothing was checked.
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
    fn memory_that_the_allocator_owns_is_refused_and_the_rest_is_not() {
        let check = |phys, bytes, expected| assert_eq!(borrow(&MAP, phys, bytes), expected, "{phys:#x} {bytes:#x}");
        check(0xfeb0_0010, 0x20, Ok(0xfeb00..0xfeb01));
        check(0xf0000, 0x10000, Ok(0xf0..0x100));
        check(0x7fe_0000, 1, Ok(0x7fe0..0x7fe1));
        // One owned byte is enough, at either end or in between. A partly usable frame is owned.
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
        let correct = Seen { taken: 7, ..Seen::default() };
        assert!(correct.is_correct());
        for broken in [
            Seen { taken: 0, ..correct },
            Seen { kept: 1, ..correct },
            Seen { kept: -1, ..correct },
            Seen { owned_borrowed: 1, ..correct },
            Seen { given_twice: 1, ..correct },
        ] {
            assert!(!broken.is_correct(), "{broken:?}");
        }
        assert!(format!("{correct}").starts_with("drivers took 7 frames, 0 did not come back, 0 borrowed"));
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
            let is_owned = |frame: u64| (frame * FRAME_BYTES..(frame + 1) * FRAME_BYTES).any(is_usable);
            match borrow(&map, phys, bytes) {
                Ok(frames) => assert!(!frames.into_iter().any(is_owned)),
                Err(Refused::Owned { frame }) => assert!(is_owned(frame)),
                Err(error) => assert_eq!((error, bytes), (Refused::Empty, 0)),
            }
        }
    }
}
