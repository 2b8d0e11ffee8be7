//! Tests that the spans are sound for any sequence of begin and end events, on any number of tracks.

use proptest::prelude::*;
use timeline::{
    DiagnosticKind, Diagnostics, NameId, Names, Ns, SpanBuilder, SpanId, SpanKind, SpanRow, Spans, TrackId,
};

#[derive(Clone, Debug)]
struct Event {
    begin: bool,
    track: u32,
    name: u8,
    at: i64,
}

fn event() -> impl Strategy<Value = Event> {
    (any::<bool>(), 0u32..4, 0u8..5, 0i64..1000).prop_map(|(begin, track, name, at)| Event { begin, track, name, at })
}

struct Built {
    spans: Spans,
    diagnostics: Diagnostics,
}

fn build(events: &[Event]) -> Built {
    let mut names = Names::default();
    let (mut spans, mut diagnostics) = (Spans::default(), Diagnostics::default());
    let mut builder = SpanBuilder::default();
    for e in events {
        let (name, track) = (names.intern(&e.name.to_string()), TrackId(e.track));
        if e.begin {
            let row = SpanBuilder::row(track, SpanKind::Call, name, NameId::EMPTY, Ns(e.at));
            builder.begin(&mut spans, row, &mut diagnostics, String::new);
        } else {
            builder.end(&mut spans, track, (name, NameId::EMPTY), Ns(e.at), &mut diagnostics, |_| String::new());
        }
    }
    builder.finish(&mut spans, Ns(1000), &mut diagnostics);
    Built { spans, diagnostics }
}

/// Every span lies in its parent, siblings do not overlap, and the depth is the number of spans around a span.
fn assert_nested(spans: &Spans) {
    let mut last_end: std::collections::HashMap<(TrackId, Option<SpanId>), Ns> = Default::default();
    for (id, row) in spans.iter() {
        assert!(row.start <= row.end);
        let parent = spans.parent(id);
        if let Some(p) = parent {
            let around = spans.get(p);
            assert!(
                around.track == row.track && around.start <= row.start && row.end <= around.end,
                "{around:?} {row:?}"
            );
            assert_eq!(spans.depth(id), spans.depth(p) + 1);
        } else {
            assert_eq!(spans.depth(id), 0);
        }
        let before = last_end.insert((row.track, parent), row.end);
        assert!(before.is_none_or(|end| end <= row.start), "siblings overlap");
    }
}

proptest! {
    #[test]
    fn any_events_give_sound_spans(events in prop::collection::vec(event(), 0..200)) {
        let built = build(&events);
        assert_nested(&built.spans);
        let begins = events.iter().filter(|e| e.begin).count() as u64;
        let ends = events.len() as u64 - begins;
        prop_assert_eq!(built.spans.len() as u64, begins);
        // Each begin and each end either has its other half or was counted.
        let lonely_begins = built.diagnostics.count(DiagnosticKind::EntryWithoutExit);
        let lonely_ends = built.diagnostics.count(DiagnosticKind::ExitWithoutEntry);
        prop_assert_eq!(begins - lonely_begins, ends - lonely_ends);
    }

    /// A tree written as events comes back as the same tree, without diagnostics.
    #[test]
    fn balanced_events_come_back(shape in prop::collection::vec((0u8..5, any::<bool>()), 0..100)) {
        let (mut events, mut open, mut at) = (Vec::new(), Vec::new(), 0);
        for (name, close) in shape {
            at += 1;
            if close && !open.is_empty() {
                events.push(Event { begin: false, track: 0, name: open.pop().unwrap(), at });
            } else {
                open.push(name);
                events.push(Event { begin: true, track: 0, name, at });
            }
        }
        while let Some(name) = open.pop() {
            at += 1;
            events.push(Event { begin: false, track: 0, name, at });
        }
        let built = build(&events);
        prop_assert!(built.diagnostics.is_empty());
        let total: i64 = built.spans.iter().map(|(_, r)| r.length().0).sum();
        let (ends, begins): (Vec<_>, Vec<_>) = events.iter().partition(|e| !e.begin);
        prop_assert_eq!(total, ends.iter().map(|e| e.at).sum::<i64>() - begins.iter().map(|e| e.at).sum::<i64>());
    }

    /// Nesting anew spans that already nest changes nothing but their order.
    #[test]
    fn nesting_is_idempotent(events in prop::collection::vec(event(), 0..200)) {
        let Built { mut spans, mut diagnostics } = build(&events);
        let before: i64 = spans.iter().map(|(_, r)| r.length().0).sum();
        spans.nest(Ns::ZERO, &mut diagnostics);
        assert_nested(&spans);
        prop_assert_eq!(before, spans.iter().map(|(_, r)| r.length().0).sum::<i64>());
        prop_assert_eq!(diagnostics.count(DiagnosticKind::SpanEndsAfterItsParent), 0);
    }
}

/// Nests spans of one track, given as (kind, start, end), with a tolerance of 5.
fn nested(given: &[(SpanKind, i64, i64)]) -> (Vec<(SpanKind, i64, i64, u32)>, u64) {
    let (mut spans, mut diagnostics) = (Spans::default(), Diagnostics::default());
    for &(kind, start, end) in given {
        let row =
            SpanRow { end: Ns(end), ..SpanBuilder::row(TrackId(0), kind, NameId::EMPTY, NameId::EMPTY, Ns(start)) };
        spans.push(row, None);
    }
    spans.nest(Ns(5), &mut diagnostics);
    assert_nested(&spans);
    let found = spans.iter().map(|(id, row)| (row.kind, row.start.0, row.end.0, spans.depth(id))).collect();
    let counted = [DiagnosticKind::SpanEndsAfterItsParent, DiagnosticKind::CallsCross];
    (found, counted.iter().map(|&kind| diagnostics.count(kind)).sum())
}

#[test]
fn an_initcall_is_not_cut_by_a_call() {
    use SpanKind::{Call, Initcall};
    // As observed: the first call of an initcall, by a clock that is 3 behind. The call ended long before the initcall
    // did.
    let (found, crossing) = nested(&[(Call, 97, 150), (Initcall, 100, 1000), (Call, 200, 300)]);
    assert_eq!(found, [(Initcall, 100, 1000, 0), (Call, 100, 150, 1), (Call, 200, 300, 1)]);
    assert_eq!(crossing, 0);
    // Two calls, one in the other.
    let (found, _) = nested(&[(Call, 97, 150), (Call, 98, 120), (Initcall, 100, 1000)]);
    assert_eq!(found, [(Initcall, 100, 1000, 0), (Call, 100, 150, 1), (Call, 100, 120, 2)]);
    // A call that began long before the initcall and ended in it: the clocks' disagreement does not explain that.
    let (found, left_out) = nested(&[(Call, 10, 150), (Call, 20, 30), (Initcall, 100, 1000)]);
    assert_eq!((found, left_out), (vec![(Call, 20, 30, 0), (Initcall, 100, 1000, 0)], 1));
    // A call around the initcall, except for the clocks' disagreement, stays around it, at either end.
    let (found, left_out) = nested(&[(Call, 10, 998), (Initcall, 100, 1000)]);
    assert_eq!((found, left_out), (vec![(Call, 10, 1000, 0), (Initcall, 100, 1000, 1)], 0));
    let (found, left_out) = nested(&[(Initcall, 100, 1000), (Call, 103, 1200)]);
    assert_eq!((found, left_out), (vec![(Call, 100, 1200, 0), (Initcall, 100, 1000, 1)], 0));
    // A call before or after the initcall, except for the clocks' disagreement, stays beside it.
    let (found, left_out) = nested(&[(Call, 50, 104), (Initcall, 100, 1000), (Call, 996, 1200)]);
    assert_eq!((found, left_out), (vec![(Call, 50, 100, 0), (Initcall, 100, 1000, 0), (Call, 1000, 1200, 0)], 0));
    // If two initcalls cross, the later one is cut, and that is counted.
    let (found, crossing) = nested(&[(Initcall, 10, 100), (Initcall, 50, 200)]);
    assert_eq!((found, crossing), (vec![(Initcall, 10, 100, 0), (Initcall, 50, 100, 1)], 1));
}

proptest! {
    /// After nesting any crossing spans: the rest nests, no call changes another kind of span, and lost spans are
    /// counted.
    #[test]
    fn any_spans_nest(given in prop::collection::vec((any::<bool>(), 0i64..60, 0i64..40), 0..60)) {
        let kind = |call| if call { SpanKind::Call } else { SpanKind::Initcall };
        let given: Vec<_> = given.iter().map(|&(call, start, long)| (kind(call), start, start + long)).collect();
        let (found, counted) = nested(&given);
        prop_assert!(found.len() as u64 + counted >= given.len() as u64);
        let without: Vec<_> = given.iter().copied().filter(|span| span.0 != SpanKind::Call).collect();
        let reported = |spans: &[(SpanKind, i64, i64, u32)]| -> Vec<(i64, i64)> {
            let mut reported: Vec<_> =
                spans.iter().filter(|span| span.0 != SpanKind::Call).map(|span| (span.1, span.2)).collect();
            // An empty span at the start of another may lie before it or in it: the order is as given, if they were
            // nested.
            reported.sort_unstable();
            reported
        };
        prop_assert_eq!(reported(&nested(&without).0), reported(&found));
    }
}

#[test]
fn many_unmatched_exits_cost_nothing() {
    let mut events: Vec<Event> = (0..100_000).map(|i| Event { begin: true, track: 0, name: 1, at: i }).collect();
    events.extend((0..100_000).map(|i| Event { begin: false, track: 0, name: 2, at: 100_000 + i }));
    let built = build(&events);
    assert_eq!(built.diagnostics.count(DiagnosticKind::ExitWithoutEntry), 100_000);
    assert_eq!(built.spans.len(), 100_000);
}

/// A reader of whole stacks gives its spans nested. An empty call at the start of another was before it, not in it.
#[test]
fn spans_that_are_nested_on_each_track_stay_as_they_are() {
    let mut spans = Spans::default();
    for (track, start, end) in [(0, 10, 10), (0, 10, 20), (1, 10, 10), (1, 10, 20)] {
        let row = SpanBuilder::row(TrackId(track), SpanKind::Call, NameId::EMPTY, NameId::EMPTY, Ns(start));
        spans.push(SpanRow { end: Ns(end), ..row }, None);
    }
    let before = spans.clone();
    spans.nest(Ns::ZERO, &mut Diagnostics::default());
    assert!(spans.iter().eq(before.iter()), "{spans:?}");
    assert!(spans.iter().all(|(id, _)| spans.parent(id).is_none()), "{spans:?}");
}
