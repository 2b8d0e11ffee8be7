use super::*;

fn fleet() -> Fleet {
    Fleet { seed: 3, boots: 9000, kinds: 20, days: 90, rows: 30, regressions: 4, ratio: 1.5 }
}

#[test]
fn a_boot_does_not_depend_on_other_calls() {
    let fleet = fleet();
    let (first, second) = (fleet.boot(4321), fleet.boot(4321));
    assert_eq!(first.summary, second.summary);
    assert_eq!(first.id, second.id);
    assert_ne!(first.id, fleet.boot(4322).id);
    assert_ne!(first.summary, Fleet { seed: 4, ..fleet }.boot(4321).summary);
}

#[test]
fn every_boot_has_one_day() {
    let fleet = fleet();
    let days: Vec<u64> = (0..fleet.days).flat_map(|day| fleet.of_day(day)).collect();
    assert_eq!(days, (0..fleet.boots).collect::<Vec<_>>());
}

#[test]
fn the_planted_rows_become_slower_by_the_planted_ratio_and_no_others_do() {
    let fleet = fleet();
    let planted = fleet.planted();
    assert_eq!(planted.len(), 4);
    let all: Vec<Boot> = (0..fleet.boots).map(|number| fleet.boot(number)).collect();
    for planted in planted {
        let mean = |name: &str, after: bool| {
            let of = |boot: &&Boot| {
                boot.hardware.as_deref() == Some(&planted.hardware)
                    && (boot.summary.subject.kernel >= planted.kernel) == after
            };
            let found = all.iter().filter(of).flat_map(|boot| &boot.summary.wheres).filter(|row| row.name == name);
            let times: Vec<f64> = found.map(|row| row.self_ns as f64).collect();
            times.iter().sum::<f64>() / times.len() as f64
        };
        for row in 0..fleet.rows {
            let name = row_name(row);
            let expected = if name == planted.name { 1.5 } else { 1.0 };
            let ratio = mean(&name, true) / mean(&name, false);
            assert!((ratio / expected - 1.0).abs() < 0.1, "{name} of {}: {ratio}", planted.hardware);
        }
    }
}

#[test]
fn rows_and_phases_sum_to_the_total() {
    let boot = fleet().boot(77);
    let rows: i64 = boot.summary.wheres.iter().map(|row| row.self_ns).sum();
    let phases: i64 = boot.summary.phases.iter().map(|phase| phase.end_ns - phase.start_ns).sum();
    assert_eq!((rows, phases), (boot.summary.total_ns, boot.summary.total_ns));
}
