//! `bootscope bench` on the reference kernel with its scripted delays: the results of many boots, and the files left
//! after any end.

use crate::support::boots::{QUIET, Scratch, kernel};
use crate::support::{Ran, bootscope, list, ns, rows, run, skip, text};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The kernel, built by `make build`; `None` without one, with a printed reason.
fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("lab")).filter(|lab| lab.is_file());
    if lab.is_none() {
        skip("BOOTSCOPE_LIB has no lab");
    }
    lab
}

/// A bench of the lab into a folder. The exit status of QEMU's exit device ends each boot, even if QEMU's monitor is
/// late.
fn bench(lab: &Path, into: &Path, flags: &[&str]) -> Command {
    let mut command = bootscope("bench");
    command
        .args(["--accel", "tcg", "--init", "keep", "--until", "^init: done", "--memory", "128M", "--kernel"])
        .arg(lab);
    command.arg("-o").arg(into).args(flags);
    command
}

fn journal(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("bench.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn comparison(document: &Value) -> &Value {
    &document["results"]["comparisons"][0]
}

#[test]
fn a_delay_is_found_in_its_row_and_nowhere_else() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let flags = ["--json", "--deterministic", "--warm-ups", "0", "--seed", "3", "--vary", "append=delay.vm_mem=30us"];
    let document = run(&mut bench(&lab, &into, &flags)).exits(0).json();
    assert_eq!((&document["schema"], &document["ended"]), (&"bootscope.bench/1".into(), &"rounds".into()));
    assert_eq!(list(&document["boots"]).len(), 10);
    assert_eq!((&document["deterministic"], &document["dithered"]), (&true.into(), &true.into()));
    let row = rows(&comparison(&document)["rows"], "name", "SYSINIT vm_mem · DELAY");
    let difference = row.first().map_or(f64::NAN, |row| row["by"]["difference"]["estimate"].as_f64().unwrap());
    println!("30 µs were injected, {difference} ns found: {row:?}");
    assert!((difference - 30_000.0).abs() < 1_500.0);
    assert_eq!(row[0]["by"]["change"], "more");
    let before = document["results"]["variants"][0]["total"]["mean"].as_f64().unwrap();
    println!("that is {:.4} % of {before} ns", 100.0 * difference / before);
    for boot in list(&document["boots"]) {
        let sum = |part: &str| list(&boot[part]).iter().map(|p| ns(&p["ns"])).sum::<i64>();
        let total = ns(&boot["total_ns"]);
        assert_eq!((sum("phases"), sum("rows")), (total, total));
    }
    let again = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    assert_eq!(again["results"], document["results"], "the folder says the same");
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(into.join("bench.json")).unwrap()).unwrap(), document);
    assert!(!into.join("boots").exists(), "no recording was asked for");
}

#[test]
fn deterministic_boots_that_only_repeat_are_the_same() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let flags = ["--json", "--deterministic", "--no-dither", "--runs", "3"];
    let document = run(&mut bench(&lab, &scratch.path("bench"), &flags)).exits(0).json();
    let totals: Vec<i64> = list(&document["boots"]).iter().map(|b| ns(&b["total_ns"])).collect();
    assert!(totals.len() == 3 && totals.iter().all(|t| *t == totals[0]), "{totals:?}");
    assert_eq!(document["results"]["variants"][0]["total"]["sd"], 0.0);
}

#[test]
#[ignore = "14 s: in make test-all"]
fn a_delay_in_the_hosts_time_is_found_in_its_phase_and_files_say_so() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let (into, csv, markdown) = (scratch.path("bench"), scratch.path("b.csv"), scratch.path("b.md"));
    let flags = ["--runs", "6", "--vary", "append=delay.vm_mem=1500", "--keep-recordings"];
    let mut command = bench(&lab, &into, &flags);
    let ran = run(command.arg("--export-csv").arg(&csv).arg("--export-markdown").arg(&markdown)).exits(0);
    println!("{}", ran.text());
    let printed = ran.text().replace('\n', " ");
    for words in ["12 boots of 2 variants in turn after 2 to warm up", "append=delay.vm_mem=1500", "VMM's peak"] {
        assert!(printed.contains(words), "no {words:?}");
    }
    // A busy host adds to both, but only one of them has the delay.
    let found = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let row = rows(&comparison(&found)["rows"], "name", "SYSINIT vm_mem · DELAY")[0];
    let low = row["by"]["difference"]["low"].as_f64().unwrap();
    assert!(row["by"]["change"] == "more" && low > 1.499e9, "{row}");
    assert_eq!(comparison(&found)["rows"][0]["name"], "SYSINIT vm_mem · DELAY", "the largest effect comes first");
    let lines = std::fs::read_to_string(&csv).unwrap();
    // A phase has a comma in its name, with a blank after it.
    let columns = lines.lines().next().unwrap().replace(", ", "; ").split(',').count();
    let others = "number,round,variant,began_ns,host_load,outcome,total_ns".split(',').count();
    // There was no workload.
    let metrics = benchmark::METRICS.iter().filter(|metric| !metric.is_mentioned_if_known()).count();
    assert_eq!((lines.lines().count(), columns), (15, others + metrics + phases(&into)));
    assert!(std::fs::read_to_string(&markdown).unwrap().contains("| `append=delay.vm_mem=1500` | 6 of 6 |"));
    let shown = run(bootscope("show").arg("--json").arg(into.join("boots/0013"))).exits(0).json();
    assert_eq!(shown["total_ns"], journal(&into)[14]["total_ns"], "a kept recording says what the journal says");
    // Its page has the boot path of the median boot of each variant.
    let page = scratch.path("b.html");
    run(bootscope("report").arg(&into).arg("-o").arg(&page)).exits(0);
    let parts = report::page::read(&std::fs::read_to_string(&page).unwrap()).unwrap();
    let count = |name: &str| parts.iter().filter(|part| part.name == name).count();
    assert_eq!(["bench", "stays", "end"].map(count), [1, 2, 2]);
    // Nothing is replaced without --force.
    run(&mut bench(&lab, &into, &flags)).refuses(&["is there already", "--force"]);
}

/// The number of phases. A boot may lack some.
fn phases(folder: &Path) -> usize {
    let lines = journal(folder);
    let boots = lines.iter().filter(|line| line["phases"].is_array());
    boots
        .flat_map(|boot| list(&boot["phases"]))
        .map(|phase| phase["name"].as_str().unwrap())
        .collect::<HashSet<_>>()
        .len()
}

#[test]
fn a_sweep_finds_the_scaling_model_of_a_growing_row() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let (into, page) = (scratch.path("bench"), scratch.path("sweep.html"));
    let sweep = "append=delay.vm_mem=1,delay.vm_mem=2,delay.vm_mem=4,delay.vm_mem=8";
    let flags = ["--deterministic", "--runs", "2", "--sweep", sweep, "--at", "100"];
    let ran = run(bench(&lab, &into, &flags).arg("--html").arg(&page)).exits(0);
    println!("{}", ran.text());
    assert!(ran.stderr.contains("--runs 2 is too few for 3 comparisons together"), "{}", ran.stderr);
    exported(&into, &scratch);
    let found = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let slice = &found["results"]["laws"][0];
    assert_eq!((&slice["key"], list(&slice["rows"]).len()), (&"append".into(), 2), "{slice}");
    for row in list(&slice["rows"]) {
        let slope = row["slope"].as_f64().unwrap();
        assert!(row["law"] == "n" && (slope / 1e6 - 1.0).abs() < 0.01, "a millisecond each: {row}");
    }
    let delay = rows(&slice["rows"], "name", "SYSINIT vm_mem · DELAY")[0];
    let predicted = delay["predicted"][0]["time"].as_f64().unwrap();
    assert!((predicted / 100e6 - 1.0).abs() < 0.01, "{delay}");
    assert!(ran.text().contains("growing with append") && ran.text().contains('●') && ran.text().contains("at 100"));
    let html = std::fs::read_to_string(&page).unwrap();
    // After its tables the page has the application, and the data in a form that no browser runs.
    let tables = html.split_once("</main>").unwrap().0;
    assert!(
        tables.matches("<circle").count() >= 8 + 8
            && !tables.contains("<script")
            && tables.contains("default-src 'none'")
            && html.contains("<script type=\"application/x-bootscope\">")
    );
}

/// Checks the exports of a bench, also of an interrupted one, and that formats for single boots are refused.
fn exported(bench: &Path, scratch: &Scratch) {
    let export = |to: &str| run(bootscope("export").arg(bench).args(["--to", to]));
    assert_eq!(export("csv").exits(0).text().lines().count(), 9);
    let ran = export("markdown").exits(0);
    assert!(ran.text().contains("| `append=delay.vm_mem=8` | 2 of 2 |"), "{}", ran.text());
    assert!(export("html").exits(0).text().contains("<circle"));
    assert_eq!(export("json").exits(0).json()["schema"], "bootscope.bench/1");
    export("perfetto").refuses(&["is a bench", "csv, json, markdown, html"]);
    let page = scratch.path("report.html");
    run(bootscope("report").arg(bench).arg("-o").arg(&page)).exits(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("<circle"));
    run(bootscope("pack").arg(bench)).refuses(&["is a bench", "export"]);
    run(bootscope("diff").arg(bench).arg(bench)).refuses(&["is a bench"]);
}

#[test]
fn boots_that_fail_are_counted_and_kept() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let flags = ["--runs", "6", "--warm-ups", "0", "--vary", "until=^never said"];
    let ran = run(&mut bench(&lab, &into, &flags)).exits(1);
    println!("{}", ran.text());
    let printed = ran.text().replace('\n', " ");
    assert!(
        printed.contains("given up because until=^never said never reached its end mark") && printed.contains("0 of 3")
    );
    let ended = journal(&into).pop().unwrap();
    assert_eq!(ended["ended"], serde_json::json!({"never-reached": 1}));
    let failed: Vec<Value> =
        journal(&into).into_iter().filter(|b| b["variant"] == 1 && b["total_ns"].is_null()).collect();
    assert_eq!(failed.len(), 3);
    for boot in failed {
        let recording = into.join(format!("boots/{:04}", ns(&boot["number"])));
        assert!(recording.join("console.log").exists(), "{}", recording.display());
    }
}

/// These boots have no guest time: no kernel log and no trace. The host's clock does not measure a deterministic boot.
#[test]
fn boots_whose_length_is_never_known_are_counted_as_failed() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("the guest is for x86-64");
    }
    let scratch = Scratch::new();
    let image = scratch.path("waits.elf");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/waits.s");
    let mut compiler = Command::new("cc");
    compiler.args(["-nostdlib", "-static", "-no-pie", "-Wa,--defsym,WAITS=1000", "-Wl,--build-id=none"]);
    compiler.args(["-Wl,-Ttext-segment=0x100000", "-Wl,-z,noseparate-code", "-o"]).arg(&image).arg(source);
    assert!(compiler.status().expect("cc, which Rust links with, is there").success());

    let into = scratch.path("bench");
    let flags = ["--deterministic", "--no-first-executions", "--trace", "none", "--runs", "2", "--warm-ups", "0"];
    let ran = run(&mut bench(&image, &into, &flags)).exits(1);
    let printed = ran.text().split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{printed}");
    assert!(printed.contains("no boot could be measured"));
    assert!(printed.contains("2 boots reached the end mark but cannot be measured: boot 0 (its length is not known"));
    assert!(printed.contains("leave out --no-first-executions"), "what to do about it");
    for boot in journal(&into).iter().filter(|line| !line["number"].is_null()) {
        assert_eq!((&boot["outcome"], &boot["total_ns"]), (&"reached".into(), &Value::Null));
        // The recording is kept, as for any failed boot.
        assert!(into.join(format!("boots/{:04}/console.log", ns(&boot["number"]))).exists());
    }
    let document = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    assert_eq!(document["results"]["variants"][0]["total"], Value::Null);

    // The same boots are measured if a trace has the guest's time.
    let traced = scratch.path("traced");
    let flags = ["--deterministic", "--trace", "none", "--runs", "2", "--warm-ups", "0", "--json"];
    let document = run(&mut bench(&image, &traced, &flags)).exits(0).json();
    assert!(document["results"]["variants"][0]["total"]["mean"].as_f64() > Some(1000.0), "{}", document["results"]);
}

#[test]
fn unbootable_variants_are_refused_before_any_boot() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let refuses = |flags: &[&str], words: &[&str]| {
        run(&mut bench(&lab, &into, flags)).refuses(words);
        assert!(!into.exists(), "{flags:?} left a folder");
    };
    refuses(&["--vary", "kernel=/nonexistent/vmlinuz"], &["kernel=/nonexistent/vmlinuz", "variant"]);
    refuses(&["--vary", "cpu=2"], &["--vary cpu=2", "--cpus"]);
    refuses(&["--sweep", "cpus=1"], &["--sweep", "two values"]);
    refuses(&["--sweep", "cpus=1,1"], &["--sweep cpus=1,1", "twice", "--runs"]);
    refuses(&["--sweep", "cpus=1,2", "--at", "64G"], &["--at 64G", "not swept"]);
    refuses(&["--runs", "0"], &["--runs"]);
    refuses(&["--runs", "30000", "--vary", "cpus=1"], &["--runs 30000", "at most 25000"]);
    // Fewer pairs than can show anything: six for one comparison, seven for two in a family.
    refuses(&["--runs", "3", "--vary", "cpus=1"], &["--runs 3 is too few for one comparison", "--runs 6 or more"]);
    let two = ["--runs", "6", "--vary", "cpus=1", "--vary", "cpus=2", "--vary", "memory=1G"];
    refuses(&two, &["2 comparisons together", "--runs 7 or more"]);
    refuses(&["--deterministic", "--runs", "3", "--vary", "cpus=1"], &["--runs 4 or more"]);
    refuses(&["--pin", "9999"], &["--pin 9999"]);
    refuses(&["--vary", "deterministic"], &["deterministic"]);
    refuses(&["--until-width", "5"], &["%"]);
    refuses(&["--until-sure"], &["--until-sure", "--vary"]);
    refuses(&["--until-sure", "--deterministic", "--vary", "cpus=1"], &["--until-sure", "--deterministic"]);
    refuses(&["--until-sure", "--runs", "5", "--vary", "cpus=1"], &["--runs 5 is too few"]);
}

#[test]
#[ignore = "25 s: in make test-all"]
fn a_bench_ends_when_its_verdict_is_sure() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let (into, db) = (scratch.path("bench"), scratch.path("history.db"));
    let once = |into: &Path| {
        let flags = ["--until-sure", "--warm-ups", "0", "--vary", "append=delay.vm_mem=300", "--json", "--db"];
        run(bench(&lab, into, &flags).arg(&db)).exits(0)
    };
    let first = once(&into);
    let document = first.json();
    assert_eq!((&document["ended"], &document["plan"]["stop"]["sure"]), (&"sure".into(), &true.into()));
    assert_eq!((&document["ask"]["looks"], &comparison(&document)["total"]["change"]), (&13.into(), &"more".into()));
    assert!(!first.stderr.contains("rounds, by the noise"), "{}", first.stderr);
    let second = once(&scratch.path("second"));
    assert!(second.stderr.contains("rounds, by the noise of bench 1 ("), "{}", second.stderr);
    // The document is computed again with the looks.
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    assert_eq!(comparison(&shown)["total"], comparison(&document)["total"]);
}

#[test]
fn one_boot_is_a_bench() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let database = scratch.path("history.db");
    let flags = ["--runs", "1", "--warm-ups", "0", "--pin", "0", "--force"];
    let ran = run(bench(&lab, &into, &flags).arg("--db").arg(&database)).exits(0);
    assert!(std::fs::read(&database).unwrap().starts_with(b"SQLite format 3"), "it is kept with past benches");
    assert!(ran.text().contains("on CPUs 0,"), "it is pinned: {}", ran.text());
    assert!(ran.text().starts_with("1 boot; all rounds are done\n"), "{}", ran.text());
    assert!(!ran.text().contains("NaN") && !ran.text().contains('±'), "{}", ran.text());
    // A file that is not a history is reported, and the bench's folder stays complete. --force replaces the old bench.
    std::fs::write(&database, "no database at all".repeat(100)).unwrap();
    let ran = run(bench(&lab, &into, &flags).arg("--db").arg(&database)).exits(0);
    assert!(ran.stderr.contains("not kept in the history") && ran.stderr.contains("--add"), "{}", ran.stderr);
    assert_eq!(journal(&into).len(), 3);
}

#[test]
fn an_interrupted_bench_prints_its_results() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let mut command = bench(&lab, &into, &["--runs", "500", "--warm-ups", "0"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_boots(&into, 2);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran: Ran = crate::support::ran(child.wait_with_output().unwrap(), "an interrupted bench".to_owned()).exits(1);
    assert!(ran.text().contains("then it was interrupted") && ran.text().contains("total "), "{}", ran.text());
    assert_eq!(journal(&into).pop().unwrap()["ended"], "interrupted");
}

/// Waits until this number of boots is in the journal.
fn wait_for_boots(folder: &Path, boots: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    let lines = || std::fs::read_to_string(folder.join("bench.jsonl")).unwrap_or_default().lines().count();
    while lines() < 1 + boots {
        assert!(Instant::now() < until, "no {boots} boots in two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_bench_has_every_boot_that_was_over() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    for (kill, after_ms) in [(0, 0), (1, 130), (2, 290)] {
        let into = scratch.path(&format!("bench-{kill}"));
        let mut command = bench(&lab, &into, &["--runs", "500", "--warm-ups", "0", "--vary", "append=delay.vm_mem=1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for_boots(&into, 1 + kill);
        std::thread::sleep(Duration::from_millis(after_ms));
        let before = std::fs::read_to_string(into.join("bench.jsonl")).unwrap().lines().count() - 1;
        child.kill().unwrap();
        child.wait().unwrap();
        let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0);
        let boots = list(&shown.json()["boots"]).len();
        assert!(boots >= before, "{before} were over, {boots} are left");
        assert!(shown.json()["ended"].is_null());
        let output = run(bootscope("show").arg(&into)).exits(0);
        assert!(output.text().contains("it was killed, or is still running"), "{}", output.text());
    }
}

#[test]
fn a_full_disk_ends_it_and_loses_no_boot() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    // A disk with room for some recordings, in its own mount namespace.
    let script = r#"mount -t tmpfs -o size=600k none "$1" || exit 77; into=$1/bench; shift
        "$@" -o "$into" >/dev/null; status=$?; "$0" show --json "$into" || exit 78; exit $status"#;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut inner = bench(&lab, &scratch.path("unused"), &["--runs", "50", "--keep-recordings"]);
    inner.args(["--warm-ups", "0"]);
    let program = inner.get_program().to_owned();
    let arguments: Vec<_> = inner.get_args().map(|a| a.to_owned()).collect();
    let unused = arguments.iter().position(|a| a == "-o").unwrap();
    let (before, after) = (&arguments[..unused], &arguments[unused + 2..]);
    let mut command = Command::new("unshare");
    command.args([if is_root { "-m" } else { "-rm" }, "sh", "-c", script]).arg(&program).arg(scratch.folder());
    command.arg(&program).args(before).args(after);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.stdout.is_empty() && !stderr.contains("bootscope:") {
        return skip(&format!("no mount namespace of its own can be made here ({})", output.status));
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the bench could not go on") && stderr.contains("are kept in"), "{stderr}");
    assert!(stderr.to_lowercase().contains("space") || stderr.contains("full"), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let boots = list(&document["boots"]);
    assert!(boots.len() > 1 && boots.iter().all(|b| b["outcome"] == "reached"), "{} boots", boots.len());
    assert!(stderr.contains(&format!("{} boots are kept", boots.len())), "{stderr}");
}

#[test]
fn a_stock_kernel_is_benched_by_phase_row_and_memory() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let mut command = bootscope("bench");
    command
        .args(["--accel", "tcg", "--json", "--runs", "2", "--warm-ups", "0", "--append", QUIET, "--kernel"])
        .arg(&kernel);
    let document = run(command.arg("-o").arg(scratch.path("bench"))).exits(0).json();
    let runs = &document["results"]["variants"][0];
    let initcalls = list(&runs["rows"]).iter().filter(|row| text(&row["name"]).starts_with("initcall ")).count();
    assert!(initcalls > 20 && list(&runs["phases"]).len() > 8, "{initcalls} initcalls, {}", runs["phases"]);
    for memory in ["vmm_max_rss", "guest_total", "guest_available", "guest_cached"] {
        assert!(runs[memory]["mean"].as_f64().unwrap() > 1e6, "{memory}: {}", runs[memory]);
    }
    let booted = &document["variants"][0]["booted"];
    assert!(text(&booted["inputs"][0]["sha256"]).len() == 64 && text(&booted["kernel"]).contains("6.1"), "{booted}");
}
