//! The boot that results from a replay.

use super::Replay;
use super::line::time;
use timeline::{End, Ns, SpanRow, Spans, Timeline, TrackId, Wait};

impl Replay<'_> {
    /// Returns the replayed boot: the same spans with the same numbers, at other times.
    pub fn timeline(&self, boot: TrackId) -> Timeline {
        let mut t = self.timeline.clone();
        let mut spans = Spans::default();
        for (id, row) in self.timeline.spans.iter() {
            let (start, end) = (self.time(row.track, row.start), self.time(row.track, row.end));
            let new = spans.push(SpanRow { start, end, ..row }, self.timeline.spans.parent(id));
            spans.copy_call(new, &self.timeline.spans, id);
        }
        t.spans = spans;
        let time_unless_open = |track, at| if at == Ns::MAX || at == Ns::MIN { at } else { self.time(track, at) };
        for w in &mut t.waits {
            (w.from, w.woken, w.until) = self.replayed_wait(w);
        }
        for h in &mut t.holds {
            (h.from, h.to) = (time_unless_open(h.track, h.from), time_unless_open(h.track, h.to));
        }
        for r in &mut t.running {
            (r.from, r.to) = (self.time(r.track, r.from), time_unless_open(r.track, r.to));
        }
        for m in &mut t.marks {
            m.at = self.time(m.track, m.at);
        }
        for b in &mut t.boundaries {
            b.at = self.time(boot, b.at);
        }
        for d in &mut t.deferrals {
            let at = self.time(boot, d.at);
            d.took = d.took.map(|took| at - self.time(boot, d.at - took));
            d.at = at;
        }
        for m in &mut t.passed {
            m.at = self.time(m.track.unwrap_or(boot), m.at);
        }
        for p in &mut t.processes {
            (p.start, p.end) = (self.time(boot, p.start), p.end.map(|end| self.time(boot, end)));
        }
        for u in &mut t.units {
            let time = |at: Option<Ns>| at.map(|at| self.time(boot, at));
            (u.start, u.settled) = (time(u.start), time(u.settled));
        }
        for (track, _) in self.timeline.tracks.iter() {
            let created = &mut t.tracks.get_mut(track).created;
            *created = created.map(|(at, by)| (self.time(track, at), by));
        }
        t.timed_waits = (t.timed_waits.as_ref())
            .map(|waits| waits.replayed(self.timeline.tracks.len(), |track, at| self.time(track, at)));
        t.occupancy = self.occupancy.clone();
        t.cpus_followed_until = t.cpus_followed_until.map(|until| self.time(boot, until));
        t.threads_seen_until = t.threads_seen_until.map(|until| self.time(boot, until));
        t.end = t.end.map(|end| End { at: self.time(boot, end.at), ..end });
        t.waits.sort_by_key(|w| (w.track, w.from));
        t.holds.sort_by_key(|h| (h.topic, h.to, h.from));
        t.running.sort_by_key(|r| (r.track, r.from));
        t.marks.sort_by_key(|m| m.at);
        t
    }

    fn replayed_wait(&self, w: &Wait) -> (Ns, Ns, Ns) {
        let time_unless_open = |at| if at == Ns::MAX { at } else { self.time(w.track, at) };
        let from = self.time(w.track, w.from);
        if w.until > w.from {
            return (from, time_unless_open(w.woken), time_unless_open(w.until));
        }
        // The wait took no time, and may take some now. The end is the upper end of the map's step.
        let line = &self.lines[w.track.0 as usize];
        let last = line.marks[..line.marks.partition_point(|m| m.old <= w.until)].last();
        let until = last.filter(|m| m.old == w.until).map_or(from, |m| Ns::rounded(m.new));
        (from, until, until)
    }

    /// Returns the new time at which a line gets to its state at `at`.
    pub fn time(&self, track: TrackId, at: Ns) -> Ns {
        Ns::rounded(time(&self.lines, track, at))
    }
}
