//! Recording stopped by `kill -9` at any moment, and by Ctrl-C. The evidence up to then can be read, and no QEMU is
//! left.
//!
//! `BOOTSCOPE_TEST_KILLS` is the number of kills at random moments, by default 10.

use crate::support::boots::{CALM, Scratch, console_messages, kernel, manifest, messages, record};
use crate::support::kills::{Random, assert_no_qemu, kill_qemu, kills, wait_for};
use crate::support::{assert_adds_up, bootscope, fixture, ran, run, shown};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running boot, whose QEMU has a unique name.
struct Boot {
    child: Child,
    name: String,
}

fn begin(kernel: &Path, into: &Path, number: u64) -> Boot {
    let name = format!("bootscope-test-{}-{number}", std::process::id());
    let mut command = record(kernel, into);
    let append = format!("ignore_loglevel {CALM}");
    command.args(["--append", &append, "--", "-name", &name]).stdout(Stdio::null()).stderr(Stdio::piped());
    Boot { child: command.spawn().unwrap(), name }
}

#[test]
#[ignore = "33 s: in make test-all"]
fn a_kill_at_any_moment_leaves_a_recording_and_no_qemu() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    // An undisturbed boot gives the usual time. The kills are spread over that time, and a little more.
    let began = Instant::now();
    let mut boot = begin(&kernel, &scratch.path("whole"), 0);
    assert!(boot.child.wait().unwrap().success());
    let whole = began.elapsed().mul_f64(1.05);

    let kills = kills(10);
    let mut random = Random::new();
    println!("{kills} kills within {whole:?}, random numbers from {}", random.seed());
    let (mut read, mut evidence_bytes) = (0, 0);
    for number in 1..=kills {
        let at = whole.mul_f64(random.share());
        let into = scratch.path(&format!("killed-{number}"));
        let mut boot = begin(&kernel, &into, number);
        std::thread::sleep(at);
        boot.child.kill().unwrap();
        boot.child.wait().unwrap();
        assert_no_qemu(&boot.name);
        if into.exists() {
            read += 1;
            evidence_bytes += assert_readable(&into, at);
            // A recording that is left can be replaced, so that it is not in the way.
            let log = fixture("log/linux-6.1-serial.log");
            run(bootscope("import").arg(log).arg("--force").arg("-o").arg(&into)).exits(0);
            fs::remove_dir_all(&into).unwrap();
        }
    }
    println!("{read} recordings of {kills} kills were begun, all can be read; {evidence_bytes} bytes of evidence");
    assert!(read * 2 >= kills, "most kills were too early: {read} of {kills}");
}

/// Checks that `show`, packing and exporting can read it. Returns the number of bytes of evidence.
fn assert_readable(into: &Path, at: Duration) -> u64 {
    let files = fs::read_dir(into).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let bytes = files.sum();
    let show = run(bootscope("show").arg("--json").arg(into));
    // A new folder without files is no recording.
    if bytes == 0 {
        show.refuses(&["neither a recording folder nor"]);
        return 0;
    }
    let document = show.exits(0).json();
    assert_adds_up(&document);
    let outcome = &document["outcome"];
    assert!(outcome == "interrupted" || outcome == "reached", "{outcome} after {at:?}");
    run(bootscope("export").args(["--to", "folded"]).arg(into)).exits(0);
    bytes
}

#[test]
#[ignore = "a busy host changes what it sees: in make test-all"]
fn ctrl_c_ends_the_boot_and_keeps_the_evidence() {
    let Some(kernel) = kernel() else { return };
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        let boot = begin(&kernel, &into, 0);
        wait_for(|| fs::read_to_string(into.join("console.log")).is_ok_and(|log| log.contains("Linux version")));
        let pid = boot.child.id().to_string();
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap().success());
        let ended = ran(boot.child.wait_with_output().unwrap(), format!("record, SIG{signal}")).exits(1);
        assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
        assert_no_qemu(&boot.name);
        let manifest = manifest(&into);
        assert_eq!((&manifest["state"], &manifest["outcome"]["kind"]), (&"finished".into(), &"interrupted".into()));
        let document = shown(&into);
        assert_eq!(document["outcome"], "interrupted");
        assert!(into.join("registers.txt").is_file(), "where the CPUs stood");
        // A stopped boot should end soon, so memory is searched only for a moment, and missing evidence is reported.
        if into.join("kmsg-memory.log").exists() {
            let memory = messages(&crate::support::boots::evidence(&into, "kmsg-memory.log"));
            assert!(memory.iter().any(|(_, text)| text.starts_with("Linux version")), "{memory:?}");
        } else {
            assert!(ended.stderr.contains("log was not found in guest memory in the moment"), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_qemu_that_dies_leaves_its_guests_kernel_log() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let boot = begin(&kernel, &into, 0);
    wait_for(|| fs::read_to_string(into.join("console.log")).is_ok_and(|log| log.contains("clocksource: Switched")));
    kill_qemu(&boot.name);
    let ended = ran(boot.child.wait_with_output().unwrap(), "record".to_owned()).exits(1);
    assert!(ended.stderr.contains("vmm-failed") && ended.stderr.contains("signal: 9"), "{}", ended.stderr);
    assert_eq!(shown(&into)["outcome"], "vmm-failed");
    // QEMU was killed between two bytes of the console: the log in memory has at least the console's messages.
    let [memory, console] = ["kmsg-memory.log", "console.log"].map(|name| crate::support::boots::evidence(&into, name));
    let (memory, console) = (messages(&memory), console_messages(&console));
    assert!(console.len() > 100 && memory.len() >= console.len(), "{} {}", console.len(), memory.len());
}

#[test]
fn two_recorders_do_not_share_a_folder() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut boot = begin(&kernel, &into, 0);
    wait_for(|| into.join("recording.json").exists());
    run(record(&kernel, &into).arg("--force")).refuses(&["being recorded into"]);
    assert!(boot.child.wait().unwrap().success(), "the first one is not disturbed");
    assert_eq!(shown(&into)["outcome"], "reached");
}
