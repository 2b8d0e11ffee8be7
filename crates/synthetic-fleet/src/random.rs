//! Random numbers that depend only on their place of use. They share no state, so boots can be created in any order.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The generator for a place of use, which the numbers in `place` identify.
    pub fn new(place: &[u64]) -> Random {
        Random(place.iter().fold(0, |state, part| Random(state ^ part).next()))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit` - 1; 0 if `limit` is 0. It is uniform except for 2⁻³² for small limits.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) * limit.min(1 << 32) >> 32
    }

    /// A uniform number from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An approximately normal number with mean 0 and standard deviation 1, at most 3.5 from 0: the sum of four uniform numbers.
    pub fn normal(&mut self) -> f64 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xffff).sum();
        (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
    }
}
