//! Promises of every command to its user: help, exit statuses, JSON that adds up, safe output folders, colour only
//! where it is wanted, and foreign evidence from import to every export. Nothing is booted here.

use crate::support::{bootscope, fixture, fixtures, imported, list, ns, ran, rows, run, shown, skip, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 7] = ["record", "show", "report", "export", "diff", "import", "pack"];
const FORMATS: [&str; 9] =
    ["perfetto", "speedscope", "chrome", "folded", "svg", "flame-graph", "csv", "csv-where", "json"];

#[test]
fn help_names_every_command_and_what_exit_statuses_mean() {
    let help = run(&mut bootscope("--help")).exits(0);
    for command in COMMANDS {
        assert!(help.text().contains(&format!("\n  {command} ")), "{command} is not in:\n{}", help.text());
        let own = run(bootscope(command).arg("--help")).exits(0);
        assert!(own.text().contains("Usage: bootscope"), "{}", own.text());
        assert!(own.text().lines().all(|line| line.chars().count() <= 100), "{}", own.text());
    }
    assert!(help.text().contains("Exit status:\n  0  done\n  1  "), "{}", help.text());
    let version = run(&mut bootscope("--version")).exits(0);
    assert!(version.text().starts_with(concat!("bootscope ", env!("CARGO_PKG_VERSION"))), "{}", version.text());
}

/// The program as `cargo install` leaves it: in a folder `bin`, without helpers.
#[test]
fn a_program_without_its_helpers_says_how_to_get_them() {
    let prefix = tempfile::tempdir().unwrap();
    let prefix = prefix.path().canonicalize().unwrap();
    let (program, log) = (prefix.join("bin/bootscope"), fixtures().remove(0));
    fs::create_dir(prefix.join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_bootscope"), &program).unwrap();
    let alone = |arguments: &[&str]| {
        run(Command::new(&program)
            .args(arguments)
            .current_dir(&prefix)
            .env_remove("BOOTSCOPE_LIB")
            .stdin(Stdio::null()))
    };
    let refused = alone(&["capture", "--ssh", "nobody@nowhere.invalid", "-o", "there.tar.zst"]).exits(2);
    let (lib, bin) = (prefix.join("lib/bootscope"), prefix.join("bin"));
    let expected = format!(
        "bootscope-capture is not in {} or {}: run `make install-helpers PREFIX={}` in bootscope's sources",
        lib.display(),
        bin.display(),
        prefix.display()
    );
    assert!(refused.stderr.contains(&expected), "{}\nis not\n{expected}", refused.stderr);
    alone(&["import", log.to_str().unwrap(), "-o", "boot"]).exits(0);
    assert!(alone(&["show", "boot"]).exits(0).text().contains("total"));
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("bootscope-capture"), "no program").unwrap();
    let found = alone(&["capture", "--ssh", "nobody@nowhere.invalid", "-o", "there.tar.zst"]).exits(2);
    assert!(!found.stderr.contains("install-helpers"), "{}", found.stderr);
}

#[test]
fn completions_and_man_pages_know_every_command() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef bootscope"), ("fish", "complete -c bootscope")] {
        let script = run(bootscope("completions").arg(shell)).exits(0);
        assert!(script.text().contains(sign) && script.text().contains("until"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    run(bootscope("man").arg(folder.path().join("man1"))).exits(0);
    for command in COMMANDS {
        let page = fs::read_to_string(folder.path().join(format!("man1/bootscope-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(folder.path().join("man1/bootscope.1").is_file());
}

#[test]
fn wrong_arguments_are_refused_with_a_reason() {
    run(&mut Command::new(env!("CARGO_BIN_EXE_bootscope"))).refuses(&["Usage"]);
    run(&mut bootscope("shwo")).refuses(&["unrecognized", "show"]);
    run(&mut bootscope("show")).refuses(&["RECORDING"]);
    run(bootscope("show").args(["--top", "many", "x"])).refuses(&["--top", "many"]);
    run(bootscope("record").args(["--memory", "much", "-o", "x"])).refuses(&["`much` is no size", "512M"]);
    run(bootscope("record").args(["--memory", "512", "-o", "x"])).refuses(&["512 bytes", "512M"]);
    run(bootscope("record").args(["--kernel", "x"])).refuses(&["--output"]);
    run(bootscope("import").args(["-o", "x"])).refuses(&["FILES"]);
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    run(bootscope("export").arg(&recording).args(["--to", "gnuplot"])).refuses(&["there are", "perfetto", "folded"]);
    let like = bootscope("record").arg("--like").arg(&recording).arg("-o").arg(folder.path().join("b")).output();
    assert!(String::from_utf8_lossy(&like.unwrap().stderr).contains("does not say how it was run"));
    assert!(!folder.path().join("b").exists(), "a refused recording leaves nothing");
}

#[test]
fn every_fixture_goes_all_the_way_from_import_to_every_view() {
    for file in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let recording = imported(&file, &folder.path().join("boot"));
        let document = shown(&recording);
        assert_eq!(document["outcome"], "imported", "{}", file.display());
        assert!(ns(&document["total_ns"]) > 0, "{}: nothing was read", file.display());
        // Raw ticks alone are no time, because the file does not contain their rate.
        let units: &[&str] = match document["time_base"].as_str() {
            _ if file.to_string_lossy().contains("x86-tsc") => &["ticks"],
            Some("guest-virtual") => &["instructions", "guest-time"],
            _ => &["ns"],
        };
        assert!(units.contains(&text(&document["unit"])), "{}", file.display());

        let human = run(bootscope("show").args(["--functions", "--all-threads"]).arg(&recording)).exits(0);
        assert_eq!(human.stderr, "");
        for format in FORMATS {
            let whole = run(bootscope("export").arg(&recording).args(["--to", format])).exits(0);
            assert!(!whole.stdout.is_empty(), "{format} of {}", file.display());
            if format == "json" || format == "chrome" || format == "speedscope" {
                whole.json();
            }
            let path = folder.path().join(format);
            run(bootscope("export").arg(&recording).args(["--to", format, "-q", "-o"]).arg(&path)).exits(0);
            assert_eq!(fs::read(&path).unwrap(), whole.stdout, "{format}: the file and standard output differ");
        }
        run(bootscope("report").arg(&recording)).exits(0);
        let page = fs::read_to_string(folder.path().join("boot.html")).unwrap();
        assert!(page.to_lowercase().starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));

        let packed = folder.path().join("boot.tar.zst");
        run(bootscope("pack").arg(&recording)).exits(0);
        assert_eq!(shown(&packed), document, "{}: packed and unpacked differ", file.display());
        let given_away = folder.path().join("anonymous.tar.zst");
        run(bootscope("pack").arg(&recording).args(["--anonymous", "-o"]).arg(&given_away)).exits(0);
        let anonymous = shown(&given_away);
        // The evidence of a phase may quote a line that names the kernel's builder.
        let times = |document: &Value| -> Vec<[Value; 4]> {
            let fields = ["name", "start_ns", "end_ns", "error_ns"];
            list(&document["phases"]).iter().map(|phase| fields.map(|field| phase[field].clone())).collect()
        };
        assert_eq!(anonymous["total_ns"], document["total_ns"], "{}: names are no times", file.display());
        assert_eq!(times(&anonymous), times(&document), "{}: names are no times", file.display());
    }
}

#[test]
fn the_imx6_logs_units_are_1024_ns() {
    // "9765 usecs" of a kernel that prints ns >> 10 is one tick of 10 ms, and 19531 are two.
    let folder = tempfile::tempdir().unwrap();
    let file = fixture("log/linux-3.5.7-imx6-only-returns.log");
    let document = shown(&imported(&file, &folder.path().join("imx6")));
    // spawn_ksoftirqd is not among them: a message 4.171 ms before its return precedes it.
    let row = rows(&document["functions"], "detail", "spawn_ksoftirqd");
    assert_eq!((row.len(), ns(&row[0]["total_ns"])), (1, 4_171_000));
    for (initcall, ms) in [("init_workqueues", 10), ("cpu_stop_init", 20), ("rcu_spawn_kthreads", 20)] {
        let row = rows(&document["functions"], "detail", initcall);
        let [row] = row[..] else { panic!("{initcall}: {row:?}") };
        let off = (ns(&row["total_ns"]) - ms * 1_000_000).abs();
        assert!(off < ms * 10_000, "{initcall} is more than 1 % off {ms} ms: {row}");
    }
}

#[test]
fn a_trace_of_ticks_needs_their_rate() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("trace/linux-6.1-x86-tsc-second-cpu.txt");
    let ticks = shown(&imported(&trace, &folder.path().join("ticks")));
    assert!(text(&ticks["warnings"][0]).contains("--tsc-frequency"), "{ticks}");
    let known = folder.path().join("known");
    run(bootscope("import").arg(&trace).args(["--tsc-frequency", "2GHz", "-o"]).arg(&known)).exits(0);
    let known = shown(&known);
    assert_eq!((&known["unit"], ns(&known["total_ns"])), (&"ns".into(), ns(&ticks["total_ns"]) / 2));
    // The trace shares nothing with this log, so it cannot be placed.
    let both = folder.path().join("both");
    let log = fixture("log/linux-6.1-serial.log");
    run(bootscope("import").args([&trace, &log]).arg("-o").arg(&both)).exits(0);
    let left_out = shown(&both)["diagnostics"].to_string();
    assert!(left_out.contains("\"unusable\"") && left_out.contains("--tsc-frequency"), "{left_out}");
}

#[test]
fn evidence_of_one_boot_in_several_files_is_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (serial, kmsg) = (fixture("log/linux-6.1-serial.log"), fixture("log/linux-6.1-kmsg.log"));
    let into = folder.path().join("both");
    let import = run(bootscope("import").args([&serial, &kmsg]).arg("-o").arg(&into)).exits(0);
    for sign in ["linux-6.1-serial.log: kernel log", "linux-6.1-kmsg.log: kernel log records"] {
        assert!(import.stderr.contains(sign), "{}", import.stderr);
    }
    assert_eq!(fs::read(into.join("00-linux-6.1-serial.log")).unwrap(), fs::read(&serial).unwrap(), "byte for byte");
    shown(&into);
}

#[test]
fn a_log_of_several_boots_shows_the_last_or_the_chosen_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("two.txt");
    let boot = |release: &str, ends: &str| {
        format!(
            "[    0.000000] Linux version {release} (gcc) #1 SMP\n[    0.100000] pci 0000:00:1f.0: [8086:2918]\n\
             [    {ends}] Run /sbin/init as init process\n"
        )
    };
    fs::write(&log, boot("5.10.1", "0.500000") + &boot("6.1.2", "0.900000")).unwrap();
    let show = |flags: &[&str]| run(bootscope("show").arg(&log).args(flags).arg("--json")).exits(0).json();
    for (flags, kernel, total_ns) in [
        (&[][..], "6.1.2", 900_000_000),
        (&["--boot", "0"], "6.1.2", 900_000_000),
        (&["--boot", "-1"], "5.10.1", 500_000_000),
    ] {
        let document = show(flags);
        assert_eq!(
            (&document["subject"]["kernel"], ns(&document["total_ns"])),
            (&kernel.into(), total_ns),
            "{flags:?}"
        );
    }
    run(bootscope("show").arg(&log).args(["--boot", "-2"])).refuses(&["no boot -2"]);
}

#[test]
fn an_output_that_exists_is_kept_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let (imx6, serial) = (fixture("log/linux-3.5.7-imx6-only-returns.log"), fixture("log/linux-6.1-serial.log"));
    let into = imported(&imx6, &folder.path().join("boot"));
    let before = shown(&into);
    run(bootscope("import").arg(&serial).arg("-o").arg(&into)).refuses(&["exists already", "--force"]);
    let missing = folder.path().join("missing.log");
    run(bootscope("import").arg(&missing).arg("--force").arg("-o").arg(&into)).refuses(&["missing.log"]);
    assert_eq!(shown(&into), before);
    run(bootscope("import").arg(&serial).arg("--force").arg("-o").arg(&into)).exits(0);
    assert_ne!(shown(&into), before);

    run(bootscope("pack").arg(&into)).exits(0);
    run(bootscope("pack").arg(&into)).refuses(&["exists already", "--force"]);
    run(bootscope("pack").arg(&into).arg("--force")).exits(0);

    run(bootscope("pack").arg(&into).arg("-o").arg(folder.path().join("twice.tar.zst"))).exits(0);
    run(bootscope("pack").arg(folder.path().join("twice.tar.zst"))).refuses(&["packed recording already", "--zstd"]);

    let page = folder.path().join("a.html");
    fs::write(&page, "mine").unwrap();
    for command in [&["report"][..], &["export", "--to", "folded"]] {
        let write =
            |flags: &[&str]| run(bootscope(command[0]).args(&command[1..]).args(flags).arg(&into).arg("-o").arg(&page));
        write(&[]).refuses(&["a.html exists already", "--force"]);
        assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
        write(&["--force"]).exits(0);
        assert_ne!(fs::read_to_string(&page).unwrap(), "mine");
        fs::write(&page, "mine").unwrap();
    }
    run(bootscope("report").arg(&into).arg("--force").arg("-o").arg(folder.path())).refuses(&["is a folder"]);

    // Only recordings are ever removed.
    let foreign = folder.path().join("home");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "years of work").unwrap();
    run(bootscope("import").arg(&serial).arg("--force").arg("-o").arg(&foreign)).refuses(&["not a recording"]);
    assert_eq!(fs::read_to_string(foreign.join("thesis.tex")).unwrap(), "years of work");
}

#[test]
fn colour_needs_a_terminal_and_no_color_disables_it() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let colored = |command: &mut Command| run(command).exits(0).stdout.contains(&0x1b);
    assert!(!colored(bootscope("show").arg(&recording)), "a pipe is no terminal");
    assert!(colored(bootscope("show").arg(&recording).args(["--color", "always"])));
    let show = |flags: &str| on_terminal(&format!("show {} {flags}", recording.display()));
    let Some(mut plain) = show("") else { return };
    assert!(colored(&mut plain));
    assert!(!colored(plain.env("NO_COLOR", "1")));
    assert!(colored(plain.env("NO_COLOR", "")), "only a value that is not empty counts");
    assert!(!colored(&mut show("--color never").unwrap()));
}

/// The program on a terminal of 80 columns; `None` without one, with a printed reason.
fn on_terminal(arguments: &str) -> Option<Command> {
    if Command::new("script").arg("--version").output().is_err() {
        skip("no `script` (util-linux) to give the program a terminal");
        return None;
    }
    let line = format!("stty cols 80; exec {} {arguments}", env!("CARGO_BIN_EXE_bootscope"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").stdin(Stdio::null());
    Some(command)
}

#[test]
fn a_terminal_is_not_overrun_and_a_pipe_gets_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let piped = run(bootscope("show").args(["--functions", "--all-threads"]).arg(&recording)).exits(0);
    assert!(!piped.text().contains('…') && piped.text().lines().any(|line| line.chars().count() > 80));
    let shown = format!("show {} --functions --all-threads --color never", recording.display());
    let Some(mut command) = on_terminal(&shown) else { return };
    let shown = run(&mut command).exits(0);
    assert!(shown.text().contains('…'), "{}", shown.text());
    assert!(shown.text().lines().all(|line| line.trim_end().chars().count() <= 80), "{}", shown.text());

    let to = |flags: &str| on_terminal(&format!("export {} --to {flags}", recording.display())).unwrap();
    let refused = run(&mut to("perfetto")).exits(2);
    assert!(
        refused.text().contains("would go to your terminal") && refused.text().contains("-o"),
        "{}",
        refused.text()
    );
    run(&mut to("folded")).exits(0);
}

#[test]
fn diff_lists_one_direction_and_uses_the_given_names() {
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::read_to_string(fixture("log/linux-6.1-serial.log")).unwrap();
    let before = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    // An initcall takes 1 ms less; the gap before it is as much longer.
    let later = folder.path().join("later.log");
    std::fs::write(
        &later,
        log.replace("[    2.034492] calling  hpet_init", "[    2.035492] calling  hpet_init")
            .replace("after 6175 usecs", "after 5175 usecs"),
    )
    .unwrap();
    let after = imported(&later, &folder.path().join("b"));
    let diff = |flags: &[&str]| run(bootscope("diff").args([&before, &after]).args(flags)).exits(0);
    let names = |flags: &[&str]| -> Vec<String> {
        let document = diff(&[flags, &["--json"]].concat()).json();
        list(&document["rows"]).iter().map(|row| text(&row["name"]).to_owned()).collect()
    };
    let (all, slower, faster) = (names(&[]), names(&["--only", "slower"]), names(&["--only", "faster"]));
    assert_eq!(all.len(), slower.len() + faster.len(), "{all:?}");
    assert!(faster.contains(&"initcall hpet_init".to_owned()) && !slower.is_empty(), "{all:?}");
    let named = diff(&["--names", "old", "new"]);
    assert!(named.text().contains(" old · ") && named.text().contains(" new · "), "{}", named.text());
    run(bootscope("diff").args([&before, &after]).args(["--only", "x"])).refuses(&["slower, faster"]);
}

#[test]
fn a_part_of_a_boot_is_exported_by_phase_or_times() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let export = |to: &str, part: &[&str]| run(bootscope("export").arg(&recording).args(["--to", to]).args(part));
    let sum_ns = |part: &[&str]| -> i64 {
        let folded = export("folded", part).exits(0);
        folded.text().lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum()
    };
    let phases = shown(&recording)["phases"].clone();
    let early_ns = ns(&phases[0]["end_ns"]) - ns(&phases[0]["start_ns"]);
    assert_eq!(sum_ns(&["--phase", "early"]), early_ns);
    assert_eq!(sum_ns(&["--before", "100ms"]), 100_000_000);
    assert_eq!(sum_ns(&["--phase", "early"]) + sum_ns(&["--phase", "initcalls"]), sum_ns(&[]));
    export("folded", &["--phase", "x"]).refuses(&["no phase is called x", "early kernel, initcalls"]);
    export("csv", &["--after", "1s"]).refuses(&["folded and flame-graph", "csv has the whole boot"]);
    export("folded", &["--after", "100s"]).refuses(&["nothing lies between", "the boot took 2.04 s"]);
    assert!(export("flame-graph", &["--after", "1s"]).exits(0).text().contains("from 1.00 s to 2.04 s"));
}

#[test]
fn quiet_and_verbose_print_less_and_more() {
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::read_to_string(fixture("log/linux-6.1-serial.log")).unwrap();
    let belled = folder.path().join("belled.log");
    std::fs::write(&belled, log.replacen("BIOS-provided", "\u{7}BIOS-provided", 1)).unwrap();
    let recording = imported(&belled, &folder.path().join("a"));
    let show = |flag: &[&str]| run(bootscope("show").args(flag).arg(&recording)).exits(0).text().to_owned();
    let [quiet, usual, verbose] = [&["-q"][..], &[], &["-v"]].map(show);
    assert!(usual.starts_with(&quiet) && quiet.contains("imported: ") && !quiet.contains("phase"), "{quiet}");
    // Harmless diagnostics share one line, or with --verbose each has its own.
    let (tables, summed) = usual.split_once("harmless: ").unwrap();
    assert!(
        summed.contains("1 problem (1 kind)") && verbose.starts_with(tables) && !verbose.contains("harmless: "),
        "{usual}"
    );
    let more = &verbose[tables.len()..];
    assert!(more.contains("1 control character stands in a log") && more.contains("rests on"), "{verbose}");
    let incomplete = imported(&fixture("log/linux-6.1-kmsg.log"), &folder.path().join("incomplete"));
    let affected = run(bootscope("show").arg(&incomplete)).exits(0).text().to_owned();
    assert!(
        affected.contains("164 kernel log records are missing"),
        "a diagnostic that affects a figure has a line of its own: {affected}"
    );
    let all = show(&["-q", "--initcalls"]);
    assert!(all.contains("longest first"), "what is asked for by name comes all the same");
    assert!(show(&["-q", "--initcalls", "--top", "1"]).lines().count() < all.lines().count(), "{all}");
}

#[test]
fn a_compressed_log_names_its_kernel_too() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("serial.log");
    std::fs::copy(fixture("log/linux-6.1-serial.log"), &plain).unwrap();
    let kernel =
        |into: &str, file: &Path| shown(&imported(file, &folder.path().join(into)))["subject"]["kernel"].clone();
    let expected = kernel("a", &plain);
    assert!(text(&expected).starts_with("6.1"), "{expected}");
    assert!(std::process::Command::new("gzip").arg(&plain).status().unwrap().success());
    assert_eq!(kernel("b", &folder.path().join("serial.log.gz")), expected);
}

#[test]
fn each_command_that_writes_a_file_prints_json() {
    let folder = tempfile::tempdir().unwrap();
    let (log, into) = (fixture("log/linux-6.1-serial.log"), folder.path().join("a"));
    let import = run(bootscope("import").arg("--json").arg(&log).arg("-o").arg(&into)).exits(0).json();
    assert_eq!((text(&import["schema"]), text(&import["recording"])), ("bootscope.import/1", into.to_str().unwrap()));
    assert!(text(&import["files"][0]["formats"][0]).contains("kernel log"), "{import}");
    for (command, name) in
        [(&["report"][..], "a.html"), (&["export", "--to", "csv"], "a.csv"), (&["pack"], "a.tar.zst")]
    {
        let file = folder.path().join(name);
        let mut run_it = bootscope(command[0]);
        let document = run(run_it.args(&command[1..]).args(["--json", "-o"]).arg(&file).arg(&into)).exits(0).json();
        assert_eq!(document["schema"], format!("bootscope.{}/1", command[0]));
        assert_eq!(
            (text(&document["file"]), ns(&document["bytes"])),
            (file.to_str().unwrap(), size(&file)),
            "{document}"
        );
    }
    run(bootscope("export").args(["--to", "csv", "--json"]).arg(&into)).refuses(&["--json", "-o"]);
}

fn size(file: &Path) -> i64 {
    i64::try_from(fs::metadata(file).unwrap().len()).unwrap()
}

#[test]
fn a_pipe_is_written_to_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let script = r#"mkfifo "$1/pipe" && cat "$1/pipe" >"$1/heard" & sleep 0.2
        "$2" export "$1/a" --to csv -o "$1/pipe" && [ -p "$1/pipe" ] && wait && [ -s "$1/heard" ]"#;
    let mut command = Command::new("sh");
    run(command.args(["-c", script, "-"]).arg(folder.path()).arg(env!("CARGO_BIN_EXE_bootscope"))).exits(0);
    let direct = run(bootscope("export").args(["--to", "csv"]).arg(&recording)).exits(0);
    assert_eq!(fs::read(folder.path().join("heard")).unwrap(), direct.stdout);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let path = recording.to_str().unwrap();
    let json = ["export", path, "--to", "json"];
    for arguments in [&["show", path][..], &["show", path, "--json"], &json, &["completions", "bash"], &["--help"]] {
        let mut command = bootscope(arguments[0]);
        let mut child = command.args(&arguments[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The pipe has no reader, so every write fails.
        drop(child.stdout.take());
        let ended = ran(child.wait_with_output().unwrap(), format!("{arguments:?}")).exits(0);
        assert_eq!(ended.stderr, "", "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    for arguments in [&["show"][..], &["export", "--to", "folded"]] {
        let mut command = bootscope(arguments[0]);
        command.args(&arguments[1..]).arg(&recording).stdout(fs::File::create("/dev/full").unwrap());
        run(&mut command).refuses(&["standard output", "No space left"]);
    }
    let nowhere = Path::new("/nonexistent/folder/a.html");
    run(bootscope("report").arg(&recording).arg("-o").arg(nowhere)).refuses(&["/nonexistent/folder/a.html"]);
}

#[test]
fn rows_have_owners_and_shares_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("trace/linux-6.1-global-first-switches.txt");
    let document = shown(&imported(&trace, &folder.path().join("a")));
    let total = ns(&document["total_ns"]) as f64;
    for row in list(&document["where"]) {
        assert!(!list(&row["tracks"]).is_empty() && !text(&row["name"]).is_empty(), "{row}");
        assert!(ns(&row["self_ns"]) <= ns(&row["total_ns"]), "{row}");
        let share = row["share"].as_f64().unwrap();
        assert!((share - ns(&row["self_ns"]) as f64 / total).abs() < 1e-9, "{row}");
    }
    let selfs: Vec<i64> = list(&document["where"]).iter().map(|row| ns(&row["self_ns"])).collect();
    assert!(selfs.is_sorted_by(|a, b| a >= b), "largest first");
}

/// The excerpt of the question why an i.MX6 needs 55 ms to start one CPU: four initcalls, in a log that begins within
/// the first of them. Once as a log, and once as the mail quotes and wraps it.
#[test]
fn an_excerpt_that_begins_inside_an_initcall() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["linux-3.5.7-imx6-only-returns", "linux-3.5.7-imx6-wrapped-by-mail"] {
        let recording = folder.path().join(name);
        run(bootscope("import").arg(fixture(&format!("log/{name}.log"))).arg("-o").arg(&recording)).exits(0);
        let document = shown(&recording);
        crate::support::assert_adds_up(&document);
        let phases: Vec<(&str, i64, i64)> = list(&document["phases"])
            .iter()
            .map(|p| (text(&p["name"]), ns(&p["start_ns"]), ns(&p["end_ns"])))
            .collect();
        // From the message before the first return, since one tick before that return other initcalls still printed, up
        // to the last.
        let (first, last) = (256_033_000, 310_449_000);
        let expected = [
            ("unexplained", 0, first),
            ("initcalls: early", first, last),
            ("after the last initcall", last, 310_712_000),
        ];
        assert_eq!(phases, expected, "{name}");
        assert_eq!(ns(&list(&document["phases"])[1]["error_ns"]), 10_000_000, "{name}: one tick");
        let diagnostics = document["diagnostics"].to_string();
        assert!(diagnostics.contains("whole ticks") && diagnostics.contains("60.0 ms"), "{name}: {diagnostics}");
        let took = |name: &str| {
            let found = rows(&document["where"], "name", &format!("initcall {name}"));
            ns(&found[0]["self_ns"])
        };
        assert_eq!(took("spawn_ksoftirqd"), 260_204_000 - 256_033_000, "{name}");
        assert_eq!(took("init_workqueues"), 9765 * 1024, "{name}");
        // Two ticks would begin before the return of the previous one.
        assert_eq!(took("cpu_stop_init"), 290_265_000 - 270_363_000, "{name}");
        assert_eq!(took("rcu_spawn_kthreads"), 19531 * 1024, "{name}");
    }
}
