//! Options of a boot that cloud-hypervisor cannot do, the ways to name it, and boots of one kernel in two VMMs.
//! `BOOTSCOPE_TEST_CLOUD_HYPERVISOR` names the VMM for the tests that need it.

#[allow(dead_code, reason = "only its guest is used")]
#[path = "../../../../machine/tests/integration/common/small.rs"]
mod small;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::boots::Scratch;
use crate::support::{bootscope, run};

/// The parts of an ELF image for x86-64 that are checked: its head, and the number of a multiboot kernel.
fn kernel(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("kernel");
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(18, 0);
    elf.extend([62, 0]);
    elf.extend(0x1bad_b002_u32.to_le_bytes());
    elf.resize(64, 0);
    fs::write(&path, elf).unwrap();
    path
}

/// `record` with this VMM into this folder.
fn record(vmm: &Path, scratch: &Scratch) -> (Command, PathBuf) {
    let into = scratch.path("boot");
    let mut command = bootscope("record");
    command.arg("--vmm").arg(vmm).arg("--kernel").arg(kernel(scratch)).args(["--memory", "64M", "-o"]).arg(&into);
    (command, into)
}

#[test]
fn unsupported_options_are_refused_before_the_vmm_is_searched() {
    let scratch = Scratch::new();
    let gone = Path::new("/nonexistent/cloud-hypervisor");
    for (options, words) in [
        (&["--deterministic"][..], &["--deterministic", "--vmm qemu"][..]),
        (&["--trace", "calls"], &["--trace calls", "--vmm qemu"]),
        (&["--init", "guest"], &["--init guest", "--init keep"]),
        (&["--machine", "q35"], &["--machine q35", "leave it out"]),
        (&["--until", "tcp:22"], &["--until a port", "a line of the console"]),
        (&[], &["/nonexistent/cloud-hypervisor is not there", "--vmm"]),
    ] {
        let (mut command, into) = record(gone, &scratch);
        run(command.args(options)).refuses(words);
        assert!(!into.exists());
    }
}

#[test]
fn a_bench_refuses_a_variant_before_any_boots() {
    let scratch = Scratch::new();
    let into = scratch.path("bench");
    let bench = |options: &[&str]| {
        let mut command = bootscope("bench");
        command.arg("--kernel").arg(kernel(&scratch)).args(["--vary", "vmm=cloud-hypervisor", "-o"]).arg(&into);
        command.args(options);
        command
    };
    run(&mut bench(&["--deterministic"])).refuses(&["vmm=cloud-hypervisor", "--deterministic", "--vmm qemu"]);
    run(&mut bench(&["--machine", "microvm"])).refuses(&["vmm=cloud-hypervisor", "--machine microvm", "leave it out"]);
    assert!(!into.exists());
}

#[test]
fn one_kernel_is_compared_in_two_vmms() {
    let Some(program) = std::env::var_os("BOOTSCOPE_TEST_CLOUD_HYPERVISOR").filter(|path| !path.is_empty()) else {
        println!("SKIPPED: BOOTSCOPE_TEST_CLOUD_HYPERVISOR names no cloud-hypervisor");
        return;
    };
    if let Err(why) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        println!("SKIPPED: /dev/kvm cannot be opened: {why}");
        return;
    }
    let scratch = Scratch::new();
    let (into, image) = (scratch.path("bench"), scratch.path("kernel"));
    fs::write(&image, small::guest("up\n", &[])).unwrap();
    let mut command = bootscope("bench");
    command.args(["--vmm", "qemu", "--accel", "kvm", "--memory", "64M", "--until", "up", "--runs", "6", "--json"]);
    command.arg("--vary").arg(format!("vmm={}", Path::new(&program).display())).arg("--kernel").arg(&image);
    let ran = run(command.args(["--no-history", "-o"]).arg(&into));
    let document = ran.json();
    let boots = document["boots"].as_array().unwrap();
    let variants = document["variants"].as_array().unwrap();
    println!("{}", serde_json::to_string(&document["comparisons"]).unwrap());
    assert_eq!((variants.len(), boots.len()), (2, 14), "{}", ran.stderr);
    assert!(boots.iter().all(|boot| boot["outcome"] == "reached"), "{boots:?}");
    assert!(ran.stderr.contains("own process 1"), "{}", ran.stderr);
}
