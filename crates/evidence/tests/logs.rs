//! Real kernel logs, each against the text dump of what it became (`BLESS=1` writes the dumps).

mod support;

use evidence::initcalls::{self, Initcalls};
use evidence::kernel_log::KernelLog;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use timeline::{Diagnostics, Ns, TimeBase, Timeline};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/log")
}

fn read(path: &Path) -> (KernelLog, Initcalls, Diagnostics) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut diagnostics = Diagnostics::default();
    let log = KernelLog::read(name, &std::fs::read(path).unwrap(), &mut diagnostics).unwrap();
    let calls = initcalls::read(name, &log, |line| line.stamp, &mut diagnostics);
    (log, calls, diagnostics)
}

fn dump(path: &Path) -> String {
    let (log, calls, diagnostics) = read(path);
    let mut text = format!("{:?}, lost {}\n", log.counts, log.lost);
    let unit = if calls.unit.shifted { "ns >> 10" } else { "µs" };
    writeln!(text, "unit {unit}: {}", calls.unit.evidence).unwrap();
    for call in &calls.calls {
        let took = call.took.map_or("not said".to_owned(), |took| took.to_string());
        writeln!(text, "{:?} {} took {took} returned {:?}", call.kind, call.name, call.returned).unwrap();
    }
    let mut timeline = Timeline::new(TimeBase::Evidence);
    timeline.diagnostics = diagnostics;
    calls.lay(&mut timeline);
    timeline.settle(Ns::from_us(10));
    text + &support::diagnostics(&timeline.diagnostics) + &support::timeline(&timeline)
}

#[test]
fn real_logs() {
    let mut fixtures: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    fixtures.retain(|path| path.extension().is_some_and(|e| e == "log"));
    fixtures.sort();
    assert!(!fixtures.is_empty());
    for fixture in fixtures {
        support::compare(&fixture, &dump(&fixture));
    }
}

/// The four initcalls that a board waited whole timer ticks in: 10 ms and 20 ms, not 9.765 and 19.531.
#[test]
fn the_ticks_of_the_imx6() {
    let (_, calls, _) = read(&folder().join("linux-3.5.7-imx6-only-returns.log"));
    assert!(calls.unit.shifted);
    let found: Vec<_> = calls.calls.iter().map(|c| (c.name.as_str(), c.took.unwrap().0, (c.end - c.start).0)).collect();
    let (one, two) = (9765 * 1024, 19531 * 1024);
    let expected = [
        ("spawn_ksoftirqd", one, one),
        ("init_workqueues", one, one),
        // Its two ticks would begin before the one before it returned: the stamps leave it 19.902 ms.
        ("cpu_stop_init", two, 19_902_000),
        ("rcu_spawn_kthreads", two, two),
    ];
    assert_eq!(found, expected);
}
