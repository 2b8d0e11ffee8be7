//! Initcalls by how long each took from start to return, as `initcall_debug` counts: what it waited for is in it.
//!
//! Another view than the boot path's: an initcall that mostly waits for a thread is short there, where the thread has the
//! time, and long here.

use timeline::{NameId, Ns, SpanKind, Timeline, TrackId};

/// One initcall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Initcall {
    /// The function.
    pub function: NameId,
    /// When it was called.
    pub start: Ns,
    /// From its call to its return.
    pub elapsed: Ns,
    /// Who ran it.
    pub track: TrackId,
}

/// All initcalls of a finalized timeline, the longest first. One that ends as it begins was never seen to return, or is
/// shorter than its clock can tell: its time is not known, and it is left out.
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
        let found: Vec<_> = initcalls(&t).iter().map(|i| (t.names.get(i.function).to_owned(), i.elapsed)).collect();
        assert_eq!(found, [("waits".to_owned(), Ns(80)), ("quick".to_owned(), Ns(10))]);
    }
}
