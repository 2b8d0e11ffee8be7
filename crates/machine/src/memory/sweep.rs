//! One pass over all touched guest RAM, in pieces.
//!
//! Pieces overlap by a number of bytes that the caller gives. So an item of at most that length lies in one piece completely; an item
//! within the overlap is seen twice. Memory that cannot be read is skipped, so that a search goes on.

use super::{PhysicalMemory, host_size};

const PIECE_BYTES: u64 = 1 << 20;

/// Calls `visit` with the address and the bytes of each piece until it returns false. Returns the number of bytes searched.
pub fn sweep(memory: &dyn PhysicalMemory, overlap: u64, mut visit: impl FnMut(u64, &[u8]) -> bool) -> u64 {
    let mut buf = vec![0; host_size(PIECE_BYTES + overlap)];
    let (mut at, mut seen) = (0, 0);
    while let Some(data) = memory.next_data(at) {
        let Some(extent) = memory.extents().iter().find(|extent| extent.range().contains(&data.start)) else {
            break;
        };
        let piece_end = data.end.min(data.start.saturating_add(PIECE_BYTES));
        // The overlap may lie in a hole, which reads as zeros, but not outside the extent.
        let read_end = piece_end.saturating_add(overlap).min(extent.range().end);
        let piece = &mut buf[..host_size(read_end - data.start)];
        if memory.read_at(data.start, piece).is_ok() {
            seen += piece_end - data.start;
            if !visit(data.start, piece) {
                break;
            }
        }
        at = piece_end;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::image::Image;
    use super::*;

    #[test]
    fn what_lies_across_two_pieces_is_seen_whole() {
        let mut image = Image::new(0x10_0000, 3 << 20);
        image.put(0x10_0000 + PIECE_BYTES - 3, b"needle");
        let mut found = Vec::new();
        let seen = sweep(&image, 8, |phys, bytes| {
            found.extend(memchr::memmem::find_iter(bytes, b"needle").map(|at| phys + at as u64));
            true
        });
        assert_eq!(found, [0x10_0000 + PIECE_BYTES - 3]);
        assert_eq!(seen, 3 << 20);
    }
}
