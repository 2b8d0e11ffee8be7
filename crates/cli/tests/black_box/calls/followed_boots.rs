//! Call traces of real boots on the timeline: every nanosecond of the path has an owner, and initcalls are as in the
//! trace. `diff` finds no difference between equal boots, and names an initcall that one boot left out.

use crate::support::boots::{Scratch, kernel, record, recorded, shared_boot};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One of the two equal boots with calls and exits, which tests of both read.
pub fn deterministic(scratch: &Scratch, kernel: &Path, name: &'static str) -> PathBuf {
    shared_boot(scratch, name, |into| {
        let mut command = record(kernel, into);
        recorded(command.args(["--deterministic", "--trace", "exits,calls"]), into, "reached");
    })
}

/// A deterministic boot with a call trace.
fn boot(scratch: &Scratch, name: &str, trace: &str, append: &str) -> Option<PathBuf> {
    let into = scratch.path(name);
    let mut command = record(&kernel()?, &into);
    command.args(["--deterministic", "--trace", trace, "--append", append]);
    recorded(&mut command, &into, "reached");
    Some(into)
}

/// The bounds of the readers are for broken and hostile files: the file of a stock kernel is read to its end.
fn assert_nothing_is_left_out(document: &Value) {
    let beyond = list(&document["diagnostics"]).iter().find(|d| text(&d["code"]) == "entries-beyond-bound");
    assert_eq!(beyond, None);
}

#[test]
#[ignore = "27 s: in make test-all"]
fn equal_boots_are_equal_and_a_missing_initcall_is_named() {
    let scratch = Scratch::new();
    let Some(before) = boot(&scratch, "before", "calls", "quiet") else { return };
    let again = boot(&scratch, "again", "calls", "quiet").unwrap();
    let document = run(bootscope("diff").arg(&before).arg(&again).arg("--json")).exits(0).json();
    assert_eq!((document["same_inputs"].as_bool(), document["floor"].is_null()), (Some(true), true));
    for of in ["phases", "rows", "functions", "paths"] {
        assert_eq!(list(&document[of]), &[] as &[Value], "{of} of two equal boots");
    }
    assert!(document["paths_compared"].as_u64() > Some(50_000), "{}", document["paths_compared"]);
    let same = run(bootscope("diff").arg(&before).arg(&again)).exits(0);
    assert!(same.text().contains("no difference: "), "{}", same.text());

    let without = boot(&scratch, "without", "calls", "quiet initcall_blacklist=slab_sysfs_init").unwrap();
    let document = run(bootscope("diff").arg(&before).arg(&without).arg("--json")).exits(0).json();
    assert_eq!((document["same_inputs"].as_bool(), document["floor"].as_f64()), (Some(false), Some(0.00075)));
    let first = &list(&document["rows"])[0];
    assert_eq!((text(&first["name"]), first["after_ns"].is_null()), ("initcall slab_sysfs_init", true));
    let gone = list(&document["functions"]).iter().find(|f| text(&f["name"]) == "initcall slab_sysfs_init").unwrap();
    assert_eq!(text(&gone["what"]), "vanished");
}

#[test]
fn the_path_from_the_reset_vector_is_owned_by_functions() {
    let Some(kernel) = kernel() else { return };
    let document = shown(&deterministic(&Scratch::new(), &kernel, "first"));
    assert_nothing_is_left_out(&document);
    let total = ns(&document["total_ns"]);
    assert_eq!(list(&document["functions"]).iter().map(|f| ns(&f["self_ns"])).sum::<i64>(), total);
    assert!(document["explained"].as_f64() >= Some(0.99), "explained {}", document["explained"]);
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|p| text(&p["name"])).collect();
    for phase in ["firmware", "decompressor", "early kernel", "initcalls: early", "hand-over", "process 1"] {
        assert!(phases.contains(&phase), "no {phase} in {phases:?}");
    }
    // One instruction is one nanosecond, there is one CPU, and it never slept. So the counted instructions equal the
    // clock, except for QEMU's estimate in the middle of a block.
    let counted = document["calls"]["instructions"].as_i64().unwrap();
    println!("{counted} instructions in {total} ns");
    assert!((counted - total).abs() < 1000, "{counted} instructions in {total} ns");
    for table in ["where", "where_all_threads"] {
        let shares: f64 = list(&document[table]).iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "the shares of {table} sum to {shares}");
    }
    // The path charges each function with its counted instructions.
    let on_path: HashMap<String, i64> = list(&document["functions"])
        .iter()
        .map(|f| {
            (text(&f[if text(&f["name"]) == "initcall" { "detail" } else { "name" }]).to_owned(), ns(&f["self_ns"]))
        })
        .collect();
    let counted = list(&document["calls"]["functions"]).iter().map(|f| (text(&f["name"]), &f["self_instructions"]));
    for (name, own) in counted.filter(|(name, _)| !name.ends_with(": no function known)")).take(100) {
        let own = own.as_i64().unwrap();
        let ns = on_path.get(name).copied().unwrap_or_else(|| panic!("{name} is not on the path"));
        assert!((own - ns).abs() as f64 <= own as f64 * 0.001 + 100.0, "{name}: {ns} ns of {own} instructions");
    }
}

/// Only the evidence that both have is compared. Threads and initcalls have the same names in both.
#[test]
#[ignore = "19 s: in make test-all"]
fn a_boot_that_was_traced_is_compared_by_its_calls_with_one_that_was_not() {
    let scratch = Scratch::new();
    let Some(calls) = boot(&scratch, "calls", "calls", "quiet") else { return };
    let both = boot(&scratch, "both", "events,calls", "quiet").unwrap();
    let document = run(bootscope("diff").arg(&calls).arg(&both).arg("--json")).exits(0).json();
    assert_eq!(document["evidence_left_out"], true);
    assert_eq!(text(&document["evidence"]), "calls");
    let total = ns(&document["before"]["total_ns"]);
    let amount = |line: &Value, side: &str| line[side].as_object().map_or(0, |amount| ns(&amount["total_ns"]));
    let on_one_side = |line: &&Value| line["before"].is_null() || line["after"].is_null();
    let tracing = |name: &str| ["trac", "event", "ring_buffer", "rb_"].iter().any(|part| name.contains(part));
    for line in list(&document["functions"]).iter().filter(on_one_side) {
        let (name, took) = (text(&line["name"]), amount(line, "before") + amount(line, "after"));
        assert!(took * 200 < total || tracing(name), "{name} is in one boot only: {line}");
    }
    let gone: Vec<&str> =
        list(&document["phases"]).iter().filter(|p| p["after_ns"].is_null()).map(|p| text(&p["name"])).collect();
    assert_eq!(gone, [] as [&str; 0], "phases");
}

/// The same boot with the trace: threads have their names, and the initcalls of the call trace equal those of the event
/// trace.
#[test]
fn calls_and_events_meet_on_one_clock() {
    let scratch = Scratch::new();
    let Some(recording) = boot(&scratch, "both", "events,calls", "quiet") else { return };
    let document = shown(&recording);
    assert_nothing_is_left_out(&document);
    assert_eq!(document["scheduler_evidence"], true);
    assert!(document["explained"].as_f64() >= Some(0.99), "explained {}", document["explained"]);
    let export = run(bootscope("export").arg(&recording).args(["--to", "csv"])).exits(0);
    let mut initcalls: Vec<(String, i64, i64)> = Vec::new();
    let mut calls: HashMap<String, (i64, i64)> = HashMap::new();
    for line in export.text().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, track, start, end, _, kind, name, detail] = cells[..] else { continue };
        let (start, end): (i64, i64) = (start.parse().unwrap(), end.parse().unwrap());
        match kind {
            "initcall" => initcalls.push((detail.to_owned(), start, end)),
            "call" if ["init", "swapper/0"].contains(&track) => _ = calls.insert(name.to_owned(), (start, end)),
            _ => {}
        }
    }
    let long: Vec<_> = initcalls.iter().filter(|(_, start, end)| end - start > 100_000).collect();
    assert!(long.len() > 20, "{} initcalls of more than 100 µs", long.len());
    let near = |a: i64, b: i64| (a - b).abs() < 20_000;
    let same = long
        .iter()
        .filter(|(name, start, end)| calls.get(name).is_some_and(|(from, to)| near(*from, *start) && near(*to, *end)));
    let same = same.count();
    assert!(same * 100 >= long.len() * 95, "{same} of {} initcalls are calls at the same time", long.len());
}
