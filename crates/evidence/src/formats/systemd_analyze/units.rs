//! Units as the timeline lists them, with what each is ordered after.

use super::Analysis;
use super::state::Unit;
use hashbrown::{HashMap, HashSet};
use timeline::{Names, Ns, ServiceUnit, Timeline};

/// The kernel's log has a word of the root's systemd this much before systemd's own stamp of its start, at most.
const BEFORE: Ns = Ns::from_ms(50);

/// Lists the units that systemd tells of. What a log's words say of the same start is less exact, and replaced; what they
/// say of an initrd's units stays.
pub(crate) fn tell(analysis: &Analysis, origin: Ns, timeline: &mut Timeline) {
    let mut found: Vec<ServiceUnit> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let from = origin - analysis.told().map_or(Ns::ZERO, |state| state.zero());
    for unit in analysis.told().iter().flat_map(|state| &state.units) {
        if known.contains_key(&*unit.name) {
            continue;
        }
        if let Some(unit_there) = listed(unit, from, &mut timeline.names) {
            known.insert(&unit.name, found.len());
            found.push(unit_there);
        }
    }
    let from_state = found.len();
    for times in &analysis.times {
        let (start, settled) = (origin + times.activating, origin + times.activated);
        let start = Some(start).filter(|start| *start < settled);
        match known.get(&*times.unit) {
            // The JSON's times replace a dump's whole seconds, but not exact stamps.
            Some(&place) if !analysis.state.exact.units.is_empty() => _ = place,
            Some(&place) => (found[place].start, found[place].settled) = (start, Some(settled)),
            None => {
                known.insert(&times.unit, found.len());
                let name = timeline.names.intern(&times.unit);
                found.push(ServiceUnit { name, start, settled: Some(settled), ..ServiceUnit::default() });
            }
        }
    }
    if from_state == 0 {
        add_links(analysis, origin, &mut known, &mut found, &mut timeline.names);
        order_by_chain(analysis, &known, &mut found);
    }
    let names: HashSet<_> = found.iter().map(|unit| unit.name).collect();
    let root = analysis.userspace().map_or(Ns::MIN, |at| origin + at - BEFORE);
    let said = |unit: &ServiceUnit| unit.start.or(unit.settled).unwrap_or(Ns::MIN);
    timeline.units.retain(|unit| !names.contains(&unit.name) || said(unit) < root);
    timeline.units.append(&mut found);
    timeline.units.sort_by_key(said);
}

/// The offset that joins systemd's stamps to a kernel's log, by the events that both have. systemd logs an event a
/// little after it takes the time, so the offset is that of the early ones among many.
pub(crate) fn later(analysis: &Analysis, origin: Ns, timeline: &Timeline) -> Ns {
    /// Fewer may all be late.
    const AGREE_MIN: usize = 8;
    /// Further apart it is not the same start.
    const APART: Ns = Ns::from_ms(1000);
    let Some(state) = analysis.told().filter(|_| !analysis.state.exact.units.is_empty()) else { return Ns::ZERO };
    let stamps: HashMap<&str, (Ns, Option<Ns>)> =
        state.units.iter().filter_map(|unit| Some((&*unit.name, unit.times()?))).collect();
    let both = timeline.units.iter().filter_map(|said| Some((said, stamps.get(timeline.names.get(said.name))?)));
    let ends = both.flat_map(|(said, (start, over))| {
        [said.start.map(|at| at - *start), said.settled.zip(*over).map(|(at, over)| at - over)]
    });
    let mut late: Vec<Ns> = ends.flatten().map(|late| late - origin).filter(|late| late.abs() < APART).collect();
    late.sort_unstable();
    if late.len() < AGREE_MIN { Ns::ZERO } else { late[late.len() / 4] }
}

/// A unit that was ever started.
fn listed(unit: &Unit, origin: Ns, names: &mut Names) -> Option<ServiceUnit> {
    let (start, over) = unit.times()?;
    let mut all = |list: &[String]| list.iter().map(|name| names.intern(name)).collect();
    let (after, requires, wants) = (all(&unit.after), all(&unit.requires), all(&unit.wants));
    Some(ServiceUnit {
        name: names.intern(&unit.name),
        start: Some(start).filter(|start| over != Some(*start)).map(|at| origin + at),
        settled: over.map(|at| origin + at),
        failed: unit.failed && over.is_some(),
        after,
        requires,
        wants,
        main_pid: unit.main_pid,
        control_group: names.intern(&unit.control_group),
    })
}

/// Units that the chain alone has.
fn add_links<'a>(
    analysis: &'a Analysis,
    origin: Ns,
    known: &mut HashMap<&'a str, usize>,
    found: &mut Vec<ServiceUnit>,
    names: &mut Names,
) {
    let userspace = origin + analysis.userspace().unwrap_or(Ns::ZERO);
    for link in &analysis.chain {
        let Some(at) = link.at.filter(|_| !known.contains_key(&*link.unit)) else { continue };
        known.insert(&link.unit, found.len());
        let (name, at) = (names.intern(&link.unit), userspace + at);
        let (start, settled) = (link.took.map(|_| at), Some(at + link.took.unwrap_or(Ns::ZERO)));
        found.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
    }
}

/// Orders each unit of the chain after the unit that it waited for.
fn order_by_chain(analysis: &Analysis, known: &HashMap<&str, usize>, found: &mut [ServiceUnit]) {
    let mut above: Vec<(usize, usize)> = Vec::new();
    for link in &analysis.chain {
        above.retain(|(depth, _)| *depth < link.depth);
        let Some(&place) = known.get(&*link.unit) else { continue };
        if let Some(&(_, waits)) = above.last() {
            if found[place].settled > found[waits].start.or(found[waits].settled) {
                continue;
            }
            let name = found[place].name;
            if !found[waits].after.contains(&name) {
                found[waits].after.push(name);
            }
        }
        above.push((link.depth, place));
    }
}
