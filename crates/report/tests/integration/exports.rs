//! Reads back the exports of the sample boot, of an empty one, and of random ones: nothing is lost, everything nests,
//! sums are right.

use proptest::prelude::*;
use report::{
    Boot, ChangeLine, ConsoleLine, FORMATS, Facts, Finding, FindingEvidence, Findings, FoundLine, MissingLine,
    PageBoot, Summary,
};
use serde_json::Value;
use std::collections::HashMap;
use timeline::{
    End, EndEvidence, NameId, Ns, ProcessNamed, Running, SpanKind, SpanRow, TimeBase, TimedWaits, Timeline, TrackKind,
    Warning,
};

fn export(boot: &Boot, name: &str) -> String {
    let mut out = Vec::new();
    report::format(name).expect("a known format").write(boot, &mut out).expect("memory can be written to");
    String::from_utf8(out).expect("text")
}

fn page_of(boot: &Boot, console: &[ConsoleLine], out: &mut Vec<u8>) {
    report::page(&[PageBoot { name: "a", boot, console }], report::Asks::Nobody, out).unwrap();
}

fn with_sample(check: impl FnOnce(&Boot)) {
    let (timeline, facts) = (crate::sample::timeline(), crate::sample::facts());
    check(&Boot::new(&timeline, &facts));
}

/// Slices of each thread as (start, end) in ns, in the order of the file.
fn chrome_slices(text: &str) -> HashMap<u64, Vec<(i64, i64)>> {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let ns = |v: &Value| (v.as_f64().expect("a number") * 1e3).round() as i64;
    let mut slices: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
    for event in document["traceEvents"].as_array().expect("events").iter().filter(|e| e["ph"] == "X") {
        let start = ns(&event["ts"]);
        slices.entry(event["tid"].as_u64().unwrap()).or_default().push((start, start + ns(&event["dur"])));
    }
    slices
}

fn assert_nested(slices: &[(i64, i64)]) {
    let mut open: Vec<(i64, i64)> = Vec::new();
    for &(start, end) in slices {
        assert!(open.last().is_none_or(|top| top.0 <= start), "not in order of start: {slices:?}");
        while open.last().is_some_and(|top| top.1 <= start && !(top.1 == start && end == start)) {
            open.pop();
        }
        assert!(open.last().is_none_or(|top| end <= top.1), "{start}..{end} sticks out of {open:?}");
        open.push((start, end));
    }
}

/// Opens and closes balance, by frame, and time goes forward.
fn assert_speedscope(text: &str) {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let frames = document["shared"]["frames"].as_array().expect("frames").len() as u64;
    for profile in document["profiles"].as_array().expect("profiles") {
        let mut open = Vec::new();
        let mut last = profile["startValue"].as_i64().unwrap();
        for event in profile["events"].as_array().expect("events") {
            let (frame, at) = (event["frame"].as_u64().unwrap(), event["at"].as_i64().unwrap());
            assert!(frame < frames && at >= last);
            last = at;
            match event["type"].as_str().unwrap() {
                "O" => open.push(frame),
                _ => assert_eq!(open.pop(), Some(frame)),
            }
        }
        assert!(open.is_empty() && last <= profile["endValue"].as_i64().unwrap());
    }
}

/// The sum of a folded file's numbers. Panics if a line breaks the format.
fn folded_sum(text: &str) -> i64 {
    let length = |line: &str| {
        let (stack, n) = line.rsplit_once(' ').expect("a number at the end");
        let last_word = stack.rsplit(' ').next().expect("a word");
        assert!(
            stack.ends_with(')') || !last_word.chars().all(|c| c.is_ascii_digit() || c == '.') || last_word == stack
        );
        assert!(!stack.split(';').any(str::is_empty) && !line.starts_with('#'), "{line:?}");
        n.parse::<i64>().expect("a whole number")
    };
    text.lines().map(length).sum()
}

#[test]
fn chrome_is_nested_and_has_every_span() {
    with_sample(|boot| {
        let slices = chrome_slices(&export(boot, "chrome"));
        slices.values().for_each(|s| assert_nested(s));
        // Lanes 3 to 7 are the tracks.
        let spans: usize = (3..=7).filter_map(|tid| slices.get(&tid)).map(Vec::len).sum();
        assert_eq!(spans, boot.timeline.spans.len());
        assert_eq!(slices[&3][0], (0, 20_500_000), "time before zero is moved, not cut");
    });
}

#[test]
fn speedscope_balances() {
    with_sample(|boot| assert_speedscope(&export(boot, "speedscope")));
}

#[test]
fn inferno_reads_the_same_folded_stacks() {
    with_sample(|boot| {
        let folded = export(boot, "folded");
        assert_eq!(folded_sum(&folded), boot.total.0);
        let mut lines: Vec<&str> = folded.lines().collect();
        lines.sort_unstable();
        let mut svg = Vec::new();
        let mut options = inferno::flamegraph::Options::default();
        options.min_width = 0.0;
        inferno::flamegraph::from_lines(&mut options, lines, &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(svg.contains(&format!("total_samples=\"{}\"", boot.total.0)), "inferno counts another total");
        assert!(svg.contains("<title>initcall acpi_init (230,000,000 samples, 24.47%)</title>"));
        assert!(!svg.contains("%;"), "inferno took a number in a name for a second count");
    });
}

#[test]
fn the_chart_runs_left_to_right_and_draws_everything_of_a_small_boot() {
    with_sample(|boot| {
        let svg = export(boot, "svg");
        // A frame has its position in nanoseconds.
        let frame = |name: &str| svg.split("<g ").find(|g| g.contains(&format!("<title>{name}\n"))).unwrap().to_owned();
        assert!(frame("qemu").contains("data-at=\"0\""));
        assert!(frame("unpack_to_rootfs").contains("data-at=\"715000000\""));
        assert!(frame("initcall small_init_29").contains("data-for=\"700000\""));
        assert!(frame("initcall acpi_init").contains("\n230 ms, 24.47 %, from "));
        // The outermost frames cover the whole boot, one after the other.
        let outermost = svg.split("<g ").filter(|g| g.contains("y=\"71.50\"")).map(|g| {
            let field = |name: &str| g.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse();
            let (at, length): (i64, i64) = (field("data-at").unwrap(), field("data-for").unwrap());
            (at, at + length)
        });
        let end = outermost.fold(0, |end, (at, to)| {
            assert_eq!(at, end);
            to
        });
        assert_eq!(end, boot.total.0);
    });
}

/// The frames of a chart: name and length in nanoseconds.
fn frames(svg: &str) -> Vec<(&str, i64)> {
    let after = |g: &str, mark: &str| g.find(mark).map(|at| at + mark.len());
    svg.split("<g ")
        .filter_map(|g| {
            let length = g[after(g, "data-for=\"")?..].split('"').next()?.parse().ok()?;
            Some((g[after(g, "<title>")?..].split('\n').next()?, length))
        })
        .collect()
}

#[test]
fn a_flame_graph_has_one_frame_for_equal_stacks() {
    let mut timeline = Timeline::new(TimeBase::Host);
    let mut name = |text: &str| timeline.names.intern(text);
    let (init, probe, read) = (name("init"), name("probe"), name("read"));
    let track = timeline.tracks.add(init, TrackKind::Thread, 1);
    for (name, start, end) in [(probe, 0, 40), (read, 10, 20), (read, 30, 35), (probe, 50, 100), (read, 60, 90)] {
        let (start, end) = (Ns(start), Ns(end));
        timeline.spans.push(SpanRow { name, detail: NameId::EMPTY, start, end, track, kind: SpanKind::Call }, None);
    }
    let evidence = EndEvidence::Asked(init);
    timeline.end = Some(End { at: Ns(100), error: Ns::ZERO, track: Some(track), evidence });
    timeline.finalize(Ns::ZERO);
    let facts = Facts::default();
    let mut boot = Boot::new(&timeline, &facts);
    let graph = export(&boot, "flame-graph");
    assert_eq!(frames(&graph), [("init", 100), ("probe", 90), ("read", 45)]);
    assert!(graph.contains("100 ns, equal stacks merged") && !graph.contains(", from "), "{graph}");
    assert_eq!(frames(&export(&boot, "svg")).len(), 6, "a chart has each call");

    boot.window = (Ns(15), Ns(65));
    let graph = export(&boot, "flame-graph");
    assert_eq!(frames(&graph), [("init", 50), ("probe", 40), ("read", 15)]);
    assert!(graph.contains("50 ns from 15 ns to 65 ns, equal stacks merged"), "{graph}");
    assert_eq!(export(&boot, "folded"), "init 10\ninit;probe 25\ninit;probe;read 15\n");
}

#[test]
fn an_interrupt_lies_on_the_thread_that_it_interrupted() {
    let mut timeline = Timeline::new(TimeBase::GuestVirtual);
    let mut name = |text: &str| timeline.names.intern(text);
    let (main, interrupts, work, tick) = (name("init"), name(timeline::INTERRUPTS), name("work"), name("tick"));
    let main = timeline.tracks.add(main, TrackKind::Thread, 1);
    let interrupts = timeline.tracks.add(interrupts, TrackKind::Interrupts, 0);
    let mut span = |name, track, start, end| {
        let row = SpanRow { name, detail: NameId::EMPTY, start: Ns(start), end: Ns(end), track, kind: SpanKind::Call };
        timeline.spans.push(row, None);
    };
    span(work, main, 0, 100);
    span(tick, interrupts, 40, 50);
    for (track, from, to) in [(main, 0, 40), (interrupts, 40, 50), (main, 50, 100)] {
        timeline.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    timeline.cpus_followed_until = Some(Ns::MAX);
    timeline.end = Some(End { at: Ns(100), error: Ns::ZERO, track: Some(main), evidence: EndEvidence::Asked(work) });
    timeline.finalize(Ns::ZERO);
    let facts = Facts::default();
    let boot = Boot::new(&timeline, &facts);
    assert_eq!(export(&boot, "folded"), "init;work 90\ninit;work;interrupts;tick 10\n");
    assert_eq!(export(&boot, "svg").matches("<title>work\n100 ns").count(), 1, "guest time");
    timeline.timed_waits = Some(TimedWaits::new(vec![(Ns(60), Ns(90))]));
    timeline.finalize(Ns::ZERO);
    let boot = Boot::new(&timeline, &facts);
    let svg = export(&boot, "svg");
    assert_eq!(svg.matches("<title>work\n70 instr + 30 ns timed waits").count(), 1, "{svg}");
    let rows = export(&boot, "csv-where");
    assert!(
        rows.starts_with("name,self_instructions,self_waited_ns,total_instructions,total_waited_ns,count"),
        "{rows}"
    );
}

#[test]
fn a_large_boots_chart_says_what_it_leaves_out() {
    let (timeline, facts) = (crate::sample::large(100_000), crate::sample::facts());
    let boot = Boot::new(&timeline, &facts);
    let svg = export(&boot, "svg");
    assert!(svg.contains("are drawn together"), "{}", &svg[..2_000]);
    let shown = svg.matches("<title>").count();
    assert!((1_000..20_000).contains(&shown), "{shown} frames");
    let mut page = Vec::new();
    page_of(&boot, &[], &mut page);
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
}

#[test]
fn json_has_everything() {
    with_sample(|boot| {
        let document: Value = serde_json::from_str(&export(boot, "json")).unwrap();
        let rows = |name: &str| document[name].as_array().unwrap().clone();
        assert_eq!(document["schema"], "bootscope.timeline/1");
        assert_eq!(rows("spans").len(), boot.timeline.spans.len());
        assert_eq!(rows("tracks").len(), boot.timeline.tracks.len());
        assert_eq!(rows("waits").len(), 2);
        assert_eq!(rows("waits")[1]["by"], "thread");
        assert_eq!(rows("running").len(), 5);
        assert_eq!(rows("marks")[0]["name"], crate::sample::HOSTILE);
        let length = |s: &Value| s["to_ns"].as_i64().unwrap() - s["from_ns"].as_i64().unwrap();
        assert_eq!(rows("path").iter().map(length).sum::<i64>(), document["total_ns"].as_i64().unwrap());
    });
}

/// `depth` functions, each around the next by a nanosecond at both ends.
fn nest(depth: i64) -> Timeline {
    let mut t = Timeline::new(TimeBase::Host);
    let name = t.names.intern("init");
    let track = t.tracks.add(name, TrackKind::Thread, 1);
    for i in 0..depth {
        let name = t.names.intern(&format!("f{i}"));
        let (start, end) = (Ns(i), Ns(2 * depth - i));
        let detail = timeline::NameId::EMPTY;
        t.spans.push(timeline::SpanRow { name, detail, start, end, track, kind: SpanKind::Call }, None);
    }
    t.end = Some(End { at: Ns(2 * depth), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::Asked(name) });
    t.finalize(Ns::ZERO);
    t
}

#[test]
fn a_deep_nest_does_not_grow_with_its_square() {
    let facts = Facts::default();
    let bytes = |depth: i64, format: &str| {
        let timeline = nest(depth);
        export(&Boot::new(&timeline, &facts), format).len()
    };
    for format in ["folded", "folded-all-threads", "json"] {
        let (once, twice) = (bytes(1_000, format), bytes(2_000, format));
        assert!(twice < once * 11 / 5, "{format}: {once} bytes, twice as deep {twice}");
    }
    let timeline = nest(1_000);
    let boot = Boot::new(&timeline, &facts);
    // The thread is one of the path's frames, and the bottom frame of a thread's lane.
    for (format, deepest, rest_ns) in [("folded", 126, "1746"), ("folded-all-threads", 127, "1744")] {
        let folded = export(&boot, format);
        assert_eq!(folded_sum(&folded), 2_000);
        let (stack, length) = folded.lines().max_by_key(|l| l.len()).unwrap().rsplit_once(' ').unwrap();
        assert!(stack.ends_with(&format!(";f{deepest};(deeper)")), "{stack}");
        assert_eq!((stack.split(';').count(), length), (deepest + 3, rest_ns));
    }
    let document: Value = serde_json::from_str(&export(&boot, "json")).unwrap();
    let stacks: Vec<Vec<&str>> = document["path"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stretch| stretch["stack"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap()).collect())
        .collect();
    assert_eq!((stacks.len(), stacks[0].as_slice()), (1_999, &["init", "f0"][..]));
    assert_eq!(stacks[126].len(), 128);
    assert_eq!((stacks[126][126], stacks[126][127]), ("f125", "f126"));
    assert_eq!(stacks[999].len(), 128);
    assert_eq!(stacks[999][125..], ["f124", "(874 frames between)", "f999"]);
    assert_eq!(stacks[1_998], ["init", "f0"]);
}

/// The cells of a CSV column, as a reader parses them.
fn column(text: &str, title: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = reader.headers().unwrap().iter().position(|column| column == title).expect(title);
    reader.records().map(|record| record.unwrap()[at].to_owned()).collect()
}

#[test]
fn csv_has_a_line_per_row() {
    with_sample(|boot| {
        assert_eq!(export(boot, "csv").lines().count(), boot.timeline.spans.len() + 1);
        assert_eq!(export(boot, "csv-where").lines().count(), boot.tables().wheres.len() + 1);
        let names = boot.timeline.spans.iter().map(|(_, span)| report::harmless(boot.timeline.names.get(span.name)));
        assert_eq!(column(&export(boot, "csv"), "name"), names.collect::<Vec<_>>());
        let names = boot.tables().wheres.iter().map(|row| report::harmless(&row.name));
        assert_eq!(column(&export(boot, "csv-where"), "name"), names.collect::<Vec<_>>());
    });
}

#[test]
fn warnings_are_in_every_format_that_has_a_place_for_them() {
    let (mut timeline, facts) = (crate::sample::timeline(), Facts::default());
    timeline.unit = timeline::Unit::Ticks;
    let process = ProcessNamed { pid: 7, name: Some("a\u{1b}[2Jb".to_owned()) };
    timeline.warnings.push(Warning::LogPartMissing { from: Ns(12), to: None });
    timeline.warnings.push(Warning::LogAfterBoot { forked: process, before: Ns(2_000) });
    let boot = Boot::new(&timeline, &facts);
    let chrome: Value = serde_json::from_str(&export(&boot, "chrome")).unwrap();
    let warnings = [
        "a part of the log is missing, from 12 ticks: what ran then is not known",
        "the log begins after the end of the kernel's part: process 1 forked process 7 (a\\x1b[2Jb) 2.00 kticks before its first \
         record; the boot is not in it, and what came before it has times below zero",
    ];
    assert_eq!(chrome["otherData"], serde_json::json!({"unit": "ticks", "warnings": warnings}));
    let speedscope: Value = serde_json::from_str(&export(&boot, "speedscope")).unwrap();
    assert_eq!(speedscope["name"], format!("boot; warning: {}; warning: {}", warnings[0], warnings[1]));
    let folded = export(&boot, "folded");
    let (comments, stacks): (Vec<&str>, Vec<&str>) = folded.lines().partition(|line| line.starts_with("# "));
    assert_eq!(comments, warnings.map(|text| format!("# (warning: {text})")));
    assert_eq!(folded_sum(&stacks.join("\n")), boot.total.0);
    assert!(export(&boot, "csv").starts_with("track,track_name,start_ticks,end_ticks,"));
    assert!(export(&boot, "csv-where").starts_with("name,self_ticks,total_ticks,"));
    let mut perfetto = Vec::new();
    report::format("perfetto").unwrap().write(&boot, &mut perfetto).unwrap();
    let has = |text: &str| perfetto.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has("warnings") && warnings.into_iter().all(has));
}

#[test]
fn an_empty_boot_can_be_exported() {
    let (timeline, facts) = (Timeline::default(), Facts::default());
    let boot = Boot::new(&timeline, &facts);
    for format in FORMATS {
        let result = format.write(&boot, &mut Vec::new());
        let needs = ["svg", "flame-graph", "processes-svg"].contains(&format.name());
        assert_eq!(result.is_err(), needs, "{}", format.name());
    }
    assert_speedscope(&export(&boot, "speedscope"));
    assert!(chrome_slices(&export(&boot, "chrome")).is_empty());
    page_of(&boot, &[], &mut Vec::new());
}

/// A trace has one root, spans within it, and gauges that add up. The same boot is the same trace.
#[test]
fn otlp_is_one_trace_with_all_phases_units_and_the_path() {
    let (mut timeline, facts) = (crate::sample::timeline(), crate::sample::facts());
    let unit = |name, start: Option<i64>, settled: Option<i64>, failed| timeline::ServiceUnit {
        name,
        start: start.map(Ns::from_ms),
        settled: settled.map(Ns::from_ms),
        failed,
        ..timeline::ServiceUnit::default()
    };
    let [service, target, broken] =
        ["a.service", "x.target", crate::sample::HOSTILE].map(|name| timeline.names.intern(name));
    timeline.units = vec![
        unit(service, Some(500), Some(600), false),
        unit(target, None, Some(700), false),
        unit(broken, Some(1), Some(2), true),
    ];
    let boot = Boot::new(&timeline, &facts);
    let text = export(&boot, "otlp");
    assert_eq!(text, export(&boot, "otlp"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [traces, metrics] = &lines[..] else { panic!("{} lines", lines.len()) };
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let time = |span: &Value, which: &str| span[which].as_str().unwrap().parse::<u64>().unwrap();
    let within = |span: &Value| (time(span, "startTimeUnixNano"), time(span, "endTimeUnixNano"));
    let by_id: HashMap<&str, &Value> = spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "an id twice");
    let root = &spans[0];
    // 2026-11-24T10:47:09Z
    assert_eq!(within(root), (1_795_517_229_000_000_000, 1_795_517_229_000_000_000 + 940_000_000));
    for span in spans {
        assert_eq!((&span["traceId"], span["traceId"].as_str().unwrap().len()), (&root["traceId"], 32));
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
        let Some(parent) = span["parentSpanId"].as_str() else { continue };
        let (outer, inner) = (within(by_id[parent]), within(span));
        assert!(outer.0 <= inner.0 && inner.0 <= inner.1 && inner.1 <= outer.1, "{span} sticks out");
    }
    assert_eq!(spans.iter().filter(|span| span.get("parentSpanId").is_none()).count(), 1);
    let kind = |span: &Value| span["attributes"][0]["value"]["stringValue"].as_str().unwrap().to_owned();
    let count = |wanted: &str| spans.iter().filter(|span| kind(span) == wanted).count();
    assert_eq!((count("boot"), count("phase"), count("unit")), (1, boot.phases.len(), 3));
    assert!(count("path") > 5, "{}", count("path"));
    let failed: Vec<_> = spans.iter().filter(|span| span["status"]["code"] == 2).collect();
    assert_eq!((failed.len(), kind(failed[0])), (1, "unit".to_owned()));
    assert!(!text.contains('\u{1b}') && !text.contains("\\u001b") && !text.contains('\u{202e}'));

    let gauges = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let sum = |name: &str| {
        let gauge = gauges.iter().find(|gauge| gauge["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        gauge["gauge"]["dataPoints"].as_array().unwrap().iter().map(|p| p["asDouble"].as_f64().unwrap()).sum::<f64>()
    };
    for name in ["bootscope.boot.duration", "bootscope.phase.duration", "bootscope.path.duration"] {
        assert!((sum(name) - 0.94).abs() < 1e-9, "{name}: {}", sum(name));
    }
    assert!((sum("bootscope.unit.duration") - 0.101).abs() < 1e-9);
    assert_eq!(sum("bootscope.vmm_max_rss"), 187_000_000.0);

    // Another boot is another trace.
    let slower = crate::sample::slower();
    let other = export(&Boot::new(&slower, &facts), "otlp");
    assert!(!other.contains(root["traceId"].as_str().unwrap()));
}

/// As the test in Chromium, but without a browser: no markup of the guest gets through, made of any bytes.
#[test]
fn the_page_escapes_everything() {
    with_sample(|boot| {
        let lines: [&[u8]; 3] = [crate::sample::HOSTILE.as_bytes(), b"\xff<b>\xfe\x1b[2J", &[b'x'; 10_000]];
        let console = lines.map(|text| ConsoleLine { at: None, text });
        let mut page = Vec::new();
        page_of(boot, &console, &mut page);
        let page = String::from_utf8(page).expect("the page is text");
        for markup in ["<img", "<b>", "<script>ran", "\u{202e}", "\u{1b}", "\u{7}"] {
            assert!(!page.contains(markup), "{markup:?} got through");
        }
        assert!(page.contains("\\xff&lt;b&gt;\\xfe\\x1b[2J"));
        assert!(page.contains("8 000 more bytes"), "a long line is cut, and says so");
    });
}

/// A finding with the guest's text in every field, and one more finding.
fn example_findings() -> Findings {
    let hostile = || crate::sample::HOSTILE.to_owned();
    let span = FindingEvidence {
        waited_ns: 0,
        track: hostile(),
        start_ns: 500_000_000,
        end_ns: 520_000_000,
        name: hostile(),
        purpose: "keeps <time>".to_owned(),
    };
    let change = ChangeLine { kind: "append-words".to_owned(), from: vec![hostile()], to: vec![hostile()] };
    let first = Finding {
        id: "fixed-delays".to_owned(),
        title: format!("{}: the same delay is made again and again", crate::sample::HOSTILE),
        cost_ns: 60_000_000,
        cost_high_ns: 60_000_000,
        confidence: "medium".to_owned(),
        evidence: vec![span],
        evidence_count: 3,
        remedy: "ask the hardware".to_owned(),
        changes: vec![change],
        ..Finding::default()
    };
    let second = Finding { id: "second".to_owned(), cost_ns: 7_000_000, ..Finding::default() };
    let missing = MissingLine { rules: vec!["initcalls".to_owned()], record: "no initcall is known".to_owned() };
    Findings {
        total_ns: 940_000_000,
        unit: "ns".to_owned(),
        findings: vec![first, second],
        found: FoundLine { together_ns: 65_000_000, more: 2, missing: vec![missing], ..FoundLine::default() },
        ..Findings::default()
    }
}

#[test]
fn the_page_and_the_json_list_findings() {
    let (timeline, facts) = (crate::sample::timeline(), crate::sample::facts());
    let mut boot = Boot::new(&timeline, &facts);
    let page = |boot: &Boot| {
        let mut page = Vec::new();
        page_of(boot, &[], &mut page);
        String::from_utf8(page).unwrap()
    };
    // The application's script is the same in every page, and has "What to do first" for pages with findings.
    assert!(!page(&boot).contains("What to do, most valuable first"), "nobody looked");
    let document = |boot: &Boot| serde_json::from_str::<Value>(&export(boot, "json")).unwrap();
    assert_eq!((&document(&boot)["findings"], &document(&boot)["found"]), (&Value::Array(Vec::new()), &Value::Null));
    boot.findings = Some(example_findings());
    let page = page(&boot);
    for markup in ["<img", "<b>", "<time>1", "<script>ran", "\u{202e}", "\u{1b}", "\u{7}"] {
        assert!(!page.contains(markup), "{markup:?} got through");
    }
    let list =
        page.split("What to do, most valuable first").nth(1).expect("a list").split("</section>").next().unwrap();
    let places: Vec<usize> = [
        "<strong>up to 60.0 ms</strong>",
        "ask the hardware",
        "0 ns to 60.0 ms of 940 ms; medium confidence",
        "append-words: &lt;",
        "fixed-delays (",
        "data-v=\"20000000\">20.0 ms",
        "keeps &lt;time&gt;",
        "2 shorter spans not listed",
        "<strong>7.00 ms</strong>",
        "together: up to 65.0 ms",
        "2 further findings not listed",
        "not looked for: no initcall is known (for initcalls)",
    ]
    .iter()
    .map(|text| list.find(text).unwrap_or_else(|| panic!("no {text:?} in {list}")))
    .collect();
    assert!(places.is_sorted(), "{places:?} in {list}");
    let (json, summary) = (document(&boot), serde_json::to_value(Summary::of(&boot)).unwrap());
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(2));
    assert_eq!((&json["findings"], &json["found"]), (&summary["findings"], &summary["found"]));
}

#[test]
fn the_page_lists_initcalls_longest_first_and_escaped() {
    with_sample(|boot| {
        let mut page = Vec::new();
        page_of(boot, &[], &mut page);
        let page = String::from_utf8(page).unwrap();
        let table = page.split("id=\"initcalls\">").nth(1).expect("a table").split("</table>").next().unwrap();
        let rows: Vec<&str> = table.split("<tr><th scope=\"row\">").skip(1).collect();
        let summary = Summary::of(boot);
        assert!(summary.initcalls.len() > 2 && rows.len() == summary.initcalls.len(), "{table}");
        for (row, initcall) in rows.iter().zip(&summary.initcalls) {
            let figures = format!("data-v=\"{}\"", initcall.elapsed_ns);
            assert!(row.contains(&figures) && row.contains(&format!("data-v=\"{}\"", initcall.start_ns)), "{row}");
        }
        assert!(rows[0].starts_with(&summary.initcalls[0].name), "{}", rows[0]);
    });
}

/// A log with a new name in each line: the page stays small, and says what it leaves out.
#[test]
fn a_page_of_many_names_is_cut_and_says_so() {
    let page = |names: i64| {
        let mut t = Timeline::new(TimeBase::Host);
        let name = t.names.intern("init");
        let track = t.tracks.add(name, TrackKind::Thread, 1);
        for i in 0..names {
            let (name, detail) = (t.names.intern(&format!("f{i}")), timeline::NameId::EMPTY);
            let row = timeline::SpanRow { name, detail, start: Ns(i), end: Ns(i + 1), track, kind: SpanKind::Call };
            t.spans.push(row, None);
        }
        t.end = Some(End { at: Ns(names), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::Asked(name) });
        t.finalize(Ns::ZERO);
        let (mut out, facts) = (Vec::new(), Facts::default());
        page_of(&Boot::new(&t, &facts), &[], &mut out);
        let page = String::from_utf8(out).unwrap();
        let parts = report::page::read(&page).unwrap();
        let Some(report::page::Column::Texts(json)) = parts[0].column("json") else { panic!("{}", parts[0].name) };
        let facts: Value = serde_json::from_str(&json[0]).unwrap();
        let summary = facts["summary"].clone();
        (page.len(), page.contains("functions (10000 of 30000)"), summary)
    };
    let (_, cut, whole) = page(10_000);
    assert_eq!(
        (cut, whole["functions"].as_array().unwrap().len(), whole["notes"].as_array().unwrap().len()),
        (false, 10_000, 0)
    );
    let (bytes, cut, part) = page(30_000);
    assert_eq!((cut, part["functions"].as_array().unwrap().len()), (true, 10_000));
    assert!(part["notes"][0].as_str().unwrap().contains("where (10000 of 30000), functions (10000 of 30000)"));
    assert_eq!(part["functions"][0]["name"], whole["functions"][0]["name"]);
    assert!(bytes < 12_000_000, "{bytes} bytes");
}

#[test]
fn a_long_console_is_shown_in_part() {
    with_sample(|boot| {
        let console = vec![ConsoleLine { at: Some(Ns(1)), text: b"line" }; 100_000];
        let mut page = Vec::new();
        page_of(boot, &console, &mut page);
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches("<time>0.000000</time>").count(), 6_000);
        assert!(page.contains("94 000 lines not shown"));
    });
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\u{1b}[2J\u{9b}\n".to_owned()),
        Just(String::new()),
        Just("a".to_owned()),
        Just("CPU 1".to_owned()),
        Just("# ;".to_owned()),
        ".{0,6}"
    ]
}

prop_compose! {
    fn any_timeline()(
        spans in prop::collection::vec((0u32..3, any_name(), any_name(), -50i64..200, 0i64..100), 0..40),
        end in prop::option::of(0i64..250),
    ) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let tracks: Vec<_> = (0..3).map(|i| t.tracks.add(timeline::NameId::EMPTY, TrackKind::Thread, i)).collect();
        for (track, name, detail, start, length) in spans {
            let (name, detail) = (t.names.intern(&name), t.names.intern(&detail));
            let row = timeline::SpanRow {
                name, detail, start: Ns(start), end: Ns(start + length), track: tracks[track as usize], kind: SpanKind::Call,
            };
            t.spans.push(row, None);
        }
        let evidence = EndEvidence::Asked(t.names.intern("end"));
        t.end = end.map(|at| End { at: Ns(at), error: Ns::ZERO, track: Some(tracks[0]), evidence });
        t.finalize(Ns::ZERO);
        t
    }
}

proptest! {
    #[test]
    fn any_spans_can_be_exported(timeline in any_timeline()) {
        let facts = Facts::default();
        let boot = Boot::new(&timeline, &facts);
        chrome_slices(&export(&boot, "chrome")).values().for_each(|s| assert_nested(s));
        assert_speedscope(&export(&boot, "speedscope"));
        let path: Ns = boot.path().stretches.iter().map(|s| s.length()).sum();
        prop_assert_eq!(folded_sum(&export(&boot, "folded")), path.0);
        folded_sum(&export(&boot, "folded-all-threads"));
        if path > Ns::ZERO {
            let graph = export(&boot, "flame-graph");
            prop_assert!(graph.contains(&format!("data-total=\"{}\"", path.0)), "another total");
        }
        prop_assert_eq!(export(&boot, "csv").lines().count(), timeline.spans.len() + 1);
        prop_assert_eq!(column(&export(&boot, "csv"), "detail").len(), timeline.spans.len());
        serde_json::from_str::<Value>(&export(&boot, "json")).unwrap();
        report::format("perfetto").unwrap().write(&boot, &mut Vec::new()).unwrap();
        page_of(&boot, &[], &mut Vec::new());
        let obeyed = |c: char| c.is_control() && c != '\n';
        for format in ["chrome", "speedscope", "folded", "folded-all-threads", "csv", "csv-where", "json"] {
            prop_assert!(!export(&boot, format).contains(obeyed), "{}", format);
        }
        let shown = report::show(&report::summarize(&timeline, &facts), report::Layout::default());
        prop_assert!(!shown.contains(obeyed));
    }
}
