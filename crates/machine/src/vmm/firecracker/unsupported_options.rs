//! Refuses options that Firecracker does not support, each with the alternative. It starts no program.

use recording::{Init, Until};

use super::NAME;
use crate::image::{disk_format, head};
use crate::vmm::unsupported_options::{disks, refuse, refuse_qemu_options};
use crate::{Error, RecordOptions};

/// The value of `--vmm`.
const OPTION: &str = "firecracker";

/// Checks that Firecracker supports all options of a recording.
///
/// # Errors
/// The first option that it does not support.
pub(crate) fn check(options: &RecordOptions) -> Result<(), Error> {
    refuse_qemu_options(options, NAME, OPTION)?;
    let guest = &options.guest;
    refuse(
        OPTION,
        &[
            (
                guest.init == Init::Guest,
                "--init guest",
                "Firecracker gives bootscope's process 1 no way for its messages; use --init keep, and the guest's own runs",
            ),
            (guest.workload.is_some(), "--workload", "it needs bootscope's process 1; use --vmm qemu"),
            (
                matches!(guest.until, Until::Process(_)),
                "--until process:",
                "bootscope cannot read its guest's memory; use a line of the console",
            ),
            (
                guest.until == Until::PowerOff,
                "--until power-off",
                "its guests end by a reset; use --until 'reboot: Restarting system', which Linux prints before it",
            ),
            (
                guest.kernel.is_none(),
                "no --kernel",
                "Firecracker starts a kernel and no disk; give an ELF image (vmlinux)",
            ),
        ],
    )?;
    if let Some(kernel) = &guest.kernel {
        let what = format!("--kernel {}", kernel.display());
        const WHY: &str =
            "Firecracker starts ELF images; of a bzImage, the kernel's own scripts/extract-vmlinux makes one";
        refuse(OPTION, &[(!head(kernel)?.starts_with(b"\x7fELF"), &what, WHY)])?;
    }
    for (disk, _) in disks(guest) {
        let what = disk.display().to_string();
        const WHY: &str = "it is no raw image; `qemu-img convert -O raw` makes one";
        refuse(OPTION, &[(disk_format(disk)? != "raw", &what, WHY)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{Accel, GuestSpec, ObserveSpec, VmmKind};

    #[test]
    fn unsupported_options_are_refused_with_what_to_do() {
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
        refuses(&|g, _| g.workload = Some("ls".to_owned()), "--workload", "--vmm qemu");
        refuses(&|g, _| g.until = Until::Tcp(22), "--until a port", "a line");
        refuses(&|g, _| g.until = Until::PowerOff, "--until power-off", "Restarting");
        refuses(&|g, _| g.until = Until::Process("x".to_owned()), "--until process:", "a line");
        refuses(&|g, _| g.kernel = None, "no --kernel", "vmlinux");
        refuses(&|g, _| g.kernel = Some(bzimage.clone()), "--kernel", "extract-vmlinux");
        refuses(&|g, _| g.disks = vec![qcow2.clone()], &qcow2.display().to_string(), "qemu-img convert");
    }
}
