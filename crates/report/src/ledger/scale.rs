//! The printed form of a ledger's times: one unit, the same number of decimals, and rounding that lets a reader
//! subtract them.
//!
//! Each printed time is the true one, rounded up or down. The direction is chosen so that `before − saved = total`, and
//! `boot path − becomes = saved` if that holds.

use super::{Ledger, LedgerStep};
use crate::text::{range, thousands};
use timeline::Unit;

/// One unit for all times of a ledger, and the value of the last printed digit.
pub(super) struct Scale {
    name: &'static str,
    unit_ns: i64,
    digit_ns: i64,
}

/// The times of a step, in last printed digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub was: Option<i64>,
    pub now: Option<i64>,
    pub saved: i64,
}

impl Times {
    /// By how much the boot gets shorter than the row does; if negative, how much of the saving is lost.
    pub fn beyond_the_row(self) -> i64 {
        self.was.zip(self.now).map_or(0, |(was, now)| self.saved - (was - now))
    }
}

impl Scale {
    /// Chooses the unit: the longest time has four digits before the point, or is below a hundred thousand. There is
    /// one decimal, unless it is 0 in all times.
    pub fn of(ledger: &Ledger) -> Scale {
        let longest = ledger.steps.iter().map(|s| s.total_ns).chain([ledger.total_ns]).max().unwrap_or(0);
        let [whole, thousands, millions] = match Unit::named(&ledger.unit) {
            Unit::Ticks => ["ticks"; 3],
            Unit::Instructions => ["instr", "k instr", "M instr"],
            Unit::Nanoseconds | Unit::GuestTime | Unit::Priced | Unit::Count => ["ns", "µs", "ms"],
        };
        let (name, unit_ns) = match longest {
            _ if whole == thousands => (whole, 1),
            ..100_000 => (whole, 1),
            100_000..100_000_000 => (thousands, 1_000),
            _ => (millions, 1_000_000),
        };
        let of_step = |s: &LedgerStep| {
            let ranges = [s.saved_at_worst_ns, s.saved_at_best_ns, s.total_at_worst_ns, s.total_at_best_ns];
            [s.was_ns, s.now_ns, Some(s.total_ns)].into_iter().chain(ranges).flatten().collect::<Vec<i64>>()
        };
        let besides = ledger.steps.iter().flat_map(|step| &step.besides).map(|part| part.ns);
        let mut all = ledger.steps.iter().flat_map(of_step).chain(besides).chain([ledger.total_ns]);
        let tenths = Scale { name, unit_ns, digit_ns: (unit_ns / 10).max(1) };
        let per_unit = unit_ns / tenths.digit_ns;
        if all.all(|ns| tenths.digits(ns) % per_unit == 0) { Scale { digit_ns: unit_ns, ..tenths } } else { tenths }
    }

    /// A range such as `0 to 71.9 ms`.
    pub fn range(&self, from: i64, to: i64) -> String {
        range(&self.show(from), &self.show(to))
    }

    pub fn is_shown_as_0(&self, ns: i64) -> bool {
        self.digits(ns) == 0
    }

    /// The nearest printable time.
    fn digits(&self, ns: i64) -> i64 {
        timeline::rounded(ns as f64 / self.digit_ns as f64)
    }

    /// The times of a step, as printed.
    pub fn times(&self, step: &LedgerStep) -> Times {
        let saved = self.digits(step.before_ns) - self.digits(step.total_ns);
        let (Some(was_ns), Some(now_ns)) = (step.was_ns, step.now_ns) else {
            return Times { was: None, now: None, saved };
        };
        let (was, now) = (self.digits(was_ns), self.digits(now_ns));
        let differ_ns = step.saved_ns - (was_ns - now_ns);
        if differ_ns.abs() >= self.digit_ns || was - now == saved {
            return Times { was: Some(was), now: Some(now), saved };
        }
        // One of the two is rounded the other way: the one that gets the smaller error.
        let error = |digits: i64, ns: i64| (digits * self.digit_ns - ns).abs();
        let (was, now) = if error(was - saved, now_ns) <= error(now + saved, was_ns) {
            (was, was - saved)
        } else {
            (now + saved, now)
        };
        Times { was: Some(was), now: Some(now), saved }
    }

    /// A time with its unit.
    pub fn show(&self, ns: i64) -> String {
        self.written(self.digits(ns))
    }

    /// A time in last printed digits, with its unit.
    pub fn written(&self, digits: i64) -> String {
        let sign = if digits < 0 { "−" } else { "" };
        let per_unit = (self.unit_ns / self.digit_ns).unsigned_abs();
        let (whole, tenths) = (digits.unsigned_abs() / per_unit, digits.unsigned_abs() % per_unit);
        let decimal = if per_unit > 1 { format!(".{tenths}") } else { String::new() };
        format!("{sign}{}{decimal} {}", thousands(whole), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ledger(total_ns: i64, steps: &[(i64, i64, i64)]) -> Ledger {
        let mut ledger = Ledger { total_ns, unit: Unit::Nanoseconds.name().to_owned(), ..Ledger::default() };
        let mut before_ns = total_ns;
        for &(was, now, beyond) in steps {
            let total_ns = before_ns - (was - now) - beyond;
            ledger.steps.push(LedgerStep {
                was_ns: Some(was),
                now_ns: Some(now),
                before_ns,
                saved_ns: before_ns - total_ns,
                total_ns,
                ..LedgerStep::default()
            });
            before_ns = total_ns;
        }
        ledger
    }

    /// This row, from 20.6 ms to 10.3, was once printed as 21 → 10, saved 10.
    #[test]
    fn the_printed_saving_is_the_printed_difference() {
        let ledger = ledger(2_033_400_000, &[(20_600_000, 10_300_000, 0)]);
        let scale = Scale::of(&ledger);
        let times = scale.times(&ledger.steps[0]);
        let written = |digits: Option<i64>| scale.written(digits.unwrap());
        assert_eq!((written(times.was).as_str(), written(times.now).as_str()), ("20.6 ms", "10.3 ms"));
        assert_eq!(scale.written(times.saved), "10.3 ms");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn printed_times_can_be_subtracted(
            total in 500_000_000i64..20_000_000_000,
            steps in prop::collection::vec((0i64..30_000_000, 0.0..1.0f64, prop_oneof![Just(0i64), -5_000_000i64..5_000_000]), 1..12),
        ) {
            let steps: Vec<_> = steps.into_iter().map(|(was, left, beyond)| (was, (was as f64 * left) as i64, beyond)).collect();
            let ledger = ledger(total, &steps);
            let scale = Scale::of(&ledger);
            let mut at = scale.digits(total);
            for step in &ledger.steps {
                let times = scale.times(step);
                at -= times.saved;
                prop_assert_eq!(scale.written(at), scale.show(step.total_ns));
                let beyond_ns = step.saved_ns - (step.was_ns.unwrap() - step.now_ns.unwrap());
                if beyond_ns.abs() < scale.digit_ns {
                    prop_assert_eq!(times.beyond_the_row(), 0);
                }
                // The error of a printed time is at most that of rounding up or down.
                let max_error = if beyond_ns == 0 { scale.digit_ns } else { 2 * scale.digit_ns };
                for (digits, ns) in [(times.was, step.was_ns), (times.now, step.now_ns), (Some(times.saved), Some(step.saved_ns))] {
                    prop_assert!((digits.unwrap() * scale.digit_ns - ns.unwrap()).abs() < max_error);
                }
            }
        }
    }
}
