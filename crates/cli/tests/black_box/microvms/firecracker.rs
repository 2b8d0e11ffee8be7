//! The options of a boot in Firecracker that it cannot do, and how it is named. Nothing is started, so none need be there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::boots::Scratch;
use crate::support::{bootscope, run};

/// `record` under this VMM into this folder.
fn record(vmm: &Path, scratch: &Scratch) -> (Command, PathBuf) {
    let (kernel, into) = (scratch.path("kernel"), scratch.path("boot"));
    // As much of an ELF image for x86-64 as is looked at.
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(18, 0);
    elf.extend([62, 0]);
    elf.resize(64, 0);
    fs::write(&kernel, elf).unwrap();
    let mut command = bootscope("record");
    command.arg("--vmm").arg(vmm).arg("--kernel").arg(kernel).args(["--memory", "64M", "-o"]).arg(&into);
    (command, into)
}

#[test]
fn what_it_cannot_do_is_refused_before_it_is_looked_for() {
    let scratch = Scratch::new();
    let gone = Path::new("/nonexistent/firecracker");
    for (options, words) in [
        (&["--deterministic"][..], &["--deterministic", "--vmm qemu"][..]),
        (&["--trace", "calls"], &["--trace calls", "--vmm qemu"]),
        (&["--init", "guest"], &["--init guest", "--init keep"]),
        (&["--machine", "q35"], &["--machine q35", "leave it out"]),
        (&["--until", "tcp:22"], &["--until a port", "a line of the console"]),
        (&[], &["/nonexistent/firecracker is not there", "--vmm"]),
    ] {
        let (mut command, into) = record(gone, &scratch);
        run(command.args(options)).refuses(words);
        assert!(!into.exists());
    }
    let (mut command, _) = record(Path::new("bochs"), &scratch);
    run(&mut command).refuses(&["--vmm", "bochs", "qemu, firecracker, cloud-hypervisor"]);
    let (mut command, _) = record(gone, &scratch);
    run(command.args(["--qemu", "qemu-system-x86_64"])).refuses(&["--vmm", "--qemu", "cannot be used"]);
}
