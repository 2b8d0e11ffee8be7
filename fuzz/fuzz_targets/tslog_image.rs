//! A TSLOG in a hostile guest's memory: the unchanged input, and again with the header's fixed fields corrected. Sizes, ranges,
//! slots and the memory of names come from the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tslog::layout::{HEADER_BYTES, VERSION};
use tslog::{Image, NAME_BYTES_MAX, Slot, find, write_image_text};

/// Largest length of a line: two names of the largest length, with up to four bytes per character.
const MAX_LINE_BYTES: usize = 2 * 4 * NAME_BYTES_MAX + 100;

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    let mut memory = bytes.to_vec();
    if memory.len() >= HEADER_BYTES {
        make_right(&mut memory);
        look(&memory);
    }
});

fn look(memory: &[u8]) {
    for at in find(memory) {
        assert!(memory[at..].starts_with(b"\x89TSLOG\r\n"));
    }
    let Ok(image) = Image::new(memory) else { return };
    let (head, counts) = (image.head(), image.counts());
    assert_eq!(counts.whole + counts.half_written + counts.malformed + counts.missing + counts.dropped, head.next);
    assert!(image.slots().count() * 40 <= memory.len());
    let whole = image.slots().filter(|slot| matches!(slot, Slot::Whole(_))).count();

    let mut read_phys = |phys: u64, buffer: &mut [u8]| {
        let part = usize::try_from(phys).ok().and_then(|from| memory.get(from..from.checked_add(buffer.len())?));
        part.map(|part| buffer.copy_from_slice(part)).is_some()
    };
    let mut text = String::new();
    let dump = write_image_text(&image, &mut text, &mut read_phys).expect("a string takes all");
    assert_eq!(
        (dump.records, dump.half_written, dump.malformed),
        (whole as u64, counts.half_written, counts.malformed)
    );
    assert!(text.lines().all(|line| line.len() <= MAX_LINE_BYTES && line.starts_with("0x")));
    // Each record is one line, and there are at most six last lines with counts.
    assert!((whole..=whole + 6).contains(&text.lines().count()));
}

/// Corrects magic, version and sizes, and the sum over them. `tslog::layout` describes the layout. Most of the time it makes the
/// log small enough that a part of it is in the input.
fn make_right(memory: &mut [u8]) {
    memory[..16].copy_from_slice(b"\x89TSLOG\r\n\xc3\x1d\x9b\xe2\xa7\x75\x08\xf6");
    for (at, size) in [(16, VERSION), (20, HEADER_BYTES as u32), (24, 40), (28, 8)] {
        memory[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }
    if memory[60] % 8 != 0 {
        memory[34..40].fill(0);
        memory[42..48].fill(0);
    }
    let words = memory[..60].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    let sum = words.fold(0x811c_9dc5_u32, |sum, word| (sum ^ word).wrapping_mul(0x0100_0193));
    memory[60..64].copy_from_slice(&sum.to_le_bytes());
}
