//! `bootscope lab`: what it lists is what the kernel understands, and what it measures and blames is right.

mod support;

use serde_json::Value;
use support::boots::Scratch;
use support::lab::built;
use support::{bootscope, list, ns, run, text};

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
