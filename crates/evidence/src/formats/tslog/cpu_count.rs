//! Tests if the unknown number of CPUs matters. With one CPU, a holder that another thread preempted is not to blame
//! for that time. Nothing on the timeline changes; the diagnostic tells the user which number to give.

use super::Log;
use super::occupancy::occupancy;
use super::order::Order;
use hashbrown::HashMap;
use timeline::{Clock, DiagnosticKind, NameId, Ns, Ticks, Timeline, TrackId, WaitedOn};

/// A holder's lost time matters if it is more than this part (1/100) of the log's length.
const MATTERS: i64 = 100;

/// Notes each holder that would be charged much less time if there was one CPU. `O(n log n)`.
pub(super) fn note(
    log: &Log,
    order: &Order,
    clock: &Clock,
    (tracks, ends): (&[TrackId], u64),
    timeline: &mut Timeline,
) {
    let knows = timeline.cpu_count > 0 || log.facts.cpus.is_some() || !timeline.occupancy.is_empty();
    if knows || timeline.holds.is_empty() {
        return;
    }
    // From the first wait for a topic to the end of the last.
    let mut waited: HashMap<NameId, (Ns, Ns)> = HashMap::new();
    for wait in &timeline.waits {
        if let WaitedOn::Holders(topic) = wait.by {
            let range = waited.entry(topic).or_insert((wait.from, wait.until));
            *range = (range.0.min(wait.from), range.1.max(wait.until));
        }
    }
    let ready = Ready::new(&occupancy(log, order, clock, (tracks, ends), 1).off);
    let least = Ns(clock.to_ns(Ticks(ends)).0 / MATTERS);
    for hold in &timeline.holds {
        let Some(&(first, last)) = waited.get(&hold.topic) else { continue };
        let (from, to) = (hold.from.max(first), hold.to.min(last));
        let lost = ready.between(hold.track, from, to);
        if lost > least {
            let place = || place(log, order, clock, tracks, (hold.track, from));
            timeline.diagnostics.note_time(DiagnosticKind::TslogCpuCountUnknown, lost, place);
        }
    }
}

/// The place in the log of a thread's first record at or after `from`.
fn place(log: &Log, order: &Order, clock: &Clock, tracks: &[TrackId], (track, from): (TrackId, Ns)) -> String {
    let life = tracks.iter().position(|&known| known == track).map(|number| &order.lives[number]);
    let records = life.map_or(&[][..], |life| &order.records[life.begin..life.end]);
    let record = records.iter().find(|record| clock.to_ns(Ticks(record.ticks)) >= from);
    record.map_or(String::new(), |r| log.place(order.pieces[usize::from(r.piece)].0, r.line))
}

/// The times when each thread was ready without a CPU, in order: begin, end, and the sum of the lengths before.
struct Ready(HashMap<TrackId, Vec<(Ns, Ns, Ns)>>);

impl Ready {
    fn new(off: &[timeline::OffCpu]) -> Ready {
        let mut by_track: HashMap<TrackId, Vec<(Ns, Ns, Ns)>> = HashMap::new();
        for (off, ready) in off.iter().filter_map(|off| Some((off, off.ready?))) {
            let stretches = by_track.entry(off.track).or_default();
            let (end, before) =
                stretches.last().map_or((Ns::MIN, Ns::ZERO), |last| (last.1, last.2 + (last.1 - last.0)));
            let from = ready.max(off.from).max(end);
            if from < off.until {
                stretches.push((from, off.until, before));
            }
        }
        Ready(by_track)
    }

    fn between(&self, track: TrackId, from: Ns, to: Ns) -> Ns {
        let Some(stretches) = self.0.get(&track).filter(|_| from < to) else { return Ns::ZERO };
        let until = |at: Ns| {
            let before = stretches.partition_point(|ready| ready.0 < at).checked_sub(1).map(|i| stretches[i]);
            before.map_or(Ns::ZERO, |(from, until, before)| before + (until.min(at) - from))
        };
        until(to) - until(from)
    }
}
