//! `bootscope try`: measures the savings of remedies and compares them with the claims. The reference kernel is booted
//! with its instructions counted, so the results are known in advance on any host.

use crate::support::boots::{QUIET, Scratch, kernel, recorded};
use crate::support::kills::{assert_no_qemu, wait_for};
use crate::support::lab::{built, record_lab};
use crate::support::schemas::Schemas;
use crate::support::{bootscope, list, run, text};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Two causes, each with a switch.
const SLOW: &str = "tsc_sync=check aps=serial";

fn record(into: &Path, cpus: &str, words: &str, more: &[&str]) {
    let mut command = record_lab(into);
    command.args(["--deterministic", "--memory", "128M", "--no-first-run", "--no-firmware-log", "--cpus", cpus]);
    recorded(command.args(["--append", words]).args(more), into, "reached");
}

/// One boot of each variant, with a separate history.
fn try_once(recording: &Path, into: &Path, db: &Path) -> Command {
    let mut command = bootscope("try");
    command.arg(recording).args(["--json", "--runs", "1", "-o"]).arg(into).arg("--db").arg(db);
    command
}

fn finding_of_rule<'a>(document: &'a Value, rule: &str) -> &'a Value {
    let is_of = |line: &&Value| list(&line["findings"]).iter().any(|finding| text(&finding["rule"]) == rule);
    list(&document["remedies"]).iter().find(is_of).unwrap_or_else(|| panic!("no {rule} in {document:#}"))
}

fn ms(value: &Value) -> f64 {
    value["likely_ns"].as_f64().unwrap_or_else(|| panic!("{value} is no saving")) / 1e6
}

#[test]
fn remedies_are_confirmed_and_their_joint_effect_is_measured() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried, db) = (scratch.path("slow"), scratch.path("try"), scratch.path("history.db"));
    record(&slow, "4", SLOW, &[]);
    let document = run(&mut try_once(&slow, &tried, &db)).exits(0).json();
    Schemas::read().check(&document);
    // Three comparisons of 20 ms, and two of three delays of 10 ms.
    for (rule, saved) in [("tsc-check", 60.0), ("cpu-start", 20.0)] {
        let line = finding_of_rule(&document, rule);
        assert_eq!(line["verdict"], "confirmed", "{line:#}");
        assert!((ms(&line["claimed"]) - saved).abs() < 1.0 && (ms(&line["measured"]) - saved).abs() < 1.0, "{line:#}");
    }
    let together = &document["together"];
    assert_eq!(together["joint"]["verdict"], "confirmed", "{together:#}");
    assert!((ms(&together["joint"]["measured"]) - 80.0).abs() < 1.0, "{together:#}");
    assert!((together["sum_ns"].as_f64().unwrap() / 1e6 - 80.0).abs() < 1.0, "{together:#}");
    assert_eq!(run(bootscope("show").arg("--json").arg(&tried)).exits(0).json(), document, "it is printed again");
    let finished =
        run(bootscope("try").args(["--json", "--db"]).arg(&db).arg("--continue").arg(&tried)).exits(0).json();
    assert_eq!(finished, document, "there is nothing more to boot");
    // A trial is also a bench, and the history has both.
    let bench: Value = serde_json::from_slice(&fs::read(tried.join("bench.json")).unwrap()).unwrap();
    Schemas::read().check(&bench);
    assert_eq!(list(&bench["boots"]).len(), 3);
    let text =
        run(bootscope("try").arg(&slow).args(["--runs", "1", "--no-history", "--force", "-o"]).arg(&tried)).exits(0);
    let line = |starts: &str| text.text().lines().find(|line| line.starts_with(starts)).unwrap_or_default().to_owned();
    assert!(line("tsc-check").ends_with("confirmed") && line("all confirmed:").contains("80."), "{}", text.text());
    let page = scratch.path("page.md");
    run(bootscope("try").arg("--page").arg(&page).arg("--db").arg(&db)).exits(0);
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.contains("2 claims were tried. 2 confirmed (100 %): 2 within 10 % of the price"), "{written}");
    assert!(written.contains("## All confirmed remedies together"), "{written}");
    assert!(written.contains("| lab | pc, 4 CPUs, 128 MiB, guest time | plain |"), "{written}");
    run(bootscope("try").arg("--page").arg(&page).arg("--db").arg(&db)).refuses(&["page.md"]);
}

#[test]
fn findings_can_be_named() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, db) = (scratch.path("slow"), scratch.path("history.db"));
    record(&slow, "4", SLOW, &[]);
    // The recording claims that vCPUs stop in silences. The compared boots must not do that.
    let manifest = slow.join("recording.json");
    let mut recorded: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    recorded["how"]["silence_ms"] = json!(1000);
    fs::write(&manifest, recorded.to_string()).unwrap();
    let one = run(try_once(&slow, &scratch.path("one"), &db).arg("wake_aps")).exits(0).json();
    assert_eq!(list(&one["remedies"]).len(), 1, "{one:#}");
    assert_eq!(finding_of_rule(&one, "cpu-start")["verdict"], "confirmed");
    assert_eq!(one["together"], Value::Null, "one alone");
    let bench: Value = serde_json::from_slice(&fs::read(scratch.path("one").join("bench.json")).unwrap()).unwrap();
    assert_eq!(bench["variants"][0]["how"]["silence_ms"], Value::Null);
    run(try_once(&slow, &scratch.path("none"), &db).arg("no-such-rule")).refuses(&["no-such-rule", "tsc-check"]);
    run(try_once(&slow, &scratch.path("one"), &db).arg("wake_aps")).refuses(&["a try is there already"]);
    // A refusal removes nothing, for a wrong name as for too few rounds.
    let kept = fs::read(scratch.path("one").join("bench.json")).unwrap();
    run(try_once(&slow, &scratch.path("one"), &db).args(["--force", "no-such-rule"])).refuses(&["no-such-rule"]);
    run(bootscope("try").arg(&slow).args(["--runs", "2", "--force", "-o"]).arg(scratch.path("one")))
        .refuses(&["too few"]);
    assert_eq!(fs::read(scratch.path("one").join("bench.json")).unwrap(), kept);
    // Files that no trial wrote, and the recording itself, are not removed either.
    let of_others = scratch.path("of-others");
    for part in ["together", "base"] {
        fs::create_dir_all(of_others.join(part)).unwrap();
        fs::write(of_others.join(part).join("mine"), "mine").unwrap();
    }
    run(try_once(&slow, &of_others, &db).arg("--force")).refuses(&["together, which no try made"]);
    for part in ["together", "base"] {
        assert_eq!(fs::read_to_string(of_others.join(part).join("mine")).unwrap(), "mine");
    }
    let inside = scratch.path("one").join("base");
    fs::rename(&slow, &inside).unwrap();
    run(try_once(&inside, &scratch.path("one"), &db).arg("--force")).refuses(&["lies inside"]);
    assert!(inside.join("recording.json").is_file());
    fs::rename(&inside, &slow).unwrap();
    run(bootscope("try").arg(&slow).args(["--runs", "2", "-o"]).arg(scratch.path("few"))).refuses(&["too few"]);
    assert!(!scratch.path("few").exists(), "nothing is begun");
}

#[test]
fn a_claim_that_does_not_hold_is_refuted() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, db) = (scratch.path("slow"), scratch.path("history.db"));
    record(&slow, "2", SLOW, &[]);
    // This remedy changes no delay.
    let own = ["--append", "delay.clocks=0", "--claim", "20ms"];
    let document = run(try_once(&slow, &scratch.path("own"), &db).args(own)).exits(0).json();
    Schemas::read().check(&document);
    let [line] = list(&document["remedies"]) else { panic!("{document:#}") };
    assert_eq!(line["verdict"], "refuted", "{line:#}");
    assert!(text(&line["why"]).contains("saves nothing"), "{line:#}");
    // A saving remedy is confirmed without a claim. With a claim, the saving must match it.
    let verdict = |name: &str, claim: &[&str]| {
        let mut command = try_once(&slow, &scratch.path(name), &db);
        let document = run(command.args(["--append", "tsc_sync=trust"]).args(claim)).exits(0).json();
        text(&document["remedies"][0]["verdict"]).to_owned()
    };
    assert_eq!(verdict("any", &[]), "confirmed");
    assert_eq!(verdict("right", &["--claim", "20ms"]), "confirmed");
    assert_eq!(verdict("wrong", &["--claim", "10ms"]), "refuted", "it saves twice as much");
    run(try_once(&slow, &scratch.path("so"), &db).args(["--append", "aps=serial"])).refuses(&["has that already"]);
}

/// The verdict that an imported history has for this kernel and machine type is shown beside the finding.
#[test]
fn a_refuted_finding_stays_visible_as_refuted() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried, db) = (scratch.path("slow"), scratch.path("try"), scratch.path("elsewhere.db"));
    record(&slow, "2", "tsc_sync=check", &[]);
    run(bootscope("try").arg(&slow).args(["--runs", "1", "--no-history", "-o"]).arg(&tried)).exits(0);
    // Change the bench as if the remedy had saved nothing.
    let mut bench: Value = serde_json::from_slice(&fs::read(tried.join("bench.json")).unwrap()).unwrap();
    let base = list(&bench["boots"]).iter().find(|boot| boot["variant"] == 0).unwrap()["total_ns"].clone();
    bench["boots"].as_array_mut().unwrap().iter_mut().for_each(|boot| boot["total_ns"] = base.clone());
    let other = scratch.path("other.json");
    fs::write(&other, bench.to_string()).unwrap();
    run(bootscope("history").arg("--db").arg(&db).arg("--add").arg(&other)).exits(0);
    let findings =
        |recording: &Path| run(bootscope("findings").arg("--json").arg(recording).arg("--db").arg(&db)).exits(0);
    let found = findings(&slow).json();
    Schemas::read().check(&found);
    assert_eq!(found["findings"][0]["tried"]["verdict"], "refuted", "{found:#}");
    let output = run(bootscope("findings").arg(&slow).arg("--db").arg(&db)).exits(0);
    assert!(output.text().contains("refuted on this kernel and machine type"), "{}", output.text());
    // `show` reads the history of the user.
    let data = scratch.path("data");
    fs::create_dir_all(data.join("bootscope")).unwrap();
    fs::copy(&db, data.join("bootscope/history.db")).unwrap();
    let shown = run(bootscope("show").arg(&slow).env("XDG_DATA_HOME", &data)).exits(0);
    assert!(shown.text().contains("refuted on this kernel and machine type"), "{}", shown.text());
    // Another machine type is another boot.
    let q35 = scratch.path("q35");
    record(&q35, "2", "tsc_sync=check", &["--machine", "q35"]);
    assert_eq!(findings(&q35).json()["findings"][0]["tried"], Value::Null);
    fs::write(&db, "no database").unwrap();
    let damaged = findings(&slow);
    assert!(damaged.stderr.contains("what was tried before is not known"), "{}", damaged.stderr);
}

#[test]
fn a_remedy_that_breaks_the_boot_is_an_outcome_with_its_line() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried, db) = (scratch.path("slow"), scratch.path("try"), scratch.path("history.db"));
    record(&slow, "2", SLOW, &[]);
    let mut command = bootscope("try");
    command.arg(&slow).args(["--json", "--append", "panic=vm_mem", "tsc-check", "-o"]).arg(&tried).arg("--db").arg(&db);
    let document = run(&mut command).exits(0).json();
    Schemas::read().check(&document);
    let [saves, breaks] = list(&document["remedies"]) else { panic!("{document:#}") };
    assert_eq!((&saves["verdict"], &breaks["verdict"]), (&json!("confirmed"), &json!("breaks-the-boot")));
    // Five rounds. A variant that never boots is left out after the third.
    assert_eq!(
        (saves["boots"].as_u64(), breaks["boots"].as_u64(), breaks["failed"].as_u64()),
        (Some(5), Some(3), Some(3))
    );
    assert_eq!(breaks["failure"]["outcome"], "panic", "{breaks:#}");
    assert!(text(&breaks["failure"]["detail"]).contains("vm_mem"), "{breaks:#}");
    let kept = tried.join(format!("boots/{:04}", breaks["failure"]["boot"].as_u64().unwrap()));
    let shown = run(bootscope("show").arg("--json").arg(&kept)).exits(0).json();
    assert_eq!(shown["outcome"], "panic", "its recording is kept");
    assert!((ms(&saves["measured"]) - 20.0).abs() < 1.0, "{saves:#}");
}

#[test]
#[ignore = "30 s: in make test-all"]
fn a_try_that_is_interrupted_keeps_its_boots_and_goes_on() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried, db) = (scratch.path("slow"), scratch.path("try"), scratch.path("history.db"));
    let name = format!("bootscope-test-{}-try", std::process::id());
    record(&slow, "4", SLOW, &["--", "-name", &name]);
    let mut command = bootscope("try");
    command.arg(&slow).args(["--runs", "6", "-o"]).arg(&tried).arg("--db").arg(&db);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| boots_in(&tried) >= 3);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_no_qemu(&name);
    let over = boots_in(&tried);
    assert!((3..18).contains(&over), "{over} boots");
    assert!(!tried.join("together").exists());
    let before = fs::read_to_string(tried.join("bench.jsonl")).unwrap();
    let cut = run(bootscope("show").arg("--json").arg(&tried)).exits(0).json();
    Schemas::read().check(&cut);
    assert_eq!(cut["ended"], "interrupted", "what is known is printed: {cut:#}");
    let go_on = || {
        let mut command = bootscope("try");
        command.args(["--json", "--db"]).arg(&db).arg("--continue").arg(&tried);
        command
    };
    let document = run(&mut go_on()).exits(0).json();
    assert_eq!(document["ended"], "rounds", "{document:#}");
    assert_eq!(finding_of_rule(&document, "tsc-check")["verdict"], "confirmed");
    assert_eq!(document["together"]["joint"]["verdict"], "confirmed");
    assert_eq!(boots_in(&tried), 18);
    assert_eq!(boots_in(&tried.join("together")), 12, "as many rounds as of each by itself");
    let boots = |text: &str| text.lines().filter(|line| line.starts_with("{\"number\"")).map(str::to_owned).collect();
    let (before, after): (Vec<String>, Vec<String>) =
        (boots(&before), boots(&fs::read_to_string(tried.join("bench.jsonl")).unwrap()));
    assert_eq!(before, after[..over], "what was over is as it was");
    run(bootscope("try").args(["--continue"]).arg(&slow)).exits(2);
}

fn boots_in(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("bench.jsonl")).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("{\"number\"")).count()
}

/// A copy of the lab's file, which the program must treat as any kernel.
fn copied(scratch: &Scratch) -> PathBuf {
    let lab = Path::new(&std::env::var_os("BOOTSCOPE_LIB").unwrap()).join("lab");
    let copy = scratch.path("kernel");
    fs::copy(lab, &copy).unwrap();
    copy
}

#[test]
fn recordings_that_cannot_be_repeated_are_refused_with_advice() {
    let scratch = Scratch::new();
    let log = scratch.path("serial.log");
    fs::write(&log, "[    0.000000] Linux version 6.1.0\n[    0.500000] Run /init as init process\n").unwrap();
    let imported = scratch.path("imported");
    run(bootscope("import").arg(&log).arg("-o").arg(&imported)).exits(0);
    run(bootscope("try").arg(&imported)).refuses(&["was imported", "bootscope record --kernel"]);
    run(bootscope("try").arg(scratch.path("nothing"))).exits(2);
    run(&mut bootscope("try")).exits(2);
    run(bootscope("try").args(["--page", "x", "--db"]).arg(scratch.path("no.db"))).refuses(&["no history", "no.db"]);
    if !built() {
        return;
    }
    let kernel = copied(&scratch);
    let slow = scratch.path("slow");
    let mut command = bootscope("record");
    command.args(["--accel", "tcg", "--init", "keep", "--until", "^init: done", "--memory", "128M", "--deterministic"]);
    recorded(command.arg("--kernel").arg(&kernel).arg("-o").arg(&slow), &slow, "reached");
    let panics = scratch.path("panics");
    recorded(record_lab(&panics).args(["--memory", "128M", "--append", "panic=vm_mem"]), &panics, "panic");
    run(bootscope("try").arg(&panics).args(["--append", "quiet", "-o"]).arg(scratch.path("none")))
        .refuses(&["did not reach its end mark (panic", "record a boot that does"]);
    let was = fs::read(&kernel).unwrap();
    fs::write(&kernel, [&was[..], b"x"].concat()).unwrap();
    let tried = scratch.path("try");
    let own = |into: &Path| {
        let mut command = bootscope("try");
        command.arg(&slow).args(["--append", "delay.vm_mem=1", "--no-history", "-o"]).arg(into);
        command
    };
    run(&mut own(&tried)).refuses(&["another content", "record it again"]);
    fs::remove_file(&kernel).unwrap();
    run(&mut own(&tried)).refuses(&[kernel.to_str().unwrap(), "put back"]);
    assert!(!tried.exists(), "nothing is begun");
}

/// A claim in time says nothing about a boot counted in instructions, so the guest is recorded again.
#[test]
#[ignore = "16 s: in make test-all"]
fn instructions_are_claimed_by_a_recording_with_instructions() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried) = (scratch.path("slow"), scratch.path("try"));
    let mut command = record_lab(&slow);
    recorded(command.args(["--memory", "128M", "--append", "calibrate=delay"]), &slow, "reached");
    let mut command = bootscope("try");
    command.arg(&slow).args(["--deterministic", "--json", "--runs", "1", "--no-history", "-o"]).arg(&tried);
    let document = run(&mut command).exits(0).json();
    assert_eq!(document["recording"], tried.join("base").to_str().unwrap());
    let line = finding_of_rule(&document, "calibration");
    assert_eq!((&line["verdict"], list(&line["findings"]).len()), (&json!("confirmed"), 2), "{line:#}");
    assert_eq!(document["deterministic"], true);
}

/// Sources that compile nothing: `make bzImage` copies the packed kernel, or the unpacked one if CONFIG_PACKED is off.
fn made_sources(scratch: &Scratch, packed: &Path, unpacked: &Path) -> PathBuf {
    let tree = scratch.path("linux");
    fs::create_dir_all(tree.join("scripts")).unwrap();
    let makefile = format!(
        "olddefconfig:\n\t@sed -i '/CONFIG_ALWAYS/d' $(O)/.config; echo CONFIG_ALWAYS=y >> $(O)/.config\nbzImage:\n\
         \t@echo making an image; mkdir -p $(O)/arch/x86/boot\n\
         \t@if grep -q CONFIG_BROKEN=y $(O)/.config; then echo 'broken.c:7: error: no'; exit 1; fi\n\
         \t@if grep -q CONFIG_PACKED=y $(O)/.config; then cp {} $(O)/arch/x86/boot/bzImage; \\\n\
         \telse cp {} $(O)/arch/x86/boot/bzImage; fi\n",
        packed.display(),
        unpacked.display()
    );
    fs::write(tree.join("Makefile"), makefile).unwrap();
    let script = "#!/bin/sh\nfile=$2; shift 2\nwhile [ $# -gt 0 ]; do\n  sed -i \"/CONFIG_$2=/d\" $file\n  \
                  [ $1 = --disable ] || echo CONFIG_$2=y >> $file\n  shift 2\ndone\n";
    fs::write(tree.join("scripts/config"), script).unwrap();
    fs::set_permissions(tree.join("scripts/config"), PermissionsExt::from_mode(0o755)).unwrap();
    let kconfig = "config PACKED\nconfig BROKEN\nconfig SELECTS\n\tselect ALWAYS\nconfig ALWAYS\n";
    fs::write(tree.join("Kconfig"), kconfig).unwrap();
    fs::write(scratch.path("config"), "CONFIG_PACKED=y\nCONFIG_SELECTS=y\nCONFIG_ALWAYS=y\n").unwrap();
    tree
}

/// The saving of an unpacked kernel is known from its decompressor. A kernel built from sources saves the same.
#[test]
#[ignore = "58 s: in make test-all"]
fn another_kernel_is_unpacked_or_built() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (slow, tried, cache) = (scratch.path("slow"), scratch.path("try"), scratch.path("cache"));
    let mut command = bootscope("record");
    command.args(["--accel", "tcg", "--deterministic", "--append", QUIET, "--kernel"]).arg(&kernel);
    recorded(command.arg("-o").arg(&slow), &slow, "reached");
    let attempt = |into: &Path| {
        let mut command = bootscope("try");
        command.arg(&slow).args(["--json", "--runs", "1", "--no-history", "-o"]).arg(into).arg("--cache").arg(&cache);
        command
    };
    let document = run(attempt(&tried).arg("decompression")).exits(0).json();
    let line = finding_of_rule(&document, "decompression");
    assert_eq!((&line["verdict"], &line["changes"][0]["kind"]), (&json!("confirmed"), &json!("unpacked-kernel")));
    let saved = ms(&line["measured"]);
    assert!(saved > 20.0, "{line:#}");
    let made: Vec<PathBuf> = fs::read_dir(cache.join("unpacked")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [unpacked] = &made[..] else { panic!("{made:?}") };

    let tree = made_sources(&scratch, &kernel, unpacked);
    let build = |into: &str, config: &str| {
        let mut command = attempt(&scratch.path(into));
        command.arg("--tree").arg(&tree).arg("--base-config").arg(scratch.path("config")).args(["--config", config]);
        command
    };
    run(&mut build("no", "-NOTHING")).refuses(&["CONFIG_NOTHING is no option"]);
    run(&mut build("no", "+PACKED")).refuses(&["--config +PACKED", "has that already"]);
    run(&mut build("no", "PACKED")).refuses(&["`PACKED` is no change"]);
    assert!(!cache.join("trees").exists() && !scratch.path("no").exists(), "nothing is begun");
    // All boots run the built kernel, and the boot for the claims is recorded again.
    let document = run(&mut build("built", "-PACKED")).exits(0).json();
    Schemas::read().check(&document);
    assert_eq!(document["recording"], scratch.path("built").join("base").to_str().unwrap());
    let bench: Value = serde_json::from_slice(&fs::read(scratch.path("built").join("bench.json")).unwrap()).unwrap();
    Schemas::read().check(&bench);
    assert_eq!(bench["trial"]["sources"]["tree"], tree.to_str().unwrap());
    let line = &document["remedies"][0];
    assert_eq!((&line["verdict"], &line["changes"][0]["to"]), (&json!("confirmed"), &json!(["-PACKED"])), "{line:#}");
    assert!((ms(&line["measured"]) - saved).abs() < 1.0, "{saved} ms unpacked, and {line:#}");
    let failed = run(&mut build("no", "+BROKEN")).exits(2);
    assert!(failed.stderr.contains("broken.c:7: error: no") && failed.stderr.contains(".log"), "{}", failed.stderr);
    let kept = run(&mut build("no", "-ALWAYS")).exits(2);
    assert!(kept.stderr.contains("-ALWAYS did not take: it is selected by SELECTS"), "{}", kept.stderr);
}

/// Most of a compressed initrd's cost is its decompressor, which the trial leaves out.
#[test]
#[ignore = "29 s: in make test-all"]
fn an_initrd_is_booted_unpacked() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (slow, initrd) = (scratch.path("slow"), scratch.path("initrd.gz"));
    let program = fs::read(env!("CARGO_BIN_EXE_bootscope")).unwrap();
    let mut packer = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&initrd).unwrap())
        .spawn()
        .unwrap();
    packer.stdin.take().unwrap().write_all(&archive("program", &program[..8 << 20])).unwrap();
    assert!(packer.wait().unwrap().success());
    let mut command = bootscope("record");
    command.args(["--accel", "tcg", "--deterministic", "--append", QUIET, "--kernel"]).arg(&kernel);
    recorded(command.arg("--initrd").arg(&initrd).arg("-o").arg(&slow), &slow, "reached");
    let mut command = bootscope("try");
    command.arg(&slow).args(["initrd", "--json", "--runs", "1", "--no-history", "-o"]).arg(scratch.path("try"));
    let document = run(command.arg("--cache").arg(scratch.path("cache"))).exits(0).json();
    let line = finding_of_rule(&document, "initrd");
    assert_eq!((&line["verdict"], &line["changes"][0]["kind"]), (&json!("confirmed"), &json!("unpacked-initrd")));
    assert!(ms(&line["measured"]) > 50.0, "{line:#}");
}

/// A cpio archive of the format `newc` with one file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, content) in [(name, 0o100_644, content), ("TRAILER!!!", 0, &b""[..])] {
        let (zeros, bytes, name_bytes) = (0, content.len(), name.len() + 1);
        let header =
            format!("070701{zeros:08x}{mode:08x}{zeros:032x}{bytes:08x}{zeros:032x}{name_bytes:08x}{zeros:08x}");
        for part in [format!("{header}{name}\0").as_bytes(), content] {
            archive.extend_from_slice(part);
            archive.resize(archive.len().next_multiple_of(4), 0);
        }
    }
    archive
}

/// The verdict on each remedy is printed first, and then the reason why they were not booted together.
#[test]
fn verdicts_are_printed_before_the_error_of_the_joint_boots() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (slow, tried, db) = (scratch.path("slow"), scratch.path("try"), scratch.path("history.db"));
    record(&slow, "4", SLOW, &[]);
    run(&mut try_once(&slow, &tried, &db)).exits(0);
    // Simulate an interruption before the joint boots, whose folder cannot be created now.
    fs::remove_dir_all(tried.join("together")).unwrap();
    fs::write(tried.join("together"), "").unwrap();
    let go_on = |folder: &Path, from: &Path| {
        let mut command = bootscope("try");
        run(command.args(["--json", "--db"]).arg(&db).arg("--continue").arg(folder).current_dir(from))
    };
    let failed = go_on(&tried, scratch.folder()).exits(2);
    let document = failed.json();
    assert_eq!(finding_of_rule(&document, "tsc-check")["verdict"], "confirmed");
    assert_eq!(document["together"], Value::Null);
    assert!(failed.stderr.contains("the remedies could not be booted together"), "{}", failed.stderr);
    fs::remove_file(tried.join("together")).unwrap();
    // The recording is found from another folder too, so the joint saving is claimed.
    let elsewhere = scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let document = go_on(Path::new("../try"), &elsewhere).exits(0).json();
    let joint = &document["together"]["joint"];
    assert_eq!(joint["verdict"], "confirmed", "{joint:#}");
    assert!((ms(&joint["claimed"]) - 80.0).abs() < 1.0, "{joint:#}");
}
