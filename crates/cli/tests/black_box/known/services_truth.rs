//! The boot path through services with known answers: a Debian starts thirty random graphs of services, one after the
//! other. Each service sleeps, works and locks by a script, and a simulation computes what the boot waits for.
//!
//! `BOOTSCOPE_TRUTH_GRAPHS` is the number of graphs, `BOOTSCOPE_TRUTH_SEED` the first seed.

use crate::support::boots::{CALM, Scratch, evidence, kernel, record, recorded};
use crate::support::debian::{UNITS, rootfs, with_files};
use crate::support::service_graphs::{Graph, name};
use crate::support::{list, ns, shown, skip, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The program of the services, statically linked.
fn work(folder: &Path) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/work.rs");
    let program = folder.join("work");
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "-O", "-C", "target-feature=+crt-static", "-C", "panic=abort", "-o"]);
    assert!(compiler.arg(&program).arg(source).status().expect("Rust, which built this, is there").success());
    std::fs::read(program).unwrap()
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "50 s: in make test-all"]
fn the_path_through_random_graphs_of_services_is_what_the_model_says() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("the guest's program is for x86-64, and built with this machine's compiler");
    }
    let (Some(kernel), Some(rootfs)) = (kernel(), rootfs()) else { return };
    let scratch = Scratch::new();
    let first = number("BOOTSCOPE_TRUTH_SEED", 1);
    let graphs: Vec<Graph> = (0..number("BOOTSCOPE_TRUTH_GRAPHS", 30)).map(|k| Graph::of(first + k)).collect();

    let mut files = vec![("usr/bin/work".to_owned(), work(scratch.folder()))];
    let mut before = "multi-user.target".to_owned();
    for (k, graph) in graphs.iter().enumerate() {
        for place in 0..graph.services.len() {
            files.push((format!("{UNITS}/{}", name(k, place)), graph.unit(k, place, &before).into()));
        }
        before = format!("g{k}.target");
        files.push((format!("{UNITS}/{before}"), graph.target(k).into()));
    }
    let all: Vec<String> = (0..graphs.len()).map(|k| format!("g{k}.target")).collect();
    files.push((format!("{UNITS}/graphs.target"), format!("[Unit]\nRequires={0}\nAfter={0}\n", all.join(" ")).into()));

    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--deterministic", "--init", "keep", "--until", "unit:graphs.target", "--memory", "2G"]);
    command.args(["--timeout", "30m", "--initrd"]).arg(with_files(&rootfs, &scratch, &files));
    command.args(["--hang-after", "60s", "--append"]);
    command.arg(format!("rdinit=/sbin/init quiet systemd.wants=graphs.target {CALM}"));
    recorded(&mut command, &into, "reached");
    let document = shown(&into);
    compare(&graphs, &document, &logged(&evidence(&into, "kmsg-memory.log")));
}

/// Checks that each service's own time on the boot path is the model's, within 5 ms or 2 %.
fn compare(graphs: &[Graph], document: &Value, logged: &BTreeMap<String, LoggedTimes>) {
    let (own, in_turn) = charged(document);
    let mut wrong = Vec::new();
    let mut worst_us = 0;
    for (k, graph) in graphs.iter().enumerate() {
        let expected = graph.run(&began_after_us(k, graph, logged)).waited_for(graph);
        for (place, expected_us) in expected.into_iter().enumerate() {
            let name = name(k, place);
            let (own_us, expected_us) = (own.get(&name).unwrap_or(&0) / 1000, expected_us as i64);
            // The time before its program begins is its own too: mostly some ms, seldom a wait in the kernel, which
            // then delays others.
            let started_us = (logged[&name].begins - logged[&name].starting) as i64;
            let off_us = (expected_us - own_us).max(own_us - expected_us - started_us).max(0);
            // In the model each service has a CPU. A service that waits for a CPU requests a lock later, and so waits
            // less for its holder.
            let off_us = (off_us - in_turn.get(&k).unwrap_or(&0) / 1000).max(0);
            worst_us = worst_us.max(off_us);
            if off_us > (expected_us / 50).max(5000) {
                wrong.push(format!("{name}: {own_us} µs, and {expected_us} expected"));
            }
        }
    }
    let count = own.len() as i64;
    let turns_us = in_turn.values().sum::<i64>() / 1000 / count;
    println!(
        "{count} services of {} graphs on the path, the worst is {worst_us} µs off; {turns_us} µs of turns each",
        graphs.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(turns_us < 10_000, "so much waited for the CPU, which the model has not: {turns_us} µs for each service");
}

/// The boot path's charges: the time of each unit's own program, and for each graph the time in which a program had the
/// CPU while another needed it. The model does not have the latter.
fn charged(document: &Value) -> (BTreeMap<String, i64>, BTreeMap<usize, i64>) {
    let (mut own, mut in_turn) = (BTreeMap::new(), BTreeMap::new());
    for row in list(&document["where"]) {
        let (name, self_ns) = (text(&row["name"]), ns(&row["self_ns"]));
        let Some((unit, _)) = name.strip_prefix("unit g").and_then(|rest| rest.split_once(' ')) else { continue };
        // Names of other units begin with this letter too.
        let Some(graph) = unit.split('-').next().and_then(|graph| graph.parse().ok()) else { continue };
        if name.ends_with(" · runqueue") {
            *in_turn.entry(graph).or_default() += self_ns;
        } else {
            *own.entry(format!("g{unit}")).or_default() += self_ns;
        }
    }
    (own, in_turn)
}

/// The times of a service in the kernel's log, in µs.
#[derive(Default)]
struct LoggedTimes {
    /// systemd starts it.
    starting: u64,
    /// Its program reports its begin, and its end.
    begins: u64,
    ends: u64,
}

fn logged(log: &str) -> BTreeMap<String, LoggedTimes> {
    let mut logged: BTreeMap<String, LoggedTimes> = BTreeMap::new();
    for line in log.lines() {
        let at_us = || line.split(',').nth(2).and_then(|at| at.split('.').next()?.parse().ok()).expect("a stamp");
        if let Some((name, what)) = line.split_once(";work: ").and_then(|(_, says)| says.split_once(' ')) {
            let times = logged.entry(name.to_owned()).or_default();
            *(if what == "begins" { &mut times.begins } else { &mut times.ends }) = at_us();
        } else if let Some((_, name)) = line.split_once("systemd[1]: Starting g") {
            logged.entry(format!("g{}", name.trim_end_matches('.'))).or_default().starting = at_us();
        }
    }
    logged
}

/// The delay of each service from when it could start to when it began.
fn began_after_us(k: usize, graph: &Graph, logged: &BTreeMap<String, LoggedTimes>) -> Vec<u64> {
    let times: Vec<&LoggedTimes> = (0..graph.services.len()).map(|place| &logged[&name(k, place)]).collect();
    let first = times.iter().map(|times| times.begins).min().expect("a graph has services");
    let after = |place: usize| {
        let could = graph.services[place].after.iter().map(|other| times[*other].ends).max().unwrap_or(first);
        times[place].begins.checked_sub(could).expect("it begins after those that it is ordered after have ended")
    };
    (0..times.len()).map(after).collect()
}
