//! Kernel images of riscv64: which of them a VMM can start, and their release.

use std::borrow::Cow;

use super::super::image::Image;

pub(super) const IMAGE: Image = Image {
    // Documentation/arch/riscv/boot-image-header.rst: the second magic number, where that of arm64 is.
    magic: b"RSC\x05",
    magic_at: 0x38,
    no_header: "it has no header of a riscv64 Image",
    packed_without: "it is gzip-compressed, and what is in it is no riscv64 Image",
    is_elf: "it is an ELF image: for riscv64, give the Image that is built with it",
    // `R_RISCV_RELATIVE` (RISC-V ELF psABI).
    relative: 3,
    // A kernel is mapped by pages of 2 MiB.
    align: 2 << 20,
    // Below all of them, with the most bits (`PAGE_OFFSET_L5`).
    kernel_half: 0xff00_0000_0000_0000,
};

/// What a VMM can start; else what it is.
pub(super) fn kernel_kind(head: &[u8]) -> Result<(), &'static str> {
    IMAGE.kind(head)
}

/// An Image without compression.
pub(super) fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    IMAGE.plain(image)
}

/// The address that a kernel writes to this place of an Image when it moves itself, as linked.
pub(super) fn relocated(image: &[u8], at: usize) -> Option<u64> {
    IMAGE.relocated(image, at)
}

/// The release of an Image.
pub(super) fn release(image: &[u8]) -> Option<String> {
    IMAGE.release(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// The first bytes of Debian's Linux 7.2 for riscv64, and its banner.
    fn image() -> Vec<u8> {
        let mut image = b"MZ\x6f\x10\xe0\x0f\x01\0\0\0\x20\0\0\0\0\0".to_vec();
        image.resize(4096, 0);
        image[0x30..0x3c].copy_from_slice(b"RISCV\0\0\0RSC\x05");
        image.extend(b"Linux version 7.2.13+deb14-riscv64 (debian-kernel@x) #1\n");
        image
    }

    #[test]
    fn an_image_is_told_from_what_is_none_also_compressed() {
        let zipped = packed(&image(), "gzip", &["-c"]);
        for good in [&image(), &zipped] {
            assert_eq!(kernel_kind(good), Ok(()));
            assert_eq!(release(good).as_deref(), Some("7.2.13+deb14-riscv64"));
            assert_eq!(plain(good).as_deref(), Some(&*image()));
        }
        let mut arm = image();
        arm[0x30..0x3c].copy_from_slice(b"\0\0\0\0\0\0\0\0ARM\x64");
        for (bad, why) in [(&arm[..], "no header"), (&zipped[..8], "no riscv64 Image"), (b"\x7fELF\x02", "ELF")] {
            assert!(kernel_kind(bad).unwrap_err().contains(why), "{why}");
            assert_eq!(release(bad), None);
        }
    }

    #[test]
    fn what_a_kernel_writes_when_it_moves_is_in_its_relocations() {
        const START: u64 = 0xffff_ffff_8000_0000;
        let mut image = image();
        image.resize(8192, 0);
        for (place, kind, address) in [(0x100, 2, START + 0x2000), (0x100, 3, START + 0x2000)] {
            [START + place, kind, address].iter().for_each(|word: &u64| image.extend(word.to_le_bytes()));
        }
        assert_eq!(relocated(&image, 0x100), Some(START + 0x2000));
        assert_eq!(relocated(&image, 0x108), None);
        assert_eq!(relocated(&image[..image.len() - 24], 0x100), None, "of another kind");
    }
}
