//! Two kinds of evidence of one boot of the reference kernel agree: the log of its recorder, and the calls that QEMU's
//! plugin traced from outside. Both have the same nesting and the same lengths.
//!
//! The boot is deterministic with one CPU, and an instruction is a nanosecond. The test compares functions that the log
//! names and that are separate functions in the kernel. The remaining difference is the event itself: the log's entry
//! is written after the call, and its exit before the return.

use crate::support::boots::{Scratch, evidence, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, list, ns, run, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The name in the log, and the name in the source.
const FUNCTIONS: [(&str, &str); 7] = [
    ("hammer_time", "lab::hammer_time"),
    ("mi_startup", "sysinit::mi_startup"),
    ("SYSINIT", "sysinit::call"),
    ("DEVICE_PROBE", "device::device_probe"),
    ("DEVICE_ATTACH", "device::device_attach"),
    ("DELAY", "clock::delay_us"),
    ("_vprintf", "console::_vprintf"),
];
/// The instructions of an entry and an exit that are in the call but not between the two events, in a kernel with frame
/// pointers.
const EVENT_NS: u64 = 64;

/// A function after its callers, as far as they are compared.
type Chain = Vec<&'static str>;

/// The time of each chain with everything below it.
#[derive(Default)]
struct Totals(BTreeMap<Chain, u64>);

impl Totals {
    fn add(&mut self, chain: &[&'static str], ns: u64) {
        for depth in 1..=chain.len() {
            *self.0.entry(chain[..depth].to_vec()).or_default() += ns;
        }
    }

    /// The chains of thread0. The callers of its first steps are not compared.
    fn chains(&self) -> BTreeSet<&Chain> {
        self.0.keys().filter(|chain| ["hammer_time", "mi_startup"].contains(&chain[0])).collect()
    }
}

/// Parses lines `thread ticks ENTER|EXIT name detail`. Also returns the number of entries in each chain and below it.
fn logged(log: &str) -> (Totals, BTreeMap<Chain, u64>) {
    let (mut totals, mut entered) = (Totals::default(), BTreeMap::new());
    let (mut stack, mut before): (Chain, u64) = (Vec::new(), 0);
    for line in log.lines().filter(|line| line.starts_with("0x1 ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, ticks, kind, name, ..] = words[..] else { continue };
        let Some((name, _)) = FUNCTIONS.iter().find(|(logged, _)| *logged == name) else { continue };
        let now: u64 = ticks.parse().unwrap();
        totals.add(&stack, now - before);
        before = now;
        match kind {
            "ENTER" => {
                stack.push(name);
                (1..=stack.len()).for_each(|depth| *entered.entry(stack[..depth].to_vec()).or_default() += 1);
            }
            "EXIT" => assert_eq!(stack.pop(), Some(*name), "{line}"),
            _ => {}
        }
    }
    (totals, entered)
}

/// Parses lines `function;function;… instructions`.
fn followed(folded: &str) -> Totals {
    let mut totals = Totals::default();
    // A line that is not a stack reports that the log is missing.
    for line in folded.lines().filter(|line| !line.starts_with("# (warning: tslog.txt is missing")) {
        let (stack, own) = line.rsplit_once(' ').expect("a stack and a number");
        let known =
            |frame: &str| FUNCTIONS.iter().find(|(_, function)| frame.ends_with(function)).map(|(name, _)| *name);
        let chain: Chain = stack.split(';').filter_map(known).collect();
        totals.add(&chain, own.parse().unwrap());
    }
    totals
}

#[test]
fn the_kernels_log_and_the_call_trace_agree() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (both, into) = (scratch.path("both"), scratch.path("calls"));
    let kernel = std::path::Path::new(&std::env::var_os("BOOTSCOPE_LIB").unwrap()).join("lab");
    let mut command = record_lab(&both);
    command.args(["--deterministic", "--memory", "128M", "--trace", "calls", "--min-call", "0", "--symbols"]);
    command.arg(kernel).args(["--append", "messages=200 delay.vm_mem=3 delay.probe.uart=2 verbose=yes"]);
    recorded(&mut command, &both, "reached");
    let log = evidence(&both, "tslog.txt");
    // Without the log, the shown boot comes from the call trace alone.
    fs::rename(&both, &into).unwrap();
    fs::remove_file(into.join("tslog.txt")).unwrap();
    let folded = run(bootscope("export").args(["--to", "folded"]).arg(&into)).exits(0);

    let ((logged, entered), followed) = (logged(&log), followed(folded.text()));
    assert_eq!(logged.chains(), followed.chains(), "the same nesting");
    assert!(logged.chains().len() > 10, "{:?}", logged.chains());
    for chain in logged.chains() {
        let (log_ns, calls_ns) = (logged.0[chain], followed.0[chain]);
        let apart_ns = log_ns.abs_diff(calls_ns);
        println!("{}: {log_ns} ns logged, {calls_ns} followed", chain.join(";"));
        assert!(apart_ns <= log_ns / 100 + EVENT_NS * entered[chain], "{}: {apart_ns} ns apart", chain.join(";"));
    }
    let startup = vec!["mi_startup"];
    let apart = logged.0[&startup].abs_diff(followed.0[&startup]) as f64 / logged.0[&startup] as f64;
    println!("mi_startup and all below it: {:.3} % apart", 100.0 * apart);
    assert!(apart < 0.01, "{apart}");
}

/// Phases and rows come from the log, and functions from the call trace.
#[test]
fn a_diff_of_two_boots_with_log_and_calls_has_both() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let kernel = std::path::Path::new(&std::env::var_os("BOOTSCOPE_LIB").unwrap()).join("lab");
    let boot = |name: &str, append: &str| {
        let into = scratch.path(name);
        let mut command = record_lab(&into);
        command.args(["--deterministic", "--memory", "128M", "--trace", "calls", "--symbols"]);
        recorded(command.arg(&kernel).args(["--append", append]), &into, "reached");
        into
    };
    let [few, many, again] =
        [("few", 100), ("many", 200), ("again", 100)].map(|(name, n)| boot(name, &format!("messages={n}")));
    let compared = |other| run(bootscope("diff").arg(&few).arg(other).arg("--json")).exits(0).json();
    let document = compared(&many);
    let row = |of: &str, name: &str| list(&document[of]).iter().find(|row| text(&row["name"]) == name).cloned();
    let row_change = row("rows", "_vprintf").map(|row| ns(&row["after_ns"]) - ns(&row["before_ns"])).unwrap();
    let function = row("functions", "lab::console::_vprintf").expect("the function that prints");
    let calls = |side: &str| function[side]["calls"].as_i64().unwrap();
    assert_eq!((text(&document["evidence"]), calls("after") - calls("before")), ("calls", 100));
    // The log charges printing with that function and its callees.
    let total = ns(&function["after"]["total_ns"]) - ns(&function["before"]["total_ns"]);
    assert!(row_change > 0 && (total - row_change).abs() * 20 < total, "{row_change} ns logged, {total} followed");
    let same = compared(&again);
    assert!(["phases", "rows"].iter().all(|of| list(&same[of]).is_empty()), "{same}");
    // The call trace does not show the end of this kernel's boot. The machine runs on until QEMU's main loop handles
    // the power-off. Sometimes it reaches the final `cli; hlt; jmp`, which is off the path.
    const STOP: i64 = 3;
    let after_the_end = |line: &serde_json::Value| {
        let apart = |of: &str| ns(&line["after"][of]) - ns(&line["before"][of]);
        apart("total_ns").abs() == STOP
            && ns(&line["on_path_change_ns"]) == 0
            && line["before"]["calls"] == line["after"]["calls"]
    };
    let lines = ["functions", "paths"].iter().flat_map(|of| list(&same[of]));
    assert!(lines.clone().all(after_the_end), "{same}");
}
