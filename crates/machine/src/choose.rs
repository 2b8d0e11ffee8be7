//! Chooses a guest's architecture by its kernel, if the user does not name it.

use std::path::PathBuf;

use recording::{GuestSpec, Target};

use crate::{Error, arch, kernel_file};

/// Sets the guest's architecture: the one named, or the one that its kernel image declares. A change of architecture also changes the VMM's
/// program and the machine.
///
/// If the kernel file does not exist yet, nothing changes: a range builds it, and the boot reports a missing file.
///
/// # Errors
/// If the kernel exists and cannot be read.
pub fn choose_arch(guest: &mut GuestSpec, name: Option<&str>) -> Result<(), Error> {
    let found = match (name, &guest.kernel) {
        (Some(name), _) => Some(name),
        (None, Some(kernel)) if !kernel.exists() => None,
        (None, Some(kernel)) => arch::of_kernel(&kernel_file::head(kernel)?).map(|arch| arch.facts.name),
        (None, None) => None,
    };
    let known = found.and_then(arch::named);
    let Some(name) = known.map(|arch| arch.facts.name).or(found).filter(|name| *name != guest.arch) else {
        return Ok(());
    };
    guest.arch = name.to_owned();
    if let Some(arch) = known {
        guest.machine = arch.facts.qemu.machine.to_owned();
        if guest.target.is_qemu() {
            guest.target = Target::qemu(arch.facts.qemu.program);
        }
    }
    Ok(())
}

/// The QEMU program for guests of this architecture.
#[must_use]
pub fn usual_program(guest: &GuestSpec) -> PathBuf {
    arch::of(guest).facts.qemu.program.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_s_own_header_chooses_the_architecture() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = |name: &str, at: usize, magic: &[&[u8]]| {
            let mut image = vec![0; 4096];
            let magic = magic.concat();
            image[at..at + magic.len()].copy_from_slice(&magic);
            let path = dir.path().join(name);
            std::fs::write(&path, image).unwrap();
            Some(path)
        };
        let zimage = kernel("zImage", 0x24, &[b"\x18\x28\x6f\x01"]);
        let mut arm32 = GuestSpec { kernel: zimage, ..GuestSpec::default() };
        choose_arch(&mut arm32, None).unwrap();
        assert_eq!((&*arm32.arch, &*arm32.machine), ("arm", "virt,highmem=off"));
        assert_eq!(arm32.target, Target::qemu("qemu-system-arm"));
        let board = GuestSpec { machine: "sabrelite".to_owned(), ..arm32 };
        assert_eq!(arch::of(&board).console(&board), "ttymxc1");
        let (arm, pc) = (kernel("Image", 0x38, &[b"ARM\x64"]), kernel("bzImage", 0x1fe, &[b"\x55\xaa\0\0HdrS"]));
        let mut guest = GuestSpec { kernel: arm, ..GuestSpec::default() };
        choose_arch(&mut guest, None).unwrap();
        assert_eq!(
            (&*guest.arch, arch::of(&guest).facts.linux.console, &*guest.machine),
            ("aarch64", "ttyAMA0", "virt,gic-version=max")
        );
        assert_eq!(guest.target, Target::qemu("qemu-system-aarch64"));
        guest.machine = "sbsa-ref".to_owned();
        choose_arch(&mut guest, None).unwrap();
        assert_eq!(guest.machine, "sbsa-ref", "what is so already is left as it is");
        let like = GuestSpec { kernel: pc, ..guest };
        let mut guest = like.clone();
        choose_arch(&mut guest, None).unwrap();
        assert_eq!(guest, GuestSpec { kernel: like.kernel.clone(), ..GuestSpec::default() });
        choose_arch(&mut guest, Some("aarch64")).unwrap();
        assert_eq!(guest.arch, "aarch64", "it is the user's to say");
        choose_arch(&mut guest, Some("amd64")).unwrap();
        choose_arch(&mut guest, Some("arm64")).unwrap();
        assert_eq!(guest.arch, "aarch64", "as distributions call it");
        choose_arch(&mut guest, Some("vax")).unwrap();
        let refused = arch::check(&guest).unwrap_err().to_string();
        assert!(refused.contains("vax") && refused.contains("x86_64, aarch64, riscv64, arm"), "{refused}");
        let mut not_built = GuestSpec { kernel: Some("/nonexistent".into()), ..GuestSpec::default() };
        choose_arch(&mut not_built, None).unwrap();
        assert_eq!(not_built.arch, "x86_64");
        let folder = GuestSpec { kernel: Some(dir.path().to_owned()), ..GuestSpec::default() };
        let refused = choose_arch(&mut folder.clone(), None).unwrap_err().to_string();
        assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
    }
}
