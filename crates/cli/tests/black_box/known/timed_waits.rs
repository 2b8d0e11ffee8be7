//! Waits for a clock, whose lengths the command line gives: with halted CPUs, and in a loop that reads a clock. They are
//! no instructions. Work is no wait.

use crate::support::boots::{Scratch, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;

/// The instructions and the timed waits of a row, ns.
fn parts(document: &Value, name: &str) -> (i64, i64) {
    let row = list(&document["where"]).iter().find(|row| text(&row["name"]) == name);
    let row = row.unwrap_or_else(|| panic!("no {name:?} in {document:#}"));
    let waited = row["self_waited_ns"].as_i64().unwrap_or(0);
    (ns(&row["self_ns"]) - waited, waited)
}

#[test]
fn waits_of_known_length_are_no_instructions() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let boot = |name: &str, append: &str| {
        let into = scratch.path(name);
        recorded(record_lab(&into).args(["--deterministic", "--append", append]), &into, "reached");
        (shown(&into), into)
    };
    // Ticks of the timer interrupt a wait, and their handlers are work.
    let near = |waited: i64, ms: i64| {
        assert!((-200_000..50_000).contains(&(waited - ms * 1_000_000)), "{waited} ns for {ms} ms");
    };

    // Threads sleep, and the CPU is halted.
    let scripted = "root_wait=all usb=yes delay.port1=20 delay.port2=20 delay.port3=60 delay.port4=20 root_on=ufs \
                    delay.answer.ada0=30 delay.answer.ada1=40";
    let (halted, into) = boot("halted", scripted);
    let (worked, waited) = parts(&halted, "THREAD usbus0");
    near(waited, 150);
    assert!(worked < 100_000, "{worked} instructions");
    near(ns(&halted["waited_ns"]), 150);
    let printed = run(bootscope("show").arg(&into)).exits(0);
    assert!(
        printed.text().contains("+ 150 ms timed waits") && !printed.text().contains("150 M instr"),
        "{}",
        printed.text()
    );
    let saved = run(bootscope("what-if").arg("--json").arg("--save=THREAD usbus0").arg(&into)).exits(0).json();
    let left = ns(&saved["steps"][0]["total_ns"]);
    let left_waited = saved["steps"][0]["total_waited_ns"].as_i64().unwrap_or(0);
    // The other disk answers after 40 ms.
    near(left_waited, 40);
    assert!(left - left_waited < ns(&halted["total_ns"]) - ns(&halted["waited_ns"]), "{saved:#}");

    // A driver polls the TSC.
    let (polled, _) = boot("polled", "ps2=probe");
    for (row, ms) in [("DEVICE_PROBE psm", 1600), ("DEVICE_ATTACH atkbd0 · DELAY", 400)] {
        let (worked, waited) = parts(&polled, row);
        near(waited, ms);
        assert!(worked < 100_000, "{row}: {worked} instructions");
    }

    // A structure for each page is set up, and nothing waits.
    let (computed, _) = boot("computed", "vm_page=three-pass");
    assert_eq!((text(&computed["unit"]), computed["waited_ns"].as_i64()), ("instructions", None), "{computed:#}");
}
