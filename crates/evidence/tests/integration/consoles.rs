//! Consoles with messages of other programs than Linux. The durations of these and the end of each boot are known.

use super::imports::{imported, phase_rows};
use analysis::{Groups, boot_path, phases, tables, total};
use timeline::{DiagnosticKind, EndEvidence, Ns, Timeline};

fn console(name: &str) -> Timeline {
    imported(&[&format!("consoles/{name}.log")])
}

/// The rows of the boot path: name and µs, the longest first.
fn rows(timeline: &Timeline) -> Vec<(String, i64)> {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    let mut rows: Vec<(String, i64)> =
        all.wheres.iter().map(|row| (row.name.clone(), row.self_time.0 / 1000)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    rows
}

#[track_caller]
fn check_row(timeline: &Timeline, begins: &str, us: i64) {
    let rows = rows(timeline);
    let row = rows.iter().find(|row| row.0.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {rows:?}"));
    assert_eq!(row.1, us, "{begins}");
}

/// From when to when a phase lasts, in µs.
#[track_caller]
fn phase(timeline: &Timeline, name: &str) -> (i64, i64) {
    let rows = phase_rows(timeline);
    let row = rows.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    (row.1, row.2)
}

#[test]
fn lines_of_loaders_are_steps_by_the_logger_s_stamps() {
    let vyasa = console("vyasa-grabserial");
    check_row(&vyasa, "after “Retrieving file: /boot/uImage”", 382_516);
    check_row(&vyasa, "after “mmc1 is current device”", 294_960);
    check_row(&vyasa, "after “Verifying Checksum ... OK”", 133_275);
    let (begins, ends) = phase(&vyasa, "loader");
    assert_eq!(begins, 436_694);
    let kernel = phase(&vyasa, "kernel, initcalls not told apart").0;
    // grabserial counts anew from `Starting kernel ...`, 1.974911 s: the clock of the kernel's stamps is 0 at most 1.18 s later.
    assert!(ends == kernel && (3_150_000..3_200_000).contains(&kernel), "{kernel}");
    let falcon = console("icorem6-falcon-grabserial");
    let kernel = phase(&falcon, "kernel, initcalls not told apart").0;
    assert!((kernel - 3_055_000).abs() < 5_000, "{kernel}");
    assert_eq!(phase(&falcon, "process 1").0, 4_127_913);
}

#[test]
fn a_console_ends_at_its_login_prompt() {
    for (file, us) in
        [("vyasa-grabserial", 6_725_634), ("icorem6-falcon-grabserial", 4_436_016), ("am62-quiet", 780_000)]
    {
        let timeline = console(file);
        assert_eq!(
            (timeline.end.unwrap().evidence, total(&timeline).0 / 1000),
            (EndEvidence::LoginPrompt, us),
            "{file}"
        );
    }
    let board = console("board-to-login");
    assert_eq!((board.end.unwrap().evidence, total(&board)), (EndEvidence::LoginPrompt, Ns::from_ms(31_500)));
    let milestones: Vec<_> = board.milestones().iter().map(|m| m.kind.name(&board.names).into_owned()).collect();
    assert!(milestones.iter().any(|name| name == "login"), "{milestones:?}");
}

#[test]
fn a_capture_without_a_kernel_is_evidence() {
    check_row(&console("f1c200s-grabserial-head"), "after “Found U-Boot image”", 927_181);
    check_row(&console("zephyr-grabserial"), "after “***** Booting Zephyr OS", 1_008_153);
}

#[test]
fn stamps_of_loaders_and_hypervisors_are_not_the_kernel_s() {
    let tegra = console("jetson-tegraboot");
    assert_eq!(phase(&tegra, "loader"), (0, 12_350_000));
    assert_eq!(total(&tegra), Ns::from_ms(12_350));
    let orange = console("orangepi-u-boot-stamps");
    assert_eq!((phase(&orange, "firmware"), phase(&orange, "loader")), ((0, 915_000), (915_000, 9_616_000)));
    assert_eq!(orange.diagnostics.count(DiagnosticKind::LogOtherBoot), 0);
    check_row(&orange, "after “All buttons probed successfully”", 3_176_000);
    let xen = console("xen-stamps");
    assert_eq!(phase(&xen, "hypervisor"), (0, 928_173));
    let power = console("power9-hostboot");
    assert_eq!(phase(&power, "firmware"), (0, 75_323_720));
    let kernel = phase(&power, "kernel, initcalls not told apart");
    assert_eq!(kernel, (75_323_804, 79_397_971));
}

#[test]
fn clocks_begin_where_the_evidence_says() {
    let netbsd = console("netbsd-days-up");
    // Its clock begins with 1.000000, and it has its root at 14.497712.
    assert_eq!((total(&netbsd).0 / 1000, phase(&netbsd, "kernel")), (13_497_712, (0, 13_497_712)));
    assert_eq!(netbsd.diagnostics.count(DiagnosticKind::LogBeginningMissing), 0);
    let late = console("stamps-from-power-on");
    assert_eq!(phase(&late, "before the kernel"), (0, 27_990_001));
    assert_eq!(total(&late), Ns::from_ms(29_850));
    assert_eq!(late.diagnostics.count(DiagnosticKind::LogBeginningMissing), 0);
}

#[test]
fn lengths_count_where_stamps_do_not() {
    let sorted = console("initcalls-sorted");
    let initcalls =
        || sorted.spans.iter().map(|(_, span)| span).filter(|span| span.kind == timeline::SpanKind::Initcall);
    assert_eq!(initcalls().count(), 8);
    check_row(&sorted, "initcall ip_auto_config", 1_490_000);
    let journal = console("journal-with-initcalls");
    check_row(&journal, "initcall acpi_button_driver_init", 3332);
    check_row(&journal, "initcall microcode_init", 1570);
}

#[test]
fn of_two_boots_the_last_counts_and_a_kexec_is_one_sequence() {
    let netbsd = console("netbsd-two-boots");
    assert_eq!(total(&netbsd).0 / 1000, 7_234_134);
    assert!(netbsd.diagnostics.count(DiagnosticKind::LogOtherBoot) > 0);
    let kexec = console("kexec-grabserial");
    let found: Vec<String> =
        phase_rows(&kexec).into_iter().map(|row| format!("{} {}–{}", row.0, row.1 / 1000, row.2 / 1000)).collect();
    let expected = [
        "first kernel 0–1100",
        "first kernel: process 1 1100–4000",
        "shut-down and purgatory 4000–8900",
        "kernel, initcalls not told apart 8900–9900",
        "hand-over 9900–10000",
    ];
    assert_eq!(found, expected);
}
