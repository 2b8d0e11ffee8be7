//! Reads an image of memory that this crate did not write: the fuzz target's seed, made byte by byte from the layout's
//! description. It has five slots, one of them half-written, and two events too many. Its names are in the arena, in the
//! kernel's image with and without their length, and the path of an item in a function.

use tslog::layout::TicksSource;
use tslog::{Image, SlotCounts, find, write_image_text};

#[test]
fn a_log_made_by_the_description_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/tslog_image/one-boot");
    let memory = std::fs::read(path).expect("the seed");
    assert_eq!(find(&memory).collect::<Vec<_>>(), [0]);
    let image = Image::new(&memory).expect("a log");
    let head = image.head();
    assert_eq!((head.capacity, head.ticks_source, head.ticks_hz), (5, TicksSource::Tsc, Some(2_445_431_964)));
    assert_eq!((head.arena_bytes, head.arena_used, head.before_start), (64, 6, 2));
    let expected = SlotCounts { whole: 4, half_written: 1, dropped: 2, ..SlotCounts::default() };
    assert_eq!(image.counts(), expected);

    let mut read_phys = |phys: u64, buffer: &mut [u8]| {
        let part = memory.get(phys as usize..phys as usize + buffer.len());
        part.map(|part| buffer.copy_from_slice(part)).is_some()
    };
    let mut text = String::new();
    let dump = write_image_text(&image, &mut text, &mut read_phys).expect("a string takes all");
    let expected = "0x0 1000 ENTER hammer_time\n\
                    0x0 1100 ENTER delay\n\
                    0x1000 1200 THREAD usbus0\n\
                    0x1000 1300 EVENT SYSINIT root mount\n\
                    0x0 1300 EVENT TSLOG dropped 2\n\
                    0x0 1300 EVENT TSLOG half-written 1\n\
                    0x0 1300 EVENT TSLOG before-start 2\n\
                    0x0 1300 EVENT TSLOG hz 2445431964\n";
    assert_eq!(text, expected);
    assert_eq!((dump.records, dump.unresolved, dump.cut, dump.mended), (4, 0, 0, 0));
}
