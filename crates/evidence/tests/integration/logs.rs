//! Real kernel logs, each compared with the text dump of its result (`BLESS=1` writes the dumps).

use evidence::initcalls::{self, Initcalls};
use evidence::kernel_log::KernelLog;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use timeline::{DiagnosticKind, Diagnostics, Ns, TimeBase, Timeline};

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
    calls.build(&mut timeline);
    timeline.finalize(Ns::from_us(10));
    text + &crate::support::diagnostics(&timeline.diagnostics) + &crate::support::timeline(&timeline)
}

#[test]
fn real_logs() {
    let mut fixtures: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    fixtures.retain(|path| path.extension().is_some_and(|e| e == "log"));
    fixtures.sort();
    assert!(!fixtures.is_empty());
    for fixture in fixtures {
        crate::support::compare(&fixture, &dump(&fixture));
    }
}

/// `grabserial -m` counts from 0 again after the line with the pattern. Here its stamps continue, beside those of the
/// kernel's clock.
#[test]
fn stamps_of_grabserial_go_on_after_its_pattern() {
    let (log, ..) = read(&folder().join("linux-6.1-grabserial-t-m.log"));
    assert_eq!(log.logger, Some("grabserial"));
    let stamps: Vec<_> = log.lines.iter().map(|line| (line.host_stamp.unwrap(), line.stamp)).collect();
    assert!(stamps.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{stamps:?}");
    let both = stamps.iter().filter_map(|(host, own)| Some(*host - (*own)?));
    let late: Vec<Ns> = both.filter(|late| *late > Ns::from_ms(-1_000)).collect();
    let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
    // The serial line delays the lines, and the kernel's clock is a little fast until it is calibrated.
    assert!(late.len() > 10 && *most - *least < Ns::from_ms(30), "{late:?}");
}

/// The four initcalls of a board that took whole timer ticks: 10 ms and 20 ms by the kernel, not 9.765 and 19.531. No
/// initcall begins before the previous message.
#[test]
fn the_ticks_of_the_imx6() {
    let (_, calls, diagnostics) = read(&folder().join("linux-3.5.7-imx6-only-returns.log"));
    assert!(calls.unit.shifted);
    let found: Vec<_> = calls.calls.iter().map(|c| (c.name.as_str(), c.took.unwrap().0, (c.end - c.start).0)).collect();
    let (one, two) = (9765 * 1024, 19531 * 1024);
    let expected = [
        // The message before its return was printed 4.171 ms earlier, by another initcall.
        ("spawn_ksoftirqd", one, 4_171_000),
        ("init_workqueues", one, one),
        // Its two ticks would begin before the previous initcall returned: the stamps leave 19.902 ms.
        ("cpu_stop_init", two, 19_902_000),
        ("rcu_spawn_kthreads", two, two),
    ];
    assert_eq!(found, expected);
    assert!(calls.calls.iter().all(|call| call.start_error == Ns::from_ms(10)), "{calls:?}");
    assert_eq!(diagnostics.count(DiagnosticKind::InitcallsInTicks), 4);
}

/// Two ticks mean more than one: a message 3 ms before the return is the initcall's own, and does not shorten it.
#[test]
fn a_message_from_inside_an_initcall_does_not_cut_it() {
    let log = "[    0.100000] a message\n\
               [    0.125000] from inside\n\
               [    0.128000] initcall a+0x0/0x1 returned 0 after 20000 usecs\n\
               [    0.138500] initcall b+0x0/0x1 returned 0 after 10000 usecs\n";
    let mut diagnostics = Diagnostics::default();
    let log = KernelLog::read("a.log", log.as_bytes(), &mut diagnostics).unwrap();
    let found = initcalls::read("a.log", &log, |line| line.stamp, &mut diagnostics);
    let spans: Vec<_> = found.calls.iter().map(|call| (call.start.0 / 1000, call.end.0 / 1000)).collect();
    assert_eq!(spans, [(108_000, 128_000), (128_500, 138_500)]);
}
