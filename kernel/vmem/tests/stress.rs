//! Many random operations, with a record of each allocated address: none is lost and none is allocated twice. By hand, 10⁹:
//! `VMEM_OPERATIONS=1000000000 cargo test --release -p vmem --test stress -- --nocapture`

use vmem::{Arena, Bucket, Error, Fit, Request, Tag};

/// Size of the address space in quanta.
const SPACE: usize = 1 << 16;
const QUANTUM: u64 = 16;
const SPANS: [std::ops::Range<usize>; 3] = [1..20_000, 20_000..20_003, 30_000..SPACE];

/// Marsaglia's xorshift64 (Journal of Statistical Software 8, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A random request and its size. Half of the requests are plain; the others have a constraint or a fit, or several.
fn request(random: &mut Random) -> (u64, Request) {
    let max = 2 << random.below(11);
    let size = 1 + random.below(max);
    let mut request = Request::new(size);
    if random.below(2) == 0 {
        return (size, request);
    }
    // Next fit is rare, because it searches in the order of addresses, which takes long.
    request = request.fit([Fit::Instant, Fit::Instant, Fit::Best, Fit::Best, Fit::Next][random.below(5) as usize]);
    if random.below(3) == 0 {
        let align = 1 << random.below(13);
        request = request.aligned(align).phase(random.below(align.max(QUANTUM)) / QUANTUM * QUANTUM);
    }
    if random.below(4) == 0 {
        request = request.not_across(1 << (11 + random.below(4)));
    }
    if random.below(4) == 0 {
        request = request
            .from(random.below(SPACE as u64 * QUANTUM / 2))
            .below((SPACE as u64 / 2 + random.below(30_000)) * QUANTUM);
    }
    (size, request)
}

#[test]
fn no_address_is_lost_or_given_twice() {
    let operations = std::env::var("VMEM_OPERATIONS").map_or(300_000, |text| text.parse().expect("a number"));
    let mut arena = Arena::new(QUANTUM).unwrap();
    // Too few tags at first, then enough for a segment in every second quantum.
    arena.add_tags(vec![Tag::new(); 64].leak()).unwrap();
    for range in SPANS {
        arena.add(range.start as u64 * QUANTUM, range.len() as u64 * QUANTUM).unwrap();
    }
    let all = arena.counters().mem_total;
    let (mut taken, mut held) = (vec![false; SPACE], Vec::new());
    let mut tables: Vec<&'static mut [Bucket]> = (5..17).map(|bits| vec![Bucket::new(); 1 << bits].leak()).collect();
    let (mut random, mut held_bytes, mut refused, mut without_tags) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0u64, 0u64);
    for operation in 0..operations as u64 {
        // The wanted fill level changes slowly, so that segments are split to the smallest and merged to the largest.
        let wanted = all * (operation >> 15 & 31) / 31;
        if held_bytes <= wanted && random.below(4) != 0 || held.is_empty() {
            let (size, request) = request(&mut random);
            match arena.allocate(&request) {
                Ok(address) => {
                    let rounded = size.next_multiple_of(QUANTUM);
                    let quanta = (address / QUANTUM) as usize..((address + rounded) / QUANTUM) as usize;
                    for quantum in &mut taken[quanta] {
                        assert!(!std::mem::replace(quantum, true), "{address:#x} {request:?}: given twice");
                    }
                    held.push((address, size));
                    held_bytes += rounded;
                }
                Err(Error::NoTags) if without_tags == 0 => {
                    without_tags += 1;
                    arena.add_tags(vec![Tag::new(); 1 << 17].leak()).unwrap();
                }
                Err(Error::NoSpace | Error::CannotHold) => refused += 1,
                Err(error) => panic!("{request:?}: {error}"),
            }
        } else {
            let (address, size) = held.swap_remove(random.below(held.len() as u64) as usize);
            let rounded = size.next_multiple_of(QUANTUM);
            taken[(address / QUANTUM) as usize..((address + rounded) / QUANTUM) as usize].fill(false);
            held_bytes -= rounded;
            arena.free(address, size).unwrap();
        }
        if operation % 10_000 == 0 {
            if let Some(buckets) = arena.wanted_buckets() {
                let place = tables.iter().position(|table| table.len() == buckets);
                let table = place.map(|place| tables.swap_remove(place));
                assert!(table.is_some() || buckets == 16, "{buckets} buckets");
                tables.extend(arena.update(table));
            }
        }
        assert_eq!(arena.counters().alloc - arena.counters().free, held.len() as u64);
    }
    held.drain(..).for_each(|(address, size)| arena.free(address, size).unwrap());
    assert_eq!((arena.check(), arena.segments().count()), (Ok(()), SPANS.len()));
    println!("{operations} operations, {refused} refused, {without_tags} without tags: none lost, none given twice");
}
