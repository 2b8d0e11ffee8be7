//! Options of a boot that Firecracker cannot do, and the ways to name it. No VMM is started, so none must be installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::boots::Scratch;
use crate::support::{bootscope, run};

/// `record` with this VMM into this folder.
fn record(vmm: &Path, scratch: &Scratch) -> (Command, PathBuf) {
    let (kernel, into) = (scratch.path("kernel"), scratch.path("boot"));
    // The part of an ELF image for x86-64 that is checked.
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
fn unsupported_options_are_refused_before_the_vmm_is_searched() {
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
