//! Events of Android's boots with known times.

use super::imports::imported;
use analysis::{Groups, boot_path, phases, tables, total};
use timeline::{DiagnosticKind, EndEvidence, Ns};

#[test]
fn each_event_begins_a_step_on_the_kernels_clock() {
    let timeline = imported(&["android-events/clock-set-meanwhile.txt"]);
    assert_eq!((total(&timeline), timeline.end.unwrap().evidence), (Ns::from_ms(31_792), EndEvidence::LastSign));
    let path = boot_path(&timeline);
    let rows = tables(&timeline, &path, &phases(&timeline), &Groups::linux()).wheres;
    let time = |name: &str| rows.iter().find(|row| row.name.contains(name)).map(|row| row.self_time);
    assert_eq!(time("pms_data_scan_start"), Some(Ns::from_ms(31_734 - 15_251)));
    assert_eq!(time("unexplained"), Some(Ns::from_ms(7_003)));
}

#[test]
fn the_first_screen_ends_the_boot_and_a_second_boot_is_counted() {
    let timeline = imported(&["android-events/two-boots-numbered.txt"]);
    assert_eq!((total(&timeline), timeline.end.unwrap().evidence), (Ns::from_ms(27_425), EndEvidence::AndroidShown));
    assert_eq!(timeline.diagnostics.count(DiagnosticKind::SecondStatement), 3);
}

#[test]
fn a_kernel_log_beside_the_events_has_the_time_before_them() {
    let timeline = imported(&["android-events/two-boots-numbered.txt", "cbmem/kernel-beside-it.txt"]);
    let names: Vec<String> = phases(&timeline).into_iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["kernel, initcalls not told apart", "process 1", "user space"]);
    assert_eq!(total(&timeline), Ns::from_ms(27_425));
}
