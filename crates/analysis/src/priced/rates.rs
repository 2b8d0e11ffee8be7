//! The price of each nanosecond of a deterministic boot.

use super::places::Places;
use crate::machine_model::{Bound, MachineModel};
use std::collections::BTreeMap;
use timeline::{ExitKind, Ns, Timeline};

/// A stretch up to the next one, in which each nanosecond of the guest's clock has one price.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    from: Ns,
    rate: f64,
    /// The time on the model's machine from time zero to `from`.
    at: f64,
}

/// The prices of all of a boot's time.
pub struct Rates {
    /// In order of time. Before the first, time passes as recorded.
    pieces: Vec<Piece>,
}

impl Rates {
    /// Linear in the number of accesses and waits, apart from sorting.
    pub fn new(timeline: &Timeline, model: &MachineModel, bound: Bound) -> Rates {
        let accesses = accesses(timeline, model, bound);
        let waits = timeline.timed_waits.as_ref().map_or(&[][..], |waits| waits.stretches());
        // The instants at which the price may change.
        let mut cuts: Vec<Ns> = vec![Ns::ZERO];
        cuts.extend(accesses.keys().flat_map(|&at| [at, at + Ns(1)]));
        cuts.extend(waits.iter().flat_map(|&(from, to)| [from, to]));
        cuts.retain(|&at| at >= Ns::ZERO);
        cuts.sort_unstable();
        cuts.dedup();
        let mut rates = Rates { pieces: Vec::with_capacity(cuts.len()) };
        let (mut waits, instruction) = (waits.iter().copied().peekable(), model.instruction.at(bound));
        for from in cuts {
            while waits.next_if(|&(_, to)| to <= from).is_some() {}
            let waits = waits.peek().is_some_and(|&(begun, _)| begun <= from);
            let rate = if waits { 1.0 } else { instruction } + accesses.get(&from).copied().unwrap_or_default();
            if rates.pieces.last().is_none_or(|last| last.rate != rate) {
                let at = rates.at(from);
                rates.pieces.push(Piece { from, rate, at });
            }
        }
        rates
    }

    /// Passes on the start and the price of each part of a stretch.
    pub fn each(&self, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64)) {
        let next = self.pieces.partition_point(|piece| piece.from <= from);
        each(from, next.checked_sub(1).map_or(1.0, |piece| self.pieces[piece].rate));
        for piece in self.pieces[next..].iter().take_while(|piece| piece.from < to) {
            each(piece.from, piece.rate);
        }
    }

    /// The mean price of a nanosecond of a stretch.
    pub fn mean(&self, from: Ns, to: Ns) -> f64 {
        if from < to { (self.at(to) - self.at(from)) / (to - from).0 as f64 } else { 1.0 }
    }

    /// The time on the model's machine if all that the guest did came one after the other.
    fn at(&self, at: Ns) -> f64 {
        let begun = self.pieces.partition_point(|piece| piece.from <= at);
        match begun.checked_sub(1).map(|piece| self.pieces[piece]) {
            Some(piece) => piece.at + piece.rate * (at - piece.from).0 as f64,
            None => at.0 as f64,
        }
    }
}

/// The price of all accesses that were made at each time. Those from before time zero are paid at time zero.
fn accesses(timeline: &Timeline, model: &MachineModel, bound: Bound) -> BTreeMap<Ns, f64> {
    let mut sums: BTreeMap<Ns, f64> = BTreeMap::new();
    let prices = ExitKind::ALL.map(|kind| model.access(kind).at(bound));
    let Some(exits) = &timeline.exits else { return sums };
    let places = Places::new(exits, timeline, crate::total(timeline));
    for run in &exits.runs {
        let kind = exits.rows[run.row as usize].kind;
        let price = ExitKind::ALL.iter().position(|of| *of == kind).map_or(0.0, |index| prices[index]);
        let paid = (run.count - run.in_waits) as f64 * price;
        let times = if paid > 0.0 { places.of(run).unwrap_or_default() } else { Vec::new() };
        for at in &times {
            *sums.entry((*at).max(Ns::ZERO)).or_default() += paid / times.len() as f64;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_model::Price;
    use timeline::{ExitRow, ExitRun, Exits, NameId, TimeBase, TimedWaits};

    /// An instruction costs half a nanosecond, a write to a port 100 ns.
    fn model() -> MachineModel {
        let price = |ns: f64| Price { ns, low: ns / 2.0, high: ns * 2.0 };
        MachineModel {
            instruction: price(0.5),
            accesses: vec![(ExitKind::PortWrite, price(100.0))],
            ..MachineModel::default()
        }
    }

    fn boot() -> Timeline {
        let mut boot = Timeline::new(TimeBase::GuestVirtual);
        let row = |kind| ExitRow { kind, function: NameId::EMPTY, place: NameId::EMPTY, path: None };
        let run = |row, at, count, in_waits| ExitRun { row, at, count, in_waits };
        boot.exits = Some(Exits {
            rows: vec![row(ExitKind::PortWrite), row(ExitKind::ClockRead)],
            runs: vec![
                run(0, Some(Ns(10)), 3, 0),
                run(0, Some(Ns(-5)), 1, 0),
                run(0, Some(Ns(50)), 70, 68),
                run(0, None, 9, 0),
                run(1, Some(Ns(20)), 1000, 0),
            ],
            ..Exits::default()
        });
        boot.timed_waits = Some(TimedWaits::new(vec![(Ns(40), Ns(60)), (Ns(90), Ns(95))]));
        boot
    }

    #[test]
    fn each_nanosecond_has_its_price() {
        let rates = Rates::new(&boot(), &model(), Bound::Value);
        let at = |at| rates.at(Ns(at));
        // One access at zero, three at 10, two in a wait that are not of its loop.
        assert_eq!([at(-7), at(0), at(1), at(10), at(11)], [-7.0, 0.0, 100.5, 105.0, 405.5]);
        assert_eq!([at(40), at(50), at(51), at(60)], [420.0, 430.0, 631.0, 640.0]);
        assert_eq!(at(100), 640.0 + 15.0 + 5.0 + 2.5);
        assert_eq!(rates.mean(Ns(40), Ns(50)), 1.0);
        assert_eq!(rates.mean(Ns(10), Ns(10)), 1.0);
        let mut parts = Vec::new();
        rates.each(Ns(5), Ns(50), &mut |from, rate| parts.push((from.0, rate)));
        assert_eq!(parts, [(5, 0.5), (10, 300.5), (11, 0.5), (40, 1.0)]);
        let high = Rates::new(&boot(), &model(), Bound::High);
        assert_eq!(high.at(Ns(1)), 201.0);
    }

    proptest::proptest! {
        /// The price of a whole is its instructions, its accesses and its waits.
        #[test]
        fn the_whole_costs_its_parts(
            runs in proptest::collection::vec((-50_i64..200, 0_u64..5, 0_u64..3), 0..20),
            waits in proptest::collection::vec((0_i64..200, 0_i64..200), 0..8),
        ) {
            let mut boot = boot();
            let mut paid = 0;
            let exits = boot.exits.as_mut().unwrap();
            exits.runs.clear();
            for (at, count, in_waits) in runs {
                exits.runs.push(ExitRun { row: 0, at: Some(Ns(at)), count: count + in_waits, in_waits });
                paid += if at < 150 { count } else { 0 };
            }
            boot.timed_waits = Some(TimedWaits::new(waits.into_iter().map(|(a, b)| (Ns(a), Ns(b))).collect()));
            let cost = boot.cost(Ns::ZERO, Ns(150));
            let whole = Rates::new(&boot, &model(), Bound::Value).at(Ns(150));
            let expected = cost.instructions().0 as f64 * 0.5 + cost.waited.0 as f64 + paid as f64 * 100.0;
            proptest::prop_assert!((whole - expected).abs() < 1e-6, "{} is not {}", whole, expected);
        }
    }
}
