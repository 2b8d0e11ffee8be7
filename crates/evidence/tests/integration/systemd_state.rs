//! A real Debian 12's reports of one boot in four forms: its units' properties, a dump, `blame`, and the journal. They
//! must agree.

use evidence::journal::{Entry, Journal, Kind};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, Ns, Phase, ServiceUnit, Timeline};

const SHOW: &str = "systemd-analyze/debian12-show.txt";
const DUMP: &str = "systemd-analyze/debian12-dump.txt";
const BLAME: &str = "systemd-analyze/debian12-blame-chain.txt";
const JOURNAL: &str = "journal/debian12.export";
const MONOTONIC: &str = "journal/debian12-short-monotonic.txt";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Imports and loads these files as `import` and `show` do.
fn imported(files: &[PathBuf]) -> Timeline {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("systemd-state-{}-{number}", std::process::id()));
    recording::import(files, &into, false).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    std::fs::remove_dir_all(&into).unwrap();
    timeline
}

fn units(timeline: &Timeline) -> HashMap<String, ServiceUnit> {
    timeline.units.iter().map(|unit| (timeline.names.get(unit.name).to_owned(), unit.clone())).collect()
}

fn took(unit: &ServiceUnit) -> Option<Ns> {
    Some(unit.settled? - unit.start?)
}

#[test]
fn units_took_as_long_as_blame_reports() {
    let timeline = imported(&[fixture(SHOW)]);
    let units = units(&timeline);
    let (mut printed, mut diagnostics) = (evidence::systemd_analyze::Analysis::default(), Diagnostics::default());
    printed.read("blame", &std::fs::read(fixture(BLAME)).unwrap(), &mut diagnostics);
    assert!(printed.blame.len() > 30 && diagnostics.is_empty(), "{} {diagnostics:?}", printed.blame.len());
    for (name, length, _) in &printed.blame {
        // systemd-analyze also lists a unit that took less than a millisecond.
        let ours = took(&units[name]).unwrap_or(Ns::ZERO);
        assert!((ours - *length).abs() <= Ns::from_ms(1), "{name}: {ours}, and blame says {length}");
    }
    let (mut stages, manager) = (printed.finished.unwrap().stages.into_iter(), Ns::from_us(43_230_179));
    let end = timeline.end.unwrap();
    assert_eq!((end.at, end.evidence), (manager, EndEvidence::SystemdFinished));
    let kernel = stages.next().unwrap().1;
    let user = timeline.boundaries.iter().find(|b| b.phase == Phase::UserSpace).unwrap();
    assert!((user.at - kernel).abs() <= Ns::from_ms(1));
}

#[test]
fn units_are_ordered_and_have_processes() {
    let timeline = imported(&[fixture(SHOW)]);
    let units = units(&timeline);
    let ssh = &units["ssh.service"];
    let names = |list: &[timeline::NameId]| list.iter().map(|name| timeline.names.get(*name)).collect::<HashSet<_>>();
    assert!(names(&ssh.after).contains("network.target") && names(&ssh.requires).contains("system.slice"));
    assert!(names(&units["multi-user.target"].wants).contains("ssh.service"));
    assert_eq!(timeline.names.get(ssh.control_group), "/system.slice/ssh.service");
    assert!(ssh.main_pid.is_some_and(|pid| pid > 1));
    // A target has no start, and escapes in names stay.
    assert_eq!(units["multi-user.target"].start, None);
    assert!(units.contains_key("run-credentials-systemd\\x2dsysctl.service.mount"));
    let before = timeline.units.windows(2).all(|pair| {
        pair[0].start.or(pair[0].settled).unwrap_or(Ns::MIN) <= pair[1].start.or(pair[1].settled).unwrap_or(Ns::MIN)
    });
    assert!(before, "in the order in which they were started");
}

#[test]
fn a_dump_agrees_within_whole_seconds() {
    let (show, dump) = (imported(&[fixture(SHOW)]), imported(&[fixture(DUMP)]));
    let (exact, coarse) = (units(&show), units(&dump));
    assert_eq!(exact.keys().collect::<HashSet<_>>(), coarse.keys().collect::<HashSet<_>>());
    for (name, unit) in &exact {
        let (ours, other) = (unit.settled.unwrap(), coarse[name].settled.unwrap());
        // The dump's zero is a whole second too.
        assert!((ours - other).abs() <= Ns::from_ms(2000), "{name}: {ours} and {other}");
        let order = |timeline: &Timeline, list: &[timeline::NameId]| {
            list.iter().map(|name| timeline.names.get(*name).to_owned()).collect::<HashSet<_>>()
        };
        assert_eq!(order(&show, &unit.after), order(&dump, &coarse[name].after), "{name}");
        assert_eq!(unit.main_pid, coarse[name].main_pid, "{name}");
    }
    assert_eq!(dump.diagnostics.count(DiagnosticKind::UnitTimesInSeconds), coarse.len() as u64);
    assert_eq!(show.diagnostics.count(DiagnosticKind::UnitTimesInSeconds), 0);
    // The exact times are used if both forms are given.
    let both = imported(&[fixture(DUMP), fixture(SHOW)]);
    assert_eq!(units(&both)["ssh.service"].settled, exact["ssh.service"].settled);
    let with_blame = imported(&[fixture(DUMP), fixture(BLAME)]);
    assert_eq!(with_blame.end.unwrap().error, Ns::from_ms(2));
}

#[test]
fn the_journal_agrees_and_is_a_little_later() {
    let (show, journal) = (imported(&[fixture(SHOW)]), imported(&[fixture(JOURNAL)]));
    assert!((journal.end.unwrap().at - show.end.unwrap().at).abs() < Ns::from_us(2));
    let (exact, said) = (units(&show), units(&journal));
    let mut late: Vec<Ns> = Vec::new();
    for (name, unit) in said.iter().filter(|(name, _)| name.ends_with(".service")) {
        if let (Some(heard), Some(settled)) = (unit.settled, exact.get(name).and_then(|unit| unit.settled)) {
            late.push(heard - settled);
        }
    }
    late.sort();
    // The times from before journald ran are on the clock of the kernel's log, which had lost 38 ms while it counted
    // ticks.
    assert!(late.len() >= 10 && late[late.len() / 2].abs() < Ns::from_ms(50), "{late:?}");
    let at = |timeline: &Timeline, phase| timeline.boundaries.iter().find(|b| b.phase == phase).map(|b| b.at).unwrap();
    for phase in [Phase::AfterSysinit, Phase::AfterBasic, Phase::AfterMultiUser] {
        let (exact, heard) = (at(&show, phase), at(&journal, phase));
        assert!((exact - heard).abs() < Ns::from_ms(500), "{phase:?}: {exact} and {heard}");
    }
    // The kernel's own messages are in it: there is no other log.
    let named = |text: &str| journal.marks.iter().any(|mark| journal.names.get(mark.name).starts_with(text));
    assert!(named("Linux version 6.1.0") && named("LSM: Security Framework") && named("sshd: Server listening"));
    let both = imported(&[fixture(SHOW), fixture(JOURNAL)]);
    let names: Vec<_> = both.units.iter().map(|unit| unit.name).collect();
    let once: HashSet<_> = names.iter().collect();
    assert_eq!(names.len(), once.len(), "no unit twice");
    // If both are given, they are on one clock, that of the kernel's log.
    let lost = units(&both)["ssh.service"].settled.unwrap() - exact["ssh.service"].settled.unwrap();
    assert!((lost + Ns::from_ms(38)).abs() < Ns::from_ms(2), "{lost}");
}

/// `journalctl -o short-monotonic` looks like a kernel's log. Services' messages in it must not count as the kernel's.
#[test]
fn the_journal_with_the_kernels_clock_is_read_as_one() {
    let read = |name: &str| {
        let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
        journal.read("a", &std::fs::read(fixture(name)).unwrap(), &mut diagnostics);
        assert!(diagnostics.is_empty(), "{name}: {diagnostics:?}");
        journal.entries
    };
    let (export, short) = (read(JOURNAL), read(MONOTONIC));
    let said = |entry: &Entry| (entry.at, entry.identifier.clone(), entry.pid, entry.message.clone());
    assert_eq!(export.iter().map(said).collect::<Vec<_>>(), short.iter().map(said).collect::<Vec<_>>());
    let (export, short) = (imported(&[fixture(JOURNAL)]), imported(&[fixture(MONOTONIC)]));
    let (numbered, by_words) = (units(&export), units(&short));
    let times = |unit: &ServiceUnit| (unit.start, unit.settled, unit.failed);
    for (name, unit) in &numbered {
        match by_words.get(name) {
            Some(found) => assert_eq!(times(found), times(unit), "{name}"),
            // By its number the unit was started, by its text it was skipped.
            None => assert_eq!(unit.start, None, "{name}"),
        }
    }
    assert_eq!((numbered.len(), by_words.len()), (87, 79));
    let kernels = |timeline: &Timeline| {
        let track = timeline.tracks.iter().find(|(_, track)| timeline.names.get(track.name) == "kernel log").unwrap().0;
        let marks = timeline.marks.iter().filter(|mark| mark.track == track);
        marks.map(|mark| timeline.names.get(mark.name).to_owned()).collect::<Vec<_>>()
    };
    assert!(!kernels(&short).is_empty() && kernels(&short).iter().all(|text| !text.contains("systemd[")));
    // The message states the boot's length, but only to the millisecond.
    let (short, export) = (short.end.unwrap(), export.end.unwrap());
    assert!((short.at - export.at).abs() <= short.error && short.error == Ns::from_ms(2), "{}", short.at);
}

#[test]
fn a_journal_with_dates_and_no_end_is_read_by_its_dates() {
    let text = std::fs::read(fixture("journal/debian12-short.txt")).unwrap();
    let found = evidence::recognise(&text);
    assert_eq!(found.kinds, ["journal"]);
    // A syslog file has the kernel's stamps, and is read by them.
    let stamped = String::from_utf8(text).unwrap().replace(" kernel: ", " kernel: [    1.500000] ");
    let kinds = evidence::recognise(stamped.as_bytes()).kinds;
    assert!(kinds.iter().all(|kind| kind.starts_with("kernel log")), "{kinds:?}");
}

#[test]
fn a_cut_journal_is_read_up_to_the_cut() {
    let whole = std::fs::read(fixture(JOURNAL)).unwrap();
    let read = |bytes: &[u8]| {
        let (mut journal, mut diagnostics) = (Journal::default(), Diagnostics::default());
        journal.read("a", bytes, &mut diagnostics);
        journal
    };
    let all = read(&whole);
    assert_eq!(all.entries.iter().filter(|entry| entry.kind == Some(Kind::StartupFinished)).count(), 1);
    for length in (0..whole.len()).step_by(997) {
        let cut = read(&whole[..length]).entries;
        assert!(cut.len() <= all.entries.len());
        if let [before @ .., _] = &cut[..] {
            assert_eq!(before, &all.entries[..before.len()]);
        }
        // A journal that begins in the middle of an entry is read as well.
        assert!(read(&whole[length..]).entries.len() + cut.len() <= all.entries.len() + 2);
    }
}

proptest! {
    #[test]
    fn any_state_is_placed(
        lines in proptest::collection::vec(prop_oneof![
            Just("Id=a.service".to_owned()), Just("Id=b.target".to_owned()), Just(String::new()),
            Just("After=a.service b.target c.mount".to_owned()), Just("Names=default.target".to_owned()),
            Just("ActiveState=failed".to_owned()), Just("Virtualization=lxc".to_owned()),
            Just("-> Unit d.service:".to_owned()), Just("\tAfter: a.service (x)".to_owned()),
            Just("Timestamp kernel: Tue 2026-11-24 13:30:55 UTC".to_owned()),
            Just("\tActive Enter Timestamp: Tue 2026-11-24 13:30:59 UTC".to_owned()),
            ("(InactiveExit|ActiveEnter|InactiveEnter|Userspace|Finish|InitRD|Firmware|Loader|GeneratorsStart|GeneratorsFinish)", 0u64..40)
                .prop_map(|(key, us)| format!("{key}TimestampMonotonic={us}")),
            Just("FinishTimestampMonotonic=18446744073709551615".to_owned()),
            Just("ActiveEnterTimestampMonotonic=9223372036854775".to_owned()),
        ], 0..40)
    ) {
        let (mut found, mut diagnostics) = (evidence::systemd_analyze::Analysis::default(), Diagnostics::default());
        found.read("a", lines.join("\n").as_bytes(), &mut diagnostics);
        let mut timeline = found.on_a_timeline();
        timeline.finalize(Ns::ZERO);
        let phases = analysis::phases(&timeline);
        prop_assert_eq!(phases.iter().map(|phase| phase.length()).sum::<Ns>(), analysis::total(&timeline));
        let path = analysis::boot_path(&timeline);
        if !path.stretches.is_empty() {
            prop_assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), analysis::total(&timeline));
        }
    }
}
