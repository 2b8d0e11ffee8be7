//! The clocks of a Perfetto trace, joined by its snapshots.
//!
//! A packet's time is on the trace's main clock (`CLOCK_BOOTTIME` unless a snapshot names another), or on a clock with a number. The
//! numbers from 64 to 127 are clocks of one sequence; such a clock may count steps from packet to packet.

use super::track_messages::{ClockReading, ClockSnapshot};
use hashbrown::HashMap;
use timeline::Ns;

const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;
const OF_A_SEQUENCE: std::ops::Range<u32> = 64..128;
/// The memory of a clock in bytes.
pub(super) const CLOCK_COST: usize = 150;

/// A clock at a snapshot.
#[derive(Clone, Copy)]
struct Known {
    /// The main clock's time when this clock is 0, in ns.
    zero: i128,
    unit_ns: u64,
    is_incremental: bool,
    /// The last time of an incremental clock, in its unit.
    last: u64,
}

/// The clocks of a trace, by sequence (0 for all) and number.
pub(super) struct Clocks {
    known: HashMap<(u32, u32), Known>,
    main: u32,
    /// True if a snapshot shows the kernel's clock.
    pub has_snapshot: bool,
}

impl Default for Clocks {
    fn default() -> Self {
        Clocks { known: HashMap::new(), main: BOOTTIME, has_snapshot: false }
    }
}

fn key(sequence: u32, id: u32) -> (u32, u32) {
    (if OF_A_SEQUENCE.contains(&id) { sequence } else { 0 }, id)
}

fn ns(reading: &ClockReading) -> i128 {
    i128::from(reading.timestamp).saturating_mul(reading.unit_multiplier_ns.unwrap_or(1).into())
}

impl Clocks {
    /// Takes the readings of a snapshot. `has_room` is asked before a new clock is kept.
    pub(super) fn snapshot(&mut self, sequence: u32, snapshot: &ClockSnapshot, mut has_room: impl FnMut() -> bool) {
        self.main = snapshot.primary_trace_clock.unwrap_or(self.main);
        self.has_snapshot |= snapshot.clocks.iter().any(|c| matches!(c.clock_id, MONOTONIC | BOOTTIME));
        let of = |id: u32| snapshot.clocks.iter().find(|clock| clock.clock_id == id);
        let by_known = |c: &ClockReading| Some(ns(c).saturating_add(self.known.get(&key(sequence, c.clock_id))?.zero));
        let main = of(self.main).map(ns).or_else(|| snapshot.clocks.iter().find_map(by_known));
        let Some(main) = main.or_else(|| of(BOOTTIME).or(of(MONOTONIC)).map(ns)) else { return };
        for clock in &snapshot.clocks {
            let key = key(sequence, clock.clock_id);
            if self.known.contains_key(&key) || has_room() {
                let known = Known {
                    zero: main.saturating_sub(ns(clock)),
                    unit_ns: clock.unit_multiplier_ns.unwrap_or(1),
                    is_incremental: clock.is_incremental,
                    last: clock.timestamp,
                };
                self.known.insert(key, known);
            }
        }
    }

    /// A packet's time on the main clock; `None` for a clock that no snapshot has.
    pub(super) fn time(&mut self, sequence: u32, id: Option<u32>, timestamp: u64) -> Option<Ns> {
        let id = id.unwrap_or(self.main);
        if id == self.main {
            return i64::try_from(timestamp).ok().map(Ns);
        }
        let known = self.known.get_mut(&key(sequence, id))?;
        known.last = if known.is_incremental { known.last.wrapping_add(timestamp) } else { timestamp };
        let at = known.zero.saturating_add(i128::from(known.last).saturating_mul(known.unit_ns.into()));
        i64::try_from(at).ok().map(Ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(clock_id: u32, timestamp: u64, unit: Option<u64>, is_incremental: bool) -> ClockReading {
        ClockReading { clock_id, timestamp, is_incremental, unit_multiplier_ns: unit }
    }

    #[test]
    fn a_clock_of_a_sequence_counts_steps_in_its_unit() {
        let mut clocks = Clocks::default();
        let readings = vec![reading(64, 7, Some(1000), true), reading(6, 50_000, None, false)];
        clocks.snapshot(1, &ClockSnapshot { clocks: readings, primary_trace_clock: None }, || true);
        assert_eq!(clocks.time(1, Some(64), 3), Some(Ns(53_000)));
        assert_eq!(clocks.time(1, Some(64), 2), Some(Ns(55_000)));
        assert_eq!(clocks.time(2, Some(64), 2), None, "another sequence has no such clock");
        assert_eq!(clocks.time(2, None, 9), Some(Ns(9)));
    }

    #[test]
    fn a_clock_is_joined_through_another() {
        let mut clocks = Clocks::default();
        let both = vec![reading(3, 100, None, false), reading(6, 1100, None, false)];
        clocks.snapshot(1, &ClockSnapshot { clocks: both, primary_trace_clock: None }, || true);
        let later = vec![reading(3, 200, None, false), reading(70, 5, None, false)];
        clocks.snapshot(2, &ClockSnapshot { clocks: later, primary_trace_clock: None }, || true);
        assert_eq!(clocks.time(2, Some(70), 6), Some(Ns(1201)));
        assert_eq!(clocks.time(2, Some(3), 300), Some(Ns(1300)));
        assert_eq!(clocks.time(2, Some(9), 300), None);
    }
}
