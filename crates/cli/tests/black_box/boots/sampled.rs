//! Samples: of the reference kernel while it boots, compared with its recorder's log, and of imported `perf script`
//! output.

use crate::support::boots::{Scratch, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, list, ns, rows, run, text as text_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn samples_and_log_agree_on_the_frame_allocator() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("sampled");
    let mut command = record_lab(&into);
    // Some 3400 samples. With a third of them, chance alone would move the share by more than the allowed 2 points.
    command.args(["--deterministic", "--append", "services=9 frames=scan sample=10000"]);
    recorded(&mut command, &into, "reached");
    if fs::read_to_string(into.join("console.log")).unwrap().contains("without frame pointers") {
        println!("skipped: the kernel is built without frame pointers; `make build` has them");
        return;
    }
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let sampled = &shown["sampled"];
    assert_eq!(ns(&sampled["lost"]), 0);
    let share = |name: &str| {
        let found = rows(&sampled["events"][0]["functions"], "name", name);
        let row = found.first().unwrap_or_else(|| panic!("no {name} in {sampled}"));
        (row["total_share"].as_f64().unwrap(), row["total_error"].as_f64().unwrap())
    };
    let seen_ns = ns(&shown["total_ns"]) - ns(&sampled["began_ns"]);
    let recorded_ns = ns(&rows(&shown["where"], "name", "frame_allocator")[0]["self_ns"]);
    let recorded = recorded_ns as f64 / seen_ns as f64;
    let (sampled_share, error) = share("lab::memory::logged");
    println!("frame allocator: recorded {recorded:.4}, sampled {sampled_share:.4} ± {error:.4}");
    assert!((recorded - sampled_share).abs() < 0.02, "{recorded} {sampled_share}");
    assert!((0.005..0.01).contains(&error), "{error}");
    // The clock stands still while the host is busy, so each interval has its sample.
    let intervals = ns(&sampled["intervals"]);
    assert_eq!((intervals, ns(&sampled["empty_intervals"])), (ns(&sampled["samples"]), 0), "{}", sampled["period_ns"]);
    let table = run(bootscope("show").arg(&into)).exits(0);
    for words in
        ["sampled: nmi", "lab::memory::logged", "one standard error, binomial", "sampling began at", "0 samples lost"]
    {
        assert!(table.text().contains(words), "no {words:?} in\n{}", table.text());
    }
    same_after_export(&scratch, &into);
    // The boot has its own path. Samples are exported unless the path is requested.
    let folded = |flags: &[&str]| run(bootscope("export").args(["--to", "folded"]).arg(&into).args(flags)).exits(0);
    let (samples, path) = (folded(&[]), folded(&["--boot-path"]));
    assert!(samples.text().contains("lab::memory::logged") && !path.text().contains("lab::memory::logged"));
    assert!(samples.stderr.contains("--boot-path"), "{}", samples.stderr);
}

/// The rings of sixteen CPUs do not fit into 32 MiB beside the kernel.
#[test]
fn a_cpu_without_memory_for_samples_is_reported_also_after_an_export() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("small");
    let mut command = record_lab(&into);
    command.args(["--deterministic", "--memory", "32M", "--cpus", "16", "--append", "sample=1000"]);
    recorded(&mut command, &into, "reached");
    let console = fs::read_to_string(into.join("console.log")).unwrap();
    let line =
        console.lines().find_map(|line| line.trim().strip_suffix(" CPUs not sampled: no memory for their rings"));
    let unsampled: u64 =
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("{console}")).parse().unwrap();
    assert!((1..16).contains(&unsampled), "{console}");
    same_after_export(&scratch, &into);
    for recording in [into, scratch.path("again")] {
        let document = run(bootscope("show").arg("--json").arg(&recording)).exits(0).json();
        assert_eq!(ns(&document["sampled"]["unsampled_cpus"]), unsampled as i64);
        let sampled_on = list(&document["sampled"]["events"][0]["tracks"]);
        let cpus = sampled_on.iter().filter(|track| track["kind"] == "cpu").count() as u64;
        assert_eq!(cpus, 16 - unsampled, "{sampled_on:?}");
        let table = run(bootscope("show").arg(&recording)).exits(0);
        assert!(table.text().contains(&format!("{unsampled} CPUs were not sampled")), "{}", table.text());
    }
}

#[test]
fn samples_and_call_trace_agree_on_each_function() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("calls");
    let kernel = Path::new(&std::env::var_os("BOOTSCOPE_LIB").unwrap()).join("lab");
    let mut command = record_lab(&into);
    command.args(["--deterministic", "--memory", "128M", "--trace", "calls", "--min-call", "0", "--symbols"]);
    command.arg(kernel).args(["--append", "services=3 frames=scan sample=10000"]);
    recorded(&mut command, &into, "reached");
    if fs::read_to_string(into.join("console.log")).unwrap().contains("without frame pointers") {
        println!("skipped: the kernel is built without frame pointers; `make build` has them");
        return;
    }
    // Without its log, the path comes from the call trace alone.
    fs::remove_file(into.join("tslog.txt")).unwrap();
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let folded = run(bootscope("export").args(["--to", "folded", "--boot-path"]).arg(&into)).exits(0);
    let stacks: Vec<(&str, f64)> = folded
        .text()
        .lines()
        .filter(|line| !line.starts_with("# ("))
        .map(|line| {
            let (stack, own) = line.rsplit_once(' ').unwrap();
            (stack, own.parse().unwrap())
        })
        .collect();
    let ns_of = |is: &dyn Fn(&str) -> bool| {
        stacks.iter().filter(|(stack, _)| stack.split(';').any(is)).map(|(_, own)| own).sum::<f64>()
    };
    let seen_ns = ns_of(&|_| true) - ns(&shown["sampled"]["began_ns"]) as f64;
    for name in ["memory::logged", "services::page_fault", "clock::calibrate_tsc"] {
        let by_calls = ns_of(&|frame| frame.ends_with(name)) / seen_ns;
        let functions = list(&shown["sampled"]["events"][0]["functions"]);
        let found = functions.iter().find(|function| text_of(&function["name"]).ends_with(name));
        let by_samples = found.map_or(0.0, |function| function["total_share"].as_f64().unwrap());
        println!("{name}: by calls {by_calls:.4}, by samples {by_samples:.4}");
        assert!(by_calls > 0.005 && (by_calls - by_samples).abs() < 0.02, "{name}: {by_calls} {by_samples}");
    }
}

/// Checks that a recording has the same samples after export as perf script text and import.
fn same_after_export(scratch: &Scratch, recording: &Path) {
    let (text, again) = (scratch.path("again.txt"), scratch.path("again"));
    run(bootscope("export").args(["--to", "perf", "-o"]).arg(&text).arg(recording)).exits(0);
    run(bootscope("import").arg(&text).arg("-o").arg(&again)).exits(0);
    let [before, after] = [recording, &again].map(|recording| {
        let shown = run(bootscope("show").arg("--json").arg(recording)).exits(0).json();
        shown["sampled"].clone()
    });
    assert!(!list(&before["events"][0]["functions"]).is_empty());
    assert_eq!(before, after);
}

#[test]
fn samples_are_written_for_other_tools() {
    let scratch = Scratch::new();
    let (file, into) = (scratch.path("perf.txt"), scratch.path("perf"));
    // Several events, a name with spaces, different periods, no stack, no CPU; truncated in the last line.
    let text = "\
# CPUs not sampled: 2
# sampled from: 7.0
# period: 1000 ns

my init 1/1 [000] 7.000001: 300 cycles:u:
\t21d0e0 scan; of 3+0x1 (k)
\t212071 start (k)

my init 1/1 [000] 7.000002: 100 cycles:u:
\t21d0e0 [unknown] (k)
\t212071 start (k)

other 2/2 [001] 7.000003: 100 cycles:u:

other 2 7.000004: faults:  12 handler (k)
other 2 7.0000";
    fs::write(&file, text).unwrap();
    run(bootscope("import").arg(&file).arg("-o").arg(&into)).exits(0);
    same_after_export(&scratch, &into);
    let export = |flags: &[&str]| run(bootscope("export").arg(&into).args(flags)).exits(0).text().to_owned();
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let folded = lines(export(&["--to", "folded"]));
    assert_eq!(folded[1..], ["my init;start;0x21d0e0 100", "my init;start;scan: of_3 300", "other 100"]);
    for words in ["sampled: 3 samples of cycles:u", "weighs its period", "/2)", "1 more event not in here"] {
        assert!(folded[0].starts_with("# (") && folded[0].contains(words), "no {words:?} in {}", folded[0]);
    }
    let faults = lines(export(&["--to", "folded", "--event", "faults"]));
    assert_eq!(faults[1..], ["other;handler 1"]);
    let drawn = export(&["--to", "svg"]);
    for words in ["sampled: 3 samples of cycles:u", "scan; of 3\n300, 60.00 % ±32.50, sampled", "all samples"] {
        assert!(drawn.contains(words), "no {words:?} in\n{drawn}");
    }
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let event = |i: usize| &shown["sampled"]["events"][i];
    assert_eq!((text_of(&event(0)["name"]), text_of(&event(1)["name"])), ("cycles:u", "faults"));
    assert_eq!(
        (&event(0)["user"], &event(1)["user"], &shown["sampled"]["lost"]),
        (&json!(3), &Value::Null, &Value::Null)
    );
    let tracks = list(&event(0)["tracks"]).iter().map(|track| (text_of(&track["name"]), &track["share"]));
    let shares: Vec<(&str, f64)> = tracks.map(|(name, share)| (name, share.as_f64().unwrap())).collect();
    assert_eq!(shares, [("my init", 0.8), ("CPU 0", 0.8), ("other", 0.2), ("CPU 1", 0.2)]);
    assert_eq!(shown["sampled"]["unsampled_cpus"], 2);
    // CPU 0 took samples at 1 and 2 µs, one in each of its two intervals. CPU 1 took only its first.
    let intervals = ["period_ns", "intervals", "empty_intervals"].map(|name| ns(&shown["sampled"][name]));
    assert_eq!(intervals, [1000, 2, 0]);
    let table = run(bootscope("show").arg(scratch.path("again"))).exits(0);
    assert!(table.text().contains("2 CPUs were not sampled"), "{}", table.text());
    let page = scratch.path("page.html");
    run(bootscope("report").arg(&into).arg("-o").arg(&page)).exits(0);
    let page = fs::read_to_string(page).unwrap();
    for words in [
        "<h2>Sampled: cycles:u</h2>",
        "<h2>Sampled: faults</h2>",
        "<th scope=\"row\">scan; of 3</th><td class=\"n\" data-v=\"0.6\">60.0 % ±32.5</td>",
        "<th scope=\"row\">my init [1]</th><td class=\"n\" data-v=\"2\">2</td>",
        "±32.5",
        "self, sampled",
        "do not say how many were lost",
    ] {
        assert!(page.contains(words), "no {words:?} in\n{page}");
    }
    run(bootscope("export").arg(&into).args(["--to", "folded", "--event", "no such"])).refuses(&["cycles:u, faults"]);
}

#[test]
fn a_boot_without_samples_has_none_to_write() {
    let scratch = Scratch::new();
    let (file, into) = (scratch.path("log"), scratch.path("boot"));
    fs::write(&file, "[    0.000000] Linux version 6.1.0 (x)\n[    1.000000] Run /init as init process\n").unwrap();
    run(bootscope("import").arg(&file).arg("-o").arg(&into)).exits(0);
    run(bootscope("export").arg(&into).args(["--to", "perf"])).refuses(&["no samples", "sample=1000"]);
    run(bootscope("export").arg(&into).args(["--to", "csv", "--event", "nmi"])).refuses(&["--event is of samples"]);
}

#[test]
fn perf_script_output_is_imported() {
    let scratch = Scratch::new();
    let (file, into) = (scratch.path("perf.txt"), scratch.path("perf"));
    let mut printed = String::new();
    for n in 0..100 {
        let function = if n % 4 == 0 { "scan" } else { "main" };
        printed.push_str(&format!(
            "my init 1/1 [000] 7.{n:06}: 250000 cycles:ppp:\n\t21d0e0 {function}+0x1 (k)\n\t212071 start (k)\n\n"
        ));
    }
    printed.push_str("no such line\n");
    fs::write(&file, printed).unwrap();
    run(bootscope("import").arg(&file).arg("-o").arg(&into)).exits(0);
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    let of = |name: &str| {
        let found = rows(&shown["sampled"]["events"][0]["functions"], "name", name);
        [&found[0]["self_share"], &found[0]["total_share"]].map(|share| share.as_f64().unwrap())
    };
    assert_eq!((of("scan"), of("start")), ([0.25, 0.25], [0.0, 1.0]), "{}", shown["sampled"]);
    assert_eq!((ns(&shown["sampled"]["samples"]), ns(&shown["total_ns"])), (100, 99_000));
    let kinds: Vec<&str> = list(&shown["diagnostics"]).iter().map(|line| text_of(&line["code"])).collect();
    assert!(kinds.contains(&"sample-unreadable"), "{kinds:?}");
}
