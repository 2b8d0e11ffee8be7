//! Refuses options that Firecracker does not support, each with the alternative. It starts no program.

use recording::Field;

use crate::file_head::head;
use crate::image::disk_format;
use crate::option_table::Booter;
use crate::refusal::text;
use crate::vmm::unsupported_options::{disks, refuse_qemu_options};
use crate::{Error, RecordOptions};

/// Checks that Firecracker supports all options of a recording.
///
/// # Errors
/// The first option that it does not support.
pub(crate) fn check(options: &RecordOptions) -> Result<(), Error> {
    const BOOTER: Booter = Booter::Firecracker;
    refuse_qemu_options(options, BOOTER)?;
    let guest = &options.guest;
    let Some(kernel) = &guest.kernel else {
        let why = "Firecracker starts a kernel and no disk";
        return Err(Error::refused(Field::Kernel, why, text!["give an ELF image (vmlinux) with ", Field::Kernel]));
    };
    if !head(kernel)?.starts_with(b"\x7fELF") {
        let instead = "of a bzImage, the kernel's own scripts/extract-vmlinux makes one";
        return Err(BOOTER.refusal(Field::Kernel.is(kernel.display()), "Firecracker starts ELF images", instead));
    }
    for (disk, is_root) in disks(guest) {
        if disk_format(disk)? != "raw" {
            let field = if is_root { Field::Root } else { Field::Disks };
            let instead = "`qemu-img convert -O raw` makes one";
            return Err(BOOTER.refusal(field.is(disk.display()), "it is no raw image", instead));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{Accel, GuestSpec, Init, ObserveSpec, Target, Until, VmmKind};

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
            let target = Target::Vmm { kind: VmmKind::Firecracker, program: "firecracker".into() };
            RecordOptions::of(GuestSpec { target, init: Init::Keep, kernel: Some(elf.clone()), ..GuestSpec::default() })
        };
        check(&base()).unwrap();
        let refuses = |change: &dyn Fn(&mut GuestSpec, &mut ObserveSpec), named: &str, instead: &str| {
            let mut options = base();
            change(&mut options.guest, &mut options.observe);
            let error = check(&options).unwrap_err().to_string();
            assert!(
                error.starts_with(named) && error.contains(instead) && error.to_lowercase().contains("firecracker"),
                "{error}"
            );
        };
        refuses(&|g, _| g.arch = "aarch64".to_owned(), "arch=aarch64", "vmm=qemu");
        refuses(&|g, _| g.accel = Accel::Tcg, "accel=tcg", "leave it out");
        refuses(&|g, _| g.deterministic = true, "deterministic", "vmm=qemu");
        refuses(&|g, _| g.machine = "q35".to_owned(), "machine=q35", "leave it out");
        refuses(&|g, _| g.extra = vec!["-nic".to_owned()], "extra", "leave them out");
        refuses(&|g, _| g.init = Init::Guest, "init=guest", "init=keep");
        refuses(&|_, o| o.calls = true, "calls", "vmm=qemu");
        refuses(&|_, o| o.silence_ms = Some(100), "silence_ms", "vmm=qemu");
        refuses(&|g, _| g.dax = true, "dax", "vmm=qemu");
        refuses(&|g, _| g.workload = Some("ls".to_owned()), "workload", "vmm=qemu");
        refuses(&|g, _| g.until = Until::Tcp(22), "until=a port", "a line");
        refuses(&|g, _| g.until = Until::PowerOff, "until=power-off", "Restarting");
        refuses(&|g, _| g.until = Until::Process("x".to_owned()), "until=process:", "a line");
        refuses(&|g, _| g.kernel = None, "Firecracker starts a kernel", "vmlinux");
        refuses(&|g, _| g.kernel = Some(bzimage.clone()), "kernel=/", "extract-vmlinux");
        refuses(&|g, _| g.disks = vec![qcow2.clone()], &format!("disks={}", qcow2.display()), "qemu-img convert");
    }
}
