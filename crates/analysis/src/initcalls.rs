//! Initcalls by the time from start to return, waits included, as `initcall_debug` counts.
//!
//! This view differs from the boot path. An initcall that mostly waits for another thread is short on the path, where
//! that thread has the time, and long here.

use timeline::{NameId, Ns, SpanKind, Timeline, TrackId};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Initcall {
    pub function: NameId,
    pub start: Ns,
    /// The time from the call to the return.
    pub elapsed: Ns,
    /// The thread that ran it.
    pub track: TrackId,
}

/// Returns all initcalls of a finalized timeline, the longest first. An initcall with equal start and end is left out:
/// its return was not seen, or it is shorter than the clock's resolution.
pub fn initcalls(timeline: &Timeline) -> Vec<Initcall> {
    let is_known = |span: &timeline::SpanRow| span.kind == SpanKind::Initcall && span.length() > Ns::ZERO;
    let spans = timeline.spans.iter().filter(|(_, span)| is_known(span));
    let mut all: Vec<Initcall> = spans
        .map(|(_, s)| Initcall { function: s.detail, start: s.start, elapsed: s.length(), track: s.track })
        .collect();
    all.sort_by_key(|initcall| (std::cmp::Reverse(initcall.elapsed), initcall.start));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{SpanRow, TimeBase, TrackKind};

    #[test]
    fn the_longest_first_waits_included() {
        let mut t = Timeline::new(TimeBase::Host);
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        for (name, start, end, kind) in [
            ("quick", 0, 10, SpanKind::Initcall),
            ("waits", 10, 90, SpanKind::Initcall),
            ("no initcall", 0, 100, SpanKind::Call),
            ("scheduler, never left", 100, 100, SpanKind::Initcall),
        ] {
            let detail = t.names.intern(name);
            t.spans.push(SpanRow { name: NameId::EMPTY, detail, start: Ns(start), end: Ns(end), track, kind }, None);
        }
        t.finalize(Ns::ZERO);
        let elapsed: Vec<_> = initcalls(&t).iter().map(|i| (t.names.get(i.function).to_owned(), i.elapsed)).collect();
        assert_eq!(elapsed, [("waits".to_owned(), Ns(80)), ("quick".to_owned(), Ns(10))]);
    }
}
