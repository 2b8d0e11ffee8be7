//! The tables, which use shortcuts, agree with a model that uses none.

use crate::common::log;
use crate::cpu;
use analysis::{BootPath, Frame, Groups, Phase, Row, Stretch, StretchKind, boot_path, phases, tables};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use timeline::{
    End, EndEvidence, NameId, Ns, Os, Running, SpanId, SpanKind, SpanRow, TimeBase, Timeline, TrackId, TrackKind, Wait,
    WaitedOn,
};

/// A row without the parts that depend on other rows (its share) and without its name.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    self_time: i64,
    total_time: i64,
    count: u64,
    tracks: Vec<String>,
}

fn figures(rows: &[Row]) -> BTreeMap<String, Figures> {
    let figures_of = |r: &Row| Figures {
        self_time: r.self_time.0,
        total_time: r.total_time.0,
        count: r.count,
        tracks: r.tracks.iter().map(|name| name.to_string()).collect(),
    };
    let all: BTreeMap<String, Figures> = rows.iter().map(|r| (r.name.clone(), figures_of(r))).collect();
    assert_eq!(all.len(), rows.len(), "two rows of one name");
    all
}

/// Names from the Linux rules that occur in the boots below.
const PRINTING: [&str; 1] = ["vprintk"];
const DELAYS: [&str; 1] = ["msleep"];
const CONTAINERS: [&str; 2] = ["do_initcalls", "start_kernel"];

/// The rules, implemented slowly: every stretch searches its whole stack.
struct Model<'a> {
    t: &'a Timeline,
    phases: &'a [Phase],
    sums: BTreeMap<String, Sum>,
    /// Total time by name without suffix.
    totals: BTreeMap<String, i64>,
}

#[derive(Default)]
struct Sum {
    base: Option<String>,
    self_time: i64,
    stretches: u64,
    spans: BTreeSet<SpanId>,
    tracks: BTreeSet<String>,
    /// Threads that were waited for.
    threads: BTreeSet<TrackId>,
}

impl Model<'_> {
    fn stack(&self, frame: &Frame) -> Vec<(SpanId, SpanRow)> {
        let mut stack: Vec<_> = std::iter::successors(frame.span, |&s| self.t.spans.parent(s)).collect();
        stack.reverse();
        stack.into_iter().map(|s| (s, self.t.spans.get(s))).collect()
    }

    fn name(&self, id: NameId) -> &str {
        self.t.names.get(id)
    }

    fn track(&self, track: TrackId) -> String {
        self.name(self.t.tracks.get(track).name).to_owned()
    }

    fn function(&self, row: &SpanRow) -> String {
        let name = format!("{} {}", self.name(row.name), self.name(row.detail)).trim_end().to_owned();
        if row.kind == SpanKind::Message { format!("after “{name}”") } else { name }
    }

    fn has_name(&self, row: &SpanRow, names: &[&str]) -> bool {
        names.contains(&self.name(row.name))
    }

    fn base(&self, row: &SpanRow) -> String {
        match row.kind {
            SpanKind::Call if self.has_name(row, &PRINTING) => "printing".to_owned(),
            SpanKind::Message => format!("after “{}”", self.name(row.name)),
            SpanKind::Level => format!("between initcalls, level {}", self.name(row.detail)),
            _ => self.function(row),
        }
    }

    fn charge(&mut self, s: &Stretch) {
        let stack = self.stack(&s.owner());
        let call = |row: &SpanRow| row.kind == SpanKind::Call;
        let whole = [SpanKind::Probe, SpanKind::Module, SpanKind::Work];
        let delay = stack.iter().position(|(_, r)| self.has_name(r, &DELAYS));
        // Calls of a delay are part of the delay.
        let above = &stack[..delay.unwrap_or(stack.len())];
        let prints = above.iter().find(|(_, r)| call(r) && self.has_name(r, &PRINTING));
        let earner = prints
            .or_else(|| above.iter().find(|(_, r)| whole.contains(&r.kind)))
            .or_else(|| above.iter().rfind(|(_, r)| r.kind == SpanKind::Initcall));
        let blamed = earner.is_none() && s.chain.len() > 1;
        let step = || above.iter().find(|(_, r)| call(r) && !self.has_name(r, &CONTAINERS));
        let delay = delay.map(|i| &stack[i]);
        let earner = if blamed { None } else { earner.or_else(step).or(above.last()).or(delay) };
        let delay = delay.filter(|_| blamed || !above.is_empty());
        let suffix = match (delay, s.kind) {
            (Some((_, r)), _) => format!(" · {}", self.name(r.name)),
            (None, StretchKind::Running) => String::new(),
            (None, StretchKind::Interrupt(by) | StretchKind::Topic(by)) => format!(" · wait for {}", self.name(by)),
            (None, StretchKind::Wait) => " · wait".to_owned(),
            (None, StretchKind::Runqueue) => " · runqueue".to_owned(),
        };
        let thread = format!("thread {}", self.track(s.owner().track));
        let base = earner.map(|(_, r)| self.base(r)).or(blamed.then_some(thread));
        let mut bases: BTreeSet<String> =
            s.chain.iter().flat_map(|f| self.stack(f)).map(|(_, r)| self.base(&r)).collect();
        bases.extend(base.clone().filter(|_| blamed));
        for base in bases {
            *self.totals.entry(base).or_default() += s.length().0;
        }
        let pieces = match &base {
            Some(base) => vec![(base.clone(), s.length().0)],
            None => self.pieces(s),
        };
        for (name, length) in pieces {
            let track = self.track(s.owner().track);
            let plain = suffix.is_empty().then(|| name.clone());
            let sum = self.sums.entry(format!("{name}{suffix}")).or_default();
            sum.base = plain;
            sum.self_time += length;
            sum.stretches += 1;
            sum.spans.extend(earner.map(|e| e.0));
            sum.tracks.insert(track);
            sum.threads.extend(blamed.then_some(s.owner().track));
        }
    }

    /// Splits a stretch nanosecond by nanosecond, each charged to its phase.
    fn pieces(&self, s: &Stretch) -> Vec<(String, i64)> {
        let mut pieces: BTreeMap<usize, i64> = BTreeMap::new();
        for at in s.from.0..s.to.0 {
            let phase = self.phases.iter().position(|p| p.start.0 <= at && at < p.end.0);
            *pieces.entry(phase.unwrap_or(usize::MAX)).or_default() += 1;
        }
        let name = |i| self.phases.get(i).map_or("after the last phase", |p: &Phase| &p.name);
        pieces.into_iter().map(|(i, length)| (format!("({})", name(i)), length)).collect()
    }

    fn rows(self) -> BTreeMap<String, Figures> {
        let totals = &self.totals;
        let row = |sum: Sum| Figures {
            self_time: sum.self_time,
            total_time: sum.base.and_then(|b| totals.get(&b).copied()).unwrap_or(0).max(sum.self_time),
            count: match sum.spans.len() as u64 {
                0 if sum.threads.is_empty() => sum.stretches,
                0 => sum.threads.len() as u64,
                spans => spans,
            },
            tracks: sum.tracks.into_iter().collect(),
        };
        self.sums.into_iter().map(|(name, sum)| (name, row(sum))).collect()
    }

    fn functions(&self, stretches: &[Stretch]) -> BTreeMap<String, Figures> {
        let mut sums: BTreeMap<String, (Figures, BTreeSet<SpanId>, BTreeSet<String>)> = BTreeMap::new();
        for s in stretches {
            let mut counted = BTreeSet::new();
            for (id, row) in s.chain.iter().flat_map(|f| self.stack(f)) {
                let function = self.function(&row);
                let (figures, spans, tracks) = sums.entry(function.clone()).or_default();
                spans.insert(id);
                tracks.insert(self.track(row.track));
                figures.total_time += if counted.insert(function) { s.length().0 } else { 0 };
            }
            if let Some(span) = s.owner().span {
                sums.entry(self.function(&self.t.spans.get(span))).or_default().0.self_time += s.length().0;
            }
        }
        let mut outside = Figures::default();
        for s in stretches.iter().filter(|s| s.owner().span.is_none()) {
            outside.self_time += s.length().0;
            outside.count += 1;
            outside.tracks.push(self.track(s.owner().track));
        }
        outside.total_time = outside.self_time;
        outside.tracks.sort();
        outside.tracks.dedup();
        let row = |(figures, spans, tracks): (Figures, BTreeSet<_>, BTreeSet<_>)| Figures {
            count: spans.len() as u64,
            tracks: tracks.into_iter().collect(),
            ..figures
        };
        let outside = (outside.count > 0).then(|| ("(no function known)".to_owned(), outside));
        sums.into_iter().map(|(name, sum)| (name, row(sum))).chain(outside).collect()
    }
}

/// Threads that recurse, wait for each other, print and delay, over several phases.
fn boots() -> impl Strategy<Value = Timeline> {
    const CALLS: [&str; 7] = ["vprintk", "msleep", "do_initcalls", "start_kernel", "f", "g", "h"];
    use SpanKind::{Call, Initcall, Level, Message, Module, Probe, Work};
    let kind = prop::sample::select(vec![Call, Call, Call, Call, Initcall, Level, Message, Module, Probe, Work]);
    let span = (0u32..3, kind, 0..CALLS.len(), 0i64..180, 1i64..90);
    let slice = (0u32..3, 0i64..180, 1i64..40, 0u32..7, 0i64..30);
    let many = (prop::collection::vec(span, 0..40), prop::collection::vec(slice, 0..20));
    (many, prop::collection::vec(0i64..220, 0..4)).prop_map(|((spans, slices), phases)| {
        let mut t = Timeline::new(TimeBase::Host);
        for (i, name) in ["init", "a", "b"].into_iter().enumerate() {
            let name = t.names.intern(name);
            t.tracks.add(name, TrackKind::Thread, i as u64);
        }
        for (track, kind, name, start, length) in spans {
            let detail = if kind == Call { NameId::EMPTY } else { t.names.intern(["x", "y"][name % 2]) };
            let kind_name = format!("{kind:?}").to_lowercase();
            let name = t.names.intern(if kind == Call { CALLS[name] } else { &kind_name });
            let (start, end) = (Ns(start), Ns(start + length));
            t.spans.push(SpanRow { name, detail, start, end, track: TrackId(track), kind }, None);
        }
        let timer = t.names.intern("timer");
        for (track, from, ran, by, queued) in slices {
            let by = match by {
                0..3 => WaitedOn::Thread(TrackId(by)),
                3 => WaitedOn::Interrupt(timer),
                4 => WaitedOn::Nothing,
                _ => WaitedOn::Unknown,
            };
            let (track, from, to) = (TrackId(track), Ns(from), Ns(from + ran));
            t.running.push(Running { track, cpu: 0, from, to });
            t.waits.push(Wait {
                track,
                from: to,
                woken: to + Ns(ran),
                until: to + Ns(ran + queued),
                by,
                uninterruptible: false,
            });
        }
        for (i, at) in phases.into_iter().enumerate() {
            let phase = t.names.intern(["vmm", "firmware", "kernel", "late"][i]);
            t.boundary(timeline::Phase::Other(phase), Ns(at), Ns::ZERO, "");
        }
        t.end = Some(End { at: Ns(200), error: Ns::ZERO, track: Some(TrackId(0)), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        t
    })
}

fn model<'a>(t: &'a Timeline, phases: &'a [Phase], path: &BootPath) -> Model<'a> {
    let mut model = Model { t, phases, sums: BTreeMap::new(), totals: BTreeMap::new() };
    path.stretches.iter().for_each(|s| model.charge(s));
    model
}

/// Broken or hostile evidence: initcalls that never return, and a very large number of waits.
#[test]
fn depth_and_waits_do_not_multiply() {
    const MANY: i64 = 30_000;
    let mut t = Timeline::new(TimeBase::Host);
    let (init, worker) = (t.names.intern("init"), t.names.intern("worker"));
    let init = t.tracks.add(init, TrackKind::Thread, 1);
    let worker = t.tracks.add(worker, TrackKind::Thread, 2);
    let end = Ns(3 * MANY);
    for i in 0..MANY {
        let name = t.names.intern(&format!("f{i}"));
        let row = SpanRow { name, detail: NameId::EMPTY, start: Ns(i), end, track: init, kind: SpanKind::Initcall };
        t.spans.push(row, None);
        let from = Ns(MANY + 2 * i);
        let (until, by) = (from + Ns(1), WaitedOn::Thread(worker));
        t.waits.push(Wait { track: init, from, woken: until, until, by, uninterruptible: false });
    }
    t.end = Some(End { at: end, error: Ns::ZERO, track: Some(init), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    let start_s = cpu::cpu_s();
    let tables = tables(&t, &boot_path(&t), &[], &Groups::linux());
    let outermost = tables.functions.iter().find(|row| row.name == "f0").unwrap();
    assert_eq!((outermost.self_time, outermost.total_time), (Ns(1), end));
    assert_eq!(tables.wheres.iter().find(|row| row.name == "thread worker").unwrap().self_time, Ns(MANY));
    let took_s = cpu::cpu_s() - start_s;
    assert!(took_s < 10.0, "took {took_s} s");
}

/// `scan` is called twice: once seen as a first call alone, once as a call like any other.
#[test]
fn rows_of_first_calls_alone_are_marked() {
    let mut t = log("
        0    cpu0 enter begin
        100  cpu0 enter probe
        200  cpu0 exit  probe
        300  cpu0 enter scan
        400  cpu0 exit  scan
        500  cpu0 enter scan
        700  cpu0 exit  scan
        1000 cpu0 exit  begin
        1000 cpu0 end");
    let spans: Vec<_> = t.spans.iter().map(|(id, row)| (id, t.names.get(row.name).to_owned(), row.start)).collect();
    for (id, name, start) in spans {
        if name == "probe" || start == Ns(300) {
            t.spans.set_first_call(id);
        }
    }
    let all = tables(&t, &boot_path(&t), &phases(&t), &Groups::of(&timeline::Os::Unknown));
    for rows in [&all.wheres, &all.functions] {
        let marked: Vec<&str> = rows.iter().filter(|row| row.first_calls_only).map(|row| row.name.as_str()).collect();
        assert_eq!(marked, ["probe"], "{rows:?}");
    }
}

/// A custom kernel, whose names no rule knows.
#[test]
fn a_function_that_spans_its_phase_is_not_narrower_than_it() {
    let t = log("
        0    cpu0 enter begin
        20   cpu0 enter mem_init
        420  cpu0 exit  mem_init
        420  cpu0 enter bus_scan
        500  cpu0 enter probe_disk
        900  cpu0 exit  probe_disk
        990  cpu0 exit  bus_scan
        1000 cpu0 exit  begin
        1000 cpu0 end");
    let all = tables(&t, &boot_path(&t), &phases(&t), &Groups::of(&timeline::Os::Unknown));
    let rows: Vec<(&str, i64)> = all.wheres.iter().map(|row| (row.name.as_str(), row.self_time.0)).collect();
    assert_eq!(rows, [("mem_init", 400), ("probe_disk", 400), ("bus_scan", 170), ("begin", 30)]);
    assert_eq!(all.explained, 0.97);
}

/// A step of the monitor has a row under the rules of any system. So does a step that no rule names. A level or
/// function that spans a whole phase explains nothing.
#[test]
fn only_rows_that_say_more_than_a_phase_explain() {
    let mut t = Timeline::new(TimeBase::Host);
    let track = t.names.intern("qemu");
    let track = t.tracks.add(track, TrackKind::Vmm, 0);
    let spans = [
        ("VMM: devices", 0, 100, SpanKind::Stage),
        ("softirq RCU", 100, 160, SpanKind::Interrupt),
        ("core", 200, 300, SpanKind::Level),
        ("start_kernel", 300, 340, SpanKind::Call),
        ("Booting", 350, 400, SpanKind::Message),
    ];
    for (name, start, end, kind) in spans {
        let (name, detail, start, end) = (t.names.intern(name), NameId::EMPTY, Ns(start), Ns(end));
        t.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
    }
    t.end = Some(End { at: Ns(400), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    for groups in [Groups::linux(), Groups::of(&timeline::Os::Unknown)] {
        let all = tables(&t, &boot_path(&t), &phases(&t), &groups);
        assert_eq!(all.explained, (100 + 60 + 50) as f64 / 400.0);
    }
}

/// The time after a message is not charged to a function.
#[test]
fn a_message_is_listed_as_a_message_among_functions() {
    let mut t = Timeline::new(TimeBase::Host);
    let track = t.names.intern("firmware");
    let track = t.tracks.add(track, TrackKind::Firmware, 0);
    for (name, start, kind) in [("Booting", 0, SpanKind::Message), ("f", 6, SpanKind::Call)] {
        let (name, detail, start, end) = (t.names.intern(name), NameId::EMPTY, Ns(start), Ns(start + 6));
        t.spans.push(SpanRow { name, detail, start, end: end.min(Ns(10)), track, kind }, None);
    }
    t.end = Some(End { at: Ns(10), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    let all = tables(&t, &boot_path(&t), &[], &Groups::linux());
    let rows: Vec<(&str, i64)> = all.functions.iter().map(|row| (row.name.as_str(), row.self_time.0)).collect();
    assert_eq!(rows, [("after “Booting”", 6), ("f", 4)]);
}

/// A row refers to its spans and threads, so that a view can show where they are.
#[test]
fn a_row_leads_to_its_spans_and_its_threads() {
    let mut t = Timeline::new(TimeBase::Host);
    let [init, worker] = ["init", "worker"].map(|name| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, 0)
    });
    for (track, name, start, end) in
        [(init, "f", 0, 4), (init, "vprintk", 1, 2), (worker, "g", 4, 9), (init, "f", 9, 10)]
    {
        let (name, detail, kind) = (t.names.intern(name), NameId::EMPTY, SpanKind::Call);
        t.spans.push(SpanRow { name, detail, start: Ns(start), end: Ns(end), track, kind }, None);
    }
    for (track, from, to) in [(init, 0, 4), (worker, 4, 9), (init, 9, 10)] {
        t.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    t.waits.push(Wait {
        track: init,
        from: Ns(4),
        woken: Ns(9),
        until: Ns(9),
        by: WaitedOn::Thread(worker),
        uninterruptible: false,
    });
    t.end = Some(End { at: Ns(10), error: Ns::ZERO, track: Some(init), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    let tables = tables(&t, &boot_path(&t), &phases(&t), &Groups::of(&Os::Linux));
    let thing = |name: &str| tables.wheres.iter().find(|row| row.name == name).map(|row| row.thing);
    let starts = |name: &str| -> Vec<i64> {
        let wanted = thing(name).expect("a row");
        let spans = t.spans.iter().filter(|(id, _)| tables.things.of_span[id.0 as usize] == wanted);
        spans.map(|(_, row)| row.start.0).collect()
    };
    assert_eq!(starts("f"), [0, 9]);
    assert_eq!(starts("printing"), [1]);
    assert_eq!(thing("THREAD worker").or(thing("thread worker")), Some(tables.things.of_track[worker.0 as usize]));
}

/// A wait without a thread to blame names its topic.
#[test]
fn a_wait_has_its_topic() {
    let t = log("
        0  main enter mount
        5  main wait root
        9  main unwait root
        10 main exit mount
        10 main end");
    let all = tables(&t, &boot_path(&t), &[], &Groups::freebsd());
    let rows: Vec<(&str, i64)> = all.wheres.iter().map(|row| (row.name.as_str(), row.self_time.0)).collect();
    assert_eq!(rows, [("mount", 6), ("mount · wait for root", 4)]);
}

proptest! {
    // A failing case becomes a test here. Seed files are not kept.
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_tables_agree_with_the_model(t in boots()) {
        let (path, phases) = (boot_path(&t), phases(&t));
        let tables = tables(&t, &path, &phases, &Groups::linux());
        let model = model(&t, &phases, &path);
        prop_assert_eq!(figures(&tables.functions), model.functions(&path.stretches));
        prop_assert_eq!(figures(&tables.wheres), model.rows());
    }
}
