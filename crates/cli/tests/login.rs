//! An unmodified Debian with its own init is recorded to its login prompt: nothing of bootscope's is in the guest, and
//! the evidence comes from the console and out of the guest's memory.
//!
//! The root file system is made once by `scripts/make-rootfs`, which needs debootstrap and root; without, this skips.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::boots::{CALM, Scratch, evidence, kernel, manifest, messages, record, recorded};
use support::{bootscope, list, ns, run, shown, skip, text};

fn rootfs() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-rootfs");
    let made = run(&mut Command::new(script));
    if made.status == 77 {
        skip(&made.stderr.replace('\n', " "));
        return None;
    }
    let made = made.exits(0);
    Some(PathBuf::from(made.text().trim()))
}

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
    // Systemd may be quiet for long on a busy host, but not for ever.
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
