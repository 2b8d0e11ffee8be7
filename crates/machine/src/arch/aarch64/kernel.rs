//! Recognizes kernel images of arm64 that a VMM can start, and reads their release.

use std::borrow::Cow;

use super::super::image::Image;

pub(super) const IMAGE: Image = Image {
    // Documentation/arch/arm64/booting.rst
    magic: b"ARM\x64",
    magic_offset: 0x38,
    header_error: "it has no header of an arm64 Image",
    gzip_error: "it is gzip-compressed, and what is in it is no arm64 Image",
    elf_error: "it is an ELF image: for arm64, give the Image that is built with it",
    // `R_AARCH64_RELATIVE` (ELF for the Arm 64-bit Architecture).
    relative: 1027,
    // `MIN_KIMG_ALIGN`
    align: 2 << 20,
    // `PAGE_OFFSET` with 52 address bits.
    kernel_half: 0xfff0_0000_0000_0000,
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

    fn image() -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[IMAGE.magic_offset..IMAGE.magic_offset + 4].copy_from_slice(IMAGE.magic);
        image.extend(b"Linux version %s (%s)\nLinux version 6.1.0-50-cloud-arm64 (debian-kernel@x) #1\n");
        image
    }

    #[test]
    fn images_are_recognized_also_compressed() {
        let zipped = packed(&image(), "gzip", &["-c"]);
        for good in [&image(), &zipped] {
            assert_eq!(check_image(good), Ok(()));
        }
        let zboot = [&b"MZ\0\0zimg"[..], &[0; 100]].concat();
        let other = packed(b"hello", "gzip", &["-c"]);
        for (bad, why) in [
            (&b""[..], "empty"),
            (b"hello", "no header"),
            (&zboot, "zboot"),
            (&other, "no arm64 Image"),
            (&zipped[..8], "no arm64 Image"),
            (b"\x7fELF\x02", "ELF"),
        ] {
            assert!(check_image(bad).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn relocated_addresses_are_read_from_the_relocations() {
        const START: u64 = 0xffff_8000_0800_0000;
        let mut image = image();
        image.resize(8192, 0);
        // A relocation of another place, one outside the kernel's first part, one of another type, and the wanted one.
        const TEXT: u64 = START + 0x1_0000;
        let entries = [(0x40, 1027, TEXT), (0x100, 1027, START + IMAGE.align), (0x100, 257, TEXT), (0x100, 1027, TEXT)];
        for (place, kind, address) in entries {
            [START + place, kind, address].iter().for_each(|word| image.extend(word.to_le_bytes()));
        }
        assert_eq!(relocated(&image, 0x100), Some(TEXT));
        assert_eq!(relocated(&image, 0x108), None);
        assert_eq!(relocated(&image[..image.len() - 1], 0x100), None, "cut");
        assert_eq!(relocated(&image[8..], 0x100), None, "no Image");
        assert_eq!(plain(&image).as_deref(), Some(&*image));
        assert_eq!(plain(&packed(&image, "gzip", &["-c"])).as_deref(), Some(&*image));
        assert!(plain(b"\x1f\x8b").is_none() && plain(b"").is_none());
    }

    #[test]
    fn a_release_is_read_from_the_banner() {
        assert_eq!(release(&image()).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&packed(&image(), "gzip", &["-c"])).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&image()[0x40..]), None, "no header");
        assert_eq!(release(&image()[..4096]), None, "no banner");
        assert_eq!(release(b"\x1f\x8b\x08"), None);
    }
}
