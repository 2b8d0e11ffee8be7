//! An arena that imports from another, and its errors.

use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use vmem::{Arena, Error, Fit, Request, Segment, Source, Tag};

/// An arena shared by a cell; a kernel would use a lock.
#[derive(Clone)]
struct Shared(Rc<RefCell<Arena<'static>>>);

impl Source for Shared {
    fn quantum(&self) -> Option<u64> {
        Some(4096)
    }

    fn import(&mut self, size: u64, may_wait: bool) -> Result<u64, Error> {
        let request = Request::new(size);
        self.0.borrow_mut().allocate(&if may_wait { request.may_wait() } else { request })
    }

    fn give_back(&mut self, start: u64, size: u64) {
        self.0.borrow_mut().free(start, size).expect("what was imported");
    }
}

fn tags(count: usize) -> &'static mut [Tag] {
    vec![Tag::new(); count].leak()
}

/// A heap with this number of pages, and an arena with a quantum of 64 bytes that imports from it.
fn heap_and_child(pages: u64, least: u64) -> (Shared, Arena<'static, Shared>) {
    let mut heap = Arena::new(4096).unwrap();
    heap.add_tags(tags(1000)).unwrap();
    heap.add(0x10_0000, pages * 4096).unwrap();
    let heap = Shared(Rc::new(RefCell::new(heap)));
    let mut child = Arena::importing(64, heap.clone(), least).unwrap();
    child.add_tags(tags(1000)).unwrap();
    (heap, child)
}

proptest! {
    #[test]
    fn what_is_imported_is_the_sources_and_goes_back(
        steps in proptest::collection::vec((any::<bool>(), 1u64..9000, 0u32..15, 0u64..64, 0usize..3), 1..150),
        least in 0u64..20_000,
    ) {
        let (heap, mut child) = heap_and_child(30, least);
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        for (allocate, size, bits, phase, fit) in steps {
            let align = 1u64 << bits;
            let phase = if phase * 64 < align { phase * 64 } else { 0 };
            let request = Request::new(size).aligned(align).phase(phase).fit([Fit::Instant, Fit::Best, Fit::Next][fit]);
            if allocate {
                match child.allocate(&request) {
                    Ok(address) => {
                        prop_assert_eq!(address % align, phase);
                        prop_assert!(held.range(..address + size).next_back().is_none_or(|(&a, &s)| a + s <= address));
                        let is_in = |s: Segment| s.is_allocated && address >= s.start && address + size <= s.start + s.size;
                        prop_assert!(heap.0.borrow().segments().any(is_in));
                        held.insert(address, size);
                    }
                    Err(error) => {
                        prop_assert_eq!(error, Error::NoSpace);
                        // A free segment of this size would surely have had a place for the request.
                        let needed = (size.next_multiple_of(64) + align).max(least).next_multiple_of(4096);
                        prop_assert!(heap.0.borrow().segments().all(|segment| segment.is_allocated || segment.size < needed));
                    }
                }
            } else if let Some((&address, &size)) = held.iter().nth(phase as usize % held.len().max(1)) {
                held.remove(&address);
                child.free(address, size).unwrap();
            }
            prop_assert_eq!((child.check(), heap.0.borrow().check()), (Ok(()), Ok(())));
            prop_assert_eq!(child.counters().mem_import, heap.0.borrow().counters().mem_inuse);
            prop_assert_eq!(child.counters().mem_total, child.counters().mem_import);
        }
        held.into_iter().for_each(|(address, size)| child.free(address, size).unwrap());
        prop_assert_eq!((child.counters().mem_total, heap.0.borrow().counters().mem_inuse), (0, 0));
    }
}

#[test]
fn at_least_so_much_is_imported_at_once_and_all_of_it_returned() {
    let (heap, mut child) = heap_and_child(64, 0x8000);
    let (a, b) = (child.allocate(&Request::new(100)).unwrap(), child.allocate(&Request::new(0x4000)).unwrap());
    assert_eq!((heap.0.borrow().counters().alloc, child.counters().mem_import), (1, 0x8000));
    let large = child.allocate(&Request::new(0x9000)).unwrap();
    assert_eq!(heap.0.borrow().counters().mem_inuse, 0x1_1000);
    child.free(large, 0x9000).unwrap();
    child.free(a, 100).unwrap();
    assert_eq!(heap.0.borrow().counters().mem_inuse, 0x8000, "b is in it");
    child.free(b, 0x4000).unwrap();
    assert_eq!((heap.0.borrow().counters().mem_inuse, child.counters().mem_total), (0, 0));
}

#[test]
fn a_request_with_limits_is_not_imported_for() {
    let (_, mut child) = heap_and_child(64, 0);
    assert_eq!(child.allocate(&Request::new(64).below(1 << 32)), Err(Error::NoSpace));
    assert_eq!(child.allocate(&Request::new(64).not_across(4096)), Err(Error::NoSpace));
    assert!(
        child.allocate(&Request::new(64).aligned(1 << 14).phase(192)).is_ok_and(|address| address % (1 << 14) == 192)
    );
}

/// The arena refuses spans that do not match its request to the source.
#[test]
fn a_source_that_lies_does_no_harm() {
    struct Liar(u64);
    impl Source for Liar {
        fn quantum(&self) -> Option<u64> {
            Some(4096)
        }
        fn import(&mut self, _: u64, _: bool) -> Result<u64, Error> {
            Ok(self.0)
        }
        fn give_back(&mut self, _: u64, _: u64) {}
    }
    for (start, in_use) in [(0x1001, 0), (0u64.wrapping_sub(4096), 0), (0x2000, 0x1000)] {
        let mut arena = Arena::importing(64, Liar(start), 0).unwrap();
        arena.add_tags(tags(16)).unwrap();
        arena.add(0x2000, 0x1000).unwrap();
        arena.allocate(&Request::new(0x1000)).unwrap();
        assert_eq!(arena.allocate(&Request::new(0x2000)), Err(Error::BadImport(start)), "{start:#x} {in_use}");
        assert_eq!((arena.check(), arena.counters().fail), (Ok(()), 1));
    }
    assert_eq!(Arena::importing(8192, Liar(0), 0).map(|_| ()), Err(Error::NotAligned(4096)));
}

#[test]
fn a_waiting_caller_is_counted_and_woken_when_there_may_be_space() {
    let woken = AtomicU32::new(0);
    let wake = || _ = woken.fetch_add(1, Ordering::Relaxed);
    let mut tags = [const { Tag::new() }; 16];
    let mut arena = Arena::new(16).unwrap();
    arena.add_tags(&mut tags).unwrap();
    arena.on_space(&wake);
    arena.add(0, 64).unwrap();
    let all = arena.allocate(&Request::new(64)).unwrap();
    assert_eq!(arena.allocate(&Request::new(1)), Err(Error::NoSpace));
    let waiting = Request::new(32).may_wait();
    assert_eq!([(); 3].map(|()| arena.allocate(&waiting)), [const { Err(Error::WouldBlock) }; 3]);
    assert_eq!((arena.counters().fail, arena.counters().wait, woken.load(Ordering::Relaxed)), (1, 3, 0));

    // Once for all waiting callers, and not again until another caller waits.
    arena.free(all, 64).unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let two = [(); 2].map(|()| arena.allocate(&waiting).unwrap());
    assert_eq!(arena.allocate(&waiting), Err(Error::WouldBlock), "the third of them waits again");
    arena.add(128, 32).unwrap();
    assert_eq!((woken.load(Ordering::Relaxed), arena.allocate(&waiting)), (2, Ok(128)));
    two.into_iter().for_each(|address| arena.free(address, 32).unwrap());
    assert_eq!(woken.load(Ordering::Relaxed), 2);

    // The periodic update wakes them too, in case a request has become possible another way.
    assert_eq!(arena.allocate(&Request::new(65).may_wait()), Err(Error::WouldBlock));
    arena.update(None);
    assert_eq!(woken.load(Ordering::Relaxed), 3);
}

#[test]
fn a_caller_that_waits_for_an_import_is_woken_by_the_source() {
    let woken: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let wake: &'static (dyn Fn() + Sync) = Box::leak(Box::new(|| _ = woken.fetch_add(1, Ordering::Relaxed)));
    let (heap, mut child) = heap_and_child(1, 0);
    heap.0.borrow_mut().on_space(wake);
    let page = heap.0.borrow_mut().allocate(&Request::new(4096)).unwrap();
    assert_eq!(child.allocate(&Request::new(64).may_wait()), Err(Error::WouldBlock));
    assert_eq!((heap.0.borrow().counters().wait, woken.load(Ordering::Relaxed)), (1, 0));
    heap.0.borrow_mut().free(page, 4096).unwrap();
    assert_eq!((woken.load(Ordering::Relaxed), child.allocate(&Request::new(64).may_wait())), (1, Ok(page)));
}

#[test]
fn spans_that_cannot_be_are_refused() {
    let mut arena = Arena::new(4096).unwrap();
    assert_eq!(arena.add(0x1000, 0x1000), Err(Error::NoTags));
    arena.add_tags(tags(7)).unwrap();
    assert_eq!(arena.add(0x1000, 0), Err(Error::Empty));
    assert_eq!(arena.add(0u64.wrapping_sub(0x1000), 0x2000), Err(Error::Wraps));
    assert_eq!(arena.add(0x1800, 0x1000), Err(Error::NotAligned(0x1800)));
    arena.add(0x10_000, 0x4000).unwrap();
    for (start, size) in
        [(0x10_000, 0x1000), (0xf000, 0x2000), (0x13_000, 0x2000), (0x8000, 0x20_000), (0x11_000, 0x1000)]
    {
        assert_eq!(arena.add(start, size), Err(Error::Overlaps { start, size }));
    }
    arena.add(0xf000, 0x1000).unwrap();
    // The last addresses of the address space.
    arena.add(0u64.wrapping_sub(0x1000), 0x1000).unwrap();
    assert_eq!(arena.allocate(&Request::new(0x4000).fit(Fit::Best)), Ok(0x10_000), "spans are never merged");
    assert_eq!(arena.add(0x20_000, 0x1000), Err(Error::NoTags));
    let mut half = Arena::new(1 << 63).unwrap();
    half.add_tags(tags(4)).unwrap();
    half.add(0, 1 << 63).unwrap();
    assert_eq!(half.add(1 << 63, 1 << 63), Err(Error::Wraps), "2^64 in all");
    assert_eq!((arena.counters().populate_fail, arena.check()), (2, Ok(())));
    assert_eq!(
        [Arena::new(0).err(), Arena::new(48).err()],
        [Some(Error::NotPowerOfTwo(0)), Some(Error::NotPowerOfTwo(48))]
    );
}

#[test]
fn no_tag_no_change() {
    let mut arena = Arena::new(1).unwrap();
    arena.add_tags(tags(3)).unwrap();
    arena.add(0, 100).unwrap();
    // An allocation from the middle takes two more tags, one from the start takes one.
    assert_eq!(arena.allocate(&Request::new(10).from(50)), Err(Error::NoTags));
    assert_eq!(arena.allocate(&Request::new(10)), Ok(0));
    assert_eq!(arena.allocate(&Request::new(10)), Err(Error::NoTags));
    assert_eq!(arena.allocate(&Request::new(90)), Ok(10), "all of it takes none");
    assert_eq!((arena.counters().populate_fail, arena.counters().fail, arena.check()), (2, 2, Ok(())));
    arena.add_tags(tags(2)).unwrap();
    arena.free(0, 10).unwrap();
    assert_eq!(arena.allocate(&Request::new(5).from(2)), Ok(2));
    for _ in 2..vmem::PIECES_MAX {
        arena.add_tags(&mut []).unwrap();
    }
    assert_eq!(arena.add_tags(tags(1)), Err(Error::TooManyPieces));
}
