//! Simulated hosts with the kinds of noise that boot times have, each alone and all together.

pub mod documents;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Random numbers that are independent of the generator that decides the plan's order.
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn with_seed(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From 0 (included) to 1 (excluded).
    pub fn f64(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn bool(&mut self) -> bool {
        self.0.next_u32() % 2 == 1
    }
}

/// A kind of noise. Each is scaled to a standard deviation of about 10 % over a bench, as measured on real hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Independent and normal, as textbooks assume.
    Tame,
    /// Independent, exponential, and one boot in twenty takes about half as long again.
    Skewed,
    /// Correlated from boot to boot: AR(1) with 0.8.
    Correlated,
    /// The host becomes slower by 30 % over the bench, not quite steadily.
    Drifting,
    /// All of these together.
    All,
}

pub const KINDS: [Kind; 5] = [Kind::Tame, Kind::Skewed, Kind::Correlated, Kind::Drifting, Kind::All];

/// Noise of successive boots: factors around 1.
pub struct Host<'a> {
    kind: Kind,
    random: &'a mut Random,
    correlated: f64,
    walk: f64,
    boot: usize,
    boots: usize,
}

impl<'a> Host<'a> {
    pub fn new(kind: Kind, boots: usize, random: &'a mut Random) -> Host<'a> {
        let correlated = normal(random);
        Host { kind, random, correlated, walk: 0.0, boot: 0, boots }
    }

    /// The next boot's factor.
    pub fn boot(&mut self) -> f64 {
        let at = self.boot as f64 / self.boots as f64;
        self.boot += 1;
        self.correlated = 0.8 * self.correlated + 0.6 * normal(self.random);
        self.walk += 0.2 * normal(self.random) / (self.boots as f64).sqrt();
        let skewed = -(1.0 - self.random.f64()).ln() + if self.random.f64() < 0.05 { 5.0 } else { 0.0 };
        let drift = 3.0 * at + self.walk;
        let tame = normal(self.random);
        let tenths = match self.kind {
            Kind::Tame => tame,
            Kind::Skewed => 0.7 * skewed,
            Kind::Correlated => self.correlated,
            Kind::Drifting => drift + 0.5 * tame,
            Kind::All => 0.5 * skewed + 0.6 * self.correlated + 0.5 * drift + 0.2 * tame,
        };
        (0.1 * tenths).exp()
    }
}

pub fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Boots `pairs` pairs in random order. The second variant takes `ratio` times as long.
pub fn pairs(kind: Kind, pairs: usize, ratio: f64, random: &mut Random) -> (Vec<f64>, Vec<f64>) {
    let mut coins = Random::with_seed(random.u64());
    let mut host = Host::new(kind, 2 * pairs, random);
    (0..pairs)
        .map(|_| {
            let (early, late) = (host.boot(), host.boot());
            let (a, b) = if coins.bool() { (early, late) } else { (late, early) };
            (1.2e9 * a, 1.2e9 * b * ratio)
        })
        .unzip()
}

/// Share of `trials` that return true.
pub fn rate(trials: usize, mut trial: impl FnMut() -> bool) -> f64 {
    (0..trials).filter(|_| trial()).count() as f64 / trials as f64
}
