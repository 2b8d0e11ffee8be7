//! Compares counts of accesses that leave the guest with the truth: a guest that makes a known number of each
//! (`guests/exits.s`), and a stock kernel's own console.

use super::calls_exact::{built, place_to_build};
use super::followed_boots::deterministic;
use crate::support::boots::{Scratch, kernel, recorded};
use crate::support::{bootscope, list, run, shown, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// The accesses, those in waits, and first touched pages.
type Counts = [i64; 3];

fn counts(value: &Value) -> Counts {
    ["accesses", "in_waits", "pages"].map(|field| value[field].as_i64().unwrap())
}

/// The named functions' own counts, and those with callees.
fn functions(exits: &Value) -> BTreeMap<&str, (Counts, Option<Counts>)> {
    let functions = list(&exits["functions"]).iter().filter(|function| function["name"] != "");
    let both = |f: &Value| (counts(&f["own"]), f["with_callees"].as_object().map(|_| counts(&f["with_callees"])));
    functions.map(|function| (text(&function["name"]), both(function))).collect()
}

#[test]
fn a_guest_that_makes_a_known_number_of_accesses_is_counted_exactly() {
    const OWN: [(&str, Counts); 12] = [
        ("writes_port", [600, 0, 0]),
        ("polls_uart", [200, 0, 0]),
        ("sends_string", [100, 0, 1]),
        ("receives_string", [50, 0, 0]),
        ("reads_apic", [70, 0, 0]),
        ("writes_apic", [40, 0, 0]),
        ("identifies", [9, 0, 0]),
        ("reads_msr", [11, 0, 0]),
        ("writes_msr", [7, 0, 0]),
        ("touches_pages", [0, 0, 500]),
        ("probes", [1000, 0, 0]),
        ("waits_for_timer", [0, 1000, 0]),
    ];
    let Some(scratch) = place_to_build() else { return };
    let image = built("exits", scratch.folder());
    for (n, how) in
        [&["exits", "--deterministic"][..], &["exits,calls", "--deterministic"], &["exits"]].iter().enumerate()
    {
        let into = scratch.path(&format!("boot-{n}"));
        let mut command = bootscope("record");
        command.args(["--memory", "64M", "--accel", "tcg", "--until", "power-off", "--timeout", "1m", "--trace"]);
        command.args(*how).arg("--symbols").arg(&image).arg("-o").arg(&into).arg("--").arg("-kernel").arg(&image);
        recorded(&mut command, &into, "reached");
        let document = shown(&into);
        let (exits, has_calls) = (&document["exits"], how[0] != "exits");
        let found = functions(exits);
        for (name, expected) in OWN {
            let Some(&(mut own, _)) = found.get(name) else { panic!("{name} is missing from {how:?}") };
            // In the host's time, a busy host may end a wait between two reads. Then the last read is no wait's.
            if n == 2 && expected[1] > 0 && own[1] >= 64 {
                own = [0, own[0] + own[1], own[2]];
            }
            assert_eq!(own, expected, "{name} of {how:?}");
        }
        let outer = found.get("outer").and_then(|both| both.1);
        assert_eq!(outer, has_calls.then_some([600, 0, 500]), "{how:?}");
        assert_eq!((&exits["uncounted"], &exits["without_time"]), (&Value::from(0), &Value::from(0)));
        let mut waits: Vec<&str> = list(&exits["waits"]).iter().map(|wait| text(&wait["name"])).collect();
        waits.sort_unstable();
        // In the host's time, a busy host may end the loop that reads the counter after a few reads.
        let expected = ["waits_for_counter", "waits_for_timer"];
        assert!(waits == expected || (n == 2 && waits == expected[1..]), "{waits:?} of {how:?}");
        let printed = String::from_utf8_lossy(&run(bootscope("show").arg(&into)).exits(0).stdout).into_owned();
        assert!(printed.contains("device accesses by function"), "{printed}");
    }
}

#[test]
fn two_boots_of_a_stock_kernel_agree_to_the_access() {
    const ROOM_BYTES: u64 = 20_000_000;
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let boot = |name| {
        let into = deterministic(&scratch, &kernel, name);
        let bytes = std::fs::metadata(into.join("exits.bin")).unwrap().len();
        assert!(bytes <= ROOM_BYTES, "{bytes} bytes of accesses");
        let console = std::fs::read(into.join("console.log")).unwrap().len();
        (shown(&into)["exits"].clone(), console as i64)
    };
    let ((first, console), (second, _)) = (boot("first"), boot("second"));
    assert_eq!(first, second);
    // Each character of the console is one write to the UART, and few writes set it up. Its last lines come after the
    // end mark, and firmware may write, too.
    let written = functions(&first)["io_serial_out"].0[0];
    println!("{written} writes to the UART, {console} bytes on the console");
    assert!(written > console / 2 && written < console * 2, "{written} writes for {console} bytes");
    let phases: i64 = list(&first["phases"]).iter().map(|phase| counts(&phase["counts"])[2]).sum();
    let kinds = list(&first["kinds"]);
    let touched = kinds.iter().find(|kind| kind["kind"] == "page first touched").unwrap();
    assert_eq!(touched["count"].as_i64(), Some(phases), "each touch is in a phase");
    let hpet = kinds.iter().filter(|kind| kind["device"] == "HPET");
    for kind in hpet {
        let [all, in_waits] = ["count", "in_waits"].map(|field| kind[field].as_i64().unwrap());
        assert!(all - in_waits < 200, "{kind}: its calibration is a wait");
    }
}
