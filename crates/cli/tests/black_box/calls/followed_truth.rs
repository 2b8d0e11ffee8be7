//! Compares call traces with known facts: the kernel's own trace of each initcall, and a change of known size in one of
//! them.

use crate::support::boots::{QUIET, Scratch, kernel, record, recorded};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;

/// The least rank correlation between an initcall's instructions and its times in the trace.
const MIN_RANK_CORRELATION: f64 = 0.9;
/// Shorter initcalls are not compared.
const LONG_NS: i64 = 100_000;
/// Initcalls that take longer because of tracing: this one enables the events on the command line.
const OF_THE_TRACE: [&str; 1] = ["event_trace_enable_again"];

/// Initcalls that wait for a clock tick, up to a millisecond more or less, depending on their start.
const WAITS_FOR_A_CLOCK: [&str; 1] = ["initcall hpet_late_init"];

/// A deterministic boot.
fn boot(scratch: &Scratch, name: &str, trace: &str, append: &str) -> Option<PathBuf> {
    let into = scratch.path(name);
    let mut command = record(&kernel()?, &into);
    command.args(["--deterministic", "--trace", trace, "--append", &format!("{QUIET} {append}")]);
    recorded(&mut command, &into, "reached");
    Some(into)
}

/// Two measurements in two boots: the counted instructions under each initcall, and the running time of its thread from
/// the kernel's trace points of initcalls and the scheduler. Sleep is in neither.
#[test]
#[ignore = "14 s: in make test-all"]
fn instructions_rank_initcalls_as_the_trace_does() {
    let scratch = Scratch::new();
    let Some(followed) = boot(&scratch, "followed", "calls", "") else { return };
    let traced = boot(&scratch, "traced", "events", "").unwrap();
    let instructions: HashMap<String, i64> = list(&shown(&followed)["calls"]["functions"])
        .iter()
        .map(|row| (text(&row["name"]).to_owned(), row["total_instructions"].as_i64().unwrap()))
        .collect();
    let ran = ran_in_initcalls(&run(bootscope("export").arg(&traced).args(["--to", "json"])).exits(0).json());
    let long = ran.iter().filter(|(name, ran)| **ran > LONG_NS && !OF_THE_TRACE.contains(&name.as_str()));
    let pairs: Vec<(f64, f64)> = long
        .map(|(name, ran)| {
            let counted = instructions.get(name).unwrap_or_else(|| panic!("{name} was traced and not followed"));
            (*ran as f64, *counted as f64)
        })
        .collect();
    let correlation = spearman(&pairs);
    println!("{} initcalls above 100 µs, rank correlation {correlation:.4}", pairs.len());
    assert!(pairs.len() >= 30 && correlation >= MIN_RANK_CORRELATION, "{correlation} of {pairs:?}");
}

/// The running time of each initcall's thread.
fn ran_in_initcalls(timeline: &Value) -> HashMap<String, i64> {
    let mut running: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for piece in list(&timeline["running"]) {
        let to = piece["to_ns"].as_i64().unwrap_or(i64::MAX);
        running.entry(ns(&piece["track"])).or_default().push((ns(&piece["from_ns"]), to));
    }
    let initcalls = list(&timeline["spans"]).iter().filter(|span| text(&span["kind"]) == "initcall");
    let ran = |span: &Value| {
        let (start, end) = (ns(&span["start_ns"]), ns(&span["end_ns"]));
        let pieces = running.get(&ns(&span["track"])).into_iter().flatten();
        pieces.map(|(from, to)| (end.min(*to) - start.max(*from)).max(0)).sum()
    };
    initcalls.map(|span| (text(&span["detail"]).to_owned(), ran(span))).collect()
}

/// The rank correlation of values that are all different, or nearly.
fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        values.iter().map(|v| values.iter().filter(|other| *other < v).count() as f64).collect()
    };
    let (a, b) = (ranks(pairs.iter().map(|p| p.0).collect()), ranks(pairs.iter().map(|p| p.1).collect()));
    let n = pairs.len() as f64;
    1.0 - 6.0 * a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / (n * (n * n - 1.0))
}

/// A larger table of TCP's connections makes one initcall longer by a twentieth of a per cent of the boot. One boot of
/// each shows it in the callees of that initcall, while the total shows nothing yet.
#[test]
#[ignore = "18 s: in make test-all"]
fn a_change_of_a_twentieth_of_a_per_cent_is_found_where_it_was_made() {
    let scratch = Scratch::new();
    let Some(before) = boot(&scratch, "before", "calls", "thash_entries=4096") else { return };
    let after = boot(&scratch, "after", "calls", "thash_entries=16384").unwrap();
    let document = run(bootscope("diff").arg(&before).arg(&after).arg("--json")).exits(0).json();
    let total = ns(&document["before"]["total_ns"]);
    let share = |ns: i64| ns as f64 / total as f64;
    let by_work = |row: &&Value| !WAITS_FOR_A_CLOCK.contains(&text(&row["name"]));
    let row = list(&document["rows"]).iter().find(by_work).unwrap();
    let changed = ns(&row["after_ns"]) - ns(&row["before_ns"]);
    let in_all = share(ns(&document["after"]["total_ns"]) - total);
    println!("initcall {:.4} % of the boot, total {:.4} %", share(changed) * 100.0, in_all * 100.0);
    assert_eq!(text(&row["name"]), "initcall inet_init", "what changed most");
    assert!((0.0002..0.0005).contains(&share(changed)), "{}", share(changed));
    let callers = |path: &Value| -> Vec<String> { list(&path["callers"]).iter().map(|c| text(c).to_owned()).collect() };
    let in_others = |path: &&Value| callers(path).iter().any(|caller| WAITS_FOR_A_CLOCK.contains(&caller.as_str()));
    let first = list(&document["paths"]).iter().find(|path| !in_others(path)).unwrap();
    assert!(text(&first["name"]) == "tcp_init" && callers(first).contains(&"initcall inet_init".to_owned()), "{first}");
    assert_eq!(document["floor"].as_f64(), Some(0.00075));
    let output = run(bootscope("diff").arg(&before).arg(&after)).exits(0);
    let words = output.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("that alone moves the total by up to 0.075 %"), "{}", output.text());
}

/// The reference kernel, booted three times a side with dummy arguments, and it prints that it does not understand
/// them. A delay of one of its probes is found, and the different time of printing them is not.
#[test]
fn dithered_boots_show_only_real_changes() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let boot = |name: &str, options: &[&str], append: &str| {
        let into = scratch.path(name);
        let mut command = record(&lab, &into);
        command
            .args(["--trace", "calls", "--init", "keep", "--until", "^init: done", "--append", append])
            .args(options);
        recorded(&mut command, &into, "reached");
        into
    };
    let before = boot("before", &["--deterministic"], "");
    let after = boot("after", &["--deterministic"], "delay.probe.psm=1ms");
    let dithered = run(bootscope("diff").arg(&before).arg(&after).args(["--dither", "3", "--json"])).exits(0).json();
    let dither = &dithered["dither"];
    println!("{dither}");
    assert_eq!(dither["boots"], 3);
    let (change, floor) = (ns(&dither["total_change_ns"]), ns(&dither["total_floor_ns"]));
    assert!((900_000..1_200_000).contains(&change) && 0 < floor && floor < change, "{change} beyond {floor}");
    let row = &list(&dithered["rows"])[0];
    assert!(ns(&row["change_ns"]) > 900_000 && ns(&row["floor_ns"]) < 100_000, "{row}");
    assert!(ns(&dither["functions_within"]) > 0, "printing a longer word is no change");
    let output = run(bootscope("diff").arg(&before).arg(&after).args(["--dither", "2"])).exits(0);
    assert!(output.text().contains("2 boots a side") && output.text().contains("left out"), "{}", output.text());

    let hosted = boot("hosted", &[], "");
    run(bootscope("diff").arg(&hosted).arg(&hosted).args(["--dither", "3"])).refuses(&[
        "--dither",
        "deterministic",
        "bench",
    ]);
}

/// The reference kernel as built by `make build`.
fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| PathBuf::from(lib).join("lab")).filter(|lab| lab.is_file());
    if lab.is_none() {
        crate::support::skip("BOOTSCOPE_LIB has no lab: run make build");
    }
    lab
}
