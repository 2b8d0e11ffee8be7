//! What a boot asks for that Firecracker cannot do, each with what to do instead. Starts nothing.

use recording::{Accel, Init, Until};

use crate::image::{disk_format, head};
use crate::{Error, RecordOptions};

/// Says what Firecracker cannot do of what is asked for; what `arch` and `machine` are where nobody says one, is as for QEMU.
///
/// # Errors
/// If there is anything.
pub(crate) fn check(options: &RecordOptions) -> Result<(), Error> {
    let (guest, observe) = (&options.guest, &options.observe);
    let refused = |what: &str, why: &str| Err(Error::option(format!("{what} with --vmm firecracker: {why}")));
    let usual = crate::arch::of(guest);
    if !usual.is_hosts {
        return refused(
            &format!("--arch {}", guest.arch),
            "Firecracker runs only what this host's CPUs can; use --vmm qemu",
        );
    }
    if guest.accel == Accel::Tcg {
        return refused("--accel tcg", "Firecracker runs guests by KVM alone; leave it out, or use --vmm qemu");
    }
    if guest.deterministic {
        return refused("--deterministic", "only QEMU counts instructions; use --vmm qemu");
    }
    if guest.machine != usual.machine {
        return refused(&format!("--machine {}", guest.machine), "Firecracker has one machine; leave it out");
    }
    if !guest.extra.is_empty() {
        return refused("arguments behind --", "they are QEMU's; leave them out (--lab has some too: use --vmm qemu)");
    }
    if guest.init == Init::Guest {
        return refused(
            "--init guest",
            "Firecracker gives bootscope's process 1 no way for its messages; use --init keep, and the guest's own runs",
        );
    }
    if observe.calls {
        return refused("--trace calls", "only QEMU's plugin follows calls; use --vmm qemu");
    }
    if observe.silence_ms.is_some() || observe.watch.is_some() || !guest.patches.is_empty() {
        return refused("--silence, --watch or --patch", "they stop vCPUs by QEMU's gdbstub; use --vmm qemu");
    }
    if guest.dax || guest.workload.is_some() {
        return refused("--dax or --workload", "they need bootscope's process 1; use --vmm qemu");
    }
    match &guest.until {
        Until::Tcp(_) | Until::Http(_) => {
            return refused("--until a port or page", "bootscope gives it no network; use a line of the console");
        }
        Until::Process(_) => {
            return refused("--until process:", "bootscope cannot read its guest's memory; use a line of the console");
        }
        Until::PowerOff => {
            return refused(
                "--until power-off",
                "its guests end by a reset; use --until 'reboot: Restarting system', which Linux prints before it",
            );
        }
        Until::Init | Until::Regex(_) | Until::Unit(_) => {}
    }
    let Some(kernel) = &guest.kernel else {
        return refused("no --kernel", "Firecracker starts a kernel and no disk; give an ELF image (vmlinux)");
    };
    if !head(kernel)?.starts_with(b"\x7fELF") {
        return refused(
            &format!("--kernel {}", kernel.display()),
            "Firecracker starts ELF images; of a bzImage, the kernel's own scripts/extract-vmlinux makes one",
        );
    }
    for disk in guest.disks.iter().chain(&guest.root) {
        if disk_format(disk)? != "raw" {
            let path = disk.display();
            return refused(&format!("{path}"), "it is no raw image; `qemu-img convert -O raw` makes one");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{GuestSpec, ObserveSpec, VmmKind};

    #[test]
    fn what_firecracker_cannot_do_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let mut bzimage = vec![0; 4096];
        bzimage[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        bzimage[0x202..0x206].copy_from_slice(b"HdrS");
        let (bzimage, elf) = (file("bzImage", &bzimage), file("vmlinux", b"\x7fELF"));
        let qcow2 = file("disk.qcow2", b"QFI\xfb");
        let base = || {
            let (vmm, init) = (VmmKind::Firecracker, Init::Keep);
            RecordOptions::of(GuestSpec { vmm, init, kernel: Some(elf.clone()), ..GuestSpec::default() })
        };
        check(&base()).unwrap();
        let refuses = |change: &dyn Fn(&mut GuestSpec, &mut ObserveSpec), named: &str, instead: &str| {
            let mut options = base();
            change(&mut options.guest, &mut options.observe);
            let error = check(&options).unwrap_err().to_string();
            assert!(error.starts_with(named) && error.contains(instead) && error.contains("firecracker"), "{error}");
        };
        refuses(&|g, _| g.arch = "aarch64".to_owned(), "--arch aarch64", "--vmm qemu");
        refuses(&|g, _| g.accel = Accel::Tcg, "--accel tcg", "leave it out");
        refuses(&|g, _| g.deterministic = true, "--deterministic", "--vmm qemu");
        refuses(&|g, _| g.machine = "q35".to_owned(), "--machine q35", "leave it out");
        refuses(&|g, _| g.extra = vec!["-nic".to_owned()], "arguments", "leave them out");
        refuses(&|g, _| g.init = Init::Guest, "--init guest", "--init keep");
        refuses(&|_, o| o.calls = true, "--trace calls", "--vmm qemu");
        refuses(&|_, o| o.silence_ms = Some(100), "--silence", "--vmm qemu");
        refuses(&|g, _| g.dax = true, "--dax", "--vmm qemu");
        refuses(&|g, _| g.until = Until::Tcp(22), "--until a port", "a line");
        refuses(&|g, _| g.until = Until::PowerOff, "--until power-off", "Restarting");
        refuses(&|g, _| g.until = Until::Process("x".to_owned()), "--until process:", "a line");
        refuses(&|g, _| g.kernel = None, "no --kernel", "vmlinux");
        refuses(&|g, _| g.kernel = Some(bzimage.clone()), "--kernel", "extract-vmlinux");
        refuses(&|g, _| g.disks = vec![qcow2.clone()], &qcow2.display().to_string(), "qemu-img convert");
    }
}
