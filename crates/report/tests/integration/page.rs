//! The data of a page is that of the timeline, read back from the file by the reader in Rust.

use page_data::{Parts, can_run_again};
use proptest::prelude::*;
use report::page::{Column, Table, read};
use report::{Boot, ConsoleLine, Facts, PageBoot};
use timeline::{
    End, EndEvidence, NameId, Ns, Sample, Sampled, SampledFrame, SampledThread, SpanKind, SpanRow, TimeBase, Timeline,
    TrackKind, Wait, WaitedOn,
};

fn parts(boot: &Boot, console: &[ConsoleLine]) -> Vec<Table<'static>> {
    let mut page = Vec::new();
    report::page(&[PageBoot { name: "a", boot, console }], report::Asks::Itself, &mut page).unwrap();
    read(&String::from_utf8(page).unwrap()).unwrap()
}

/// The values of a column, over all parts of this name.
fn counts(parts: &[Table], part: &str, column: &str) -> Vec<i128> {
    let values = |table: &Table| match table.column(column) {
        Some(Column::Bytes(values)) => values.iter().map(|&v| v.into()).collect(),
        Some(Column::Counts(values)) => values.iter().map(|&v| v.into()).collect(),
        Some(Column::Deltas(values)) => values.iter().map(|&v| v.into()).collect::<Vec<_>>(),
        other => panic!("{part} {column}: {other:?}"),
    };
    parts.iter().filter(|table| table.name == part).flat_map(values).collect()
}

fn texts(parts: &[Table], part: &str, column: &str) -> Vec<String> {
    let values = |table: &Table| match table.column(column) {
        Some(Column::Texts(values)) => values.iter().map(|v| v.to_string()).collect::<Vec<_>>(),
        other => panic!("{part} {column}: {other:?}"),
    };
    parts.iter().filter(|table| table.name == part).flat_map(values).collect()
}

fn place(number: i128) -> usize {
    usize::try_from(number).unwrap()
}

/// Track, start, length, name and detail of each span.
fn spans(parts: &[Table]) -> Vec<(i128, i128, i128, String, String)> {
    let all = |column| counts(parts, "spans", column);
    let (names, name, detail) =
        (texts(parts, "names", "name"), counts(parts, "labels", "name"), counts(parts, "labels", "detail"));
    let rows = all("track").into_iter().zip(all("start")).zip(all("length")).zip(all("label"));
    rows.map(|(((track, start), length), label)| {
        let text = |labels: &[i128]| names[place(labels[place(label)])].clone();
        (track, start, length, text(&name), text(&detail))
    })
    .collect()
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -50..200_i64, 1 => any::<i64>(), 1 => prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1])]
}

prop_compose! {
    fn boots()(
        spans in prop::collection::vec((0u32..3, 0..4_usize, 0..3_usize, time(), time()), 0..40),
        waits in prop::collection::vec((0u32..3, 0i64..100, 0i64..50, 0i64..50, 0u32..3), 0..10),
        end in prop::option::of(0i64..250),
    ) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        for (i, name) in ["init", "", "<b>\u{1b}"].into_iter().enumerate() {
            let name = t.names.intern(name);
            t.tracks.add(name, TrackKind::Thread, i as u64);
        }
        for (track, name, detail, start, end) in spans {
            let (name, detail) = (t.names.intern(["", "f", "g", "\u{202e}"][name]), t.names.intern(["", "x", "y"][detail]));
            let (start, end) = (Ns(start), Ns(end.max(start)));
            t.spans.push(SpanRow { name, detail, start, end, track: timeline::TrackId(track), kind: SpanKind::Call }, None);
        }
        for (track, from, slept, queued, by) in waits {
            let (from, woken, until) = (Ns(from), Ns(from + slept), Ns(from + slept + queued));
            let by = WaitedOn::Thread(timeline::TrackId(by));
            t.waits.push(Wait { track: timeline::TrackId(track), from, woken, until, by, uninterruptible: false });
        }
        t.end = end.map(|at| End { at: Ns(at), error: Ns::ZERO, track: Some(timeline::TrackId(0)), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        t
    }
}

proptest! {
    /// A page runs the recorded boot again, unchanged.
    #[test]
    fn the_boot_that_a_page_runs_again_is_the_recorded_one(t in boots()) {
        let facts = Facts::default();
        let boot = Boot::new(&t, &facts);
        let mut read = Parts::default();
        parts(&boot, &[]).into_iter().for_each(|table| read.add(table));
        let again = read.timeline().unwrap();
        if !can_run_again(&t) {
            prop_assert!(!can_run_again(&again));
            return Ok(());
        }
        let text = |t: &Timeline, id: NameId| report::harmless(t.names.get(id)).into_owned();
        let spans = |t: &Timeline| -> Vec<_> {
            let all = t.spans.iter();
            all.map(|(id, s)| (t.spans.parent(id), s.start, s.end, s.track, s.kind, text(t, s.name), text(t, s.detail))).collect()
        };
        // Escaping an escaped text changes nothing.
        prop_assert_eq!(spans(&again), spans(&t));
        prop_assert_eq!(&again.waits, &t.waits);
        prop_assert_eq!(again.end.map(|end| (end.at, end.track)), t.end.map(|end| (end.at, end.track)));
        prop_assert_eq!(again.tracks.len(), t.tracks.len());
    }

    #[test]
    fn spans_waits_and_the_path_come_back(t in boots()) {
        let facts = Facts::default();
        let boot = Boot::new(&t, &facts);
        let parts = parts(&boot, &[]);
        let text = |id: NameId| report::harmless(t.names.get(id)).into_owned();
        let wanted: Vec<_> = t
            .spans
            .iter()
            .map(|(_, s)| {
                let length = i128::from(s.end.0) - i128::from(s.start.0);
                (i128::from(s.track.0), i128::from(s.start.0), length, text(s.name), text(s.detail))
            })
            .collect();
        prop_assert_eq!(spans(&parts), wanted);
        let depths: Vec<i128> = t.spans.iter().map(|(id, _)| t.spans.depth(id).into()).collect();
        prop_assert_eq!(counts(&parts, "spans", "depth"), depths);
        let waits: Vec<i128> = t.waits.iter().map(|w| (w.until.0 - w.from.0 + 1).into()).collect();
        prop_assert_eq!(counts(&parts, "waits", "length"), waits);
        let path: Ns = boot.path().stretches.iter().map(|s| s.length()).sum();
        prop_assert_eq!(counts(&parts, "stays", "length").iter().sum::<i128>(), i128::from(path.0));
        prop_assert_eq!(counts(&parts, "stays", "frames").iter().sum::<i128>() as usize, counts(&parts, "frames", "track").len());
        prop_assert_eq!(texts(&parts, "tracks", "name"), ["init", "", "<b>\\x1b"]);
        prop_assert_eq!(parts.last().map(|table| table.name.to_string()), Some("end".to_owned()));
    }
}

/// More spans than a part holds, and a line of every kind.
#[test]
fn many_spans_make_many_small_parts() {
    let count = 200_000;
    let mut t = Timeline::new(TimeBase::Host);
    let name = t.names.intern("init");
    let track = t.tracks.add(name, TrackKind::Thread, 1);
    for i in 0..count {
        let (name, detail) = (t.names.intern(&format!("f{}", i % 500)), NameId::EMPTY);
        let start = Ns(i * 1_000 + i * i % 700);
        t.spans.push(
            SpanRow { name, detail, start, end: start + Ns(100 + i * 7 % 200), track, kind: SpanKind::Call },
            None,
        );
    }
    t.end =
        Some(End { at: Ns(count * 1_000), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::Asked(name) });
    t.finalize(Ns::ZERO);
    let facts = Facts::default();
    let boot = Boot::new(&t, &facts);
    let mut page = Vec::new();
    let console = [ConsoleLine { at: Some(Ns(5)), text: b"a\tb\r" }, ConsoleLine { at: None, text: b"\xff\x1b[2J" }];
    report::page(&[PageBoot { name: "a", boot: &boot, console: &console }], report::Asks::Itself, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let parts = read(&page).unwrap();
    assert_eq!(counts(&parts, "spans", "start").len(), usize::try_from(count).unwrap());
    assert!(parts.iter().filter(|table| table.name == "spans").count() > 2);
    assert_eq!(texts(&parts, "console", "text"), ["a\tb", "\\xff\\x1b[2J"]);
    assert_eq!(counts(&parts, "console", "stamped"), [1, 0]);
    let of_spans: usize = page.split("<script type=\"application/x-bootscope\">").skip(6).map(str::len).sum();
    assert!(of_spans < 12 * usize::try_from(count).unwrap(), "{of_spans} bytes for {count} spans");
}

/// Samples have a separate clock. They are placed only if the boot's times come from that clock.
#[test]
fn samples_are_placed_if_the_boot_has_nothing_else() {
    let mut t = Timeline::new(TimeBase::Evidence);
    let [thread, event, outer, inner] = ["init", "cycles", "main", "memcpy"].map(|name| t.names.intern(name));
    let mut sampled = Sampled::default();
    for (at, cpu) in [(30, Some(u64::MAX)), (10, Some(0)), (25, None)] {
        let frame = |name| SampledFrame { address: 1, name, is_named: true };
        sampled.add(Sample {
            at: Some(Ns(7_000 + at)),
            cpu,
            thread: SampledThread { name: thread, tid: 1 },
            event,
            is_user: None,
            period: None,
            stack: [frame(outer), frame(inner)].into(),
        });
    }
    t.sampled = Some(sampled);
    let facts = Facts::default();
    for (evidence, placed) in [(EndEvidence::LastSample, true), (EndEvidence::LastSign, false)] {
        t.end = Some(End { at: Ns(20), error: Ns::ZERO, track: None, evidence });
        let boot = Boot::new(&t, &facts);
        let parts = parts(&boot, &[]);
        let all = |column| counts(&parts, "samples", column);
        let wanted: (&[i128], &[i128]) = if placed { (&[0, 15, 20], &[1, 0, u64::MAX.into()]) } else { (&[], &[]) };
        assert_eq!((&all("at")[..], &all("cpu")[..]), wanted);
        let names = texts(&parts, "names", "name");
        assert!(all("function").into_iter().all(|name| names[place(name)] == "memcpy"));
        assert!(all("thread").into_iter().all(|name| names[place(name)] == "init"));
    }
}

/// A part has at most a few MiB of text.
#[test]
fn a_large_console_and_long_names_make_many_parts() {
    let line = [b'x'; 4_000];
    let console: Vec<ConsoleLine> = (0..4_000).map(|i| ConsoleLine { at: Some(Ns(i)), text: &line }).collect();
    let mut t = Timeline::new(TimeBase::Host);
    let init = t.names.intern("init");
    let track = t.tracks.add(init, TrackKind::Thread, 1);
    for i in 0..2_500 {
        let (name, detail) = (t.names.intern(&format!("{i}{}", "n".repeat(3_900))), NameId::EMPTY);
        t.spans.push(SpanRow { name, detail, start: Ns(i), end: Ns(i + 1), track, kind: SpanKind::Call }, None);
    }
    t.end = Some(End { at: Ns(2_500), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    let facts = Facts::default();
    let boot = Boot::new(&t, &facts);
    let parts = parts(&boot, &console);
    assert_eq!(texts(&parts, "console", "text").len(), 4_000);
    assert_eq!(counts(&parts, "console", "at"), (0..4_000).collect::<Vec<i128>>());
    for (of, least) in [("console", 4), ("names", 2)] {
        let sizes: Vec<usize> =
            parts.iter().filter(|table| table.name == of).map(|table| table.plain().len()).collect();
        assert!(sizes.len() >= least && sizes.iter().all(|&size| size < 6 << 20), "{of}: {sizes:?}");
    }
    assert_eq!(spans(&parts).len(), 2_500);
}
