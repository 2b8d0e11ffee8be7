//! `bootscope history add` and `boots`: the boots of machines, the updates that they came with, and what made them slower.

use crate::support::boots::Scratch;
use crate::support::schemas::Schemas;
use crate::support::{bootscope, fixture, list, ns, run, skip, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn history(command: &str, db: &Path) -> Command {
    let mut history = bootscope("history");
    history.arg(command).arg("--db").arg(db);
    history
}

/// The messages of a boot, with the times of a fast machine in ms. The last is the end of the kernel's part.
const MESSAGES: [(f64, &str); 9] = [
    (0.0, "Linux version 6.1.0-RELEASE-amd64 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_DYNAMIC"),
    (0.0, "DMI: LENOVO MODEL, BIOS FIRMWARE 03/09/2026"),
    (310.0, "smp: Bringing up secondary CPUs ..."),
    (400.0, "calling  acpi_init+0x0/0x4f0 @ 1"),
    (900.0, "initcall acpi_init+0x0/0x4f0 returned 0 after 500000 usecs"),
    (1000.0, "calling  ahci_pci_driver_init+0x0/0x1e @ 1"),
    (1600.0, "initcall ahci_pci_driver_init+0x0/0x1e returned 0 after 600000 usecs"),
    (1700.0, "rtc_cmos 00:03: setting system clock to 2026-01-01T00:00:00 UTC (EPOCH)"),
    (2100.0, "Run /sbin/init as init process"),
];

/// A boot whose log is written.
struct Log<'a> {
    model: &'a str,
    release: u32,
    firmware: &'a str,
    /// Days since 2026-01-01.
    day: u64,
    /// Length of all stretches but `ahci`.
    slower: f64,
    ahci: f64,
}

const CALM: Log = Log { model: "20XW", release: 27, firmware: "N32ET75W (1.51 )", day: 0, slower: 1.0, ahci: 1.0 };

impl Log<'_> {
    fn write(&self, path: PathBuf) -> PathBuf {
        let began = 1_767_225_600 + self.day * 86_400;
        let (mut at, mut before) = (0.0, 0.0);
        let mut log = String::new();
        for (ms, message) in MESSAGES {
            let ratio = if message.starts_with("initcall ahci") { self.ahci } else { 1.0 };
            at += (ms - before) * self.slower * ratio;
            before = ms;
            let message = message
                .replace("RELEASE", &self.release.to_string())
                .replace("MODEL", self.model)
                .replace("FIRMWARE", self.firmware)
                .replace("EPOCH", &(began + 2).to_string());
            log.push_str(&format!("[{:12.6}] {message}\n", at / 1000.0));
        }
        fs::write(&path, log).unwrap();
        path
    }
}

/// Noise between −1 and 1, in no regular order.
fn noise(seed: u64) -> f64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / f64::from(1 << 23) - 1.0
}

/// Thirty boots. From boot 20 on, there is another kernel, and one initcall takes longer by `slower` of the boot.
fn thirty(folder: &Path, model: &str, machine: u64, slower: f64) -> Vec<PathBuf> {
    let one = |day: u64| {
        let is_new = day >= 20;
        let log = Log {
            model,
            day,
            release: if is_new { 28 } else { 27 },
            slower: 1.0 + 0.015 * noise(machine * 100 + day),
            ahci: if is_new { 1.0 + slower * 2100.0 / 600.0 } else { 1.0 },
            ..CALM
        };
        log.write(folder.join(format!("{model}-{day}.log")))
    };
    (0..30).map(one).collect()
}

/// 10 machines of 30 boots, with and without a planted step of 5 %, through the whole program. The scatter is uniform, 0.9 % in all.
/// The unit tests of `statistics::steps` have the rates, with measured noise.
#[test]
fn a_planted_step_has_its_kernel_and_its_initcall() {
    let scratch = Scratch::new();
    let (mut found, mut alarms) = (0, 0);
    for machine in 0..10 {
        for slower in [0.0, 0.05] {
            let db = scratch.path(&format!("{machine}-{slower}.db"));
            let mut boots = thirty(&scratch.path(""), "20XW", machine, slower);
            // The boots come in any order. Five are those with the new kernel.
            boots.truncate(25);
            boots.reverse();
            run(history("add", &db).arg("--quiet").args(&boots)).exits(0);
            let document = run(history("boots", &db).arg("--json")).exits(0).json();
            assert_eq!((ns(&document["compared"]), ns(&document["boots_in_all"])), (25, 25), "{document}");
            Schemas::read().check(&document);
            let steps = list(&document["steps"]);
            if slower == 0.0 {
                alarms += steps.len();
                continue;
            }
            let Some(step) = steps.iter().find(|step| text(&step["placed"]).starts_with("2026-01-21")) else {
                continue;
            };
            let ratio = step["ratio"]["estimate"].as_f64().unwrap();
            assert!(step["is_at_update"] == true && (1.03..1.07).contains(&ratio), "{step}");
            assert_eq!((text(&step["updates"][0]["kind"]), text(&step["kernel"])), ("kernel", "6.1.0-28-amd64"));
            let moved: Vec<&str> = list(&step["moved"]).iter().map(|part| text(&part["name"])).collect();
            assert!(moved.iter().any(|name| name.contains("ahci_pci_driver_init")), "{moved:?}");
            assert!(!moved.iter().any(|name| name.contains("acpi_init")), "{moved:?}");
            found += 1;
        }
    }
    println!("found within 5 boots: {found} of 10 machines; false alarms: {alarms} of 10");
    assert!(found >= 9 && alarms == 0, "{found} {alarms}");
}

#[test]
fn the_text_has_the_updates_and_the_answer() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let logs = thirty(&scratch.path(""), "20XW", 1, 0.05);
    run(history("add", &db).args(&logs[..8])).exits(0);
    let few = run(&mut history("boots", &db)).exits(0);
    assert!(few.text().contains("8 boots compared; a search needs 10"), "{}", few.text());
    run(history("add", &db).args(&logs[8..20])).exits(0);
    let same = run(&mut history("boots", &db)).exits(0);
    assert!(same.text().contains("no step beyond the noise in 20 boots"), "{}", same.text());
    let firmware = Log { day: 26, release: 28, firmware: "N32ET80W (1.56 )", ..CALM }.write(logs[26].clone());
    assert_eq!(firmware, logs[26]);
    let added = run(history("add", &db).args(&logs[20..])).exits(0);
    assert!(added.stderr.contains("added as boot 30 of LENOVO 20XW"), "{}", added.stderr);
    let shown = run(&mut history("boots", &db)).exits(0);
    let shown = shown.text();
    for words in [
        "30 of 30 boots of LENOVO 20XW",
        "2026-01-21 00:00",
        "kernel 6.1.0-27-amd64 → 6.1.0-28-amd64",
        "firmware N32ET75W (1.51 ) 03/09/2026 → N32ET80W (1.56 ) 03/09/2026",
        "slower since 2026-01-21 00:00, with kernel",
        "20 boots before and 10 after",
        "ahci_pci_driver_init",
    ] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    let three = run(history("boots", &db).args(["--top", "3", "--json"])).exits(0).json();
    assert_eq!((list(&three["boots"]).len(), list(&three["steps"]).len()), (3, 1), "{three}");
    assert_eq!(ns(&three["boots"][2]["boot"]), 30);
}

#[test]
fn a_boot_counts_once_and_machines_are_kept_apart() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let here = CALM.write(scratch.path("a.log"));
    let copy = scratch.path("copy-of-a.log");
    fs::copy(&here, &copy).unwrap();
    let other = Log { model: "21AB", day: 1, ..CALM }.write(scratch.path("other.log"));
    let added = run(history("add", &db).arg("--json").args([&here, &copy, &other])).exits(0).json();
    let new: Vec<bool> = list(&added["added"]).iter().map(|boot| boot["new"].as_bool().unwrap()).collect();
    assert_eq!((text(&added["schema"]), new), ("bootscope.history-add-boots/1", vec![true, false, true]));
    let again = run(history("add", &db).arg(&copy)).exits(0);
    assert!(again.stderr.contains("is there already as boot 1"), "{}", again.stderr);
    let document = run(history("boots", &db).arg("--json")).exits(0).json();
    assert_eq!((text(&document["machine"]), list(&document["boots"]).len()), ("LENOVO 21AB", 1));
    assert_eq!(list(&document["machines"]).len(), 2);
    let named = run(history("boots", &db).args(["--json", "--machine", "LENOVO 20XW"])).exits(0).json();
    assert_eq!(text(&named["boots"][0]["began"]), "2026-01-01T00:00:00Z");
    run(history("boots", &db).args(["--machine", "x"])).refuses(&["no machine", "LENOVO 21AB"]);
    run(history("add", &db).args(["--machine", "db7"]).arg(&here)).exits(0);
    assert_eq!(
        list(&run(history("boots", &db).args(["--json", "--machine", "db7"])).exits(0).json()["boots"]).len(),
        1
    );
}

/// A journal that systemd wrote: it has the time, the boot's ID, units and a total.
#[test]
fn a_journal_is_a_boot() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let journal = fixture("journal/debian12.export");
    let longer = scratch.path("longer.export");
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend_from_slice(
        b"\n__CURSOR=x\n__REALTIME_TIMESTAMP=1795528901337100\n__MONOTONIC_TIMESTAMP=219731796\n\
          _BOOT_ID=e7c77a60f35b4e7288600b4bbf632929\nMESSAGE=later\n\n",
    );
    fs::write(&longer, bytes).unwrap();
    let added = run(history("add", &db).arg("--json").args([&journal, &longer])).exits(0).json();
    // Another export of the boot is the same boot.
    assert_eq!((added["added"][0]["new"].as_bool(), added["added"][1]["new"].as_bool()), (Some(true), Some(false)));
    // 1795528701.337 s less 19.731 s.
    assert_eq!(text(&added["added"][0]["began"]), "2026-11-24T13:58:01Z", "{added}");
    let shown = run(bootscope("show").arg("--json").arg(&journal)).exits(0).json();
    assert_eq!(added["added"][0]["total_ns"], shown["total_ns"]);
    let boots = run(history("boots", &db).arg("--json")).exits(0).json();
    let parts = list(&boots["boots"][0]["parts"]);
    let phases: i64 = parts.iter().filter(|part| part["kind"] == "phase").map(|part| ns(&part["ns"])).sum();
    assert_eq!(phases, ns(&shown["total_ns"]));
    let milestones = parts.iter().filter(|part| part["kind"] == "milestone").count();
    assert_eq!(milestones, list(&shown["milestones"]).len());
}

/// A real capture of this machine. Two captures of one boot are one boot, and the next boot has its updates.
#[test]
fn two_captures_of_this_boot_are_one() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let captures = ["a.tar.zst", "b.tar.zst"].map(|name| scratch.path(name));
    for capture in &captures {
        run(bootscope("capture").args(["--no-journal", "-o"]).arg(capture)).exits(0);
    }
    let added = run(history("add", &db).arg("--json").args(&captures)).exits(0).json();
    Schemas::read().check(&added);
    let [first, second] = list(&added["added"]) else { panic!("{added}") };
    assert_eq!((&first["new"], &first["boot"]), (&Value::Bool(true), &second["boot"]));
    assert_eq!(second["new"], false);
    // The next boot, after an update: a copy of the capture with other packages.
    let file = zstd::Decoder::new(fs::File::open(&captures[0]).unwrap()).unwrap();
    tar::Archive::new(file).unpack(scratch.path("")).unwrap();
    let next = scratch.path("recording");
    let manifest = fs::read_to_string(next.join("recording.json")).unwrap();
    let parsed: Value = serde_json::from_str(&manifest).unwrap();
    let manifest = manifest.replace(text(&parsed["boot_key"]), &"0".repeat(32));
    fs::write(next.join("recording.json"), manifest.replace(text(&parsed["created"]), "2030-01-01T00:00:00Z")).unwrap();
    let Ok(packages) = fs::read_to_string(next.join("packages.txt")) else {
        return skip("this machine has no list of packages");
    };
    let (name, version) = packages.lines().next().unwrap().split_once(' ').unwrap();
    let newer = format!("{version}-newer");
    let changed = packages.replacen(version, &newer, 1);
    fs::write(next.join("packages.txt"), changed + "a-new-one 1.0\n").unwrap();
    run(history("add", &db).arg(&next)).exits(0);
    let document = run(history("boots", &db).arg("--json")).exits(0).json();
    let updates = list(&document["boots"][1]["updates"]);
    let update =
        |name: &str| updates.iter().find(|update| update["name"] == name).unwrap_or_else(|| panic!("{updates:?}"));
    assert_eq!((text(&update(name)["before"]), text(&update(name)["after"])), (version, newer.as_str()));
    assert_eq!((text(&update("a-new-one")["before"]), updates.len()), ("", 2));
    let shown = run(&mut history("boots", &db)).exits(0);
    assert!(shown.text().contains("2 packages ("), "{}", shown.text());
}

#[test]
fn a_wrong_clock_and_a_boot_without_an_end_have_their_place() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let dead = CALM.write(scratch.path("dead.log"));
    let log = fs::read_to_string(&dead).unwrap();
    let clock = log.lines().find(|line| line.contains("setting system clock")).unwrap();
    let set = |seconds: &str| log.replace(clock, &clock.replace("(1767225602)", &format!("({seconds})")));
    fs::write(&dead, set("4")).unwrap();
    let ahead = scratch.path("ahead.log");
    fs::write(&ahead, set("99999999999")).unwrap();
    let stopped = Log { day: 3, ..CALM }.write(scratch.path("stopped.log"));
    let cut = fs::read_to_string(&stopped).unwrap();
    fs::write(&stopped, cut.split("[    2.1").next().unwrap()).unwrap();
    let timeless = scratch.path("timeless.log");
    fs::write(&timeless, log.replace(clock, "")).unwrap();

    let added = run(history("add", &db).args([&dead, &ahead, &stopped, &timeless])).exits(1);
    assert!(
        added.stderr.contains("the machine's clock said 1970-01-01") && added.stderr.contains("--at"),
        "{}",
        added.stderr
    );
    run(history("add", &db).args(["--at", "2026-01-02T00:00:00Z"]).arg(&timeless)).exits(0);
    run(history("add", &db).args(["--at", "yesterday"]).arg(&timeless)).refuses(&["2026-11-26T09:14:02Z"]);
    run(history("add", &db).args(["--at", "2026-01-02T00:00:00Z"]).args([&dead, &ahead]))
        .refuses(&["--at", "one boot"]);
    let document = run(history("boots", &db).arg("--json")).exits(0).json();
    let began: Vec<&Value> = list(&document["boots"]).iter().map(|boot| &boot["began"]).collect();
    assert_eq!(began[..2], ["2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z"], "{document}");
    assert!(began[2].is_null() && began[3].is_null(), "they were added last: {document}");
    let stopped = &document["boots"][1];
    assert!(stopped["total_ns"].is_null() && stopped["is_compared"] == false, "{stopped}");
    assert_eq!(ns(&document["compared"]), 3);
    let shown = run(&mut history("boots", &db)).exits(0);
    assert!(shown.text().contains("clock was wrong") && shown.text().contains("no end mark"), "{}", shown.text());
}

#[test]
fn other_files_and_histories_are_refused() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    run(&mut history("boots", &db)).refuses(&["no history", "history add"]);
    let junk = scratch.path("junk");
    fs::write(&junk, "nothing of a boot\n").unwrap();
    let failed = run(history("add", &db).arg("--json").args([&junk, &scratch.path("nowhere")])).exits(1).json();
    assert_eq!((list(&failed["added"]).len(), list(&failed["failed"]).len()), (0, 2), "{failed}");
    Schemas::read().check(&failed);
    assert!(!db.exists(), "a history is not made for nothing");
    run(history("add", &db).arg(CALM.write(scratch.path("a.log")))).exits(0);
    let layout = |sql: &str| rusqlite::Connection::open(&db).unwrap().execute_batch(sql).unwrap();
    layout("PRAGMA user_version = 99");
    run(&mut history("boots", &db)).refuses(&["a later bootscope"]);
    // A history of the layout before boots gets their tables.
    layout("DROP TABLE boot_part; DROP TABLE boot; DROP TABLE packages; PRAGMA user_version = 3");
    run(&mut history("boots", &db)).refuses(&["has no boots", "history add"]);
    run(history("add", &db).arg(scratch.path("a.log"))).exits(0);
    run(&mut history("boots", &db)).exits(0);
    run(history("boots", &db).args(["--metric", "total"])).exits(2);
}
