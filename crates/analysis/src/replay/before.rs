//! What a replay has to know of the evidence beforehand.

use crate::segments::Segments;
use hashbrown::HashMap;
use timeline::{Ns, Timeline, TrackId, Wait, WaitedOn};

/// The first and the last time that is known of.
pub fn extent(timeline: &Timeline) -> (Ns, Ns) {
    let spans = timeline.spans.iter().flat_map(|(_, s)| [s.start, s.end]);
    let waits = timeline.waits.iter().flat_map(|w| [w.from, w.woken, w.until]);
    let holds = timeline.holds.iter().flat_map(|h| [h.from, h.to]);
    let running = timeline.running.iter().flat_map(|r| [r.from, r.to]);
    let created = timeline.tracks.iter().filter_map(|(_, t)| t.created).map(|(at, _)| at);
    let all = spans.chain(waits).chain(holds).chain(running).chain(created).chain(timeline.end.map(|end| end.at));
    let known = all.filter(|&at| at != Ns::MIN && at != Ns::MAX);
    known.fold((Ns::ZERO, Ns::ZERO), |(first, last), at| (first.min(at), last.max(at)))
}

/// When the boot's own line waited, overlapping waits as one.
pub fn boot_waits(timeline: &Timeline, lineage: &[(TrackId, Ns)]) -> Vec<(Ns, Ns)> {
    let own = |w: &&Wait| lineage.iter().any(|&(track, until)| track == w.track && w.from < until);
    let mut waits: Vec<(Ns, Ns)> = timeline.waits.iter().filter(own).map(|w| (w.from, w.until)).collect();
    waits.sort_unstable();
    waits.dedup_by(|next, wait| {
        let overlap = next.0 <= wait.1;
        wait.1 = if overlap { wait.1.max(next.1) } else { wait.1 };
        overlap
    });
    waits
}

/// Of each track, when it first did something: it was created by then, if nobody says when.
pub fn first_seen(timeline: &Timeline, segments: &Segments) -> Vec<Ns> {
    let mut first: Vec<Option<Ns>> = timeline.tracks.iter().map(|(track, _)| segments.first(track)).collect();
    let waits = timeline.waits.iter().map(|w| (w.track, w.from));
    let holds = timeline.holds.iter().map(|h| (h.track, if h.from == Ns::MIN { h.to } else { h.from }));
    for (track, at) in waits.chain(holds) {
        let first = &mut first[track.0 as usize];
        *first = Some(first.map_or(at, |known| known.min(at)));
    }
    first.into_iter().map(Option::unwrap_or_default).collect()
}

/// Work that one thread hands to another: the one holds a topic and never releases it, the other releases it and never
/// held it. FreeBSD's g_post_event and its event thread are such a pair. Where the other did nothing until then, it had
/// waited for the work. The first to hold is paired with the first to release. Linear, after sorting.
pub fn handovers(timeline: &Timeline, segments: &Segments) -> Vec<Wait> {
    let mut found = Vec::new();
    for holds in timeline.holds.chunk_by(|a, b| a.topic == b.topic) {
        let mut given: Vec<_> = holds.iter().filter(|h| h.to == Ns::MAX).collect();
        given.sort_by_key(|h| h.from);
        let mut given = given.into_iter().peekable();
        let mut last_release: HashMap<TrackId, Ns> = HashMap::new();
        for taken in holds.iter().filter(|h| h.from == Ns::MIN) {
            let pair = given.next_if(|given| given.from < taken.to && given.track != taken.track);
            let busy_until = last_release.insert(taken.track, taken.to).unwrap_or(Ns::MIN);
            let Some(pair) = pair else { continue };
            let created = timeline.tracks.get(taken.track).created.map_or(Ns::MIN, |(at, _)| at);
            let idle = segments.idle_since(taken.track, pair.from).map(|at| at.max(created).max(busy_until));
            if let Some(from) = idle.filter(|&at| Ns::MIN < at && at < pair.from) {
                let (woken, by) = (pair.from, WaitedOn::Thread(pair.track));
                found.push(Wait { track: taken.track, from, woken, until: woken, by });
            }
        }
    }
    found
}
