//! Many random operations, with a record of each allocated frame: none is lost and none is allocated twice. By hand, 10⁹:
//! `P2BUDDY_OPERATIONS=1000000000 cargo test --release -p p2buddy --test stress -- --nocapture`

use p2buddy::{Buddy, Record};

const FRAMES: usize = 1 << 16;

/// Marsaglia's xorshift64 (Journal of Statistical Software 8, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn no_frame_is_lost_or_given_twice() {
    let operations = std::env::var("P2BUDDY_OPERATIONS").map_or(1_000_000, |text| text.parse().expect("a number"));
    let records: Vec<Record> = (0..FRAMES).map(|_| Record::new()).collect();
    let mut frames: Buddy = Buddy::new(&records, 0).unwrap();
    for range in [1..159, 256..4000, 4096..40_000, 40_001..FRAMES] {
        frames.add(range).unwrap();
    }
    let all = frames.free_frames();
    let (mut taken, mut held) = (vec![false; FRAMES], Vec::new());
    let (mut random, mut held_frames, mut refused) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0u64);
    // The wanted fill level changes slowly, so that blocks are split to single frames and merged to the largest.
    for operation in 0..operations {
        let wanted = all * (operation >> 15 & 31) as usize / 31;
        if held_frames <= wanted && random.below(4) != 0 || held.is_empty() {
            let order = random.below(64).trailing_zeros().min(10) as usize;
            match frames.allocate(order) {
                Some(first) => {
                    for frame in &mut taken[first..first + (1 << order)] {
                        assert!(!std::mem::replace(frame, true), "{first}, order {order}: given twice");
                    }
                    held.push((first, order));
                    held_frames += 1 << order;
                }
                None => refused += 1,
            }
        } else {
            let (first, order) = held.swap_remove(random.below(held.len()));
            taken[first..first + (1 << order)].fill(false);
            held_frames -= 1 << order;
            frames.free(first, order).unwrap();
        }
        assert_eq!(frames.free_frames() + held_frames, all);
    }
    held.drain(..).for_each(|(first, order)| frames.free(first, order).unwrap());
    assert_eq!((frames.check(), frames.free_frames()), (Ok(()), all));
    println!("{operations} operations, {refused} refused, {all} frames: none lost, none given twice");
}
