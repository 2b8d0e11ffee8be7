//! A thread that makes the boot wait is on the boot path with its own stack, spliced onto the waiter's, and is not a
//! wait.
//!
//! Stock kernels always have two such threads. The thread `cryptomgr_test` runs crypto's self-tests while an initcall
//! waits for them. A kworker does the work `tracer_init_tracefs_work_func` while an initcall needs its lock.

use crate::support::boots::{QUIET, Scratch, evidence, kernels, record, recorded};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::path::Path;

#[test]
#[ignore = "16 s: in make test-all"]
fn a_thread_that_is_waited_for_is_on_the_boot_path_with_its_own_stack() {
    for kernel in kernels() {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        recorded(record(&kernel, &into).args(["--append", QUIET]), &into, "reached");
        let document = shown(&into);
        assert_eq!(document["scheduler_evidence"], true);
        let thread = "cryptomgr_test";
        assert_on_the_path(&document, thread);
        assert_no_wait_of_its_length(&document, on_path(&document, thread));
        assert_stack(&into, thread, on_path(&document, thread));
        assert_own_spans(&into);
        // The trace itself shows that the thread ran and woke the waiting one.
        assert!(evidence(&into, "trace.txt").lines().any(|line| {
            line.trim_start().starts_with(thread) && line.contains("sched_waking: ") && line.contains(" pid=1 ")
        }));
    }
}

/// The time on the boot path that is charged to the thread itself.
fn on_path(document: &Value, thread: &str) -> i64 {
    let by_it = |row: &&Value| list(&row["tracks"]).iter().any(|track| track == thread);
    list(&document["where"]).iter().filter(by_it).map(|row| ns(&row["self_ns"])).sum()
}

/// Checks that the thread is among the longest on the boot path.
fn assert_on_the_path(document: &Value, thread: &str) {
    let share = on_path(document, thread) as f64 / ns(&document["total_ns"]) as f64;
    println!("{thread}: {:.1} % of the boot path", share * 100.0);
    assert!(share > 0.02, "{thread} has {share} of the path: {:#}", document["where"]);
}

/// Checks that the thread's work does not appear again as a wait of the thread that waited for it.
fn assert_no_wait_of_its_length(document: &Value, thread_ns: i64) {
    let waits = list(&document["where"]).iter().filter(|row| {
        let name = text(&row["name"]);
        name.contains("wait") && list(&row["tracks"]).iter().any(|track| track == "init")
    });
    let waited: i64 = waits.map(|row| ns(&row["self_ns"])).sum();
    assert!(waited < thread_ns / 2, "init waited {waited} ns, of which {thread_ns} ns have an owner");
}

/// Checks the folded stacks: the waiter's frames, then the thread, then its functions.
fn assert_stack(into: &Path, thread: &str, expected_ns: i64) {
    let folded = run(bootscope("export").arg(into).args(["--to", "folded"])).exits(0);
    let (mut spliced, mut in_initcalls, mut all) = (0, 0, 0);
    for line in folded.text().lines() {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        let value: i64 = value.parse().unwrap();
        all += value;
        let Some(at) = frames.iter().position(|frame| *frame == thread) else { continue };
        // A part of the wait is after the last initcall, where init is in no span: `init;cryptomgr_test;runqueue`.
        spliced += if frames[0] == "init" && at >= 1 { value } else { 0 };
        in_initcalls += if frames[..at].iter().any(|frame| frame.starts_with("initcall ")) { value } else { 0 };
    }
    assert_eq!(all, ns(&shown(into)["total_ns"]), "the folded stacks sum to the total");
    assert!(spliced * 10 >= expected_ns * 9, "{spliced} ns of {expected_ns} are on stacks of the one that waited");
    assert!(in_initcalls * 10 >= expected_ns * 3, "{in_initcalls} ns of {expected_ns} are on stacks of an initcall");
}

/// Checks that the work has its own span, on the track of the kworker that did it.
fn assert_own_spans(into: &Path) {
    let csv = run(bootscope("export").arg(into).args(["--to", "csv"])).exits(0);
    let work = csv.text().lines().find(|line| line.contains(",work,work,tracer_init_tracefs_work_func"));
    let work = work.expect("a span of the work item");
    let track = work.split(',').nth(1).unwrap();
    assert!(track.starts_with("kworker/"), "{work}");
    let under = format!(",{track},");
    let depth = |line: &str| line.split(',').nth(4).and_then(|depth| depth.parse::<u32>().ok());
    let deeper = csv.text().lines().filter(|line| line.contains(&under) && depth(line) > depth(work));
    assert!(deeper.count() > 0, "nothing lies under {work}");
}
