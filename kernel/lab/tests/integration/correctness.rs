//! Switches that make the kernel correct or broken. The kernel's check gives the verdict, and detects every broken switch.
//!
//! By hand, `BOOTSCOPE_TLB_ROUNDS=1000000` runs this number of rounds of TLB shootdown, and a tenth of them on CPUs that run at
//! the same time. `--nocapture` shows the results.

use crate::support::{Boot, DONE, Machine, kernel};
use lab::verdict::{self, Checked, Verdict};
use std::path::Path;
use std::time::Duration;

fn boot(machine: &Machine, kernel: &Path, line: &str) -> Boot {
    let boot = machine.boot(kernel, line);
    assert_eq!(boot.status, DONE, "{line}: {}", boot.console);
    boot
}

fn check<'a>(boot: &'a Boot, name: &'static str) -> Checked<&'a str> {
    let checked = verdict::find(&boot.console, name).unwrap_or_else(|| panic!("no verdict: {}", boot.console));
    println!("{checked}");
    checked
}

fn with_cpus(mut machine: Machine, cpus: u32) -> Machine {
    machine.cpus = cpus;
    machine
}

/// Number of rounds from the environment, or 2000, which take a few seconds.
fn tlb_rounds() -> u64 {
    let rounds = std::env::var("BOOTSCOPE_TLB_ROUNDS").ok();
    rounds.map_or(2000, |rounds| rounds.parse().expect("BOOTSCOPE_TLB_ROUNDS is a number"))
}

/// QEMU caches translations for each CPU separately. If instructions are counted, CPUs take turns. Otherwise each CPU has a
/// thread of the host, and CPUs really run at the same time.
#[test]
fn a_page_unmapped_on_one_cpu_faults_on_all_before_its_frame_is_given_out() {
    let Some(kernel) = kernel() else { return };
    let at_once = || Machine::new("q35").with(&["-accel", "tcg,thread=multi"]);
    let rounds = tlb_rounds();
    for (how, machine, rounds) in [("in turn", Machine::deterministic(), rounds), ("at once", at_once(), rounds / 10)] {
        let mut machine = with_cpus(machine, 4);
        machine.limit = Duration::from_secs(120) + Duration::from_millis(20) * rounds as u32;
        for (shootdown, verdict) in [("ipi", Verdict::Correct), ("none", Verdict::Broken)] {
            let boot =
                boot(&machine, &kernel, &format!("check=tlb-shootdown tlb_rounds={rounds} shootdown={shootdown}"));
            let checked = check(&boot, "tlb-shootdown");
            assert_eq!(checked.verdict, verdict, "{how}, shootdown={shootdown}: {}", checked.counted);
            let numbers: Vec<u64> = checked.counted.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [made, cpus, given_again, faults, wanted, used_after_free, stale] = numbers[..] else {
                panic!("{}", checked.counted)
            };
            assert_eq!((made, cpus, wanted), (rounds, 4, rounds * 3));
            assert_eq!(faults + used_after_free + stale, wanted);
            // A read finds another owner's word only if the frame got another owner, which depends on the allocator.
            assert!(used_after_free <= given_again * 3, "{how}: {}", checked.counted);
            // The lab's allocators do allocate the same frame again. Otherwise the test would see nothing.
            assert!(shootdown == "ipi" || (given_again > 0 && used_after_free > 0), "{how}: {}", checked.counted);
            // A CPU may drop a translation for lack of room, but most do not.
            assert!(shootdown == "ipi" || used_after_free + stale > wanted / 2, "{how}: {}", checked.counted);
        }
    }
}

#[test]
fn with_one_cpu_there_is_nothing_to_forget_and_no_verdict() {
    let Some(kernel) = kernel() else { return };
    let boot = boot(&Machine::deterministic(), &kernel, "check=tlb-shootdown tlb_rounds=10");
    assert_eq!(verdict::find(&boot.console, "tlb-shootdown"), None, "{}", boot.console);
    assert!(boot.console.contains("tlb_check: one CPU"), "{}", boot.console);
}

/// Services unmap pages while other CPUs run.
#[test]
fn processes_end_while_other_cpus_run() {
    let Some(kernel) = kernel() else { return };
    boot(&with_cpus(Machine::new("q35"), 4), &kernel, "services=2");
}

#[test]
fn a_killed_thread_gives_back_all_it_holds() {
    let Some(kernel) = kernel() else { return };
    for cpus in [1, 4] {
        let machine = with_cpus(Machine::deterministic(), cpus);
        for (signal, verdict, left) in
            [("unwind", Verdict::Correct, "0 frames, 0 holds, 0 references, 0 spans"), ("drop", Verdict::Broken, HELD)]
        {
            let boot = boot(&machine, &kernel, &format!("check=signal-exit signal={signal}"));
            let checked = check(&boot, "signal-exit");
            assert_eq!(checked.verdict, verdict, "{cpus} CPUs: {}", checked.counted);
            assert_eq!(checked.counted, format!("4 threads killed; they held {HELD}; left behind are {left}"));
            // The log has the same holds and spans.
            let count = |end: &str| boot.log.lines().filter(|line| line.ends_with(end)).count();
            let spans = [count("ENTER window"), count("EXIT window")];
            let holds = [count("EVENT HOLD windows"), count("EVENT RELEASE windows")];
            let expected = if signal == "unwind" { ([8, 8], [4, 4]) } else { ([8, 0], [4, 0]) };
            assert_eq!((spans, holds), expected, "{cpus} CPUs, signal={signal}: {}", boot.log);
        }
    }
}

const HELD: &str = "64 frames, 4 holds, 4 references, 8 spans";
