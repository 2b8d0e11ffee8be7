use super::*;
use plugin_formats::Sink;
use plugin_formats::calls::{self as format, HEADER_BYTES, Record, chunk_header, example};
use timeline::{DiagnosticKind, Diagnostics};

/// A file as the plugin writes one: a chunk with a record of each kind.
pub(crate) fn sample() -> Vec<u8> {
    let (mut stream, mut bytes) = (format::Stream::default(), Vec::new());
    for (record, _) in &example::RECORDS {
        stream.write(record, &mut bytes);
        if matches!(record, Record::Counts(_)) {
            [3, 2, 300].into_iter().for_each(|figure| bytes.number(figure));
        }
    }
    [&example::HEADER.bytes()[..], &framed(1, &bytes)].concat()
}

fn framed(vcpu: u16, records: &[u8]) -> Vec<u8> {
    [&chunk_header(vcpu, timeline::number(records.len())), records].concat()
}

#[test]
fn a_file_of_the_plugin_is_read() {
    let mut diagnostics = Diagnostics::default();
    let calls = read("calls.bin", &sample(), &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!((calls.clock, calls.api, calls.vcpus, calls.target.as_str()), (PluginClock::Host, 1, 2, "x86_64"));
    assert_eq!((calls.began, calls.ticks_per_second, calls.min_call_ticks), (Ns(400), 2_000_000_000, 300));
    assert_eq!(calls.call_cost_ps, 40_000);
    let bottom = Node { parent: 0, kind: Kind::Stack, function: 0xfff0, stack: 0x8000 };
    let called = Node { parent: 1, kind: Kind::Call, function: 0x1_0000, stack: 0 };
    assert_eq!(calls.nodes[1..], [bottom, called]);
    assert_eq!(calls.switches, [Switch { node: 1, vcpu: 1, at: 100 }]);
    assert_eq!(calls.open, [Stretch { node: 2, vcpu: 1, from: 130, to: 150 }]);
    assert_eq!(calls.idle, [Stretch { node: 2, vcpu: 1, from: 200, to: 300 }]);
    assert_eq!(calls.spans, [Stretch { node: 2, vcpu: 1, from: 130, to: 500 }]);
    let expected = [
        Totals::default(),
        Totals { node: 1, calls: 0, insns: 9, ticks: 0 },
        Totals { node: 2, calls: 1, insns: 70, ticks: 270 },
    ];
    assert_eq!(calls.totals_until(520), expected);
    assert_eq!(calls.totals_until(519)[2].calls, 0, "the interval ends at 520");
    assert_eq!(calls.syncs, [(510, 2000)]);
    assert_eq!(calls.marks, [Mark { kind: MarkKind::FirstUser, vcpu: 1, at: 510, insns: 79 }]);
    assert_eq!(calls.counts, Counts { insns: 3, calls: 2, matched: 300, ..Counts::default() });
    assert_eq!((calls.exit, calls.last_tick()), (Some(520), 520));
}

#[test]
fn ticks_become_time_between_sync_points() {
    let calls = read("f", &sample(), &mut Diagnostics::default());
    assert_eq!(calls.at(0), Ns(400), "when ticks began");
    assert_eq!(calls.at(255), Ns(900), "half way to 2000 less 600");
    assert_eq!(calls.at(510), Ns(1400));
    assert_eq!(calls.at(710), Ns(1500), "at the rate of the header");
    let order: Vec<Ns> = [0, 1, 509, 510, 511, 1 << 40, u64::MAX].map(|t| calls.at(t)).to_vec();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_file_cut_anywhere_gives_all_before_the_cut() {
    let whole = sample();
    let mut seen = 0;
    for len in 0..whole.len() {
        let calls = read("f", &whole[..len], &mut Diagnostics::default());
        let now = calls.spans.len() + calls.totals.len() + calls.nodes.len();
        assert!(now >= seen, "more input never gives less");
        seen = now;
        assert_eq!(calls.exit, None);
    }
    assert_eq!(seen, 6);
}

#[test]
fn a_file_with_any_byte_changed_does_not_panic() {
    let whole = sample();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, whole[at] ^ 0x10] {
            let mut broken = whole.clone();
            broken[at] = value;
            let calls = read("f", &broken, &mut Diagnostics::default());
            calls.totals_until(u64::MAX);
            calls.at(1000);
        }
    }
}

#[test]
fn problems_are_counted_with_their_place() {
    let check = |bytes: &[u8], problem: DiagnosticKind, first: &str| {
        let mut diagnostics = Diagnostics::default();
        let calls = read("f", bytes, &mut diagnostics);
        let d = diagnostics.iter().next().expect("a diagnostic");
        assert_eq!((d.kind, d.first.as_str()), (problem, first));
        calls
    };
    let s = sample();
    let head = &s[..HEADER_BYTES];
    check(b"hello", DiagnosticKind::CallTraceWithoutHeader, "f");
    check(&[&s[..8], &[2], &s[9..]].concat(), DiagnosticKind::CallTraceVersionUnknown, "f: version 2, clock 0");
    check(&[head, b"CHUNKY CHUNK"].concat(), DiagnosticKind::CallTraceChunkMissing, "f: byte 80");
    let far = [3, 0xff, 0xff, 0xff, 0x0f, 0, 0]; // a node far beyond what the file can define
    let after = framed(0, &[11, 7]);
    let calls = check(&[head, &framed(0, &far), &after].concat(), DiagnosticKind::CallTraceMalformed, "f: byte 92");
    assert_eq!(calls.exit, Some(7), "the next chunk stands for itself");
    check(&[head, &framed(0, &[0x11, 2, 1, 0])].concat(), DiagnosticKind::CallTraceMalformed, "f: byte 92"); // its own parent
    check(&[head, &framed(0, &[3, 4, 1])].concat(), DiagnosticKind::CallTraceCut, "f: byte 92");
    check(&[head, &framed(0, &[2, 4, 1, 1])].concat(), DiagnosticKind::CallPathUndefined, "f");
}

#[test]
fn left_out_records_are_counted_by_kind_also_in_older_files() {
    let file = |figures: &[u64]| {
        let mut records = Vec::new();
        format::Stream::default().write(&Record::Counts(figures.len() as u64), &mut records);
        figures.iter().for_each(|figure| records.number(*figure));
        [&example::HEADER.bytes()[..], &framed(0, &records), &framed(1, &records)].concat()
    };
    let counted = |figures: &[u64]| {
        let mut diagnostics = Diagnostics::default();
        read("f", &file(figures), &mut diagnostics);
        diagnostics.iter().map(|found| (found.kind, found.count)).collect::<Vec<_>>()
    };
    let mut counts = Counts { calls: 9, folded: 1, deep: 2, blocks_not_followed: 3, ..Counts::default() };
    (counts.stacks_without_room, counts.records_left_out) = (4, 5);
    let (all, kinds) = (
        counts.list(),
        [
            (DiagnosticKind::CallPathTableFull, 2),
            (DiagnosticKind::CallsTooDeep, 4),
            (DiagnosticKind::BlocksNotFollowed, 6),
            (DiagnosticKind::StackChangesNotFollowed, 8),
            (DiagnosticKind::CallTraceFull, 10),
        ],
    );
    assert_eq!(counted(&all), kinds);
    assert_eq!(counted(&all[..all.len() - 1]), kinds[..4], "a plugin without a limit has one figure less");
}
