//! Writes a made-up boot in every format to a folder: `sample FOLDER [SPANS]`. Other programs check these files. With a
//! number of spans it prints how long each format takes.

#[path = "../tests/integration/sample/mod.rs"]
mod sample;

use benchmark::{Axis, Document, Ended, Head, Measured, PhaseTime, Plan, Setting, Stop, Variant};
use report::{Boot, ConsoleLine, FORMATS, Facts, Finding, FindingEvidence, Findings, FoundLine, PageBoot, Summary};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use timeline::{
    End, EndEvidence, NameId, Ns, Process, Sample, Sampled, SampledFrame, SampledThread, Silence, Silences, SpanKind,
    SpanRow, StoppedCpu, TimeBase, Timeline, TrackId, TrackKind, Warning,
};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().expect("usage: sample FOLDER [SPANS]"));
    let spans: Option<usize> = args.next().map(|n| n.parse().expect("SPANS is a number"));
    std::fs::create_dir_all(&folder)?;
    let mut timeline = spans.map_or_else(sample::timeline, sample::large);
    timeline.warnings.push(Warning::RecordingUnknown {
        why: timeline::ManifestFault::Damaged { found: "\x1b[31m is no manifest".to_owned() },
    });
    timeline.silences = spans.is_none().then(example_silences);
    let [init, evil] = ["init", sample::HOSTILE].map(|name| timeline.names.intern(name));
    let process = |pid, parent, depth, name, start, end| Process { pid, parent, depth, name, start, end };
    let ended = Some(Ns::from_ms(800));
    timeline.processes =
        vec![process(1, 0, 0, init, Ns::from_ms(200), None), process(66, 1, 1, evil, Ns::from_ms(300), ended)];
    let facts = sample::facts();
    let begun = Instant::now();
    let mut boot = Boot::new(&timeline, &facts);
    boot.findings = spans.is_none().then(example_findings);
    let boot = boot;
    let took = |what: &str, begun: Instant, bytes: u64| {
        if spans.is_some() {
            println!("{what:<20} {:>9.1} ms {:>12} bytes", begun.elapsed().as_secs_f64() * 1e3, bytes);
        }
    };
    took("analysis", begun, 0);
    for format in FORMATS {
        let begun = Instant::now();
        let path = folder.join(format!("{}.{}", format.name(), format.extension()));
        let mut out = BufWriter::new(File::create(&path)?);
        format.write(&boot, &mut out)?;
        out.flush()?;
        took(format.name(), begun, path.metadata()?.len());
    }
    let begun = Instant::now();
    let path = folder.join("page.html");
    let mut out = BufWriter::new(File::create(&path)?);
    let one = PageBoot { name: "sample", boot: &boot, console: &console() };
    report::page(&[one], report::Asks::Itself, &mut out)?;
    out.flush()?;
    took("page", begun, path.metadata()?.len());
    if spans.is_none() {
        unusual_pages(&folder)?;
        // The same boot with a longer initcall, to compare.
        let slower = sample::slower();
        let slower = Boot::new(&slower, &facts);
        let other = PageBoot { name: "slower", boot: &slower, console: &[] };
        report::page(&[one, other], report::Asks::Itself, &mut BufWriter::new(File::create(folder.join("two.html"))?))?;
        std::fs::write(folder.join("show-slower.json"), Summary::of(&slower).to_json())?;
        let bench = bench();
        report::bench_page(&bench, &[], &mut BufWriter::new(File::create(folder.join("bench.html"))?))?;
        std::fs::write(folder.join("bench.json"), serde_json::to_string(&bench)?)?;
        let lake = lake().to_string();
        std::fs::write(folder.join("lake.json"), &lake)?;
        let lake = report::LakePage::read(lake.as_bytes()).map_err(std::io::Error::other)?;
        report::lake_page(&lake, &mut BufWriter::new(File::create(folder.join("lake.html"))?))?;
    }
    std::fs::write(folder.join("show.json"), Summary::of(&boot).to_json())
}

/// A made-up lake with three kinds of machine over thirty days. From day ten on, with the second kernel, a row is
/// slower on two kinds.
fn lake() -> serde_json::Value {
    let day = |day: u64| format!("2026-03-{:02}", day + 1);
    let hardware = |kind: u64| if kind == 2 { sample::HOSTILE.to_owned() } else { format!("kind-{kind}") };
    let kernels = ["6.1", "6.12"];
    let cell = |kind: u64, day: u64| {
        let kernel = u64::from(day >= 10);
        let p50_ns =
            1_000_000_000 + kind * 200_000_000 + day % 3 * 1_000_000 + kernel * 50_000_000 * u64::from(kind < 2);
        json!({"day": day, "kernel": kernel, "boots": 100 - 30 * kind, "not_ended": day % 2, "p50_ns": p50_ns, "p95_ns": p50_ns * 6 / 5})
    };
    let kind = |kind: u64| {
        let cells: Vec<_> = (0..30).map(|day| cell(kind, day)).collect();
        json!({"hardware": hardware(kind), "time_base": "host", "boots": 30 * (100 - 30 * kind), "machines": 10, "cells": cells})
    };
    let regression = |kind: u64, name: &str, slower_ns: u64| {
        let boot = |i: u64| {
            let machine = if i == 0 { "it's <b>one</b>".to_owned() } else { format!("{kind}{i:031x}") };
            json!({"boot_id": format!("{kind}{i:031x}"), "day": day(10 + i), "machine": machine, "total_ns": 1_050_000_000 + i, "self_ns": 60_000_000 + i})
        };
        json!({
            "name": name, "hardware": hardware(kind), "time_base": "host", "kernel": kernels[1], "since": day(10),
            "before_ns": 10_000_000, "after_ns": 10_000_000 + slower_ns, "slower_ns": slower_ns, "slower_low_ns": slower_ns * 9 / 10,
            "slower_high_ns": slower_ns * 11 / 10, "ratio": 1.0 + slower_ns as f64 / 1e7, "p": 1e-6, "boots_before": 500, "boots_after": 900,
            "per_day_ns": slower_ns * (100 - 30 * kind), "boots": (0..4).map(boot).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": "bootscope.lake-page/1", "lake": "a lake", "since": "", "boots": 6300, "machines": 30,
        "days": (0..30).map(day).collect::<Vec<_>>(), "kernels": kernels, "kinds": (0..3).map(kind).collect::<Vec<_>>(),
        "regressions": [regression(0, "initcall acpi_init", 50_000_000), regression(1, "initcall acpi_init", 50_000_000), regression(2, sample::HOSTILE, 3_000_000)],
        "slowest_rows": [{"name": sample::HOSTILE, "boots": 6300, "boots_with_it": 6000, "mean_ns": 4e8, "mean_low_ns": 3.9e8, "mean_high_ns": 4.1e8, "share": 0.4}],
        "outliers": [{"machine": sample::HOSTILE, "hardware": "kind-0", "time_base": "host", "name": "a", "mean_ns": 2e7, "others_ns": 1e7, "slower_ns": 1e7, "ratio": 2.0, "p": 1e-8, "boots": 12, "machines": 10}],
        "what_pays": [{"id": "console-messages", "title": sample::HOSTILE, "boots": 6300, "share": 1.0, "machines": 30, "kinds": 3, "mean_ns": 5e7, "per_day_ns": 1e10, "per_day_low_ns": 5e9, "per_day_high_ns": 2e10}],
        "missing": [{"machine": "ff", "hardware": sample::HOSTILE, "kernel": "6.1", "last": day(2), "boots": 3, "usual_days": 1.0, "silent_days": 27.0, "p": 1e-9}],
        "remarks": {"regressions": [format!("looked at 9 series of {}", sample::HOSTILE)]},
    })
}

/// A made-up silence with three snapshots of two CPUs.
fn example_silences() -> Silences {
    let cpu = |stack: &[&str]| StoppedCpu {
        stack: stack.iter().map(|&name| name.to_owned()).collect(),
        ..StoppedCpu::default()
    };
    let stop = |i: i64, innermost: &str| timeline::Stop {
        at: Ns::from_ms(560 + i * 20),
        stood: Ns::from_us(300),
        cpus: vec![cpu(&[innermost, "acpi_init"]), cpu(&["idle"])],
    };
    let stops = vec![stop(0, "msleep"), stop(1, sample::HOSTILE), stop(2, "msleep")];
    let silence = Silence { from: Ns::from_ms(550), until: Ns::from_ms(630), stops };
    Silences { after: Ns::from_ms(50), silences: vec![silence], ..Silences::default() }
}

/// A boot with samples only, on the samples' clock.
fn boot_of_samples() -> Timeline {
    let mut t = Timeline::new(TimeBase::Evidence);
    let [thread, event] = ["init", "cycles"].map(|name| t.names.intern(name));
    let mut sampled = Sampled::default();
    for i in 0..200_i64 {
        let name = t.names.intern(if i % 3 == 0 { sample::HOSTILE } else { "memcpy" });
        sampled.add(Sample {
            at: Some(Ns(7_000_000_000 + i * 1_000_000)),
            cpu: Some(i.unsigned_abs() % 2),
            thread: SampledThread { name: thread, tid: 1 },
            event,
            is_user: Some(false),
            period: None,
            stack: [SampledFrame { address: 1, name, is_named: true }].into(),
        });
    }
    t.sampled = Some(sampled);
    t.end = Some(End { at: Ns(199_000_000), error: Ns::ZERO, track: None, evidence: EndEvidence::LastSample });
    t.boundary(timeline::Phase::Sampled, Ns::ZERO, Ns::ZERO, "the first sample");
    t.finalize(Ns::ZERO);
    t
}

/// A made-up finding about a span that the boot has.
fn example_findings() -> Findings {
    let evidence = FindingEvidence {
        waited_ns: 0,
        track: "swapper/0".to_owned(),
        start_ns: 500_000_000,
        end_ns: 520_000_000,
        name: "msleep".to_owned(),
        purpose: "waits for a device".to_owned(),
    };
    let second = Finding { id: "made-up-too".to_owned(), cost_ns: 10_000_000, ..Finding::default() };
    let finding = Finding {
        id: "made-up".to_owned(),
        title: format!("acpi_init sleeps {}", sample::HOSTILE),
        cost_ns: 20_000_000,
        cost_low_ns: 19_000_000,
        cost_high_ns: 21_000_000,
        confidence: "high".to_owned(),
        // More evidence than a reader sees at first, and more than a page has.
        evidence: vec![evidence; 25],
        evidence_count: 30,
        remedy: "let it not sleep".to_owned(),
        ..Finding::default()
    };
    let found = FoundLine { together_ns: 25_000_000, ..FoundLine::default() };
    Findings { total_ns: 940_000_000, findings: vec![finding, second], found, ..Findings::default() }
}

/// A made-up sweep: 40 ms for each further CPU, 10 ms for each GiB, 300 ms for the rest, with some scatter; one boot hung.
fn bench() -> Document {
    let (cpus, memory, rounds) = ([1, 2, 4, 8], [("512M", 0.5), ("1G", 1.0)], 8);
    let grid: Vec<(i64, &str, f64)> =
        cpus.iter().flat_map(|&c| memory.iter().map(move |&(text, gib)| (c, text, gib))).collect();
    let variant = |&(cpus, memory, _): &(i64, &str, f64)| {
        let setting = |key: &str, value: String| Setting { key: key.to_owned(), value };
        let settings = vec![setting("cpus", cpus.to_string()), setting("memory", memory.to_owned())];
        Variant { settings, ..Variant::named(&format!("cpus={cpus} memory={memory}")) }
    };
    let axis = |key: &str, values: Vec<String>| Axis { key: key.to_owned(), values };
    let stop = Stop { rounds, ..Stop::default() };
    let plan = Plan { variants: grid.len(), warm_ups: 0, stop, seed: 1, ..Plan::default() };
    let mut head = Head::of(plan, grid.iter().map(variant).collect());
    head.sweep = vec![
        axis("cpus", cpus.map(|c| c.to_string()).to_vec()),
        axis("memory", memory.map(|m| m.0.to_owned()).to_vec()),
    ];
    head.at = vec![16.0];
    let mut boots = Vec::new();
    for round in 0..rounds {
        for (variant, &(cpus, _, gib)) in grid.iter().enumerate() {
            let number = timeline::number(boots.len());
            let row = |name: &str, ms: f64, salt: u32| {
                // Scatter of up to 4 ms, the same in each run.
                let scatter = (number.wrapping_add(salt).wrapping_mul(2_654_435_761) >> 8) % 4_000_000;
                PhaseTime { name: name.to_owned(), ns: (ms * 1e6) as i64 + i64::from(scatter), waited_ns: 0 }
            };
            let aps = (cpus - 1) as f64;
            let rows =
                vec![row("rest", 300.0, 1), row("start_aps", 40.0 * aps, 2), row(sample::HOSTILE, 10.0 * gib, 3)];
            let phases = vec![
                PhaseTime { name: "kernel".to_owned(), ns: rows[0].ns + rows[2].ns, waited_ns: 0 },
                PhaseTime { name: "start other CPUs".to_owned(), ns: rows[1].ns, waited_ns: 0 },
            ];
            let total_ns = Some(rows.iter().map(|r| r.ns).sum());
            let reached = Measured { outcome: "reached".to_owned(), total_ns, phases, rows, ..Measured::default() };
            let hung = Measured { outcome: "hang".to_owned(), ..Measured::default() };
            let measured = if number == 13 { hung } else { reached };
            boots.push(benchmark::Boot { number, round: Some(round), variant, began_ns: 0, measured });
        }
    }
    Document::new(head, boots, Some(Ended::Rounds))
}

/// Writes the pages of boots of unusual shapes, and the `show --json` document of each.
fn unusual_pages(folder: &Path) -> std::io::Result<()> {
    let folder = folder.join("odd");
    std::fs::create_dir_all(&folder)?;
    let facts = Facts::default();
    for (name, timeline) in unusual_boots() {
        let boot = Boot::new(&timeline, &facts);
        let page = PageBoot { name, boot: &boot, console: &[] };
        report::page(
            &[page],
            report::Asks::Itself,
            &mut BufWriter::new(File::create(folder.join(format!("{name}.html")))?),
        )?;
        std::fs::write(folder.join(format!("{name}.json")), Summary::of(&boot).to_json())?;
    }
    Ok(())
}

/// Boots with no spans, one span, no path, times beyond 2^53, many threads, deep nesting, long names.
fn unusual_boots() -> Vec<(&'static str, Timeline)> {
    /// Each span is its track, name, start and end. The end mark is on the first track.
    fn made(tracks: usize, spans: &[(u32, String, i64, i64)], end: Option<i64>) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        for i in 0..tracks {
            let name = t.names.intern(&format!("thread {i}"));
            t.tracks.add(name, TrackKind::Thread, i as u64);
        }
        for (track, name, start, end) in spans {
            let (name, detail, track) = (t.names.intern(name), NameId::EMPTY, TrackId(*track));
            let row = SpanRow { name, detail, start: Ns(*start), end: Ns(*end), track, kind: SpanKind::Call };
            t.spans.push(row, None);
        }
        t.end =
            end.map(|at| End { at: Ns(at), error: Ns::ZERO, track: Some(TrackId(0)), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        t
    }
    let far = (1 << 54) + 3;
    let many = |i: u32| (i, format!("work {}", i % 50), i64::from(i) * 100, i64::from(i) * 100 + 50);
    let deep = |i: i64| (0, format!("f{}", i % 30), i, 3_000 - i);
    vec![
        ("samples", boot_of_samples()),
        ("nothing", made(0, &[], None)),
        ("one-span", made(1, &[(0, "f".to_owned(), 0, 1)], Some(1))),
        ("no-path", made(1, &[(0, "f".to_owned(), 5, 10)], None)),
        ("far", made(1, &[(0, "f".to_owned(), 1, far), (0, "g".to_owned(), far, far + 8)], Some(far + 9))),
        ("threads", made(100_000, &(0..100_000).map(many).collect::<Vec<_>>(), Some(10_000_000))),
        ("deep", made(1, &(0..1_000).map(deep).collect::<Vec<_>>(), Some(3_000))),
        ("long-names", made(1, &[(0, "n".repeat(65_536), 0, 5), (0, "m".repeat(65_536), 1, 2)], Some(6))),
    ]
}

/// Console lines with stamps, and hostile lines: everything that a guest can send to harm a viewer of its console.
fn console() -> Vec<ConsoleLine<'static>> {
    let mut lines: Vec<ConsoleLine> = (0..400)
        .map(|i| ConsoleLine {
            at: Some(Ns::from_us(90_000 + i * 2_100)),
            text: b"[    0.000000] Linux version 6.1.0-47-cloud-amd64",
        })
        .collect();
    lines.push(ConsoleLine { at: None, text: sample::HOSTILE.as_bytes() });
    lines.push(ConsoleLine {
        at: None,
        text: b"\xff\xfe not text \x1b]0;title\x07 </div></main><script>ran=3</script> \"><svg onload=ran=4>",
    });
    lines.push(ConsoleLine {
        at: None,
        text: b"-->]]></style><style>*{display:none}</style><iframe src=javascript:ran=5>\tafter a tab",
    });
    lines
}
