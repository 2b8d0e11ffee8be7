//! A boot of the reference kernel that ends early still gives its log, read from guest memory. The guest hangs with
//! interrupts off, panics, or faults before it can handle faults. The recording has the outcome, and the log the place
//! of the end.

use crate::support::boots::{Scratch, evidence, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, ns, run, shown};

/// Every stage before the first SYSINIT, and a place of each other kind.
const PLACES: [&str; 15] = [
    "stage.pit",
    "stage.descriptors",
    "stage.trap",
    "stage.memory",
    "stage.paging",
    "stage.heap",
    "stage.syscall",
    "stage.thread",
    "stage.keyboard",
    "sysinit.vm_mem",
    "sysinit.start_aps",
    "probe.uart",
    "attach.uart0",
    "mount.ramfs",
    "thread.init",
];

/// The last entry in the log of a boot that ends there, and an entry that it never reaches.
fn last_and_never(place: &str) -> (String, String) {
    let (kind, name) = place.split_once('.').expect("a kind and a name");
    match kind {
        "stage" => ("ENTER hammer_time".to_owned(), "EXIT hammer_time".to_owned()),
        "sysinit" => (format!("ENTER SYSINIT {name}"), format!("EXIT SYSINIT {name}")),
        "probe" => (format!("ENTER DEVICE_PROBE {name}"), format!("EXIT DEVICE_PROBE {name}")),
        "attach" => (format!("ENTER DEVICE_ATTACH {name}"), format!("EXIT DEVICE_ATTACH {name}")),
        "mount" => (format!("ENTER VFS_MOUNT {name}"), format!("EXIT VFS_MOUNT {name}")),
        _ => (format!("THREAD {name}"), "ENTER start_init".to_owned()),
    }
}

/// Ends boots with a word such as `panic`, at each of these places.
fn ends(word: &str, places: &[&str], outcome: &str) {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    for place in places {
        let into = scratch.path(place);
        let mut command = record_lab(&into);
        command.args(["--memory", "128M", "--hang-after", "1s", "--no-first-run", "--append"]);
        recorded(command.arg(format!("{word}={place}")), &into, outcome);
        let log = evidence(&into, "tslog.txt");
        let (last, never) = last_and_never(place);
        assert!(log.lines().any(|line| line.ends_with(&last)), "{word}={place}: no {last}\n{log}");
        assert!(!log.lines().any(|line| line.ends_with(&never)), "{word}={place}: {never}\n{log}");
        let document = shown(&into);
        assert_eq!(document["outcome"], outcome, "{word}={place}");
        assert!(ns(&document["total_ns"]) > 0, "{word}={place}");
    }
}

#[test]
#[ignore = "96 s: in make test-all"]
fn the_log_is_transferred_after_a_hang_at_every_stage() {
    ends("hang", &PLACES, "hang");
}

#[test]
#[ignore = "13 s: in make test-all"]
fn the_log_is_transferred_after_a_panic_at_every_stage() {
    ends("panic", &PLACES, "panic");
}

#[test]
fn a_fault_is_a_reset_until_the_kernel_handles_faults() {
    ends("fault", &["stage.pit", "stage.descriptors", "stage.trap"], "reset");
    ends("fault", &["stage.memory", "thread.init"], "panic");
}

#[test]
fn a_hang_is_reported_with_the_cpus_position() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("hung");
    let mut command = record_lab(&into);
    recorded(command.args(["--hang-after", "1s", "--append", "hang=attach.uart0"]), &into, "hang");
    assert!(evidence(&into, "console.log").contains("hang: at attach uart0"));
    assert!(evidence(&into, "registers.txt").contains("RIP="));
    let text = run(bootscope("show").arg(&into)).exits(0);
    assert!(text.text().contains("DEVICE_ATTACH uart0"), "{}", text.text());
}
