//! Logs of VMMs with known times.

use super::imports::imported;
use analysis::{Groups, boot_path, phases, tables, total};
use timeline::{EndEvidence, Ns, Timeline};

fn rows(timeline: &Timeline) -> Vec<(String, i64)> {
    phases(timeline).into_iter().map(|phase| (phase.name.clone(), phase.length().0)).collect()
}

#[test]
fn the_boot_timer_ends_the_boot_of_a_guest_of_which_nothing_else_is_known() {
    let timeline = imported(&["vmm-log/firecracker-boot-timer.txt"]);
    assert_eq!(rows(&timeline), [("VMM: start".to_owned(), 7_840_969), ("guest".to_owned(), 123_258_474)]);
    assert_eq!(timeline.end.unwrap().evidence, EndEvidence::BootTimer);
}

#[test]
fn the_console_of_the_guest_follows_the_start_of_the_vcpus() {
    let timeline = imported(&["vmm-log/firecracker-with-console.log"]);
    let kernel = "kernel, initcalls not told apart".to_owned();
    assert_eq!(rows(&timeline), [("VMM: start".to_owned(), 37_276_544), (kernel, 446_600_000)]);
    let path = boot_path(&timeline);
    let rows = tables(&timeline, &path, &phases(&timeline), &Groups::linux()).wheres;
    let time = |name: &str| rows.iter().find(|row| row.name.contains(name)).map(|row| row.self_time);
    // The VMM's own lines are not counted as the kernel's.
    assert_eq!(time("Command line"), Some(Ns(408_650_000)));
    assert_eq!(rows.iter().map(|row| row.self_time).sum::<Ns>(), total(&timeline));
    assert!(timeline.marks.iter().all(|mark| !timeline.names.get(mark.name).contains("anonymous-instance")));
}
