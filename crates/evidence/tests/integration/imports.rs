//! Boot evidence of other tools with known answers: bootchart's samples, and the stamps of coreboot, U-Boot and UEFI
//! firmware.

use analysis::{Groups, boot_path, phases, tables, total};
use evidence::bootchart::{Samples, Use};
use evidence::{bootstage, cbmem, efi_loader, fpdt};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{DiagnosticKind as K, Diagnostics, EndEvidence, Ns, Phase, Timeline, TrackKind};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A folder for one test.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("imports-{}-{number}", std::process::id()))
}

/// As `import` and `show` read files with these names and texts.
pub(super) fn imported_texts(files: &[(&str, &str)]) -> Timeline {
    let into = folder();
    let sources = files.iter().map(|(name, text)| recording::Source {
        path: (*name).into(),
        bytes: Some(text.as_bytes().to_vec()),
        cut: false,
    });
    recording::import_known(sources.collect(), &into, false, recording::Known::default()).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    std::fs::remove_dir_all(&into).unwrap();
    check_sums(&timeline);
    timeline
}

/// As `import` and `show` read these files.
pub(super) fn imported(files: &[&str]) -> Timeline {
    let into = folder();
    let files: Vec<PathBuf> = files.iter().map(|name| fixture(name)).collect();
    for file in &files {
        let found = evidence::recognise(&std::fs::read(file).unwrap());
        assert!(!found.kinds.is_empty() && found.of_a_boot, "{}", file.display());
    }
    recording::import(&files, &into, false).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    check_sums(&timeline);
    timeline
}

/// Phases and boot path add up to the total.
fn check_sums(timeline: &Timeline) {
    assert_eq!(phases(timeline).iter().map(|phase| phase.length()).sum::<Ns>(), total(timeline));
    let path = boot_path(timeline);
    let tables = tables(timeline, &path, &phases(timeline), &Groups::linux());
    assert_eq!(tables.wheres.iter().map(|row| row.self_time).sum::<Ns>(), total(timeline));
}

/// The phases, each with its start and end in µs.
pub(super) fn phase_rows(timeline: &Timeline) -> Vec<(String, i64, i64)> {
    phases(timeline).into_iter().map(|phase| (phase.name, phase.start.0 / 1000, phase.end.0 / 1000)).collect()
}

#[track_caller]
fn check_phases(timeline: &Timeline, expected: &[(&str, i64, i64)]) {
    let expected: Vec<_> = expected.iter().map(|&(name, from, to)| (name.to_owned(), from, to)).collect();
    assert_eq!(phase_rows(timeline), expected);
}

fn count(timeline: &Timeline, kind: K) -> u64 {
    timeline.diagnostics.count(kind)
}

/// Start and end of a name's first span, in µs.
fn span(timeline: &Timeline, name: &str) -> Option<(i64, i64)> {
    let name = timeline.names.find(name)?;
    timeline.spans.iter().map(|(_, s)| s).find(|s| s.name == name).map(|s| (s.start.0 / 1000, s.end.0 / 1000))
}

#[test]
fn a_chart_of_proc_stat_has_each_process_with_its_parent() {
    let timeline = imported(&["bootchart/proc-ps.tgz"]);
    let end = timeline.end.unwrap();
    assert_eq!((end.at, end.error, end.evidence), (Ns::from_ms(8_860), Ns::from_ms(60), EndEvidence::BootchartStopped));
    assert_eq!((timeline.cpu_count, count(&timeline, K::BootchartSampled)), (2, 152));
    assert_eq!((count(&timeline, K::BootchartPartUnused), count(&timeline, K::FormatUnknown)), (2, 0));
    // `809` and `99` in its line of /proc/PID/stat.
    let gzip = timeline.tracks.find(TrackKind::Thread, 104).unwrap();
    let (at, by) = timeline.tracks.get(gzip).created.unwrap();
    assert_eq!((at, timeline.tracks.get(by).id), (Ns::from_ms(8_090), 99));
    let table: Vec<_> = timeline.processes.iter().map(|p| (p.pid, p.depth, timeline.names.get(p.name))).collect();
    let shell = table.iter().position(|row| row.0 == 99).unwrap();
    assert_eq!(table[shell], (99, 1, "sh"));
    assert!(table[shell + 1..shell + 6].iter().all(|row| (row.1, row.2) == (2, "gzip")), "{table:?}");
}

/// The names of its processes are those of command lines, and its samples are 200 ms apart.
#[test]
fn a_chart_of_androids_init_is_read_too() {
    let timeline = imported(&["bootchart/android-init.tgz"]);
    let named = |name: &str| timeline.processes.iter().find(|p| timeline.names.get(p.name) == name).unwrap();
    let sleep = named("/bin/sleep");
    let (start, end) = (sleep.start, sleep.end.unwrap());
    assert_eq!((sleep.pid, sleep.parent, start), (134, 1, Ns::from_ms(3_290)));
    assert!((end - start - Ns::from_ms(3_030)).abs() < Ns::from_ms(210), "{start} to {end}");
    assert_eq!(named("/usr/bin/abc").end, None);
    assert_eq!((timeline.processes.len(), count(&timeline, K::BootchartSampled)), (49, 60));
}

#[test]
fn the_boot_path_goes_through_the_children_that_ended_last() {
    let timeline = imported(&["bootchart/proc-ps.tgz"]);
    let path = boot_path(&timeline);
    let tables = tables(&timeline, &path, &phases(&timeline), &Groups::linux());
    let on_path = |pid: u64| {
        let track = timeline.tracks.find(TrackKind::Thread, pid).unwrap();
        let of_it = path.stretches.iter().filter(|stretch| stretch.owner().track == track);
        of_it.map(|stretch| stretch.length()).sum::<Ns>()
    };
    // Process 1 waited for the shell, the shell for each gzip in turn.
    for gzip in 100..105 {
        assert!(on_path(gzip) > Ns::from_ms(300), "{gzip}: {:?} {:#?}", on_path(gzip), tables.wheres);
    }
    // The loop in the background ended while dd ran.
    assert_eq!(on_path(95), Ns::ZERO);
}

/// Compares the samples' own sum of CPU time, in ticks, with the stretches.
#[test]
fn stretches_on_a_cpu_are_as_long_as_the_process_had_one() {
    let mut diagnostics = Diagnostics::default();
    let members = unpacked("bootchart/proc-ps.tgz");
    let (name, bytes) = members.iter().find(|(name, _)| name == "proc_ps.log").unwrap();
    let samples = Samples::read(name, bytes, &mut diagnostics).unwrap();
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let c = samples.counts;
    assert_eq!(c.lines, c.samples + c.rows + c.blank + c.unreadable + c.beyond);
    let busy =
        samples.processes.iter().filter(|process| (95..=104).contains(&process.pid) && process.cpu > Ns::from_ms(300));
    let mut seen = 0;
    for process in busy {
        let on_cpu = process.stretches.iter().filter(|stretch| stretch.used == Use::Cpu);
        let on_cpu = on_cpu.map(|stretch| stretch.to - stretch.from).sum::<Ns>();
        let off = (on_cpu - process.cpu).abs();
        assert!(off.0 * 3 < process.cpu.0, "{} had {} and shows {on_cpu}", process.pid, process.cpu);
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}

/// The members of a fixture's archive.
fn unpacked(name: &str) -> Vec<(String, Vec<u8>)> {
    use std::io::Read;
    let mut tar = Vec::new();
    let packed = std::fs::File::open(fixture(name)).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut tar).unwrap();
    let mut archive = tar::Archive::new(&tar[..]);
    let each = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().trim_start_matches("./").to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    each.collect()
}

#[test]
fn a_chart_of_taskstats_brings_its_kernel_log_along() {
    let timeline = imported(&["bootchart/taskstats.tgz"]);
    let named: Vec<_> = phase_rows(&timeline).into_iter().map(|row| row.0).collect();
    let expected = ["kernel, initcalls not told apart", "hand-over", "process 1"];
    assert_eq!(named, expected);
    assert_eq!(timeline.end.unwrap().evidence, EndEvidence::BootchartStopped);
    // taskstats names no process that did nothing, and process 1 only waited.
    let init = timeline.tracks.find(TrackKind::Thread, 1).unwrap();
    assert_eq!(timeline.end.unwrap().track, Some(init));
    let gzip = timeline.tracks.find(TrackKind::Thread, 104).unwrap();
    assert_eq!(timeline.tracks.get(timeline.tracks.get(gzip).created.unwrap().1).id, 99);
}

/// Both pictures show the same small boot; one counts from the collector's own start.
#[test]
fn a_picture_of_systemd_bootchart_shows_the_same_as_its_samples() {
    for (file, first, last) in
        [("bootchart/systemd-234.svg.gz", 3_095, 7_957), ("bootchart/systemd-234-relative.svg.gz", 3_058, 7_915)]
    {
        let timeline = imported(&[file]);
        let named: Vec<_> = phase_rows(&timeline).into_iter().map(|row| (row.0, row.1 / 1000)).collect();
        assert_eq!(
            named,
            [("kernel, initcalls not told apart".to_owned(), 0), ("process 1".to_owned(), first)],
            "{file}"
        );
        let end = timeline.end.unwrap();
        assert_eq!((end.at.0 / 1_000_000, end.evidence), (last, EndEvidence::BootchartStopped), "{file}");
        // The figures of the whole machine and the initcalls in the picture are not shown.
        assert!(count(&timeline, K::BootchartPartUnused) >= 1, "{file}");
        assert_eq!(count(&timeline, K::LinesUnreadable), 0, "{file}");
        // The shell that does the boot's work, below process 1, and the process that it started.
        let gzip = timeline.processes.iter().find(|p| timeline.names.get(p.name) == "gzip").unwrap();
        let shell = timeline.processes.iter().find(|p| p.pid == gzip.parent).unwrap();
        assert_eq!((gzip.depth, timeline.names.get(shell.name), gzip.end.is_some()), (3, "sh", true), "{file}");
        check_cpu(file);
    }
}

/// Compares the CPU time that the picture states for a process with its bars.
fn check_cpu(file: &str) {
    use std::io::Read;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(fixture(file)).unwrap()).read_to_end(&mut bytes).unwrap();
    let mut diagnostics = Diagnostics::default();
    let samples = Samples::read(file, &bytes, &mut diagnostics).unwrap();
    // gzip ran in the samples for most of its life; other processes did most of their work before the first one.
    let gzip = samples.processes.iter().find(|process| process.names[0].1 == "gzip").unwrap();
    let on_cpu = gzip.stretches.iter().filter(|stretch| stretch.used == Use::Cpu);
    let on_cpu = on_cpu.map(|stretch| stretch.to - stretch.from).sum::<Ns>();
    assert!((on_cpu - gzip.cpu).abs().0 * 5 < gzip.cpu.0, "{file}: {} and {on_cpu}", gzip.cpu);
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let text = "100\n1 (init) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0\n7 (a) S 1 0 0 0 -1 0 0 0 0 0 9 0 0 0 20 0 1 0 90 0\n\n\
                110\n1 (init) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0\n\n\
                120\n1 (init) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0\n7 (b) R 1 0 0 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 115 0\n\n\
                115\nwhat is this\n";
    let mut diagnostics = Diagnostics::default();
    let samples = Samples::read("p", text.as_bytes(), &mut diagnostics).unwrap();
    let seen: Vec<_> = samples.processes.iter().map(|p| (p.pid, &*p.names[0].1, p.from().0 / 10_000_000)).collect();
    assert_eq!(seen, [(1, "init", 1), (7, "a", 90), (7, "b", 115)]);
    assert_eq!((samples.processes[1].is_over, samples.processes[2].stretches[0].used), (true, Use::Cpu));
    assert_eq!((diagnostics.count(K::ClockBack), diagnostics.count(K::LinesUnreadable)), (1, 1));
}

/// Further processes are counted, not kept.
#[test]
fn a_boot_may_have_a_hundred_thousand_processes() {
    use std::fmt::Write;
    let mut text = String::new();
    for sample in 0..3 {
        writeln!(text, "{}", 100 + sample * 5).unwrap();
        (1..150_000u32).for_each(|pid| writeln!(text, "{pid} {} p{pid} {} 0 0", pid / 2, sample * 50_000_000).unwrap());
        text.push('\n');
    }
    let mut diagnostics = Diagnostics::default();
    let samples = Samples::read("p", text.as_bytes(), &mut diagnostics).unwrap();
    let beyond = diagnostics.count(K::EntriesBeyondBound);
    assert_eq!((samples.processes.len(), beyond), (1 << 17, samples.counts.beyond));
    check_sums(&samples.on_a_timeline());
}

#[test]
fn a_boot_waits_for_no_collector() {
    let timeline = imported(&["bootchart/collector.tgz"]);
    let tables = tables(&timeline, &boot_path(&timeline), &phases(&timeline), &Groups::linux());
    let time =
        |name: &str| tables.wheres.iter().filter(|row| row.name.contains(name)).map(|row| row.self_time.0).sum::<i64>();
    let seconds = |name: &str| time(name) / 1_000_000_000;
    assert_eq!((time("bootchartd"), seconds("thread rc.sysinit"), seconds("thread rc ")), (0, 40, 43));
}

#[test]
fn coreboot_is_before_the_kernel() {
    let timeline = imported(&["cbmem/kgpe-d16-old-form.txt"]);
    check_phases(&timeline, &[("firmware", 0, 18_937_670)]);
    assert_eq!(span(&timeline, "before ram initialization"), Some((1_136_999, 15_498_973)));
    assert_eq!((timeline.end.unwrap().evidence, timeline.diagnostics.is_empty()), (EndEvidence::LastSign, true));

    let timeline = imported(&["cbmem/kernel-beside-it.txt", "cbmem/programs-depthcharge.txt"]);
    let expected = [
        ("firmware", 0, 400_000),
        ("loader", 400_000, 900_000),
        ("kernel, initcalls not told apart", 900_000, 2_150_000),
    ];
    check_phases(&timeline, &expected);
    assert_eq!(count(&timeline, K::HandOverUnknown), 0);

    // The management engine's stamps come before the first timestamp.
    let timeline = imported(&["cbmem/brya-crota-management-engine.txt", "cbmem/brya-crota-kernel.log"]);
    let expected = [
        ("firmware", 0, 905_000),
        ("loader", 905_000, 1_142_626),
        ("kernel, initcalls not told apart", 1_142_626, 2_054_942),
        ("hand-over", 2_054_942, 2_059_771),
    ];
    check_phases(&timeline, &expected);
    assert_eq!(span(&timeline, "CSE sent 'Host BIOS Prep Done' to PMC"), Some((73_000, 191_000)));
    assert_eq!((count(&timeline, K::SecondStatement), count(&timeline, K::HandOverUnknown)), (0, 0));

    // In a page of documentation.
    let timeline = imported(&["cbmem/apu2-in-a-page.txt"]);
    check_phases(&timeline, &[("firmware", 0, 2_514_808)]);
    assert_eq!(span(&timeline, "before ram initialization"), Some((46_334, 2_225_788)));

    // There is no evidence of the time between the payload and the kernel.
    let timeline = imported(&["cbmem/kgpe-d16-old-form.txt", "cbmem/kernel-beside-it.txt"]);
    assert_eq!((total(&timeline).0 / 1000, count(&timeline, K::HandOverUnknown)), (20_187_670, 1));
}

#[test]
fn u_boot_is_before_the_kernel() {
    let timeline = imported(&["bootstage/qemu-x86_64.txt"]);
    check_phases(&timeline, &[("firmware", 0, 142_234), ("loader", 142_234, 2_105_360)]);
    assert_eq!(span(&timeline, "eth_common_init"), Some((425_856, 661_835)));
    let sums = |kind| timeline.diagnostics.iter().find(|d| d.kind == kind).unwrap();
    let (short, long) = (sums(K::SumWithoutPlace), sums(K::LongSumWithoutPlace));
    assert_eq!((short.count, short.cost), (2, Some(Ns::from_us(6_928))));
    assert_eq!((long.about.as_str(), long.cost), ("U-Boot: dm_r", Some(Ns::from_us(33_028))));

    let timeline = imported(&["bootstage/several-u-boots.txt"]);
    let kernel = "kernel, initcalls not told apart";
    check_phases(
        &timeline,
        &[("firmware", 0, 1_641_000), ("loader", 1_641_000, 5_380_000), (kernel, 5_380_000, 6_630_000)],
    );
    assert_eq!(count(&timeline, K::HandOverUnknown), 0);

    for tree in ["bootstage/device-tree.dts", "bootstage/device-tree.dtb"] {
        let timeline = imported(&[tree]);
        check_phases(&timeline, &[("firmware", 0, 1_639_590), ("loader", 1_639_590, 5_381_719)]);
        assert_eq!(count(&timeline, K::SumWithoutPlace), 1, "{tree}");
    }
}

#[test]
fn uefi_is_before_the_kernel_in_every_form() {
    for file in ["fpdt/sysfs.txt", "fpdt/fbpt.bin", "fpdt/sys-directory.tar.gz"] {
        let timeline = imported(&[file, "cbmem/kernel-beside-it.txt"]);
        let kernel = "kernel, initcalls not told apart";
        check_phases(
            &timeline,
            &[("firmware", 0, 5_855_973), ("loader", 5_855_973, 14_325_507), (kernel, 14_325_507, 15_575_507)],
        );
        // The kernel's clock shows 0 in its first lines: they were printed as it began.
        let found: Vec<K> = timeline.diagnostics.iter().map(|d| d.kind).collect();
        assert_eq!(found, [], "{file}");
    }
}

#[test]
fn an_fpdt_without_times_says_so_and_its_checksum_is_checked() {
    for (file, wrong) in [("fpdt/fpdt.bin", 0), ("fpdt/fpdt-wrong-checksum.bin", 1)] {
        let timeline = imported(&[file, "cbmem/kernel-beside-it.txt"]);
        assert_eq!((count(&timeline, K::FpdtWithoutTimes), count(&timeline, K::FpdtChecksumWrong)), (1, wrong));
    }
    let whole = std::fs::read(fixture("fpdt/fbpt.bin")).unwrap();
    for cut in 0..whole.len() {
        let mut diagnostics = Diagnostics::default();
        fpdt::read("f", &whole[..cut], &mut diagnostics);
        assert!(cut < 8 || diagnostics.count(K::FileCut) == 1, "{cut}");
    }
}

/// The loader's variables, as files and as captured. systemd reads the same variables, so its evidence changes nothing.
#[test]
fn an_efi_loader_is_placed_before_the_kernel() {
    let systemd = "efi/systemd-of-the-same-boot.txt";
    for files in [&["efi/captured.txt"][..], &["efi/efivars.tar.gz"], &["efi/captured.txt", systemd]] {
        let timeline = imported(&[files, &["cbmem/kernel-beside-it.txt"]].concat());
        let rows = phase_rows(&timeline);
        // The kernel's image began at 8.650497 s.
        let kernel = 8_650_497;
        let before: Vec<(&str, i64, i64)> = rows.iter().take(2).map(|row| (&*row.0, row.1, row.2)).collect();
        assert_eq!(before, [("firmware", 0, 6_915_906), ("loader", 6_915_906, kernel)], "{files:?}");
        assert_eq!(span(&timeline, "boot loader"), Some((6_915_906, 6_928_266)), "{files:?}");
        assert_eq!(span(&timeline, "boot menu"), Some((6_928_266, 8_650_497)), "{files:?}");
        // The time from there to the kernel's clock has no stamps.
        assert_eq!(count(&timeline, K::HandOverUnknown), 1, "{files:?}");
    }
}

/// The times of a resume from sleep are not a boot's.
#[test]
fn a_table_of_a_resume_is_recognised_and_not_used() {
    let timeline = imported(&["fpdt/s3pt.bin", "cbmem/kernel-beside-it.txt"]);
    assert_eq!(count(&timeline, K::FpdtOfResume), 1);
    assert!(timeline.boundaries.iter().all(|boundary| boundary.phase != Phase::Firmware));
}

#[test]
fn events_of_chrome_os_are_marks_on_the_kernels_clock() {
    for (file, disks) in [("bootstat/tmp.tgz", 6), ("bootstat/grep.txt", 0)] {
        let timeline = imported(&[file]);
        let marks = timeline.marks.iter().map(|mark| (timeline.names.get(mark.name), mark.at.0 / 10_000_000));
        let expected = [
            ("pre-startup", 257),
            ("post-startup", 281),
            ("chrome-exec", 341),
            ("chrome-main", 412),
            ("login-prompt-visible", 444),
            ("boot-complete", 445),
            ("chrome-exec", 467),
        ];
        assert_eq!(marks.collect::<Vec<_>>(), expected, "{file}");
        assert_eq!(
            (timeline.end.unwrap().at, count(&timeline, K::ReadingsUnused)),
            (Ns::from_ms(4_670), disks),
            "{file}"
        );
        let login: Vec<_> = timeline.passed.iter().map(|passed| passed.at).collect();
        assert_eq!(login, [Ns::from_ms(4_440)]);
    }
}

/// All evidence is on one clock, whose zero is power-on: the earliest beginning is that of UEFI's times.
#[test]
fn firmware_kernel_and_user_space_are_on_one_clock() {
    let timeline = imported(&["fpdt/sysfs.txt", "bootchart/proc-ps.tgz", "cbmem/programs-depthcharge.txt"]);
    let end = timeline.end.unwrap();
    assert_eq!(end.at, Ns(14_325_507_185) + Ns::from_ms(8_860));
    let of = |phase| timeline.boundaries.iter().filter(move |b| b.phase == phase).map(|b| b.at.0).min();
    assert_eq!((of(Phase::Firmware), of(Phase::KernelWithInitcalls)), (Some(0), Some(14_325_507_185)));
}

#[test]
fn stamps_that_step_back_or_are_too_large_are_counted() {
    let mut diagnostics = Diagnostics::default();
    let text = "   0:1st timestamp    5 (0)\n   1:x     3 (1)\n   2:y   99999999999999999 (7)\n   0:1st timestamp   5 (0)\n   3:z   9 (9)\n";
    let steps = cbmem::read("c", text.as_bytes(), &mut diagnostics);
    assert_eq!(steps.steps.iter().map(|step| step.at.0).collect::<Vec<_>>(), [0, 5_000, 5_000]);
    let found = [K::ClockBack, K::LinesUnreadable, K::SecondStatement].map(|kind| diagnostics.count(kind));
    assert_eq!(found, [1, 1, 1]);
}

#[test]
fn texts_of_other_formats_are_not_recognised() {
    for text in
        ["12:30 hello 45 (3)", "1\t2\tx\ty", "Mark Elapsed Stage", "x/exitbootservice_end_ns: abc", "10:11:12 a (b)"]
    {
        let found = evidence::recognise(text.as_bytes());
        assert!(found.kinds.is_empty(), "{text}: {found:?}");
    }
}

/// The beginning of systemd-bootchart's pictures.
const SVG_HEAD: &str =
    "<?xml?>\n<!-- This file is a bootchart SVG file.\n<!-- x=\"100.0\" y=\"20.0\" -->\n<!-- hz=\"25.0\" -->\n";

const PIECES: [&str; 32] = [
    "LoaderTimeInitUSec=",
    "LoaderTimeExecUSec=2566203\n",
    SVG_HEAD,
    "<rect class=\"box\" x=\"0.000\" y=\"0\" width=\"795.704\" height=\"100.000\" />\n",
    "<!-- gzip [95] ppid=95 runtime=499.526ms -->\n",
    "<rect class=\"ps\" x=\"5.5\" y=\"0\" width=\"700\" height=\"20\" />\n",
    "<rect class=\"wait\" x=\"9\" y=\"0\" width=\"4\" height=\"20\" />\n",
    "<rect class=\"cpu\" x=\"6\" y=\"0\" width=\"44\" height=\"17\" />\n",
    "\n",
    " ",
    "0",
    "18446744073709551615",
    "1 (a) S 1 0 0 0 -1 0 0 0 0 0 9 0 0 0 20 0 1 0 90 0\n",
    "95 1 sh 56000000 0 0\n",
    "100\n",
    "207\n",
    "9223372036854775\n",
    ") ",
    "(",
    "\t",
    "   0:1st timestamp   5 (0)\n",
    "  99:selfboot jump   1,234 (5)\n",
    "1101\t9\t9\tjumping\n",
    "Timer summary in microseconds\n",
    "  1,234  5,678  board_init_f\n",
    "Accumulated time:\n",
    "bootstage {\n",
    "0 {\n",
    "mark = <0xffffffffffffffff>;\n",
    "};\n",
    "/exitbootservice_end_ns:14325507185\n",
    "FBPT",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// For any bytes, nothing panics, each line of samples is counted once, and stretches are in order.
    #[test]
    fn any_bytes(pieces in proptest::collection::vec(
        prop_oneof![
            8 => proptest::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..8),
        ],
        0..80,
    )) {
        let bytes = pieces.concat();
        let mut diagnostics = Diagnostics::default();
        let all = [
            cbmem::read("c", &bytes, &mut diagnostics),
            bootstage::read("b", &bytes, &mut diagnostics),
            fpdt::steps(fpdt::read("f", &bytes, &mut diagnostics), "f", &mut diagnostics),
            efi_loader::steps(efi_loader::read(&bytes), "e", &mut diagnostics),
        ];
        for steps in all {
            prop_assert!(steps.steps.windows(2).all(|pair| Ns::ZERO <= pair[0].at && pair[0].at <= pair[1].at));
        }
        let chart = [b"100\n1 (init) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0\n".as_slice(), &bytes].concat();
        let samples = Samples::read("p", &chart, &mut diagnostics).unwrap();
        let head = SVG_HEAD.as_bytes();
        let picture = Samples::read("p", &[head, &bytes].concat(), &mut diagnostics).unwrap();
        check_sums(&picture.on_a_timeline());
        let c = samples.counts;
        prop_assert_eq!(c.lines, chart.split_inclusive(|&b| b == b'\n').count() as u64);
        prop_assert_eq!(c.lines, c.samples + c.rows + c.blank + c.unreadable + c.beyond);
        check_sums(&samples.on_a_timeline());
        for process in samples.processes.iter().chain(&picture.processes) {
            prop_assert!(process.stretches.iter().all(|stretch| stretch.from < stretch.to));
            prop_assert!(process.stretches.windows(2).all(|pair| pair[0].to <= pair[1].from));
        }
    }
}
