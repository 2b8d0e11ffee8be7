//! Measures the rate of one clock by another: by regression over many short readings, or by two readings far apart.
//!
//! A kernel knows the rate of one clock (the PIT's, 1 193 182 Hz) and needs another's (the TSC's). The usual way is to read
//! the unknown clock, wait a second by the known one, and read it again. The error is that of the two readings, over a
//! second. The other way is to read both clocks as often as possible for about 20 ms and fit a line (Percival 2018,
//! *Profiling the FreeBSD kernel boot*). The readings' errors average out, and their scatter gives the error of the slope.
//!
//! A reading is the known clock, with the unknown clock just before and just after it. A reading that took much longer than
//! the quickest one was disturbed (by an interrupt or a hypervisor) and is left out.

/// Both clocks at one moment, each in its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The unknown clock, just before.
    pub before: u64,
    /// The known clock.
    pub known: u64,
    /// The unknown clock, just after.
    pub after: u64,
}

/// The measured rate of the unknown clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Ticks per second.
    pub hz: f64,
    /// Standard error of `hz`, in parts per million.
    pub error_ppm: f64,
    /// Number of readings used.
    pub readings: u64,
    /// Number of readings left out as disturbed.
    pub disturbed: u64,
    /// Length of the measurement by the known clock, in nanoseconds.
    pub took_ns: f64,
}

/// The reason why there is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The known clock did not advance in this number of readings.
    KnownStands(u64),
    /// The unknown clock did not advance.
    UnknownStands,
}

/// Smallest number of undisturbed readings. Fewer give a poor rate, so the measurement goes on past its span until it has
/// these.
const MIN_READINGS: f64 = 64.0;
/// If the known clock does not advance in this number of readings, it does not run.
const STANDING_READINGS: u64 = 1_000_000;

/// Measures the rate of the unknown clock, from readings over `span_ns` of the known one, or longer if most readings are
/// disturbed. The known clock runs at `known_hz` and must not wrap.
///
/// Memory is constant. The sums are those of Welford 1962, which keep their precision with large clock values.
pub fn by_regression(known_hz: f64, span_ns: f64, mut read: impl FnMut() -> Reading) -> Result<Rate, Unusable> {
    let first = read();
    let mut fit = Fit::default();
    let (mut quickest, mut disturbed, mut standing) = (u64::MAX, 0, 0);
    loop {
        let reading = read();
        let known = reading.known.wrapping_sub(first.known);
        standing = if known == 0 { standing + 1 } else { 0 };
        if standing == STANDING_READINGS {
            return Err(Unusable::KnownStands(standing));
        }
        let took = reading.after.saturating_sub(reading.before);
        if took < quickest / 2 {
            // Compared with this reading, all earlier ones were disturbed.
            disturbed += fit.count as u64;
            fit = Fit::default();
        }
        quickest = quickest.min(took);
        if took > quickest.saturating_mul(2) {
            disturbed += 1;
        } else {
            let middle = reading.before.wrapping_sub(first.before) as f64 + took as f64 / 2.0;
            fit.add(known as f64, middle);
        }
        let took_ns = known as f64 / known_hz * 1e9;
        if took_ns >= span_ns && fit.count >= MIN_READINGS {
            return fit.rate(known_hz, disturbed, took_ns).ok_or(Unusable::UnknownStands);
        }
    }
}

/// Computes the rate from two readings, `from` and one about a second later. The error is the largest one possible with the
/// granularity of the known clock and the length of the readings: each reading may lie anywhere in these intervals.
pub fn by_two_readings(known_hz: f64, from: Reading, to: Reading) -> Result<Rate, Unusable> {
    let known = to.known.wrapping_sub(from.known) as f64;
    let unknown = to.before.wrapping_sub(from.before) as f64;
    if known <= 0.0 {
        return Err(Unusable::KnownStands(2));
    }
    if unknown <= 0.0 {
        return Err(Unusable::UnknownStands);
    }
    let granularity = unknown / known;
    let took = to.after.saturating_sub(to.before).max(from.after.saturating_sub(from.before)) as f64;
    // Two independent errors, each uniform over the granule and the reading: a standard error of width / sqrt(12) each.
    let error = (granularity + took) / sqrt(6.0);
    Ok(Rate {
        hz: unknown / known * known_hz,
        error_ppm: error / unknown * 1e6,
        readings: 2,
        disturbed: 0,
        took_ns: known / known_hz * 1e9,
    })
}

/// Running sums of a straight line through points.
#[derive(Default)]
struct Fit {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Fit {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.count;
        self.mean_y += dy / self.count;
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
        self.yy += dy * (y - self.mean_y);
    }

    fn rate(&self, known_hz: f64, disturbed: u64, took_ns: f64) -> Option<Rate> {
        if self.count < 3.0 || self.xx <= 0.0 || self.xy <= 0.0 {
            return None;
        }
        let slope = self.xy / self.xx;
        let residual = (self.yy - slope * self.xy).max(0.0);
        let error = sqrt(residual / (self.count - 2.0) / self.xx);
        Some(Rate {
            hz: slope * known_hz,
            error_ppm: error / slope * 1e6,
            readings: self.count as u64,
            disturbed,
            took_ns,
        })
    }
}

/// The square root, by Newton's method, because `core` has none.
fn sqrt(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // Halving the exponent gives a start within a factor of two of the root. Each step doubles the correct digits.
    let mut root = f64::from_bits((x.to_bits() >> 1) + (1023 << 51));
    for _ in 0..5 {
        root = (root + x / root) / 2.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIT_HZ: f64 = 1_193_182.0;

    /// A machine with two clocks. A reading takes 1 to 3 µs, most of it for the PIT's ports, and about one reading in 270 is
    /// disturbed for up to 50 µs.
    struct Machine {
        now_ns: f64,
        tsc_hz: f64,
        random: u64,
    }

    impl Machine {
        fn new(seed: u64) -> Machine {
            let mut machine = Machine { now_ns: 0.0, tsc_hz: 0.0, random: seed * 2 + 1 };
            machine.tsc_hz = 1e9 + 3e9 * machine.uniform();
            machine.now_ns = 1e6 * machine.uniform();
            machine
        }

        /// A uniform random number from 0 to 1, by xorshift64*.
        fn uniform(&mut self) -> f64 {
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Lets a random time pass, and sometimes a disturbance.
        fn pass(&mut self, min_ns: f64, max_ns: f64) {
            self.now_ns += min_ns + (max_ns - min_ns) * self.uniform();
            if self.uniform() < 1.0 / 800.0 {
                self.now_ns += 50_000.0 * self.uniform();
            }
        }

        fn tsc(&self) -> u64 {
            (self.now_ns * self.tsc_hz / 1e9) as u64
        }

        fn read(&mut self) -> Reading {
            self.pass(20.0, 60.0);
            let before = self.tsc();
            self.pass(500.0, 1500.0);
            let known = (self.now_ns * PIT_HZ / 1e9) as u64;
            self.pass(500.0, 1500.0);
            Reading { before, known, after: self.tsc() }
        }

        /// The 1 s method of kernels: reads the time stamp, waits a second by the PIT, and reads the time stamp again. The
        /// difference counts as the ticks of a second.
        fn one_second(&mut self) -> f64 {
            let from = self.tsc();
            let start = self.read().known as f64;
            while (self.read().known as f64 - start) < PIT_HZ {}
            (self.tsc() - from) as f64
        }
    }

    fn root_mean_square(errors: &[f64]) -> f64 {
        (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt()
    }

    #[test]
    fn twenty_milliseconds_are_no_worse_than_a_second_over_a_thousand_pairs() {
        let (mut regression, mut second, mut claimed) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..1000 {
            let mut machine = Machine::new(seed);
            let tsc_hz = machine.tsc_hz;
            let rate = by_regression(PIT_HZ, 20e6, || machine.read()).unwrap();
            assert!((20e6..20.1e6).contains(&rate.took_ns), "seed {seed}: {rate:?}");
            let ppm = |hz: f64| (hz / tsc_hz - 1.0) * 1e6;
            regression.push(ppm(rate.hz));
            claimed.push(rate.error_ppm);
            // A second has 500 000 readings. Only its ends matter, so most of it is skipped.
            machine.now_ns = 1e9 * machine.uniform();
            second.push(ppm(one_second_quickly(&mut machine)));
        }
        let (ours, theirs) = (root_mean_square(&regression), root_mean_square(&second));
        println!("root mean square error over 1000 pairs: regression over 20 ms {ours:.2} ppm, 1 s {theirs:.2} ppm");
        assert!(ours <= theirs, "{ours} ppm against {theirs} ppm");
        // The claimed error agrees with the real error.
        let claimed = root_mean_square(&claimed);
        assert!((0.7..1.5).contains(&(claimed / ours)), "claimed {claimed} ppm, was {ours} ppm");
    }

    /// [`Machine::one_second`] without its middle: only its beginning and its end have an error.
    fn one_second_quickly(machine: &mut Machine) -> f64 {
        let from = machine.tsc();
        let start = machine.read().known as f64;
        machine.now_ns += 0.99e9;
        while (machine.read().known as f64 - start) < PIT_HZ {}
        (machine.tsc() - from) as f64
    }

    #[test]
    fn the_short_cut_of_this_test_is_the_method_itself() {
        let whole: Vec<f64> = (0..3).map(|seed| Machine::new(seed).one_second()).collect();
        let quick: Vec<f64> = (0..3).map(|seed| one_second_quickly(&mut Machine::new(seed))).collect();
        for (whole, quick) in whole.iter().zip(quick) {
            assert!((whole / quick - 1.0).abs() < 60e-6, "{whole} {quick}");
        }
    }

    #[test]
    fn without_noise_it_is_exact() {
        let mut at = 0;
        let read = || {
            at += 1000;
            Reading { before: 5 + at * 3, known: 7 + at, after: 5 + at * 3 }
        };
        let rate = by_regression(1e9, 1e6, read).unwrap();
        assert!((rate.hz - 3e9).abs() < 1.0 && rate.error_ppm < 1e-3, "{rate:?}");
    }

    #[test]
    fn a_pause_as_long_as_the_span_is_outlasted() {
        let (mut at, mut reads) = (0, 0);
        let read = || {
            reads += 1;
            at += if reads == 3 { 30_000_000 } else { 1000 };
            let after = at + if reads == 2 { 900 } else { 100 };
            Reading { before: at * 2, known: at, after: after * 2 }
        };
        let rate = by_regression(1e9, 20e6, read).unwrap();
        assert!(rate.readings >= 64 && (rate.hz / 2e9 - 1.0).abs() < 1e-6, "{rate:?}");
    }

    #[test]
    fn clocks_that_stand_still_are_reported() {
        let reading = Reading { before: 1, known: 1, after: 1 };
        assert_eq!(by_regression(1e6, 1e6, || reading), Err(Unusable::KnownStands(STANDING_READINGS)));
        let mut known = 0;
        let read = || {
            known += 1;
            Reading { known, ..reading }
        };
        assert_eq!(by_regression(1e6, 1e6, read), Err(Unusable::UnknownStands));
        assert_eq!(by_two_readings(1e6, reading, reading), Err(Unusable::KnownStands(2)));
        assert_eq!(by_two_readings(1e6, reading, Reading { known: 2, ..reading }), Err(Unusable::UnknownStands));
    }

    #[test]
    fn roots() {
        for x in [1e-12, 0.5, 1.0, 2.0, 3.0, 1e6, 1e300] {
            assert!((sqrt(x) / x.sqrt() - 1.0).abs() < 1e-12, "{x}");
        }
        assert_eq!(sqrt(0.0), 0.0);
        assert_eq!(sqrt(-1.0), 0.0);
    }
}
