//! Works out of systemd's own state what `systemd-analyze` would print: the stages, the times of units, and the chain.
//!
//! A unit of the chain waited for the last one, of those that it is ordered after, that was active before it was started.
//! `systemd-analyze critical-chain` also takes one that was active later, which nothing can have waited for.

use super::state::{Manager, State, Unit, WORK};
use super::{Analysis, Finished, Link, Resolution, Stage, Times};
use hashbrown::{HashMap, HashSet};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// A chain is as long as units are ordered one after the other: more is a circle, or none of systemd's.
const LINKS_MAX: usize = 1 << 10;
/// The target that systemd starts unless another is requested.
const DEFAULT_TARGET: &str = "default.target";

impl Analysis {
    /// Works out stages, times and chain of systemd's own state. What was printed stays where the state is less exact.
    pub(crate) fn settle(&mut self, diagnostics: &mut Diagnostics) {
        if !self.state.exact.units.is_empty() || self.state.exact.manager.userspace.is_some() {
            self.take(Resolution::Microseconds);
            return;
        }
        if let Some(plotted) = self.plot.finished(self.finished.as_ref()) {
            (self.finished, self.resolution) = (Some(plotted), Resolution::TensOfMicroseconds);
        }
        let is_known = self.finished.is_some() || !self.times.is_empty() || !self.chain.is_empty();
        if self.state.wall.units.is_empty() || is_known {
            return;
        }
        let units = self.state.wall.units.len() as u64;
        diagnostics.add(DiagnosticKind::UnitTimesInSeconds, "", units, None, String::new);
        self.take(Resolution::Seconds);
    }

    fn take(&mut self, resolution: Resolution) {
        let state = if resolution == Resolution::Seconds { &self.state.wall } else { &self.state.exact };
        let (finished, end) = (stages(state), state.manager.finish.unwrap_or(Ns::MAX));
        let times = times(state, end);
        let chain = chain(state, end);
        self.resolution = resolution;
        self.finished = finished.or(self.finished.take());
        if !times.is_empty() {
            (self.times, self.chain) = (times, chain);
        }
    }

    /// The state that counts, if there is one.
    pub(crate) fn told(&self) -> Option<&State> {
        let states = [&self.state.exact, &self.state.wall].into_iter();
        states.into_iter().find(|state| !state.units.is_empty())
    }

    /// The manager's own work: the name of each part, its start and its end.
    pub(crate) fn work(&self) -> impl Iterator<Item = (&'static str, Ns, Ns)> + '_ {
        let manager = Some(&self.state.exact.manager).filter(|manager| !manager.is_contained);
        let work = manager.into_iter().flat_map(|manager| WORK.iter().zip(manager.work));
        let stamped = work.filter_map(|((.., what), (start, end))| Some((*what, start?, end?)));
        let plotted = WORK.iter().zip(self.plot.work).filter_map(|((.., what), work)| Some((*what, work?.0, work?.1)));
        let plotted = plotted.filter(|_| self.state.exact.manager == Manager::default());
        stamped.chain(plotted).filter(|(_, start, end)| start < end)
    }

    /// The time when a unit was active, at most the end of the boot. `None` if it is unknown, or systemd's state has no
    /// units.
    pub(crate) fn active(&self, unit: &str) -> Option<Ns> {
        self.told().map(|_| ()).or_else(|| (!self.plot.stages.is_empty()).then_some(()))?;
        self.times.iter().find(|times| times.unit == unit).map(|times| times.activated)
    }

    /// The name of the source, for the evidence of a boundary.
    pub(crate) fn says(&self) -> &'static str {
        if self.resolution == Resolution::Microseconds { "systemd" } else { super::NAME }
    }
}

/// The stages, as `systemd-analyze time` has them.
fn stages(state: &State) -> Option<Finished> {
    let manager = &state.manager;
    let (userspace, finish) = (manager.userspace?, manager.finish?);
    let mut stages = Vec::new();
    let mut add = |stage, took: Ns| {
        if took >= Ns::ZERO {
            stages.push((stage, took));
        }
    };
    if !manager.is_contained {
        if let Some(firmware) = manager.firmware {
            add(Stage::Firmware, firmware - manager.loader.unwrap_or(Ns::ZERO));
        }
        if let Some(loader) = manager.loader {
            add(Stage::Loader, loader);
        }
        add(Stage::Kernel, manager.initrd.unwrap_or(userspace));
        if let Some(initrd) = manager.initrd {
            add(Stage::Initrd, userspace - initrd);
        }
    }
    add(Stage::Userspace, finish - userspace);
    Some(Finished { stages, total: None })
}

/// Units that started before the boot was done. One that was not active then has the time of that.
fn times(state: &State, end: Ns) -> Vec<Times> {
    let from = state.zero();
    let times = |unit: &Unit| {
        let (activating, over) = unit.times()?;
        let activated = over.unwrap_or(end).min(end);
        let is_known = activating <= end && activating >= from && activated < Ns::MAX;
        let (activating, activated) = (activating - from, activated - from);
        is_known.then(|| Times { unit: unit.name.clone(), activating, activated, stopping: None })
    };
    state.units.iter().filter_map(times).collect()
}

/// The chain down from the default target; where nothing says which that is, from the target that was active last.
fn chain(state: &State, end: Ns) -> Vec<Link> {
    let mut units: HashMap<&str, (&Unit, Ns, Ns)> = HashMap::new();
    for unit in &state.units {
        let Some((start, Some(over))) = unit.times().filter(|(_, over)| over.is_some_and(|at| at <= end)) else {
            continue;
        };
        units.insert(&unit.name, (unit, start, over));
    }
    let default = state.units.iter().find(|unit| unit.aliases.iter().any(|name| name == DEFAULT_TARGET));
    let targets = units.values().filter(|(unit, ..)| unit.name.ends_with(".target"));
    let last = targets.max_by_key(|(unit, _, over)| (*over, &unit.name)).map(|(unit, ..)| *unit);
    let mut next = default.and_then(|unit| units.get(&*unit.name)).or_else(|| units.get(&*last?.name));
    let (mut chain, mut seen) = (Vec::new(), HashSet::new());
    let userspace = state.manager.userspace.unwrap_or(Ns::ZERO);
    while let Some(&(unit, start, over)) = next.filter(|(unit, ..)| chain.len() < LINKS_MAX && seen.insert(&unit.name))
    {
        let took = Some(over - start).filter(|took| *took > Ns::ZERO);
        chain.push(Link { unit: unit.name.clone(), depth: chain.len(), at: Some(start - userspace), took });
        let before = unit.after.iter().filter_map(|name| units.get(&**name));
        let before = before.filter(|(_, _, over)| *over <= start);
        next = before.max_by_key(|(unit, start, over)| (*over, *start, &unit.name));
    }
    chain
}
