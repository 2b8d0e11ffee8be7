//! Two kinds of evidence of one boot of the reference kernel agree: what its recorder logged, and what QEMU's plugin saw
//! of its calls from outside. Both nest alike, and take as long.
//!
//! A deterministic boot of one CPU, in which an instruction is a nanosecond. Compared are functions that the log names
//! and that are functions of their own in the kernel. What is left between the two is the event itself: the log's entry
//! is written after the call, and its exit before the return.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use support::boots::{Scratch, evidence, recorded};
use support::lab::{built, record_lab};
use support::{bootscope, run};

/// What the log calls it, and what its symbol has in it, whichever way names are mangled.
const FUNCTIONS: [(&str, &str); 7] = [
    ("hammer_time", "3lab11hammer_time"),
    ("mi_startup", "7sysinit10mi_startup"),
    ("SYSINIT", "7sysinit4call"),
    ("DEVICE_PROBE", "6device12device_probe"),
    ("DEVICE_ATTACH", "6device13device_attach"),
    ("DELAY", "5clock8delay_us"),
    ("_vprintf", "7console8_vprintf"),
];
/// Instructions of an entry and an exit that are in the call and not between the two.
const EVENT_NS: u64 = 60;

/// A function below those that called it, as far as they are compared.
type Chain = Vec<&'static str>;

/// What was spent in each chain and all below it.
#[derive(Default)]
struct Totals(BTreeMap<Chain, u64>);

impl Totals {
    fn add(&mut self, chain: &[&'static str], ns: u64) {
        for depth in 1..=chain.len() {
            *self.0.entry(chain[..depth].to_vec()).or_default() += ns;
        }
    }

    /// Of thread0: its first steps are called by nobody that is compared.
    fn chains(&self) -> BTreeSet<&Chain> {
        self.0.keys().filter(|chain| ["hammer_time", "mi_startup"].contains(&chain[0])).collect()
    }
}

/// From lines `thread ticks ENTER|EXIT name detail`; also how often each chain or what is below it was entered.
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

/// From lines `function;function;… instructions`.
fn followed(folded: &str) -> Totals {
    let mut totals = Totals::default();
    for line in folded.lines() {
        let (stack, own) = line.rsplit_once(' ').expect("a stack and a number");
        let known = |frame: &str| FUNCTIONS.iter().find(|(_, symbol)| frame.contains(symbol)).map(|(name, _)| *name);
        let chain: Chain = stack.split(';').filter_map(known).collect();
        totals.add(&chain, own.parse().unwrap());
    }
    totals
}

#[test]
fn what_the_kernel_logs_and_what_is_seen_of_its_calls_agree() {
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
    // The same boot without its log: what is shown now rests on calls alone.
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
