//! 64-bit POWER machines of either byte order: QEMU's `pseries`.

use super::super::{Arch, image};
use super::{arch, is_big, is_elf_for, tiny_init};

/// EM_PPC64
const ELF_MACHINE: u16 = 21;

pub(in super::super) static ARCH: Arch = arch(
    &::arch::ppc64::FACTS,
    cfg!(target_arch = "powerpc64"),
    |head| tiny_init::ppc64(is_big(head)),
    check_image,
    image::release_of,
);

/// Checks that a VMM can start the file. The error describes the file's actual format.
fn check_image(head: &[u8]) -> Result<(), &'static str> {
    match head {
        [] => Err("it is empty"),
        _ if is_elf_for(head, ELF_MACHINE) => Ok(()),
        _ => Err("it is no ELF image for POWER of 64 bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of an ELF file of 64 bits in this byte order, for this machine.
    fn elf(order: u8, machine: u8) -> Vec<u8> {
        let machine = if order == 2 { [0, machine] } else { [machine, 0] };
        [&b"\x7fELF\x02"[..], &[order, 1], &[0; 11], &machine].concat()
    }

    #[test]
    fn images_are_recognized() {
        assert_eq!(check_image(&elf(1, 21)), Ok(()));
        assert_eq!(check_image(&elf(2, 21)), Ok(()));
        assert!(check_image(&elf(1, 62)).is_err() && check_image(b"hello").is_err() && check_image(b"").is_err());
    }
}
