//! Random numbers that follow from where they are used: no state is shared, so that boots can be made in any order.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The numbers of a place.
    pub fn new(place: &[u64]) -> Random {
        Random(place.iter().fold(0, |state, part| Random(state ^ part).next()))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `limit` - 1, and 0 without any. Not exactly even, by 2⁻³² for small limits.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) * limit.min(1 << 32) >> 32
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, mean 0 and standard deviation 1: the sum of four even numbers. Within 3.5.
    pub fn normal(&mut self) -> f64 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xffff).sum();
        (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
    }
}
