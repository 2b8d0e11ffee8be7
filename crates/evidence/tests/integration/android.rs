//! Messages of Android's init in real kernel logs, as units, spans and waits.

use proptest::prelude::*;
use std::path::Path;
use timeline::{Manager, Ns, SpanKind, Timeline, WaitedOn};

fn imported(name: &str) -> Timeline {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("android-{}-{name}", std::process::id()));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/android").join(name);
    recording::import(&[file], &into, false).unwrap();
    evidence::load(&recording::Recording::open(&into).unwrap()).unwrap()
}

type Row<'a> = (&'a str, i64, Option<i64>, bool, Option<u64>);

/// The units: name, start and end of the start in µs, true if it failed, process.
fn units(timeline: &Timeline) -> Vec<Row<'_>> {
    assert!(timeline.units.iter().all(|unit| timeline.unit_managers.get(&unit.name) == Some(&Manager::Android)));
    let us = |at: Ns| at.0 / 1000;
    let row = |unit: &timeline::ServiceUnit| us(unit.start.unwrap());
    let all = timeline
        .units
        .iter()
        .map(|unit| (timeline.names.get(unit.name), row(unit), unit.settled.map(us), unit.failed, unit.main_pid));
    all.collect()
}

#[test]
fn init_waits_for_a_service() {
    let timeline = imported("android12-waits-and-a-failed-command.log");
    assert_eq!(units(&timeline), [("bpfloader", 20_081_075, Some(20_526_666), false, None)]);
    let [wait] = &timeline.waits[..] else { panic!("{:?}", timeline.waits) };
    let WaitedOn::Thread(loader) = wait.by else { panic!("{wait:?}") };
    assert_eq!(timeline.names.get(timeline.tracks.get(loader).name), "bpfloader");
    assert_eq!((wait.from.0 / 1000, wait.until.0 / 1000), (20_081_075, 20_526_666));
    // An action lasts until init's last message in it; an action without messages has no span.
    let actions = timeline.spans.iter().filter(|(_, span)| span.kind == SpanKind::Stage);
    let actions: Vec<_> =
        actions.map(|(_, s)| (timeline.names.get(s.detail), s.start.0 / 1000, s.end.0 / 1000)).collect();
    assert_eq!(actions[0], ("load_bpf_programs", 20_070_958, 20_535_881));
    // On the boot path, the time in which init waited is charged to the service.
    let path = analysis::boot_path(&timeline);
    let of_it = path.stretches.iter().filter(|stretch| stretch.owner().track == loader);
    assert_eq!(of_it.map(|stretch| stretch.length()).sum::<Ns>(), wait.until - wait.from);
}

#[test]
fn a_oneshot_service_is_active_when_it_ends_and_another_when_it_is_started() {
    let timeline = imported("android16-oneshot-in-the-background.log");
    let expected = [
        ("aconfigd", 11_011_567, Some(11_066_414), false, Some(400)),
        // Its end is not in the log.
        ("derive_sdk", 11_040_935, Some(11_049_758), false, Some(401)),
    ];
    assert_eq!(units(&timeline), expected);
}

#[test]
fn old_inits_log_only_that_they_start_a_service() {
    let timeline = imported("android7-no-word-of-started.log");
    let expected = [
        ("gatekeeperd", 27_153_859, Some(27_153_859), false, None),
        ("perfprofd", 27_161_027, Some(27_161_027), false, None),
        ("exec 8 (/system/bin/ifconfig)", 27_180_859, Some(27_206_513), false, None),
        ("exec 9 (/system/bin/ethtool)", 27_215_637, Some(27_235_642), false, None),
    ];
    assert_eq!(units(&timeline), expected);
}

#[test]
fn properties_show_when_services_were_started() {
    let timeline = imported("getprop.txt");
    let found: Vec<_> = units(&timeline).into_iter().map(|row| (row.0, row.1, row.2)).collect();
    let expected = [
        ("logd", 5_123_954, Some(5_123_954)),
        ("hwservicemanager", 5_139_136, Some(5_139_136)),
        ("idmap2d", 8_063_530, Some(8_063_530)),
        ("incidentd", 8_064_680, Some(8_064_680)),
        ("installd", 8_065_824, Some(8_065_824)),
    ];
    assert_eq!(found, expected);
    assert_eq!(timeline.diagnostics.count(timeline::DiagnosticKind::SumWithoutPlace), 5);
    let process_1 = timeline.boundaries.iter().find(|boundary| boundary.phase == timeline::Phase::Process1);
    assert_eq!(process_1.map(|boundary| boundary.at), Some(Ns(2_467_747_102)));
    // There is no evidence of the boot's end: it ends with process 1, and services are milestones after that.
    assert_eq!(timeline.end.map(|end| end.at), Some(Ns(2_467_747_102)));
}

const PIECES: [&str; 12] = [
    "init: processing action (a) from (/x:1)",
    "init: processing action (b)",
    "init: Command 'start x' action=a (/x:2) took 900ms and succeeded",
    "init: Command 'y' action=b (/x:2) returned 0 took 1.5ms.",
    "init: starting service 'x'...",
    "init: starting service 'z\\x1b'...",
    "init: ... started service 'x' has pid 1",
    "init: Service 'x' (pid 1) exited with status 0 waiting took 1 seconds",
    "init: Service 'z' (pid 2) received signal 6",
    "init: Service 'x' (pid 1) exited with status 1 oneshot service took 0.0 seconds in background",
    "init: Service '",
    "Run /init as init process",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// For any order of init's messages, phases and boot path add up to the boot's length, and each start is one unit.
    #[test]
    fn any_order(lines in proptest::collection::vec((0..PIECES.len(), 0..2_000_000i64), 1..60)) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (mut at, mut text) = (0, String::new());
        for (piece, after) in &lines {
            at += after;
            text.push_str(&format!("[{:5}.{:06}] {}\n", at / 1_000_000, at % 1_000_000, PIECES[*piece]));
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("android-any-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("log.txt"), &text).unwrap();
        recording::import(&[folder.join("log.txt")], &folder.join("r"), false).unwrap();
        let timeline = evidence::load(&recording::Recording::open(&folder.join("r")).unwrap()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        prop_assert_eq!(timeline.units.len(), text.matches("starting service").count());
        let total = analysis::total(&timeline);
        prop_assert_eq!(analysis::phases(&timeline).iter().map(|phase| phase.length()).sum::<Ns>(), total);
        let path = analysis::boot_path(&timeline);
        prop_assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), total);
        prop_assert!(timeline.spans.iter().all(|(_, span)| span.start <= span.end));
    }
}
