//! Samples: of the reference kernel while it boots, beside what its recorder says, and of whatever `perf script` printed.

mod support;

use std::fs;
use support::boots::{Scratch, recorded};
use support::lab::{built, record_lab};
use support::{bootscope, list, ns, rows, run, text};

#[test]
fn a_sampled_boot_says_of_the_frame_allocator_what_its_log_says() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("sampled");
    let mut command = record_lab(&into);
    command.args(["--deterministic", "--append", "services=3 frames=scan sample=10000"]);
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
    assert!((0.01..0.03).contains(&error), "{error}");
    let table = run(bootscope("show").arg(&into)).exits(0);
    for words in ["sampled: nmi", "lab::memory::logged", "one standard error, binomial", "is unseen", "0 samples lost"]
    {
        assert!(table.text().contains(words), "no {words:?} in\n{}", table.text());
    }
}

#[test]
fn what_perf_script_printed_is_imported() {
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
    let kinds: Vec<&str> = list(&shown["diagnostics"]).iter().map(|line| text(&line["code"])).collect();
    assert!(kinds.contains(&"sample-unreadable"), "{kinds:?}");
}
