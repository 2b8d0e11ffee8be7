//! A deterministic boot at the prices of a machine model.
//!
//! The boot is replayed: an instruction takes its price in place of 1 ns, and an access takes its price at the time at
//! which it was made, as far as the evidence shows it ([`places`]). A timed wait keeps its length, and accesses in it are
//! free: the wait lasts as long as the clock says.
//!
//! A wait for a timer keeps its length. A wait for another thread lasts until that thread gets there. If nothing shows
//! what ended a wait, each of its nanoseconds takes the mean price of what the machine did meanwhile.

mod places;
mod rates;

use crate::machine_model::{Bound, MachineModel};
use crate::replay::{Replay, Shared};
use crate::segments::Segments;
use crate::total;
use rates::Rates;
use std::fmt;
use timeline::{Exits, InterruptKind, Ns, TimeBase, Timeline, TrackId, Unit, Wait, WaitedOn, Warning};

/// The things in a boot that a model prices, up to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The executed instructions.
    pub instructions: u64,
    /// The timed waits.
    pub waited: Ns,
    /// Accesses that left the guest outside of timed waits, and first touches of pages; `None` if the recording has no
    /// counts.
    pub accesses: Option<Accesses>,
}

/// Numbers of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Those that left the guest.
    pub left_guest: u64,
    /// First touches of pages of RAM.
    pub pages: u64,
    /// Accesses of unknown time or function. They have no price.
    pub not_placed: u64,
}

/// The reason why a boot has no price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPriced {
    /// Its time was measured.
    ByTheClock,
    /// The recording does not tell timed waits from instructions.
    WaitsUnknown,
    /// It has a price already.
    Twice,
    /// The evidence shows no thread.
    NoThread,
    /// The model is of another architecture.
    OtherArchitecture { model: String, priced: String, booted: String },
}

impl fmt::Display for NotPriced {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotPriced::ByTheClock => out.write_str(
                "its time was measured by a clock, so no model can price it: record it with --deterministic",
            ),
            NotPriced::WaitsUnknown => out.write_str(
                "it does not tell timed waits from instructions, which have different prices: record it again with this \
                 bootscope and --deterministic",
            ),
            NotPriced::Twice => out.write_str("it is priced already"),
            NotPriced::NoThread => out.write_str("its evidence shows no thread that could be priced"),
            NotPriced::OtherArchitecture { model, priced, booted } => {
                write!(out, "the model {model} is of {priced}, and the boot of {booted}: give a model of {booted}")
            }
        }
    }
}

impl std::error::Error for NotPriced {}

/// Counts what a model prices in a deterministic boot.
pub fn counted(timeline: &Timeline) -> Counted {
    let length = total(timeline);
    let cost = timeline.cost(Ns::ZERO, length);
    Counted {
        instructions: cost.instructions().0.max(0).unsigned_abs(),
        waited: cost.waited,
        accesses: timeline.exits.as_ref().map(|exits| accesses(exits, length)),
    }
}

fn accesses(exits: &Exits, end: Ns) -> Accesses {
    let mut sums = Accesses::default();
    for run in &exits.runs {
        let kind = exits.rows[run.row as usize].kind;
        let count = run.count - run.in_waits;
        let sum = match run.at {
            Some(at) if at >= end => continue,
            _ if kind == timeline::ExitKind::ClockRead => continue,
            None => &mut sums.not_placed,
            Some(_) if kind.leaves_guest() => &mut sums.left_guest,
            Some(_) => &mut sums.pages,
        };
        *sum = sum.saturating_add(count);
    }
    let priced = exits.rest.iter().filter(|(kind, _)| *kind != timeline::ExitKind::ClockRead);
    sums.not_placed = priced.fold(sums.not_placed, |sum, (_, count)| sum.saturating_add(*count));
    sums
}

/// Replays a boot of this architecture at a model's prices. Its times are then nanoseconds on the model's machine.
/// `O(n log n)` in the number of spans and accesses.
///
/// # Errors
/// [`NotPriced`].
pub fn priced(timeline: &Timeline, arch: &str, model: &MachineModel, bound: Bound) -> Result<Timeline, NotPriced> {
    match (timeline.time_base, timeline.unit) {
        (_, Unit::Priced) => return Err(NotPriced::Twice),
        (TimeBase::GuestVirtual, Unit::Instructions) => {}
        (TimeBase::GuestVirtual, _) => return Err(NotPriced::WaitsUnknown),
        _ => return Err(NotPriced::ByTheClock),
    }
    if model.arch != arch {
        let (model, priced) = (model.name.clone(), model.arch.clone());
        return Err(NotPriced::OtherArchitecture { model, priced, booted: arch.to_owned() });
    }
    let ended = timeline.end.and_then(|end| end.track);
    let boot = ended.or_else(|| timeline.tracks.iter().map(|(track, _)| track).next()).ok_or(NotPriced::NoThread)?;
    let rates = Rates::new(timeline, model, bound);
    let (segments, shared) = (Segments::new(timeline), Shared::default());
    let pricing = Pricing { timeline, rates: &rates };
    let replay = Replay::new(timeline, boot, &segments, &shared, &pricing);
    let mut new = replay.timeline(boot);
    new.unit = Unit::Priced;
    new.timed_waits = None;
    let accesses = counted(timeline).accesses;
    let (has_accesses, not_placed) = (accesses.is_some(), accesses.map_or(0, |accesses| accesses.not_placed));
    new.warnings.insert(0, Warning::Priced { model: model.name.clone(), has_accesses, not_placed });
    for run in new.exits.iter_mut().flat_map(|exits| &mut exits.runs) {
        run.at = run.at.map(|at| replay.time(boot, at));
    }
    Ok(new)
}

/// The factors of a replay at a model's prices.
struct Pricing<'a> {
    timeline: &'a Timeline,
    rates: &'a Rates,
}

impl crate::replay::Shrink for Pricing<'_> {
    fn running(&self, _: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64)) {
        self.rates.each(from, to, each);
    }

    fn waiting(&self, wait: &Wait) -> (f64, f64) {
        let is_timer = match wait.by {
            WaitedOn::Interrupt(name) => self.timeline.interrupt_kind(name) == InterruptKind::Timer,
            WaitedOn::Halted => true,
            _ => false,
        };
        if is_timer { (1.0, 1.0) } else { (self.rates.mean(wait.from, wait.woken), 1.0) }
    }
}
