//! Compares the allocator with a plain model: a list of free frames, searched from the start.

use p2buddy::{Buddy, Error, Record, frames_in};
use proptest::prelude::*;
use std::collections::BTreeMap;

const FRAMES: usize = 700;
const FIRST: usize = 64;

fn records() -> Vec<Record> {
    (0..FRAMES).map(|_| Record::new()).collect()
}

#[derive(Default)]
struct Model {
    /// True for each free frame.
    free: Vec<bool>,
    /// First frame of each allocated block, and its order.
    allocated: BTreeMap<usize, usize>,
}

impl Model {
    /// True if frames below `end` have a free block of this order.
    fn has(&self, order: usize, end: usize) -> bool {
        let size = 1 << order;
        let blocks = self.free[..end.min(FRAMES)].chunks_exact(size);
        blocks.into_iter().any(|block| block.iter().all(|&free| free))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Allocate {
        order: usize,
        zone: usize,
    },
    /// Frees the nth allocated block, with this error in the order.
    Free {
        nth: usize,
        error: usize,
    },
    /// Frees any frame with any order.
    FreeFrame(usize, usize),
    /// Adds a reference to the nth allocated block.
    Refer(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..FRAMES + 80, 0usize..300).prop_map(|(from, count)| Step::Add(from, count)),
        8 => (0usize..6, 0usize..3).prop_map(|(order, zone)| Step::Allocate { order, zone }),
        6 => (0usize..50, prop_oneof![9 => Just(0usize), 1 => 1usize..4]).prop_map(|(nth, error)| Step::Free { nth, error }),
        1 => (0..FRAMES + 80, 0usize..7).prop_map(|(frame, order)| Step::FreeFrame(frame, order)),
        1 => (0usize..50).prop_map(Step::Refer),
    ]
}

proptest! {
    #[test]
    fn as_a_plain_list_would(steps in proptest::collection::vec(step(), 1..200)) {
        const ORDERS: usize = 5;
        let records = records();
        let mut frames: Buddy<ORDERS, 2, 4> = Buddy::with_zones(&records, FIRST, [FIRST + 256]).unwrap();
        let mut model = Model { free: vec![false; FRAMES], ..Model::default() };
        let mut managed = vec![false; FRAMES];
        for step in steps {
            match step {
                Step::Add(from, count) => {
                    let added = frames.add(from..from + count);
                    let inside = from >= FIRST && from + count <= FIRST + FRAMES;
                    let new = inside && managed[from - FIRST..from - FIRST + count].iter().all(|is_managed| !is_managed);
                    match added {
                        Ok(()) => {
                            prop_assert!(new && count > 0);
                            model.free[from - FIRST..from - FIRST + count].fill(true);
                            managed[from - FIRST..from - FIRST + count].fill(true);
                        }
                        Err(Error::Empty) => prop_assert_eq!(count, 0),
                        Err(Error::NoRecord(_)) => prop_assert!(!inside),
                        Err(Error::Overlaps(_)) => prop_assert!(inside && !new),
                        Err(error) => prop_assert!(matches!(error, Error::TooManyRanges(4)) && new, "{:?}", error),
                    }
                }
                Step::Allocate { order, zone } => {
                    let end = if zone == 0 { 256 } else { FRAMES };
                    match frames.allocate_below(order, zone) {
                        Some(frame) => {
                            let at = frame - FIRST;
                            prop_assert_eq!(at % (1 << order), 0);
                            prop_assert!(at + (1 << order) <= end);
                            prop_assert!(model.free[at..at + (1 << order)].iter().all(|&free| free), "given twice");
                            model.free[at..at + (1 << order)].fill(false);
                            model.allocated.insert(frame, order);
                        }
                        None => prop_assert!(order >= ORDERS || !model.has(order, end), "order {} was there", order),
                    }
                }
                Step::Free { nth, error } => {
                    let Some((&frame, &order)) = model.allocated.iter().nth(nth) else { continue };
                    let freed_order = (order + error) % ORDERS;
                    match frames.free(frame, freed_order) {
                        Ok(()) => {
                            prop_assert_eq!(freed_order, order);
                            model.allocated.remove(&frame);
                            model.free[frame - FIRST..frame - FIRST + (1 << order)].fill(true);
                            prop_assert_eq!(frames.free(frame, order), Err(Error::NotAllocated(frame)), "twice");
                        }
                        Err(Error::InUse(_)) => {
                            prop_assert!(freed_order == order && records[frame - FIRST].count() > 0);
                            while records[frame - FIRST].release().is_some() {}
                        }
                        Err(error) => prop_assert_eq!(error, Error::OtherOrder { frame, is: order }),
                    }
                }
                Step::FreeFrame(frame, order) => {
                    if model.allocated.contains_key(&frame) {
                        continue;
                    }
                    let is_managed = frame >= FIRST && managed.get(frame - FIRST).copied().unwrap_or(false);
                    let expected = match () {
                        () if order >= ORDERS => Error::NoSuchOrder(order),
                        () if !is_managed => Error::NotManaged(frame),
                        () => Error::NotAllocated(frame),
                    };
                    prop_assert_eq!(frames.free(frame, order), Err(expected));
                }
                Step::Refer(nth) => {
                    let Some((&frame, _)) = model.allocated.iter().nth(nth) else { continue };
                    records[frame - FIRST].acquire();
                    records[frame - FIRST].word().store(usize::MAX, std::sync::atomic::Ordering::Relaxed);
                }
            }
            prop_assert_eq!(frames.check(), Ok(()));
            prop_assert_eq!(frames.free_frames(), model.free.iter().filter(|&&free| free).count());
            prop_assert_eq!(frames.frames(), managed.iter().filter(|&&is_managed| is_managed).count());
        }
    }

    #[test]
    fn no_range_of_bytes_does_harm(start: u64, length: u64, frame in prop_oneof![Just(4096u64), Just(65536)]) {
        if let Ok(frames) = frames_in(start, length, frame) {
            prop_assert_eq!((frames.start as u64 * frame, frames.len() as u64 * frame), (start, length));
        }
    }
}

#[test]
fn ranges_of_a_memory_map() {
    assert_eq!(frames_in(0x10_0000, 0x7ee_0000, 4096), Ok(0x100..0x7fe0));
    assert_eq!(frames_in(0x1000, 0, 4096), Err(Error::Empty));
    assert_eq!(frames_in(u64::MAX - 4095, 4096, 4096), Err(Error::Wraps));
    assert_eq!(frames_in(0x1001, 0x1000, 4096), Err(Error::NotAligned(1)));
    assert_eq!(frames_in(0x1000, 0x9fc00, 4096), Err(Error::NotAligned(0xa0)));
}

#[test]
fn zones_and_records_begin_at_the_largest_block() {
    let records = records();
    assert_eq!(Buddy::<11>::new(&records, 64).map(|_| ()), Err(Error::NotAligned(64)));
    let zones = |begin| Buddy::<5, 3>::with_zones(&records, 64, begin).map(|_| ());
    assert_eq!([zones([128, 250]), zones([256, 128])], [Err(Error::NotAligned(250)), Err(Error::NotAligned(128))]);
    assert_eq!(zones([128, 256]), Ok(()));
}

#[test]
fn high_memory_is_allocated_first_and_low_memory_on_request() {
    let records = records();
    let mut frames: Buddy<5, 2> = Buddy::with_zones(&records, 0, [256]).unwrap();
    frames.add(0..FRAMES).unwrap();
    assert!(frames.allocate(0).unwrap() >= 256);
    assert!(frames.allocate_below(0, 0).unwrap() < 256);
    while frames.allocate(0).is_some_and(|frame| frame >= 256) {}
    assert!(frames.allocate(0).unwrap() < 256, "the low zone is the last resort");
}
