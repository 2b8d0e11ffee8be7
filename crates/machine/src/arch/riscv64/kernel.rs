//! Recognizes kernel images of riscv64 that a VMM can start, and reads their release.

use std::borrow::Cow;

use super::super::image::Image;

pub(super) const IMAGE: Image = Image {
    // Documentation/arch/riscv/boot-image-header.rst: the second magic number, at the offset of arm64's.
    magic: b"RSC\x05",
    magic_offset: 0x38,
    header_error: "it has no header of a riscv64 Image",
    gzip_error: "it is gzip-compressed, and what is in it is no riscv64 Image",
    elf_error: "it is an ELF image: for riscv64, give the Image that is built with it",
    // `R_RISCV_RELATIVE` (RISC-V ELF psABI).
    relative: 3,
    // A kernel is mapped by pages of 2 MiB.
    align: 2 << 20,
    // The lowest of all, with the most address bits (`PAGE_OFFSET_L5`).
    kernel_half: 0xff00_0000_0000_0000,
};

/// Checks that a VMM can start the file. The error describes the file's actual format.
pub(super) fn check_image(head: &[u8]) -> Result<(), &'static str> {
    IMAGE.check(head)
}

/// The Image in uncompressed form.
pub(super) fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    IMAGE.plain(image)
}

/// The address, as linked, that a kernel writes to this offset of its Image when it relocates itself.
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
    fn images_are_recognized_also_compressed() {
        let zipped = packed(&image(), "gzip", &["-c"]);
        for good in [&image(), &zipped] {
            assert_eq!(check_image(good), Ok(()));
            assert_eq!(release(good).as_deref(), Some("7.2.13+deb14-riscv64"));
            assert_eq!(plain(good).as_deref(), Some(&*image()));
        }
        let mut arm = image();
        arm[0x30..0x3c].copy_from_slice(b"\0\0\0\0\0\0\0\0ARM\x64");
        for (bad, why) in [(&arm[..], "no header"), (&zipped[..8], "no riscv64 Image"), (b"\x7fELF\x02", "ELF")] {
            assert!(check_image(bad).unwrap_err().contains(why), "{why}");
            assert_eq!(release(bad), None);
        }
    }

    #[test]
    fn relocated_addresses_are_read_from_the_relocations() {
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
