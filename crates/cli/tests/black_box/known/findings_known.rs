//! Findings that engineers made by hand and published: bootscope finds them in similar recordings without hints.

use crate::support::boots::{Scratch, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::percival;
use crate::support::{bootscope, list, ns, run, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A log as published.
fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/data").join(name)
}

/// The findings of an imported log.
fn found_in(log: &Path, flags: &[&str]) -> Vec<Value> {
    found_within(&Scratch::new(), log, flags)
}

fn found_within(scratch: &Scratch, log: &Path, flags: &[&str]) -> Vec<Value> {
    let boot = scratch.path("boot");
    run(bootscope("import").arg(log).args(flags).arg("-o").arg(&boot)).exits(0);
    let document = run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json();
    list(&document["findings"]).to_vec()
}

/// Behme and Raza, linux-embedded: four initcalls of an i.MX6 sleep one or two ticks of 10 ms each. With HZ=1000 their
/// 55 ms become 4 ms.
#[test]
fn initcalls_that_sleep_for_ticks() {
    for log in ["linux-3.5.7-imx6-only-returns.log", "linux-3.5.7-imx6-wrapped-by-mail.log"] {
        let found = found_in(&published("log").join(log), &[]);
        let [only] = &found[..] else { panic!("{log}: {found:#?}") };
        assert_eq!(text(&only["id"]), "tick-waits");
        let title = text(&only["title"]);
        assert!(title.starts_with("initcall rcu_spawn_kthreads") && title.contains("HZ 100"), "{title}");
        assert!((46_000_000..54_000_000).contains(&ns(&only["cost_ns"])), "{only:#}");
        assert!(text(&only["remedy"]).contains("HZ=1000"), "{only:#}");
        let who: Vec<&str> = list(&only["evidence"]).iter().map(|span| text(&span["name"])).collect();
        for initcall in ["spawn_ksoftirqd", "init_workqueues", "cpu_stop_init", "rcu_spawn_kthreads"] {
            assert!(who.iter().any(|name| name.ends_with(initcall)), "{initcall}: {who:?}");
        }
    }
}

/// The kernel names the suppliers 11 s after process 1 has started. The card waits for an I/O domain, and that for a
/// regulator; the network card was probed in the end.
#[test]
fn suppliers_that_are_named_after_the_end_mark() {
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    let log = published("log").join("linux-6.6-arm64-suppliers-after-process-1.log");
    run(bootscope("import").arg(log).arg("-o").arg(&boot)).exits(0);
    let document = run(bootscope("show").arg("--json").arg(&boot)).exits(0).json();
    let probes = list(&document["deferred_probes"]);
    let names: Vec<&str> = probes.iter().map(|probe| text(&probe["name"])).collect();
    assert_eq!(names, ["fe2b0000.mmc", "fe010000.ethernet", "fdc20000.syscon:io-domains"]);
    let figures = |probe: &Value| (probe["attempts"].as_u64(), ns(&probe["elapsed_ns"]), probe["is_pending"] == true);
    let expected = [(Some(3), 119_000_000, true), (Some(1), 5_000_000, false), (Some(0), 0, true)];
    assert_eq!(probes.iter().map(figures).collect::<Vec<_>>(), expected);
    let suppliers: Vec<&str> = list(&probes[0]["suppliers"]).iter().map(text).collect();
    assert_eq!(suppliers, ["/syscon@fdc20000/io-domains", "/i2c@fdd40000/pmic@20/regulators/DCDC_REG5"]);
    let shown = run(bootscope("show").arg(&boot)).exits(0);
    assert!(shown.text().contains("io-domains, which waits for DCDC_REG5 (still pending)"), "{}", shown.text());
    let found = run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json();
    let finding = list(&found["findings"]).iter().find(|finding| text(&finding["id"]) == "deferred-probes").unwrap();
    assert!(text(&finding["title"]).contains("2 suppliers one after the other"), "{finding:#}");
}

/// A log without suppliers, and the kernel's list of them, which was read once the machine was up.
#[test]
fn suppliers_that_only_the_kernel_s_list_names() {
    let scratch = Scratch::new();
    let (log, list, boot) = (scratch.path("log.txt"), scratch.path("devices_deferred"), scratch.path("boot"));
    let whole = published("log").join("linux-6.6-arm64-suppliers-after-process-1.log");
    let whole = std::fs::read_to_string(whole).unwrap();
    let lines: String =
        whole.lines().filter(|line| !line.contains("pending")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&log, lines).unwrap();
    std::fs::write(&list, "fe2b0000.mmc\tplatform: wait for supplier /syscon@fdc20000/io-domains\ncpufreq-dt\t\n")
        .unwrap();
    run(bootscope("import").arg(&log).arg(&list).arg("-o").arg(&boot)).exits(0);
    let document = run(bootscope("show").arg("--json").arg(&boot)).exits(0).json();
    let pending = |probe: &&Value| probe["is_pending"] == true;
    let found = self::list(&document["deferred_probes"]).iter().filter(pending);
    let found: Vec<(&str, String)> =
        found.map(|probe| (text(&probe["name"]), probe["suppliers"].to_string())).collect();
    let mmc = ("fe2b0000.mmc", "[\"/syscon@fdc20000/io-domains\"]".to_owned());
    assert_eq!(found, [mmc, ("cpufreq-dt", "[]".to_owned())]);
}

/// A board whose drivers probe one after the other: with `driver_async_probe=rk_gmac-dwmac,leds-gpio` it measured 1.17 s
/// less, and without effect for `hd3ss3220` (flipperone-linux-build-scripts, PR 163). 15 % of it are allowed.
#[test]
fn drivers_that_can_probe_beside_the_boot() {
    let log = published("log").join("linux-6.18-rk3576-probes.log");
    let found = found_in(&log, &[]);
    let asynchronous = &found[0];
    assert_eq!(text(&asynchronous["id"]), "async-probe");
    assert!((995_000_000..1_346_000_000).contains(&ns(&asynchronous["cost_ns"])), "{asynchronous:#}");
    assert_eq!(
        text(&asynchronous["changes"][0]["to"][0]),
        "driver_async_probe=leds-gpio,rk_gmac-dwmac",
        "{asynchronous:#}"
    );
    let reason = |device: &str| {
        let evidence = list(&asynchronous["evidence"]);
        text(&evidence.iter().find(|span| text(&span["name"]).contains(device)).unwrap()["purpose"]).to_owned()
    };
    assert!(reason("ufshcd-rockchip").contains("root") && reason("hd3ss3220").contains("bus"));
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    run(bootscope("import").arg(log).arg("-o").arg(&boot)).exits(0);
    let ledger =
        run(bootscope("what-if").arg(&boot).args(["--json", "--async", "rk_gmac-dwmac,leds-gpio"])).exits(0).json();
    assert_eq!(ledger["steps"][0]["saved_ns"], asynchronous["cost_ns"], "as the finding says");
    run(bootscope("what-if").arg(&boot).args(["--async", "ledds"])).refuses(&["\"ledds\"", "\"leds (leds-gpio)\""]);
}

/// `--no-findings` leaves the findings out, and nothing else.
#[test]
fn tables_without_findings() {
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    let log = published("log").join("linux-3.5.7-imx6-only-returns.log");
    run(bootscope("import").arg(log).arg("-o").arg(&boot)).exits(0);
    let with = run(bootscope("show").arg(&boot)).exits(0);
    let without = run(bootscope("show").arg("--no-findings").arg(&boot)).exits(0);
    let (tables, advice) = with.text().split_once("\nwhat to do, most valuable first\n").expect("findings");
    assert!(advice.contains("HZ=1000"), "{advice}");
    assert_eq!(without.text().trim_end(), tables.trim_end());
}

/// Percival: the boot waits for `_vprintf`. This is the start of a boot of FreeBSD 15, nearly all of it in that
/// function.
#[test]
fn a_kernel_that_waits_for_its_console() {
    let log = published("tslog").join("freebsd15-firecracker-console-and-tslog-head.log");
    let found = found_in(&log, &[]);
    let [only] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(text(&only["id"]), "console-characters");
    assert!(text(&only["title"]).starts_with("_vprintf"), "{only:#}");
    // At least 20 of the 28 ms: SYSINITs announce, trademark and version.
    assert!(ns(&only["cost_ns"]) > 20_000_000, "{only:#}");
}

/// Jones, libguestfs: eight lines of a memory map that arrive in bursts, with about 4 µs for each character on the
/// emulated UART.
#[test]
fn characters_on_a_uart() {
    let found = found_in(&published("guestfs").join("notes-page-uart-lines.log"), &[]);
    let [only] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(text(&only["id"]), "console-characters");
    // Seven lines of 516 characters, with CR and LF 530, in 2277 µs. The last line has no known length.
    assert!(text(&only["title"]).contains("each 4.30 µs"), "{only:#}");
}

/// The rule that finds each row of Percival's tables, and the row as titles begin with it. The mount and the rest have no
/// remedy in his talk.
const RULES: [(&str, &str, &str); 15] = [
    ("THREAD usbus0", "usbus0", "root-hold"),
    ("THREAD g_event", "g_event", "key-derivation"),
    ("DEVICE_PROBE psm", "DEVICE_PROBE psm", "keyboard-reset"),
    ("SYSINIT cpu · DELAY", "SYSINIT cpu", "calibration"),
    ("SYSINIT clocks · DELAY", "SYSINIT clocks", "calibration"),
    ("_vprintf", "_vprintf", "console-characters"),
    ("hammer_time · DELAY", "hammer_time", "keyboard-reset"),
    ("SYSINIT vm_mem", "SYSINIT vm_mem", "cost-per-gb"),
    ("DEVICE_ATTACH atkbd · DELAY", "DEVICE_ATTACH atkbd", "keyboard-reset"),
    ("SYSINIT cpu_mp · DELAY", "SYSINIT cpu_mp", ""),
    ("DEVICE_ATTACH ena · DELAY", "DEVICE_ATTACH ena", "fixed-delays"),
    ("SYSINIT start_aps", "SYSINIT start_aps", "cpu-announce"),
    ("DEVICE_PROBE hpt*", "DEVICE_PROBE hpt", "probe-work"),
    ("DEVICE_ATTACH nvme · DELAY", "DEVICE_ATTACH nvme", "fixed-delays"),
    ("VFS_MOUNT zfs", "", ""),
];

/// Logs with the rows of Percival's tables have his findings, each by its rule and in his order. So have logs without any
/// one of the rows. His laptop calibrates a second time while it waits for USB, so that costs nothing.
#[test]
fn the_rows_of_two_machines_are_findings() {
    for table in [percival::laptop(), percival::ec2()] {
        let without = |row: &&'static str| {
            let mut rows = table.clone();
            rows.remove(*row).map(|_| (*row, rows))
        };
        let removed = RULES.iter().filter_map(|(row, ..)| without(row));
        for (removed, rows) in [("nothing", table.clone())].into_iter().chain(removed) {
            let scratch = Scratch::new();
            let log = percival::write(&rows, scratch.folder(), "log.txt");
            let found = found_within(&scratch, &log, &["--tsc-frequency", percival::HZ]);
            assert_rows_are_found(&rows, &found, removed);
        }
    }
}

fn assert_rows_are_found(rows: &percival::Rows, found: &[Value], removed: &str) {
    let titles: Vec<(&str, &str)> = found.iter().map(|f| (text(&f["id"]), text(&f["title"]))).collect();
    let place = |title: &str, rule: &str| {
        titles.iter().position(|(id, found)| found.starts_with(title) && (rule.is_empty() || *id == rule))
    };
    let with_advice: Vec<_> = RULES.iter().filter(|(_, title, _)| !title.is_empty()).collect();
    let time = |row: &str| rows.get(row).copied().unwrap_or(0);
    let all: u64 = with_advice.iter().map(|(row, ..)| time(row)).sum();
    let named = with_advice.iter().filter(|(_, title, rule)| place(title, rule).is_some());
    let named: u64 = named.map(|(row, ..)| time(row)).sum();
    assert!(named as f64 >= 0.9 * all as f64, "without {removed}: {named} of {all} us: {titles:#?}");
    // A longer row comes first where its remedy leaves nothing, and where nothing else runs at the same time.
    let leaves_nothing = |rule: &str| !["key-derivation", "cost-per-gb", "console-characters"].contains(&rule);
    let mut in_order: Vec<_> = with_advice.iter().filter(|(_, _, rule)| leaves_nothing(rule)).collect();
    in_order.retain(|(row, ..)| time(row) > 0 && *row != "DEVICE_PROBE hpt*");
    in_order.sort_by_key(|(row, ..)| std::cmp::Reverse(time(row)));
    let places: Vec<usize> = in_order.iter().filter_map(|(_, title, rule)| place(title, rule)).collect();
    assert!(places.is_sorted(), "without {removed}: {places:?}: {titles:#?}");
    let polls = |f: &&Value| text(&f["title"]).contains("ena") && text(&f["remedy"]).contains("poll for");
    assert_eq!(found.iter().filter(polls).count(), 0, "a driver that polls is not told to poll");
}

/// Each experiment of the reference kernel that time decides has a finding, whose remedy is a switch with the words of the
/// slow boot.
#[test]
#[ignore = "60 s: in make test-all"]
fn the_switch_of_each_experiment_is_a_remedy() {
    if !built() {
        return;
    }
    let is_timed = |experiment: &&lab::experiments::Experiment| experiment.check.is_empty();
    for experiment in lab::experiments::EXPERIMENTS.iter().filter(is_timed).filter(|e| e.name != "sampler") {
        let scratch = Scratch::new();
        let boot = scratch.path("boot");
        let machine = experiment.machine;
        let mut command = record_lab(&boot);
        command.args(["--deterministic", "--memory", &machine.memory_bytes.to_string()]);
        command.args(["--cpus", &machine.cpus.to_string()]);
        command.args(["--append", &format!("{} {}", experiment.always, experiment.slow)]);
        if machine.root_bytes > 0 {
            let image = scratch.path("root.img");
            std::fs::write(&image, vec![7; machine.root_bytes as usize]).unwrap();
            command.arg("--initrd").arg(image);
        }
        recorded(command.arg("--").args(machine.arguments), &boot, "reached");
        let document = run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json();
        let slow: Vec<&str> = experiment.slow.split(' ').collect();
        let is_switch = |change: &Value| {
            change["kind"] == "lab-switch" && list(&change["from"]).iter().map(text).collect::<Vec<_>>() == slow
        };
        let switches = list(&document["findings"]).iter().filter(|f| list(&f["changes"]).iter().any(is_switch));
        assert!(switches.count() > 0, "{}: {document:#}", experiment.name);
    }
}

/// Lorentzon, Redox: 35 % of the boot is in the frame allocator. The reference kernel has that allocator.
#[test]
fn an_allocator_that_looks_through_all_frames() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    let mut command = record_lab(&boot);
    command.args(["--deterministic", "--memory", "128M", "--no-first-run", "--no-firmware-log"]);
    recorded(command.args(["--append", "services=3 frames=scan"]), &boot, "reached");
    let document = run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json();
    let [only] = list(&document["findings"]) else { panic!("{document:#}") };
    assert_eq!(text(&only["id"]), "allocator-share");
    let share = ns(&only["cost_high_ns"]) as f64 / ns(&document["total_ns"]) as f64;
    assert!((0.3..0.4).contains(&share), "{share}: {only:#}");
}

/// Telka, illumos bug 12262: a driver frees its buffers. Each is found by a walk through a chain of all later ones, in
/// a hash of 16 buckets that is not resized. The log is synthetic, with the chains of such a hash.
#[test]
fn a_hash_that_is_resized_too_late() {
    const BUFFERS: u64 = 8_192;
    let log = |buckets: u64| {
        let mut text = String::from("0x1 1000 ENTER mi_startup\n0x1 2000 ENTER SYSINIT configure\n");
        let mut now = 100_000_000_u64;
        let mut log = |now: u64, what: &str| text.push_str(&format!("0x1 {now} {what}\n"));
        log(now, "ENTER em_stop");
        let mut chains: Vec<Vec<u64>> = vec![Vec::new(); buckets as usize];
        (0..BUFFERS).for_each(|buffer| chains[(buffer % buckets) as usize].push(buffer));
        for buffer in 0..BUFFERS {
            // New entries go before the others.
            let chain = &mut chains[(buffer % buckets) as usize];
            let at = chain.iter().position(|&other| other == buffer).unwrap();
            let passed = (chain.len() - 1 - at) as u64;
            chain.remove(at);
            log(now, "ENTER vmem_free");
            log(now + 50, "ENTER vmem_hash_delete");
            log(now + 150 + 20 * passed, "EXIT vmem_hash_delete");
            log(now + 250 + 20 * passed, "EXIT vmem_free");
            now += 300 + 20 * passed;
        }
        log(now, "EXIT em_stop");
        text + &format!(
            "0x1 {} EXIT SYSINIT configure\n0x2 {} ENTER start_init\n0x2 {} EXIT start_init\n",
            now,
            now,
            now + 9
        )
    };
    let found = |buckets: u64| {
        let scratch = Scratch::new();
        let path = scratch.path("log.txt");
        std::fs::write(&path, log(buckets)).unwrap();
        found_within(&scratch, &path, &["--tsc-frequency", "1GHz"])
    };
    let late = found(16);
    let [only] = &late[..] else { panic!("{late:#?}") };
    assert_eq!(text(&only["id"]), "cost-per-call");
    assert!(text(&only["title"]).starts_with("vmem_hash_delete"), "{only:#}");
    // Each of 16 chains of 512 is walked as often as it is long: 2 093 056 links of 20 ns each.
    assert!((37_000_000..42_000_000).contains(&ns(&only["cost_ns"])), "{only:#}");
    assert!(found(BUFFERS).is_empty(), "resized in time");
}

/// The same bug in the reference kernel, which has that arena and logs each call. It is found without hints, with the
/// switch that fixes it.
#[test]
fn a_hash_that_is_resized_too_late_in_the_reference_kernel() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let found = |when: &str| {
        let boot = scratch.path(when);
        let mut command = record_lab(&boot);
        command.args(["--deterministic", "--memory", "128M", "--no-first-run", "--no-firmware-log", "--append"]);
        command.arg(format!("netboot=yes dma_buffers=many vmem_rescale={when}"));
        recorded(command.args(["--", "-device", "e1000,romfile="]), &boot, "reached");
        run(bootscope("findings").arg("--json").arg(&boot)).exits(0).json()
    };
    let (late, early) = (found("late"), found("early"));
    let [only] = list(&late["findings"]) else { panic!("{late:#}") };
    assert_eq!(text(&only["id"]), "cost-per-call");
    let title = text(&only["title"]);
    assert!(title.starts_with("vmem_free") && title.contains("28672 calls"), "{title}");
    // 25 675 776 links are walked, one after the other.
    let saved = ns(&late["total_ns"]) - ns(&early["total_ns"]);
    assert!(saved > 500_000_000 && (ns(&only["cost_ns"]) - saved).abs() * 20 < saved, "{saved} ns: {only:#}");
    assert_eq!(only["changes"][0]["to"][0], "vmem_rescale=early", "{only:#}");
    assert!(list(&early["findings"]).is_empty(), "{early:#}");
}

/// Logs of other kernels have none of the findings published about this one. The first has a self-test: choosing the
/// fastest routine for RAID takes 177734 units of 1024 ns.
#[test]
fn other_kernels_are_not_accused() {
    for (log, expected) in [
        ("linux-3.12-x86-no-stamps.log", &[("self-tests", 177_734 << 10)][..]),
        ("linux-4.0-vexpress-coarse-clock.log", &[]),
        ("linux-5.2-sparc64-coarse-clock.log", &[]),
    ] {
        let found = found_in(&published("log").join(log), &[]);
        let found: Vec<(&str, i64)> = found.iter().map(|f| (text(&f["id"]), ns(&f["cost_ns"]))).collect();
        // Any log has gaps, and a gap blames nothing by name here.
        let found: Vec<(&str, i64)> = found.into_iter().filter(|(id, _)| *id != "log-gaps").collect();
        assert_eq!(found, expected, "{log}");
    }
}
