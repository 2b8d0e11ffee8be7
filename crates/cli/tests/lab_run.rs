//! `bootscope lab`: what it lists is what the kernel understands, and what it measures and blames is right.

mod support;

use serde_json::Value;
use support::boots::{Scratch, recorded};
use support::lab::{built, record_lab};
use support::{bootscope, list, ns, rows, run, text};

fn lab(arguments: &[&str]) -> std::process::Command {
    let mut command = bootscope("lab");
    command.args(arguments);
    command
}

#[test]
fn the_list_has_experiments_switches_and_places() {
    let listed = run(&mut lab(&["list", "--json"])).exits(0).json();
    assert_eq!(listed["schema"], "bootscope.lab-list/1");
    let names: Vec<&str> = list(&listed["experiments"]).iter().map(|e| text(&e["name"])).collect();
    assert!(names.len() >= 10 && names.contains(&"clock-calibration"), "{names:?}");
    let text = run(&mut lab(&["list"])).exits(0);
    for word in names.iter().copied().chain(["calibrate=    regression, delay", "intr_config_hooks", "delay.PLACE="]) {
        assert!(text.text().contains(word), "no {word:?} in\n{}", text.text());
    }
}

#[test]
fn an_experiment_that_is_not_there_is_refused_with_those_that_are() {
    run(&mut lab(&["run", "clock"])).refuses(&["no experiment clock", "clock-calibration", "kthread-bind"]);
    run(&mut lab(&["run"])).refuses(&["<NAME>"]);
    run(&mut lab(&["run", "ap-start", "--all"])).refuses(&["--all"]);
}

/// Quick ones, of each kind: work, several CPUs whose printing is waited for, a probe, ticks slept.
const QUICK: [&str; 4] = ["page-array", "ap-announce", "probe-work", "kthread-bind"];

#[test]
fn each_is_slow_and_fast_as_published_and_the_switch_is_blamed() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (kept, page) = (scratch.path("kept"), scratch.path("lab.md"));
    let mut command = lab(&["run", "--json", "--page"]);
    let document = run(command.arg(&page).arg("-o").arg(&kept).args(QUICK)).exits(0).json();
    assert_eq!(document["schema"], "bootscope.lab/1");
    let trials = list(&document["trials"]);
    assert!(QUICK.iter().all(|name| trials.iter().any(|trial| trial["name"] == *name)));
    for trial in trials {
        assert_eq!(trial["right"], true, "{trial}");
        assert!(ns(&trial["fast_total_ns"]) < ns(&trial["slow_total_ns"]), "{trial}");
        list(&trial["figures"]).iter().for_each(assert_as_published);
    }
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("| page-array | vm_page=one-pass |") && page.contains("* slow: `bind=tick`"), "{page}");
    let array = kept.join("page-array-vm_page=three-pass");
    assert!(array.join("tslog.txt").is_file(), "recordings are kept where that is asked for");
}

/// In direction, and by no smaller a factor, but for what one CPU's line on the screen costs.
fn assert_as_published(figure: &Value) {
    let (slow, fast) = (ns(&figure["slow_ns"]), ns(&figure["fast_ns"]));
    assert!(fast < slow, "{figure}");
    let published = figure["published_slow_ns"].as_f64().zip(figure["published_fast_ns"].as_f64());
    if let Some((published_slow, published_fast)) = published.filter(|_| figure["of"] == "SYSINIT vm_mem") {
        assert!(slow as f64 / fast as f64 >= published_slow / published_fast, "{figure}");
    }
}

/// How a row grows over boots of several sizes of machine: its law, what it is per, and its slope in nanoseconds.
fn grows(by: &str, sizes: &[&str], append: &str, row: &str) -> (String, String, f64) {
    let scratch = Scratch::new();
    let mut fit = bootscope("show");
    fit.args(["--json", "--fit", by]);
    for size in sizes {
        let into = scratch.path(size);
        let mut command = record_lab(&into);
        command.args(["--deterministic", "--no-first-run", "--append", append]).args([&format!("--{by}"), *size]);
        recorded(&mut command, &into, "reached");
        fit.arg(&into);
    }
    let document = run(&mut fit).exits(0).json();
    let found = rows(&document["rows"], "name", row);
    let found = found.first().unwrap_or_else(|| panic!("no {row} in {document}"));
    println!("{append}: {row}: {} ns per {}", found["slope_ns"], found["per"]);
    (text(&found["law"]).to_owned(), text(&found["per"]).to_owned(), found["slope_ns"].as_f64().unwrap())
}

#[test]
fn the_page_array_grows_with_memory_and_starting_cpus_with_their_number() {
    if !built() {
        return;
    }
    let sizes = ["256M", "512M", "1G"];
    let [slow, fast] = ["vm_page=three-pass", "vm_page=one-pass"].map(|how| {
        let (law, per, slope_ns) = grows("memory", &sizes, how, "SYSINIT vm_mem");
        assert_eq!((law.as_str(), per.as_str()), ("line", "GB"), "{how}");
        slope_ns
    });
    // 15 and 3.5 ms per GB where it was published (Percival 2018).
    assert!(slow / fast >= 15.0 / 3.5, "{slow} and {fast} ns per GB");
    let (law, per, slope_ns) = grows("cpus", &["1", "2", "4"], "aps=serial", "wake_aps · DELAY");
    // 10 ms after INIT and 200 µs after STARTUP, each time; QEMU 7.2 adds to it up to the machine's next timer event.
    assert_eq!((law.as_str(), per.as_str()), ("line", "AP"));
    assert!(slope_ns >= 10_200_000.0, "{slope_ns} ns per AP");
}
