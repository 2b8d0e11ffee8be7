//! Compares the arena with a plain model, which keeps maps of spans and segments and searches addresses one by one.

use proptest::prelude::*;
use std::collections::BTreeMap;
use vmem::{Arena, Bucket, Error, Fit, Request, Tag};

const END: u64 = 1024;
const QUANTUM: u64 = 4;

/// A request as plain numbers, so that the model does not depend on `Request`.
#[derive(Clone, Debug)]
struct Constraints {
    size: u64,
    align: u64,
    phase: u64,
    nocross: u64,
    from: u64,
    below: u64,
    fit: Fit,
    may_wait: bool,
}

impl Constraints {
    fn request(&self) -> Request {
        let request = Request::new(self.size).aligned(self.align).phase(self.phase).not_across(self.nocross);
        let request = request.from(self.from).below(self.below).fit(self.fit);
        if self.may_wait { request.may_wait() } else { request }
    }

    fn rounded(&self) -> u64 {
        self.size.next_multiple_of(QUANTUM)
    }

    /// True if an address satisfies the constraints, even if it is allocated.
    fn holds(&self, address: u64) -> bool {
        let last = address + self.size - 1;
        address % QUANTUM == 0
            && address % self.align.max(QUANTUM) == self.phase
            && (self.nocross == 0 || address / self.nocross == last / self.nocross)
            && address >= self.from
            && last < self.below
    }

    /// True if any address can satisfy the constraints.
    fn can_hold(&self) -> bool {
        self.size > 0 && self.from < self.below && self.phase % QUANTUM == 0 && self.nocross % QUANTUM == 0 && {
            let far = self.align.max(self.nocross).max(QUANTUM);
            let anywhere = Constraints { from: 0, below: u64::MAX, ..self.clone() };
            (0..far).any(|address| anywhere.holds(address))
        }
    }
}

#[derive(Default)]
struct Model {
    spans: BTreeMap<u64, u64>,
    /// Address to requested size and rounded size.
    allocated: BTreeMap<u64, (u64, u64)>,
    rotor: u64,
}

impl Model {
    /// Free segments, by address.
    fn free(&self) -> Vec<(u64, u64)> {
        let mut free = Vec::new();
        for (&start, &size) in &self.spans {
            let mut at = start;
            for (&address, &(_, rounded)) in self.allocated.range(start..start + size) {
                free.push((at, address - at));
                at = address + rounded;
            }
            free.push((at, start + size - at));
        }
        free.retain(|&(_, size)| size > 0);
        free
    }

    /// All addresses that satisfy the request, each with the size of its free segment.
    fn places(&self, wanted: &Constraints) -> Vec<(u64, u64)> {
        let in_segment = |(start, size): (u64, u64)| {
            let end = (start + size + 1).saturating_sub(wanted.rounded());
            (start..end).filter(|&address| wanted.holds(address)).map(move |address| (address, size))
        };
        self.free().into_iter().flat_map(in_segment).collect()
    }

    /// True if the request's fit may return this address.
    fn is_allowed(&self, wanted: &Constraints, address: u64) -> bool {
        let places = self.places(wanted);
        let Some(&(_, segment)) = places.iter().find(|place| place.0 == address) else { return false };
        match wanted.fit {
            Fit::Best => places.iter().all(|&(_, size)| size >= segment),
            Fit::Next => {
                let behind = places.iter().find(|place| place.0 >= self.rotor);
                behind.or(places.first()).is_some_and(|place| place.0 == address)
            }
            // From a list whose segments are all large enough, unless only the list below has a place.
            Fit::Instant => {
                let large_enough = |size: u64| size >= wanted.rounded().next_power_of_two();
                large_enough(segment) || places.iter().all(|&(_, size)| !large_enough(size))
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, u64),
    Allocate(Constraints),
    /// Frees the nth allocated segment, with this number added to its size.
    Free(usize, u64),
    /// Frees any address with any size.
    FreeAddress(u64, u64),
    Update,
    Tags(usize),
}

fn constraints() -> impl Strategy<Value = Constraints> {
    let fit = prop_oneof![2 => Just(Fit::Instant), 1 => Just(Fit::Best), 2 => Just(Fit::Next)];
    let align = prop_oneof![4 => Just(1u64), 1 => (0u32..8).prop_map(|bits| 1 << bits)];
    let phase = prop_oneof![4 => Just(0u64), 1 => (0u64..16).prop_map(|n| n * 4), 1 => 0u64..70];
    let nocross = prop_oneof![4 => Just(0u64), 1 => (1u32..9).prop_map(|bits| 1 << bits)];
    let from = prop_oneof![3 => Just(0u64), 1 => 0u64..END];
    let below = prop_oneof![3 => Just(u64::MAX), 1 => 0u64..END + 200];
    (prop_oneof![1u64..30, 0u64..100], align, phase, nocross, from, below, fit, any::<bool>()).prop_map(
        |(size, align, phase, nocross, from, below, fit, may_wait)| Constraints {
            size,
            align,
            phase,
            nocross,
            from,
            below,
            fit,
            may_wait,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..END, 0u64..300).prop_map(|(start, size)| Step::Add(start / 4 * 4, size)),
        12 => constraints().prop_map(Step::Allocate),
        8 => (0usize..60, prop_oneof![9 => Just(0u64), 1 => 1u64..5]).prop_map(|(nth, more)| Step::Free(nth, more)),
        1 => (0..END + 100, 0u64..50).prop_map(|(address, size)| Step::FreeAddress(address, size)),
        1 => Just(Step::Update),
        1 => (0usize..20).prop_map(Step::Tags),
    ]
}

fn leaked<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    vec![value; count].leak()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn as_a_plain_list_would(steps in proptest::collection::vec(step(), 1..150)) {
        let mut arena = Arena::new(QUANTUM).unwrap();
        arena.add_tags(leaked(Tag::new(), 30)).unwrap();
        let mut pieces = 1;
        let mut model = Model::default();
        // Spans to begin with, because spans at random places seldom fit.
        for (start, size) in [(100 * QUANTUM, 60 * QUANTUM), (160 * QUANTUM, 20 * QUANTUM), (220 * QUANTUM, 36 * QUANTUM)] {
            arena.add(start, size).unwrap();
            model.spans.insert(start, size);
        }
        for step in steps {
            let tags = arena.tags_left();
            match step {
                Step::Add(start, size) => {
                    let overlaps = model.spans.iter().any(|(&other, &length)| start < other + length && other < start + size);
                    match arena.add(start, size) {
                        Ok(()) => {
                            prop_assert!(size > 0 && size % QUANTUM == 0 && !overlaps);
                            model.spans.insert(start, size);
                        }
                        Err(Error::Empty) => prop_assert_eq!(size, 0),
                        Err(Error::NotAligned(_)) => prop_assert_ne!(size % QUANTUM, 0),
                        Err(Error::Overlaps { .. }) => prop_assert!(overlaps),
                        Err(error) => prop_assert!(error == Error::NoTags && tags < 2, "{:?}", error),
                    }
                }
                Step::Allocate(wanted) => match arena.allocate(&wanted.request()) {
                    Ok(address) => {
                        prop_assert!(model.is_allowed(&wanted, address), "{:#x} for {:?} of {:?}", address, wanted, model.free());
                        model.allocated.insert(address, (wanted.size, wanted.rounded()));
                        if wanted.fit == Fit::Next {
                            model.rotor = address + wanted.rounded();
                        }
                    }
                    Err(Error::NoSpace | Error::WouldBlock) => {
                        prop_assert!(wanted.can_hold());
                        prop_assert_eq!(model.places(&wanted), vec![], "there was space for {:?}", wanted);
                    }
                    Err(Error::NoTags) => prop_assert!(tags < 2 && !model.places(&wanted).is_empty()),
                    Err(_) => prop_assert!(!wanted.can_hold(), "{:?}", wanted),
                },
                Step::Free(nth, more) => {
                    let Some((&address, &(size, _))) = model.allocated.iter().nth(nth) else { continue };
                    match arena.free(address, size + more) {
                        Ok(()) => {
                            prop_assert_eq!(more, 0);
                            model.allocated.remove(&address);
                            prop_assert_eq!(arena.free(address, size), Err(Error::NotAllocated(address)), "twice");
                        }
                        Err(error) => {
                            prop_assert_eq!(error, Error::OtherSize { address, is: size });
                            prop_assert_ne!(more, 0);
                        }
                    }
                }
                Step::FreeAddress(address, size) => {
                    if model.allocated.contains_key(&address) {
                        continue;
                    }
                    let managed = model.spans.iter().any(|(&start, &length)| (start..start + length).contains(&address));
                    let expected = if managed { Error::NotAllocated(address) } else { Error::NotManaged(address) };
                    prop_assert_eq!(arena.free(address, size), Err(expected));
                    prop_assert_eq!(arena.has(address), managed);
                }
                Step::Update => {
                    let table = arena.wanted_buckets().map(|buckets| leaked(Bucket::new(), buckets));
                    arena.update(table);
                    prop_assert_eq!(arena.wanted_buckets(), None);
                }
                Step::Tags(count) => {
                    prop_assert_eq!(arena.add_tags(leaked(Tag::new(), count)).is_ok(), pieces < vmem::PIECES_MAX);
                    pieces += 1;
                }
            }
            prop_assert_eq!(arena.check(), Ok(()));
            let (free, allocated): (Vec<_>, Vec<_>) = arena.segments().partition(|segment| !segment.is_allocated);
            prop_assert_eq!(free.iter().map(|s| (s.start, s.size)).collect::<Vec<_>>(), model.free());
            let expected: Vec<_> = model.allocated.iter().map(|(&address, &(size, _))| (address, size)).collect();
            prop_assert_eq!(allocated.iter().map(|s| (s.start, s.size)).collect::<Vec<_>>(), expected);
        }
    }

    /// Any numbers, with spans at both ends of the address space.
    #[test]
    fn no_numbers_do_harm(
        start: u64, size: u64, ask: u64, from: u64, below: u64, bits in 0u32..64, phase: u64, nocross in 0u32..65, quantum in 0u32..64,
    ) {
        let mut arena = Arena::new(1 << quantum).unwrap();
        arena.add_tags(leaked(Tag::new(), 16)).unwrap();
        let aligned = |number: u64| number >> quantum << quantum;
        if size > 0 && start.checked_add(size - 1).is_none() {
            prop_assert_eq!(arena.add(start, size), Err(Error::Wraps));
        }
        let size = aligned(size).min(aligned(0u64.wrapping_sub(aligned(start)).wrapping_sub(1)));
        if arena.add(aligned(start), size).is_err() {
            prop_assert_eq!(size, 0);
        }
        // A span that ends at the last address.
        let _ = arena.add(0u64.wrapping_sub(1 << quantum), 1 << quantum);
        for fit in [Fit::Instant, Fit::Best, Fit::Next, Fit::Next] {
            let boundary = 1u64.checked_shl(nocross).unwrap_or(0);
            let request = Request::new(ask).aligned(1 << bits).phase(phase).not_across(boundary).from(from).below(below).fit(fit);
            if let Ok(address) = arena.allocate(&request) {
                prop_assert!(arena.has(address) && address >= from && address + (ask - 1) < below);
                prop_assert_eq!(arena.free(address, ask), Ok(()));
            }
            let plain = Request::new(ask).fit(fit);
            if let Ok(address) = arena.allocate(&plain) {
                prop_assert_eq!(arena.free(address, ask), Ok(()));
            }
            prop_assert_eq!(arena.check(), Ok(()));
        }
    }
}
