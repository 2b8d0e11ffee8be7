//! Records an unmodified Debian with its own init up to its login prompt. Nothing of bootscope is in the guest, and the
//! evidence comes from the console and from guest memory.
//!
//! `scripts/make-rootfs` makes the root file system once. It needs debootstrap and root; without them this test skips.

use crate::support::boots::{CALM, Scratch, evidence, kernel, manifest, messages, record, recorded};
use crate::support::debian::{UNITS, rootfs, with_files};
use crate::support::{assert_adds_up, bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[test]
fn a_debian_is_recorded_to_its_login_prompt() {
    let Some(kernel) = kernel() else { return };
    let Some(rootfs) = rootfs() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command
        .args(["--init", "keep", "--until", "login:", "--memory", "2G", "--timeout", "20m", "--initrd"])
        .arg(&rootfs);
    // Systemd may be silent for long on a busy host, but not for ever.
    command.args(["--hang-after", "60s", "--append", &format!("rdinit=/sbin/init console=ttyS0 {CALM}")]);
    recorded(&mut command, &into, "reached");

    let manifest = manifest(&into);
    assert!(text(&manifest["end"]["what"]).contains("login:"), "{}", manifest["end"]);
    assert!(!manifest["vmm"]["command"].to_string().contains("bootscope/init"), "nothing of ours in the guest");
    assert!(evidence(&into, "console.log").contains("Welcome to "), "systemd's own words");
    let log = messages(&evidence(&into, "kmsg-memory.log"));
    assert!(log.iter().any(|(_, text)| text.starts_with("Run /sbin/init as init process")), "{} records", log.len());

    let document = shown(&into);
    assert_eq!(document["outcome"], "reached");
    let total = ns(&document["total_ns"]);
    let stamped = ns(&manifest["end"]["at_ns"]);
    assert!((total - stamped).abs() < 100_000_000, "{total} ns, and the prompt came at {stamped}");
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    for expected in ["firmware", "decompressor", "process 1"] {
        assert!(phases.contains(&expected), "{expected} is not among {phases:?}");
    }
    println!("{:.1} s to the prompt, phases {phases:?}", total as f64 / 1e9);
    run(bootscope("report").arg(&into).arg("-o").arg(scratch.path("a.html"))).exits(0);
}

/// Services of known lengths that start one after the other when all else is up, and a target that waits for both.
const KNOWN_UNITS: [(&str, &str); 4] = [
    ("known-a.service", "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/bin/sleep 0.7\n"),
    ("known-b.service", "[Unit]\nAfter=known-a.service\n[Service]\nType=oneshot\nExecStart=/bin/sleep 0.4\n"),
    ("known-c.service", "[Unit]\nAfter=known-b.service\n[Service]\nType=oneshot\nExecStart=/sbin/ldconfig\n"),
    (
        "known.target",
        "[Unit]\nRequires=known-a.service known-b.service known-c.service\n\
         After=known-a.service known-b.service known-c.service\n",
    ),
];

/// The root file system with more units in it, as one initrd.
fn with_units(rootfs: &Path, scratch: &Scratch) -> PathBuf {
    let units = KNOWN_UNITS.map(|(name, text)| (format!("{UNITS}/{name}"), text.into()));
    with_files(rootfs, scratch, &units)
}

/// The trace of an unmodified guest's own init is read from its memory: its processes, its units, and their waits.
#[test]
#[ignore = "18 s: in make test-all"]
fn user_space_is_traced_to_a_unit() {
    let Some(kernel) = kernel() else { return };
    let Some(rootfs) = rootfs() else { return };
    let scratch = Scratch::new();
    let initrd = with_units(&rootfs, &scratch);
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--init", "keep", "--until", "unit:known.target", "--memory", "2G", "--timeout", "20m", "--initrd"]);
    command.arg(&initrd).args(["--hang-after", "60s", "--append"]);
    command.arg(format!("rdinit=/sbin/init quiet systemd.wants=known.target {CALM}"));
    recorded(&mut command, &into, "reached");
    assert!(!manifest(&into)["vmm"]["command"].to_string().contains("bootscope/init"), "nothing of ours in the guest");

    let document = shown(&into);
    let unit = |name: &str| {
        let units = list(&document["units"]);
        let found = units.iter().find(|unit| unit["name"] == name).unwrap_or_else(|| panic!("no {name} in {units:#?}"));
        (found["start_ns"].as_i64(), ns(&found["settled_ns"]))
    };
    let ((Some(a), a_active), (Some(b), b_active), (_, reached)) =
        (unit("known-a.service"), unit("known-b.service"), unit("known.target"))
    else {
        panic!("services start")
    };
    const MS: i64 = 1_000_000;
    // A busy host makes them longer, and nothing makes them shorter.
    for (from, to, least) in [(a, a_active, 700 * MS), (b, b_active, 400 * MS)] {
        assert!((least..least + 1500 * MS).contains(&(to - from)), "{} ms", (to - from) / MS);
    }
    assert!(a_active <= b && b_active <= reached, "in their order");
    let total = ns(&document["total_ns"]);
    assert!((total - reached).abs() <= 2 * MS, "the end mark {total} is the target's {reached}");

    let processes = list(&document["processes"]);
    let sleeps: Vec<i64> = processes
        .iter()
        .filter(|process| text(&process["name"]).ends_with("/sleep"))
        .map(|process| ns(&process["end_ns"]) - ns(&process["start_ns"]))
        .collect();
    assert!(sleeps.len() == 2 && sleeps[0] >= 700 * MS && sleeps[1] >= 400 * MS, "{sleeps:?}");
    // Each is charged to its unit and slept. A sleep waits for a timer.
    for (name, least) in [("known-a.service", 700 * MS), ("known-b.service", 400 * MS)] {
        let of = |process: &&serde_json::Value| process["unit"] == name && text(&process["name"]).ends_with("/sleep");
        let sleep = processes.iter().find(of).unwrap_or_else(|| panic!("no process of {name} in {processes:#?}"));
        assert_eq!(sleep["waits"][0]["for"], "timer", "{sleep:#}");
        assert!(ns(&sleep["waits"][0]["ns"]) >= least && ns(&sleep["cpu_ns"]) > 0, "{sleep:#}");
        let unit = list(&document["units"]).iter().find(|unit| unit["name"] == name).unwrap();
        assert!(list(&unit["pids"]).contains(&sleep["pid"]) && unit["manager"] == "systemd", "{unit:#}");
    }
    assert_eq!((&processes[0]["pid"], &processes[0]["unit"]), (&1.into(), &"init.scope".into()), "{:#}", processes[0]);
    let programs: Vec<&str> = processes.iter().map(|process| text(&process["name"])).collect();
    assert!(programs.iter().any(|name| name.contains("systemd-journald")), "{programs:?}");
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    assert!(phases.contains(&"initcalls: late") && phases.contains(&"process 1"), "{phases:?}");

    // The boot waited for both sleeps, so nothing else may be charged with that time.
    let slept: i64 = list(&document["where"])
        .iter()
        .filter(|row| text(&row["name"]).starts_with("unit known-") && row.to_string().contains("sleep"))
        .map(|row| ns(&row["self_ns"]))
        .sum();
    assert!((1050 * MS..(reached - a)).contains(&slept), "{} of {} ms", slept / MS, (reached - a) / MS);
    let unexplained = list(&document["phases"]).iter().filter(|phase| phase["name"] == "unexplained");
    let unexplained: i64 = unexplained.map(|phase| ns(&phase["end_ns"]) - ns(&phase["start_ns"])).sum();
    assert!(unexplained * 50 <= total, "{unexplained} of {total} ns");
    let ldconfig = list(&document["processes"]).iter().find(|process| text(&process["name"]) == "/sbin/ldconfig");
    let ldconfig = ldconfig.map(|process| ns(&process["end_ns"]) - ns(&process["start_ns"])).unwrap();
    let found = run(bootscope("findings").arg("--json").arg(&into)).exits(0).json();
    let found = list(&found["findings"]).iter().find(|found| found["id"] == "user-programs").cloned().unwrap();
    assert!(text(&found["title"]).starts_with("process /sbin/ldconfig"), "{found:#}");
    let price = ns(&found["cost_ns"]);
    assert!((ldconfig / 2..ldconfig + 20 * MS).contains(&price), "{price} of the {ldconfig} ns that it ran");
    assert!(document["explained"].as_f64() > Some(0.98), "{}", document["explained"]);
    // The plugin stops in user space: nothing may count as first executed long after the boot reached the units.
    let stopped =
        list(&document["diagnostics"]).iter().find(|diagnostic| diagnostic["code"] == "first-executions-stop");
    assert_eq!(stopped.expect("it says so")["count"], 1);
    let file = std::fs::read(into.join("first-run.bin")).expect("what ran first");
    let first = evidence::first_executions::read("first-run.bin", &file, &mut timeline::Diagnostics::default());
    let (last, stop) = (first.blocks.iter().next_back().unwrap().at.0, first.stopped.expect("when it stopped").0);
    assert!(
        last == stop && stop < a,
        "the last block ran at {last}, it stopped at {stop}, and the first unit began at {a}"
    );
    assert!(first.exit.is_some_and(|exit| exit.0 >= total), "QEMU's end is noted all the same: {:?}", first.exit);
    up_to_milestones(&into, a_active, &document);
    let text = run(bootscope("show").arg("--units").arg(&into)).exits(0);
    assert!(text.text().contains("known-a.service"), "{}", text.text());
}

/// The recorder sees in memory that a program of the guest starts while the guest runs. The trace has the exact time.
#[test]
#[ignore = "57 s: in make test-all"]
fn a_boot_ends_at_a_process() {
    let Some(kernel) = kernel() else { return };
    let Some(rootfs) = rootfs() else { return };
    let scratch = Scratch::new();
    let (initrd, into) = (with_units(&rootfs, &scratch), scratch.path("boot"));
    let mut command = record(&kernel, &into);
    command.args(["--init", "keep", "--until", "process:sleep", "--memory", "2G", "--timeout", "20m", "--initrd"]);
    command.arg(&initrd).args(["--hang-after", "60s", "--append"]);
    command.arg(format!("rdinit=/sbin/init quiet systemd.wants=known.target {CALM}"));
    recorded(&mut command, &into, "reached");
    let seen = &manifest(&into)["end"];
    assert_eq!((&seen["mark"], &seen["what"]), (&"process".into(), &"sleep".into()));
    let document = shown(&into);
    assert_eq!(document["end"]["code"], "process-ran");
    let sleeps = list(&document["processes"]).iter().filter(|process| text(&process["name"]).ends_with("/sleep"));
    let began: Vec<i64> = sleeps.map(|process| ns(&process["start_ns"])).collect();
    let (total, seen_ns) = (ns(&document["total_ns"]), ns(&seen["at_ns"]));
    assert!(began == [total], "the boot of {total} ns ends where the first of {began:?} begins");
    // It sleeps for 700 ms and is polled every 5 ms; a busy host is late.
    assert!((total..total + 700_000_000).contains(&seen_ns), "seen at {seen_ns}");
}

/// Services that reset the guest or fork without limit: the end of the boot, and the evidence up to it.
#[test]
#[ignore = "45 s: in make test-all"]
fn a_guest_that_resets_or_forks_without_measure_is_recorded_so_far() {
    let Some(kernel) = kernel() else { return };
    let Some(rootfs) = rootfs() else { return };
    let scratch = Scratch::new();
    const FORKS: usize = 5000;
    let service =
        |does: &str| format!("[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/bin/sh -c '{does}'\n");
    let forks = service(&format!("i=0; while [ $$i -lt {FORKS} ]; do (:); i=$$((i+1)); done"));
    let files = [("resets", service("echo b > /proc/sysrq-trigger; sleep 9")), ("forks", forks)];
    let files = files.map(|(name, text)| (format!("{UNITS}/{name}.service"), text.into_bytes()));
    let initrd = with_files(&rootfs, &scratch, &files);
    for (name, outcome) in [("resets", "reset"), ("forks", "reached")] {
        let into = scratch.path(name);
        let mut command = record(&kernel, &into);
        command.args(["--deterministic", "--init", "keep", "--memory", "2G", "--timeout", "20m", "--until"]);
        command.arg(format!("unit:{name}.service")).arg("--initrd").arg(&initrd).arg("--append");
        command.arg(format!("rdinit=/sbin/init quiet systemd.wants={name}.service {CALM}"));
        recorded(&mut command, &into, outcome);
        let document = shown(&into);
        let units: Vec<&str> = list(&document["units"]).iter().map(|unit| text(&unit["name"])).collect();
        assert!(units.contains(&"basic.target") && units.contains(&&*format!("{name}.service")), "{units:?}");
        let lost = list(&document["diagnostics"]).iter().find(|diagnostic| diagnostic["code"] == "trace-events-lost");
        assert!(lost.is_none(), "{lost:?}");
        let processes = list(&document["processes"]).len();
        assert!(if name == "forks" { processes > FORKS } else { processes > 20 }, "{processes} processes");
    }
}

/// Checks the same boot up to a milestone: its tables sum to that, and its path has only waits up to then.
fn up_to_milestones(boot: &Path, a_active: i64, whole: &Value) {
    let up_to = |milestone: &str| {
        let command = &mut bootscope("show");
        run(command.args(["--json", "--up-to", milestone]).arg(boot)).exits(0).json()
    };
    let sleeps = |document: &Value| {
        let rows = list(&document["where"]).iter().filter(|row| row["name"].to_string().contains("sleep"));
        rows.map(|row| ns(&row["self_ns"])).sum::<i64>()
    };
    for (milestone, slept) in [("unit:known-a.service", 600_000_000..1_500_000_000), ("process-1", 0..50_000_000)] {
        let document = up_to(milestone);
        let total = ns(&document["total_ns"]);
        let passed = list(&whole["milestones"]).iter().find(|passed| passed["name"] == milestone).unwrap();
        assert_eq!((ns(&passed["at_ns"]), &document["end"]["code"]), (total, &"milestone".into()));
        assert_adds_up(&document);
        assert!(slept.contains(&sleeps(&document)), "{milestone}: slept {} ms", sleeps(&document) / 1_000_000);
    }
    assert_eq!(ns(&up_to("unit:known-a.service")["total_ns"]), a_active);
    let began = list(&whole["processes"]).iter().find(|process| text(&process["name"]).ends_with("/sleep")).unwrap();
    assert_eq!(up_to("process:sleep")["total_ns"], began["start_ns"]);
    run(bootscope("show").args(["--up-to", "unit:other.service"]).arg(boot)).refuses(&["it passed process-1", "units"]);
}
