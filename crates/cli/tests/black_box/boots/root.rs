//! A stock kernel boots to a real root: Debian's files in an ext4 image, on a virtio disk and in persistent memory with
//! DAX.
//!
//! `scripts/make-rootfs --ext4` makes the image once, and `scripts/fetch-kernel` fetches the modules with the kernel.
//! The guest's own memory figures show that files are mapped and not copied.

use crate::support::boots::{QUIET, Scratch, evidence, kernel, manifest, record, recorded};
use crate::support::{bootscope, list, ns, run, shown, skip, text};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that the workload reads.
const FILE: &str = "/usr/bin/perl";
const FILE_BYTES_MIN: i64 = 3 << 20;

/// The kernel and the image; `None` without one of them, with a printed reason.
fn kernel_and_root() -> Option<(PathBuf, PathBuf)> {
    let kernel = kernel()?;
    if !kernel.parent().expect("it is in a folder").join("lib/modules").is_dir() {
        skip("the kernel has no lib/modules beside it: scripts/fetch-kernel 6.1-cloud");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-rootfs");
    let made = run(Command::new(script).arg("--ext4"));
    if made.status == 77 {
        skip(&made.stderr.replace('\n', " "));
        return None;
    }
    let made = made.exits(0);
    Some((kernel, PathBuf::from(made.text().trim())))
}

fn rooted(kernel: &Path, into: &Path, root: &Path) -> Command {
    let mut command = record(kernel, into);
    command.args(["--append", QUIET, "--root"]).arg(root);
    command
}

/// A hash of a file, to detect changes.
fn content(path: &Path) -> String {
    run(Command::new("sha256sum").arg(path)).exits(0).text().to_owned()
}

/// `Cached` from a meminfo in a recording, in bytes.
fn cached(recording: &Path, file: &str) -> i64 {
    let text = evidence(recording, file);
    let line = text.lines().find_map(|line| line.strip_prefix("Cached:")).expect("Cached");
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

#[test]
#[ignore = "14 s: in make test-all"]
fn a_root_on_a_disk_is_cached_and_with_dax_it_is_not() {
    let Some((kernel, root)) = kernel_and_root() else { return };
    let scratch = Scratch::new();
    let before = content(&root);
    let grown = |name: &str, flags: &[&str], mounted: &str| {
        let into = scratch.path(name);
        let workload = format!("{mounted} /proc/self/mounts && cat {FILE} >/dev/null && echo x >/written && sync");
        let mut command = rooted(&kernel, &into, &root);
        recorded(command.args(flags).args(["--workload", &workload]), &into, "reached");
        let document = shown(&into);
        let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
        assert_eq!(phases[phases.len() - 2..], ["modules and root", "process 1"], "{phases:?}");
        let nameless = list(&document["where"]).iter().find(|row| text(&row["name"]).starts_with("initcall 0x"));
        assert_eq!(nameless, None, "a module's initcall has its module's name");
        let root = crate::support::rows(&document["phases"], "name", "modules and root")[0];
        let took = ns(&root["end_ns"]) - ns(&root["start_ns"]);
        let (at_end, after) = (cached(&into, "meminfo.txt"), cached(&into, "meminfo-after.txt"));
        assert_eq!(ns(&document["memory"]["guest_cached_after_bytes"]), after, "{}", document["memory"]);
        println!(
            "{name}: modules and root {:.1} ms, page cache {at_end}, after the workload {after}",
            took as f64 / 1e6
        );
        after - at_end
    };
    let disk = grown("disk", &[], "grep -q '^/dev/vda / ext4 rw' /proc/self/mounts && ! grep -q dax");
    let dax = grown("dax", &["--dax"], "grep -q '^/dev/pmem0 / ext4 rw.*dax=always'");
    assert!(disk > FILE_BYTES_MIN, "reading {FILE} grew the page cache by {disk} bytes");
    assert!(dax < FILE_BYTES_MIN / 2, "with DAX reading {FILE} grew it by {dax} bytes");
    assert_eq!(content(&root), before, "a workload wrote into the user's image");
}

#[test]
fn a_failing_workload_is_reported_and_ends_a_bench() {
    let Some((kernel, root)) = kernel_and_root() else { return };
    let scratch = Scratch::new();
    let mut bench = bootscope("bench");
    bench.args(["--accel", "tcg", "--runs", "2", "--warm-ups", "0", "--append", QUIET, "--kernel"]).arg(&kernel);
    bench.arg("--root").arg(&root).args(["--workload", "echo words; exit 3", "-o"]).arg(scratch.path("bench"));
    let ran = run(&mut bench).exits(2);
    assert!(ran.stderr.contains("the workload failed: exit status: 3"), "{}", ran.stderr);
    let recording = scratch.path("bench").join("boots/0000");
    assert!(evidence(&recording, "console.log").contains("words"), "what it said is on the console");
    assert!(!recording.join("meminfo-after.txt").exists());
}

#[test]
fn the_roots_own_init_is_handed_over_to() {
    let Some((kernel, root)) = kernel_and_root() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--append", &format!("{QUIET} init=/usr/bin/mount -- --version"), "--then", "exec", "--root"]);
    recorded(command.arg(&root).args(["--until", "mount from util-linux"]), &into, "reached");
}

#[test]
fn a_root_that_cannot_be_mounted_is_reported_with_the_reason() {
    let Some((kernel, _)) = kernel_and_root() else { return };
    let scratch = Scratch::new();
    let (image, into) = (scratch.path("broken.img"), scratch.path("boot"));
    let mut broken = File::create(&image).unwrap();
    broken.set_len(4 << 20).unwrap();
    broken.seek(SeekFrom::Start(1024 + 0x38)).unwrap();
    broken.write_all(&[0x53, 0xef]).unwrap();
    recorded(&mut rooted(&kernel, &into, &image), &into, "power-off");
    let outcome = manifest(&into)["outcome"].clone();
    assert!(text(&outcome["detail"]).contains("vda cannot be mounted as ext4"), "{outcome}");

    // A kernel outside of its package has no modules.
    let alone = scratch.path("vmlinuz");
    std::fs::copy(&kernel, &alone).unwrap();
    let release = kernel.file_name().unwrap().to_str().unwrap().trim_start_matches("vmlinuz-");
    if Path::new("/lib/modules").join(release).is_dir() {
        return skip("this host has the modules of the kernel under test");
    }
    run(&mut rooted(&alone, &scratch.path("none"), &image)).refuses(&[
        "needs the modules of kernel",
        "/lib/modules/",
        "dpkg -x",
    ]);
}
