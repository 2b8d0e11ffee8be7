//! Outputs of systemd-analyze with known answers: their contents and places on the timeline, and that nothing is
//! dropped silently.

use analysis::{boot_path, phases, tables, total};
use evidence::systemd_analyze::{Analysis, Stage};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, Ns, Timeline};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/systemd-analyze").join(name)
}

fn read(names: &[&str]) -> (Analysis, Diagnostics) {
    let (mut analysis, mut diagnostics) = (Analysis::default(), Diagnostics::default());
    for name in names {
        analysis.read(name, &std::fs::read(fixture(name)).unwrap(), &mut diagnostics);
    }
    (analysis, diagnostics)
}

/// A new path that no other test uses.
fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("systemd-analyze-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Imports and loads these files as `import` and `show` do.
fn imported(files: &[PathBuf]) -> Timeline {
    let into = scratch("recording");
    recording::import(files, &into, false).unwrap();
    evidence::load(&recording::Recording::open(&into).unwrap()).unwrap()
}

fn ms(ns: Ns) -> i64 {
    assert_eq!(ns.0 % 1_000_000, 0, "{ns:?}");
    ns.0 / 1_000_000
}

/// The phases, each with its start and end in ms.
fn phase_rows(timeline: &Timeline) -> Vec<(String, i64, i64)> {
    phases(timeline).into_iter().map(|phase| (phase.name, ms(phase.start), ms(phase.end))).collect()
}

/// Start and end of a name's first span, in ms.
fn span(timeline: &Timeline, name: &str) -> Option<(i64, i64)> {
    let name = timeline.names.find(name)?;
    timeline.spans.iter().map(|(_, s)| s).find(|s| s.name == name).map(|s| (ms(s.start), ms(s.end)))
}

/// A unit that is not active yet has no time; the chain below it is complete.
#[test]
fn a_chain_whose_head_is_not_active_ends_with_its_first_active_unit() {
    let text = "weston.service +368ms\n└─systemd-user-sessions.service @8.381s +37ms\n  └─network.target @8.355s\n    \
                └─NetworkManager.service @4.766s +3.588s\n      └─dbus.service @4.520s +206ms\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.txt");
    std::fs::write(&file, text).unwrap();
    let timeline = imported(&[file]);
    assert_eq!(ms(analysis::total(&timeline)), 8_418);
    let all = tables(&timeline, &boot_path(&timeline), &phases(&timeline), &analysis::Groups::linux());
    let time =
        |name: &str| all.wheres.iter().filter(|row| row.name.ends_with(name)).map(|row| ms(row.self_time)).sum::<i64>();
    assert_eq!((time("NetworkManager.service"), time("dbus.service"), time("network.target")), (3_588, 206, 0));
    // Before dbus, between dbus and NetworkManager, and up to the user sessions no unit of the chain ran.
    assert_eq!(time("(unexplained)"), 8_418 - 3_588 - 206 - 37);
}

/// The chain names a mount of 6.581 s below a target that was reached at 6.317 s. Nothing waited for it.
#[test]
fn a_chain_goes_on_past_a_unit_that_was_active_later() {
    let timeline = imported(&[fixture("debian12-chain-ahead.txt")]);
    let path = boot_path(&timeline);
    let all = tables(&timeline, &path, &phases(&timeline), &analysis::Groups::linux());
    let row = |name: &str| all.wheres.iter().find(|row| row.name.ends_with(name)).map(|row| ms(row.self_time));
    // Each has its + figure. Time between two of them is unexplained.
    let rows: Vec<(&str, i64)> = all.wheres.iter().map(|row| (&*row.name, ms(row.self_time))).collect();
    for (name, took) in
        [("networking.service", 4_703), ("systemd-fsck-root.service", 1_543), ("systemd-sysusers.service", 436)]
    {
        assert_eq!(row(name), Some(took), "{name} in {rows:?}");
    }
    let unit = |name: &str| timeline.units.iter().find(|unit| timeline.names.get(unit.name) == name).unwrap();
    let fsck = unit("systemd-fsck-root.service");
    assert_eq!((fsck.start, fsck.settled), (Some(Ns::from_ms(3_071)), Some(Ns::from_ms(4_614))));
    let (target, mount) =
        (unit("local-fs.target"), unit(r"run-credentials-systemd\x2dtmpfiles\x2dsetup.service.mount"));
    assert_eq!(target.after, [unit("local-fs-pre.target").name]);
    assert!(mount.after.is_empty() && mount.start.is_none() && timeline.units.len() == 14, "{mount:?}");
}

const PHASES: [(&str, i64, i64); 5] = [
    ("firmware", 0, 1_500),
    ("loader", 1_500, 1_750),
    ("kernel, initcalls not told apart", 1_750, 2_793),
    ("initrd", 2_793, 5_000),
    ("user space", 5_000, 10_000),
];

#[track_caller]
fn check_phases(timeline: &Timeline, expected: &[(&str, i64, i64)]) {
    let expected: Vec<_> = expected.iter().map(|&(name, from, to)| (name.to_owned(), from, to)).collect();
    assert_eq!(phase_rows(timeline), expected);
}

#[test]
fn stages_are_phases_and_the_chain_is_the_boot_path() {
    let timeline = imported(&[fixture("all-commands.txt")]);
    check_phases(&timeline, &PHASES);
    let end = timeline.end.unwrap();
    assert_eq!((ms(end.at), ms(end.error)), (10_000, 5));
    assert_eq!(end.evidence, EndEvidence::SystemdFinished);
    assert_eq!(span(&timeline, "cups.service"), Some((8_800, 9_900)));
    assert_eq!(span(&timeline, "wait-online.service"), Some((6_200, 8_799)));

    // The path goes through both units: the second could not begin before the first was done.
    let path = boot_path(&timeline);
    let tables = tables(&timeline, &path, &phases(&timeline), &analysis::Groups::linux());
    assert_eq!(tables.wheres.iter().map(|row| row.self_time).sum::<Ns>(), total(&timeline));
    let on_path = |name: &str| {
        let rows = tables.wheres.iter().filter(|row| row.name.contains(name));
        ms(rows.map(|row| row.self_time).sum())
    };
    assert_eq!((on_path("cups.service"), on_path("wait-online.service")), (1_100, 2_599), "{:#?}", tables.wheres);
    assert_eq!(on_path("systemd-user-sessions"), 0);
}

#[test]
fn lengths_that_only_blame_has_are_reported_as_unplaced() {
    let timeline = imported(&[fixture("all-commands.txt")]);
    let told = timeline.diagnostics.iter().find(|d| d.kind == DiagnosticKind::LengthsWithoutTimes).unwrap();
    assert_eq!((told.count, told.cost), (2, Some(Ns::from_ms(63_843))));
    assert_eq!(told.about, "apt-daily.service 63.8 s, systemd-logind.service 90.0 ms");
    assert_eq!(span(&timeline, "apt-daily.service"), None);

    // The JSON has their times.
    let timeline = imported(&[fixture("all-commands.txt"), fixture("plot-short.json")]);
    assert_eq!(timeline.diagnostics.count(DiagnosticKind::LengthsWithoutTimes), 0);
    assert_eq!(span(&timeline, "systemd-logind.service"), Some((6_750, 6_840)));
    assert_eq!(span(&timeline, "cups.service"), Some((8_800, 9_900)));
    // The unit was not active when the boot was done.
    assert_eq!(span(&timeline, "apt-daily.service"), Some((9_950, 10_000)));
    assert_eq!(timeline.names.find("never.service"), None);
    check_phases(&timeline, &PHASES);
}

#[test]
fn every_form_is_read_alike() {
    let (plain, diagnostics) = read(&["all-commands.txt"]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let stages = plain.finished.as_ref().unwrap().stages.iter().map(|(stage, took)| (*stage, ms(*took)));
    use Stage::{Firmware, Initrd, Kernel, Loader, Userspace};
    let expected = [(Firmware, 1_500), (Loader, 250), (Kernel, 1_043), (Initrd, 2_207), (Userspace, 5_000)];
    assert_eq!(stages.collect::<Vec<_>>(), expected);
    assert_eq!(plain.finished.as_ref().unwrap().total.map(ms), Some(10_001));
    let depths: Vec<_> = plain.chain.iter().map(|link| link.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 3]);
    assert_eq!((plain.blame.len(), plain.reached.as_ref().map(|(_, after)| ms(*after))), (4, Some(4_900)));
    for dressed in ["ascii-tree.txt", "terminal-colours.txt"] {
        let (dressed, diagnostics) = read(&[dressed]);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert_eq!((&dressed.chain, &dressed.blame), (&plain.chain, &plain.blame));
        assert_eq!((&dressed.finished, &dressed.reached), (&plain.finished, &plain.reached));
    }
    let (short, _) = read(&["plot-short.json"]);
    let (pretty, diagnostics) = read(&["time-and-plot-pretty.txt"]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!((short.times.len(), &short.times), (6, &pretty.times));
    assert_eq!(pretty.finished, plain.finished);
}

#[test]
fn each_command_alone() {
    // Only the JSON: it does not show when user space began, nor that the boot was done.
    let timeline = imported(&[fixture("plot-short.json")]);
    assert_eq!(span(&timeline, "wait-online.service"), Some((4_450, 7_049)));
    assert_eq!(ms(total(&timeline)), 8_250);
    let timeline = imported(&[fixture("container.txt")]);
    check_phases(&timeline, &[("user space", 0, 1_208)]);
    let timeline = imported(&[fixture("old-one-line.txt")]);
    check_phases(&timeline, &[("kernel, initcalls not told apart", 0, 99_916), ("user space", 99_916, 145_296)]);
}

#[test]
fn a_log_beside_it_has_the_same_clock() {
    let log = scratch("dmesg.txt");
    std::fs::write(
        &log,
        "[    0.000000] Linux version 6.1\n[    0.500000] x: up\n[    1.000000] Run /init as init process\n",
    )
    .unwrap();
    let timeline = imported(&[fixture("all-commands.txt"), log]);
    let at = |name: &str| {
        let name = timeline.names.find(name).unwrap();
        timeline.marks.iter().find(|mark| mark.name == name).map(|mark| ms(mark.at))
    };
    // Firmware and loader take 1.75 s before the kernel's clock begins.
    assert_eq!(at("x: up"), Some(2_250));
    let timeline_phases = phase_rows(&timeline);
    assert_eq!(timeline_phases[..2], [("firmware".to_owned(), 0, 1_500), ("loader".to_owned(), 1_500, 1_750)]);
    assert_eq!(timeline.end.map(|end| ms(end.at)), Some(10_000));
}

#[test]
fn cut_lines_are_counted() {
    let (analysis, diagnostics) = read(&["cut-and-mixed.txt"]);
    assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 2, "{diagnostics:?}");
    assert_eq!((analysis.blame.len(), analysis.counts.others, analysis.counts.unreadable), (1, 4, 2));
    assert_eq!(analysis.finished, None);
}

#[test]
fn units_without_end_are_bounded() {
    let row = r#"{"name":"a.service","activating":1,"activated":2},"#;
    let json = format!("[{}{}]", row.repeat(70_000), row.trim_end_matches(','));
    let (mut analysis, mut diagnostics) = (Analysis::default(), Diagnostics::default());
    analysis.read("a", json.as_bytes(), &mut diagnostics);
    assert_eq!(analysis.times.len(), 65_536);
    assert_eq!(diagnostics.count(DiagnosticKind::EntriesBeyondBound), 70_001 - 65_536);
}

/// For any bytes, every line is counted once, and the phases and the path add up.
fn check(bytes: &[u8]) {
    let (mut analysis, mut diagnostics) = (Analysis::default(), Diagnostics::default());
    analysis.read("a", bytes, &mut diagnostics);
    let c = analysis.counts;
    assert_eq!(c.lines, bytes.split_inclusive(|&b| b == b'\n').count() as u64);
    assert_eq!(c.lines, c.time + c.blame + c.chain + c.json + c.state + c.unreadable + c.others, "{c:?}");
    let mut timeline = analysis.on_a_timeline();
    timeline.finalize(Ns::ZERO);
    let total = total(&timeline);
    assert_eq!(phases(&timeline).iter().map(|phase| phase.length()).sum::<Ns>(), total);
    let path = boot_path(&timeline);
    if !path.stretches.is_empty() {
        assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), total);
    }
}

/// Pieces of its output, in any order.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[a-c]\\.(service|target)( @[0-9]{1,3}ms)?( \\+[0-9]{1,3}ms)?\n",
        "(  |│ |\\| ){0,3}(└─|`-|├─)[a-c]\\.(service|mount) @[0-9]{1,3}ms( \\+[0-9]{1,3}ms)?\n",
        " *[0-9]{1,2}(s|ms|min|y) [a-c]\\.service\n",
        "Startup finished in [0-9]{1,19}(s|ms|y) \\((kernel|firmware|userspace)\\)( \\+ [0-9]s \\(userspace\\))?\n",
        "[a-c]\\.target reached after [0-9]{1,6}s in userspace\\.\n",
        "\\[\\{\"name\":\"[a-c]\\.service\",\"activating\":[0-9]{1,19},\"activated\":[0-9]{1,19}\\}(\\]|,)?\n",
        "(\\[|\\{|\\}|\\])\n",
        "\\PC{0,20}\n?",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    #[test]
    fn any_output(bytes in text()) {
        check(&bytes);
    }

    #[test]
    fn damaged_fixtures(cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for name in ["all-commands.txt", "terminal-colours.txt", "plot-short.json", "time-and-plot-pretty.txt"] {
            let original = std::fs::read(fixture(name)).unwrap();
            let mut damaged = original[..=cut.index(original.len())].to_vec();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            check(&damaged);
        }
    }
}

/// Figures of the pictures are pixels: 100 of them are a second, and each has three decimals.
#[test]
fn pictures_have_stages_and_units_to_ten_microseconds() {
    let us = |timeline: &Timeline, name: &str| {
        let name = timeline.names.find(name)?;
        let span = timeline.spans.iter().map(|(_, span)| span).find(|span| span.name == name)?;
        Some((span.start.0 / 1000, span.end.0 / 1000))
    };
    let rows = |timeline: &Timeline| -> Vec<(String, i64, i64)> {
        let rows = phases(timeline).into_iter();
        rows.map(|phase| (phase.name, phase.start.0 / 1000, phase.end.0 / 1000)).collect()
    };
    let agnos = imported(&[fixture("plot-agnos.svg")]);
    let kernel = "kernel, initcalls not told apart".to_owned();
    assert_eq!(rows(&agnos), [(kernel.clone(), 0, 3_614_360), ("user space".to_owned(), 3_614_360, 11_735_710)]);
    assert_eq!(us(&agnos, "dev-sda6.device"), Some((3_817_610, 5_489_650)));
    assert_eq!(us(&agnos, "run generators"), Some((3_694_290, 3_794_540)));
    assert_eq!(agnos.end.unwrap().evidence, EndEvidence::SystemdFinished);

    let cluster = imported(&[fixture("plot-rpi-cluster.svg")]);
    assert_eq!(rows(&cluster), [(kernel, 0, 38_563_110), ("user space".to_owned(), 38_563_110, 153_843_290)]);
    assert_eq!(us(&cluster, "dev-sda2.device"), Some((45_388_790, 85_646_710)));
    assert!(cluster.diagnostics.is_empty(), "{:?}", cluster.diagnostics);

    let recognised = evidence::recognise(&std::fs::read(fixture("plot-agnos.svg")).unwrap());
    assert!(recognised.of_a_boot && recognised.kinds.len() == 1, "{recognised:?}");
}
