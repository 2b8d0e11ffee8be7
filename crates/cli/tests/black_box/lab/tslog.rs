//! A BSD kernel's event log through the whole program: the known figures of the public dump, every view of a log that
//! is truncated or has no rate, and the export of the log.

use crate::support::{assert_adds_up, bootscope, fixture, imported, list, ns, rows, run, run_with, shown, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

const HEAD: &str = "tslog/freebsd15-firecracker-console-and-tslog-head.log";
const TAIL: &str = "tslog/freebsd15-firecracker-tslog-tail.log";

/// The public dump, imported from its two files.
fn public_dump(folder: &Path) -> PathBuf {
    let recording = folder.join("public");
    run(bootscope("import").args([fixture(HEAD), fixture(TAIL)]).arg("-o").arg(&recording)).exits(0);
    recording
}

fn import_text(folder: &Path, name: &str, content: &str, more: &[&str]) -> PathBuf {
    let (file, recording) = (folder.join(format!("{name}.txt")), folder.join(name));
    std::fs::write(&file, content).unwrap();
    run(bootscope("import").arg(&file).args(more).arg("-o").arg(&recording)).exits(0);
    recording
}

/// A function's total time, in ns.
fn total_of(document: &Value, name: &str, detail: &str) -> i64 {
    let found = rows(&document["functions"], "name", name).into_iter().find(|row| row["detail"] == detail);
    ns(&found.unwrap_or_else(|| panic!("no function {name} {detail}"))["total_ns"])
}

#[test]
fn the_public_dump_has_its_known_figures() {
    let folder = tempfile::tempdir().unwrap();
    let document = shown(&public_dump(folder.path()));
    assert_eq!(total_of(&document, "SYSINIT", "announce"), 7_613_245);
    assert_eq!(total_of(&document, "SYSINIT", "trademark"), 2_471_178);
    assert_eq!(total_of(&document, "SYSINIT", "version"), 11_054_721);
    let printing = rows(&document["where"], "name", "_vprintf");
    assert_eq!(printing.len(), 1, "one row over all callers");
    assert!(ns(&printing[0]["self_ns"]) > 21_000_000, "{}", printing[0]);
    assert_eq!((text(&document["subject"]["os"]), text(&document["unit"])), ("FreeBSD", "ns"));
    assert_eq!(document["subject"]["cpus"], 1);

    let processes = list(&document["processes"]);
    assert_eq!(processes.len(), 31);
    let rc = &processes[1];
    assert_eq!((rc["pid"].as_u64(), rc["ppid"].as_u64(), rc["depth"].as_u64()), (Some(15), Some(1), Some(1)));
    assert_eq!((text(&rc["name"]), &rc["end_ns"]), ("/etc/rc", &Value::Null));
}

#[test]
fn the_process_table_is_a_tree_in_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(bootscope("show").arg(public_dump(folder.path()))).exits(0);
    for line in ["/sbin/init          1 ", "  /etc/rc          15 ", "    hostname       16 "] {
        assert!(shown.text().contains(line), "no {line:?} in\n{}", shown.text());
    }
}

#[test]
fn every_view_of_a_truncated_log_starts_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = "machdep.tsc_freq: 1000000000\n0x1 0 ENTER mi_startup\n".to_owned();
    (1..131_072).for_each(|i| log.push_str(&format!("0x1 {i}000 ENTER f\n0x1 {i}500 EXIT f\n")));
    log.push_str("0x1 131072000 ENTER g\n");
    let recording = import_text(folder.path(), "full", &log, &[]);
    let warning = "the kernel's log buffer was full: it has 262144 records";

    let terminal = run(bootscope("show").arg(&recording)).exits(0).text().replace('\n', " ");
    let terminal: String = terminal.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(terminal.starts_with(&format!("warning: {warning}")), "{}", &terminal[..300]);
    let document = shown(&recording);
    assert!(text(&document["warnings"][0]).starts_with(warning));
    assert_eq!(ns(&document["total_ns"]), 131_072_000);
    for to in ["svg", "json"] {
        let written = run(bootscope("export").arg(&recording).args(["--to", to])).exits(0);
        assert!(written.text().replace("&#39;", "'").contains(warning), "{to}");
    }
    let page = folder.path().join("page.html");
    run(bootscope("report").arg(&recording).arg("-o").arg(&page)).exits(0);
    let page = std::fs::read_to_string(page).unwrap();
    let warning = page.find("it has 262144 records").expect("the page warns");
    assert!(warning < page.find("id=\"h-phases\"").unwrap(), "the warning comes first");
}

/// A loader's log alone, a process table alone, a kernel's log that ends early: each is shown as a part of a boot.
#[test]
fn a_part_of_a_boot_is_shown_like_a_boot() {
    let folder = tempfile::tempdir().unwrap();
    let loader = "0x0 24000 ENTER loader\n0x0 26400 ENTER cons_probe\n0x0 36000 EXIT cons_probe\n0x0 38400 ENTER open\n\
                  0x0 40800 ENTER efipart_readwrite\n0x0 45600 EXIT efipart_readwrite\n0x0 46000 EXIT open\n\
                  0x0 46100 ENTER efipart_readwrite\n0x0 47520 EXIT efipart_readwrite\n";
    let kernel = "0x1 24000 ENTER hammer_time\n0x1 25000 EXIT hammer_time\n0x1 25100 ENTER mi_startup\n\
                  0x1 26000 ENTER SYSINIT cpu\n0x1 47520 ENTER DELAY\n";
    let users =
        "1 0 100 0 \"/sbin/init\" \"/x\"\n15 1 24000 47520 \"sh\" \"/x\"\n16 15 30000 40000 \"hostname\" \"/x\"\n";
    let parts = [
        ("loader", loader, "efipart_readwrite", "this is a part of a boot, the loader's"),
        (
            "kernel",
            kernel,
            "SYSINIT cpu",
            "this is a part of a boot: the log does not have the end of the kernel's part",
        ),
        ("users", users, "/etc/rc", "this is a part of a boot, the user's"),
    ];
    for (name, log, row, warning) in parts {
        let recording = import_text(folder.path(), name, log, &["--tsc-frequency", "24MHz"]);
        let document = shown(&recording);
        assert_adds_up(&document);
        assert_eq!(ns(&document["total_ns"]), 980_000, "{name}");
        assert_eq!(rows(&document["where"], "name", row).len(), 1, "{name}: {}", document["where"]);
        assert!(!list(&document["functions"]).is_empty(), "{name}");
        assert!(text(&document["warnings"][0]).starts_with(warning), "{name}: {}", document["warnings"]);
        let page = folder.path().join(format!("{name}.html"));
        run(bootscope("report").arg(&recording).arg("-o").arg(&page)).exits(0);
        assert!(std::fs::read_to_string(page).unwrap().contains(&warning[..22]), "{name}");
        for to in ["svg", "perfetto"] {
            let file = folder.path().join(format!("{name}.{to}"));
            run(bootscope("export").arg(&recording).args(["--to", to, "-o"]).arg(&file)).exits(0);
        }
        let drawn = std::fs::read_to_string(folder.path().join(format!("{name}.svg"))).unwrap();
        assert!(drawn.contains(row.split(' ').next_back().unwrap()), "{name}");
        let terminal = run(bootscope("show").arg(&recording)).exits(0);
        assert!(terminal.text().contains(&format!("warning: {}", &warning[..30])), "{}", terminal.text());
    }
}

#[test]
fn without_a_rate_nothing_is_shown_as_time() {
    let folder = tempfile::tempdir().unwrap();
    let log = "0x1 1000 ENTER mi_startup\n0x1 2000 ENTER f\n0x1 9000000 EXIT f\n0x1 9001000 EXIT mi_startup\n\
               0x2 9002000 ENTER start_init\n0x2 9003000 EXIT start_init\n";
    let recording = import_text(folder.path(), "ticks", log, &[]);
    let terminal = run(bootscope("show").args(["--functions", "--all-threads"]).arg(&recording)).exits(0);
    assert!(
        terminal.text().contains("--tsc-frequency") && terminal.text().contains("9.00 Mticks"),
        "{}",
        terminal.text()
    );
    for unit in [" ns", " µs", " ms", " s "] {
        assert!(!terminal.text().contains(unit), "{unit:?} in\n{}", terminal.text());
    }
    let document = shown(&recording);
    assert_eq!((text(&document["unit"]), ns(&document["total_ns"])), ("ticks", 9_002_000));
    assert_eq!(list(&document["clocks"]).len(), 0);

    let given = import_text(folder.path(), "given", log, &["--tsc-frequency", "2GHz", "--cpus", "4", "--memory", "2G"]);
    let document = shown(&given);
    assert_eq!((text(&document["unit"]), ns(&document["total_ns"])), ("ns", 4_501_000));
    assert_eq!(
        (document["subject"]["cpus"].as_u64(), document["subject"]["memory_bytes"].as_u64()),
        (Some(4), Some(2 << 30))
    );
    assert_eq!(text(&document["clocks"][0]["rate_from"]), "given by the user");
    run(bootscope("import").arg(fixture(HEAD)).args(["--tsc-frequency", "fast", "-o", "x"]))
        .refuses(&["--tsc-frequency"]);
}

#[test]
fn a_log_is_written_as_it_was_logged() {
    let folder = tempfile::tempdir().unwrap();
    let recording = public_dump(folder.path());
    let written = run(bootscope("export").arg(&recording).args(["--to", "tslog"])).exits(0);
    let read = |name| std::fs::read_to_string(fixture(name)).unwrap();
    let (head, tail) = (read(HEAD), read(TAIL));
    let records =
        |text: &str| -> Vec<String> { text.lines().filter(|line| line.starts_with("0x")).map(str::to_owned).collect() };
    // The recorder notes a missing part, and the rate, in this way.
    let gap = "0x0 83088266 EVENT TSLOG gap".to_owned();
    let rate = "0x0 1227567913 EVENT TSLOG hz 2445431964".to_owned();
    let expected = [records(&head), vec![gap], records(&tail), vec![rate]].concat();
    assert_eq!(written.text().lines().collect::<Vec<_>>(), expected);
    let again = import_text(folder.path(), "again", written.text(), &[]);
    let functions = |recording: &Path| shown(recording)["functions"].clone();
    assert_eq!(total_of(&serde_json::json!({"functions": functions(&again)}), "SYSINIT", "version"), 11_054_721);
}

/// A Linux boot exported as entries and exits gives the same spans again, with one tick per nanosecond.
#[test]
fn another_boot_is_written_as_entries_and_exits() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("linux");
    let trace = fixture("log/linux-6.1-kmsg.log");
    run(bootscope("import").arg(trace).arg("-o").arg(&recording)).exits(0);
    let linux = shown(&recording);
    let written = run(bootscope("export").arg(&recording).args(["--to", "tslog"])).exits(0);
    assert!(written.stderr.contains("a tick is a nanosecond"), "{}", written.stderr);
    let again = shown(&import_text(folder.path(), "back", written.text(), &["--tsc-frequency", "1GHz"]));
    assert_adds_up(&again);
    let initcalls = rows(&linux["functions"], "name", "initcall");
    assert!(initcalls.len() >= 10, "{}", initcalls.len());
    for call in initcalls {
        let detail = text(&call["detail"]);
        assert_eq!(total_of(&again, "initcall", detail), ns(&call["total_ns"]), "{detail}");
    }
}

#[test]
fn from_a_pipe_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let known = shown(&public_dump(folder.path()));
    let (packed, recording) = (folder.path().join("tail.gz"), folder.path().join("piped"));
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::copy(&mut std::fs::File::open(fixture(TAIL)).unwrap(), &mut gzip).unwrap();
    gzip.finish().unwrap();
    let head = std::fs::read(fixture(HEAD)).unwrap();
    let import = run_with(bootscope("import").arg("-").arg(&packed).arg("-o").arg(&recording), &head).exits(0);
    assert!(import.stderr.contains("stdin: TSLOG dump (96 lines)"), "{}", import.stderr);
    let piped = shown(&recording);
    assert_eq!((&piped["where"], &piped["processes"]), (&known["where"], &known["processes"]));
    assert!(std::fs::read(recording.join("01-tail.gz")).unwrap().starts_with(&[0x1f, 0x8b]), "kept as it came");
}

#[test]
fn files_that_only_accompany_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let (beside, recording) = (folder.path().join("machine.txt"), folder.path().join("boot"));
    for text in ["machdep.tsc_freq: 2445431964\n", "hw.ncpu: 4\nhw.physmem: 1073741824\n"] {
        std::fs::write(&beside, text).unwrap();
        run(bootscope("import").arg(&beside).arg("-o").arg(&recording)).refuses(&["nothing of a boot", "debug.tslog"]);
    }
    let log = folder.path().join("log.txt");
    std::fs::write(&log, "0x1 0 ENTER mi_startup\n0x1 1000 EXIT mi_startup\n0x1 2000 EXIT start_init\n").unwrap();
    std::fs::write(&beside, "machdep.tsc_freq: 2,000,000\nhw.ncpu: 4\nhw.physmem: 1,073,741,824\n").unwrap();
    run(bootscope("import").args([&log, &beside]).arg("-o").arg(&recording)).exits(0);
    let document = shown(&recording);
    assert_eq!((ns(&document["total_ns"]), &document["subject"]["cpus"]), (1_000_000, &4.into()));
    assert_eq!(document["subject"]["memory_bytes"], 1_073_741_824u64);
    assert_eq!(list(&document["warnings"]).len(), 0, "{document}");
}

/// The guide for authors of kernels has a valid log, and it gives the table below it.
#[test]
fn the_log_in_the_guide_gives_the_table_in_the_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tslog-in-your-kernel.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, section) = guide.split_once("## The text form\n").expect("the guide has the section");
    let blocks: Vec<&str> = section.split("```\n").collect();
    let (log, shown) = (blocks[1], blocks[3]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tslog.txt");
    std::fs::write(&file, log).unwrap();
    let recording = imported(&file, &folder.path().join("a"));
    let output = run(bootscope("show").arg(&recording)).exits(0);
    let table: String = shown.lines().filter(|line| !line.starts_with('$')).map(|line| format!("{line}\n")).collect();
    assert!(table.starts_with("where the boot path went") && output.text().contains(&table), "{}", output.text());
    assert!(output.text().contains("EXIT start_init, process 1 runs after 97.0 ms"), "{}", output.text());
}
