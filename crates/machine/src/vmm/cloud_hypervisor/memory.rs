//! The layout of guest RAM in its file. RAM lies below 3 GiB and above 4 GiB; between them are the PC's device registers.

use crate::memory::Extent;

const BELOW_BYTES: u64 = 3 << 30;
const ABOVE_PHYS: u64 = 4 << 30;

/// The extents of `bytes` of RAM, consecutive in the file.
pub(super) fn extents(bytes: u64) -> Vec<Extent> {
    let below = Extent { phys: 0, file_offset: 0, bytes: bytes.min(BELOW_BYTES) };
    let above = Extent { phys: ABOVE_PHYS, file_offset: BELOW_BYTES, bytes: bytes.saturating_sub(BELOW_BYTES) };
    [below, above].into_iter().filter(|extent| extent.bytes > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_lie_between_3_and_4_gib() {
        assert_eq!(extents(512 << 20), [Extent { phys: 0, file_offset: 0, bytes: 512 << 20 }]);
        assert_eq!(extents(3 << 30).len(), 1);
        let above = Extent { phys: 4 << 30, file_offset: 3 << 30, bytes: 2 << 30 };
        assert_eq!(extents(5 << 30), [Extent { phys: 0, file_offset: 0, bytes: 3 << 30 }, above]);
    }
}
