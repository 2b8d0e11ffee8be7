//! Recognizes kernel images of 32-bit ARM that a VMM can start, and reads their release.
//!
//! A zImage is a program that unpacks the kernel at its end (arch/arm/boot/compressed/head.S):
//!
//! ```text
//! 0x24  the magic number 0x016f2818
//! 0x38  the offset of a table; it contains, after 0x5a534c4b,
//!       the offset of the unpacked kernel's length, which is the last word of the compressed kernel
//! ```
//! The header does not contain the start of the compressed kernel. It is found by the first bytes of its format.

use std::borrow::Cow;

use memchr::memmem;

use super::super::image;
use crate::packed::{self, Compression};

const MAGIC: &[u8] = &0x016f_2818_u32.to_le_bytes();
const MAGIC_AT: usize = 0x24;
/// The magic number for a CPU with big-endian code, which no machine of QEMU has.
const BIG_ENDIAN_MAGIC: &[u8] = &0x016f_2818_u32.to_be_bytes();
/// Largest number of possible starts of a compressed kernel that are tried.
const MAX_CANDIDATES: usize = 16;
/// The first bytes of compressed kernels in the supported formats: gzip, xz, LZMA with the kernel's parameters, LZ4.
const FORMAT_MAGICS: [&[u8]; 4] = [b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x5d\0\0\0\x04", b"\x02\x21\x4c\x18"];

/// Checks that a VMM can start the file, which must be a zImage. The error describes the file's actual format.
pub(super) fn check_image(head: &[u8]) -> Result<(), &'static str> {
    match (head, head.get(MAGIC_AT..MAGIC_AT + MAGIC.len())) {
        (_, Some(MAGIC)) => Ok(()),
        (_, Some(BIG_ENDIAN_MAGIC)) => Err("it is a zImage for big-endian CPUs"),
        ([], _) => Err("it is empty"),
        ([0x27, 0x05, 0x19, 0x56, ..], _) => Err("it is a uImage, made for U-Boot: give the zImage that is in it"),
        ([0x7f, b'E', b'L', b'F', ..], _) => {
            Err("it is an ELF image: for 32-bit ARM, give the zImage that is built with it")
        }
        _ => Err("it has no header of a zImage"),
    }
}

/// The kernel in its layout in memory, unpacked from a zImage.
pub(super) fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    check_image(image).ok()?;
    let mut places: Vec<usize> = FORMAT_MAGICS.iter().flat_map(|begins| memmem::find_iter(image, begins)).collect();
    places.sort_unstable();
    let unpacked = |at: usize| {
        let data = &image[at..];
        let is_supported = !matches!(Compression::of(data), Compression::No | Compression::Unknown);
        let (kernel, _) = is_supported.then(|| packed::content(data, image::MAX_IMAGE_BYTES).ok())??;
        // A smaller result is not the kernel: bytes in the unpacking program only looked like its start.
        (kernel.len() > data.len()).then_some(Cow::Owned(kernel))
    };
    places.into_iter().take(MAX_CANDIDATES).find_map(unpacked)
}

/// The release of a zImage, such as `6.1.0-50-armmp`.
pub(super) fn release(head: &[u8]) -> Option<String> {
    image::release_of(&plain(head)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// The first bytes of Debian's zImage, and a kernel compressed by the program `by`.
    fn zimage(by: &str) -> Vec<u8> {
        let mut image = 0xe1a0_0000_u32.to_le_bytes().repeat(9);
        image.extend(MAGIC);
        image.resize(4096, 0);
        // These bytes look like the start of gzip data, but are not.
        image.extend(b"\x1f\x8b\x08 unpacking");
        image.extend(packed(&kernel(), by, &["-c"]));
        image.extend((kernel().len() as u32).to_le_bytes());
        image
    }

    fn kernel() -> Vec<u8> {
        let mut kernel = vec![0; 1 << 16];
        kernel.extend(b"Linux version 6.1.0-50-armmp (debian-kernel@x) #1 SMP\n");
        kernel
    }

    #[test]
    fn zimages_are_recognized() {
        assert_eq!(check_image(&zimage("gzip")), Ok(()));
        assert_eq!(check_image(&zimage("gzip")[..0x28]), Ok(()));
        let mut big = zimage("gzip");
        big[MAGIC_AT..MAGIC_AT + 4].reverse();
        let arm64 = [&[0; 0x38][..], b"ARM\x64"].concat();
        for (bad, why) in [
            (&big[..], "big-endian"),
            (b"", "empty"),
            (b"\x27\x05\x19\x56", "uImage"),
            (b"\x7fELF\x01", "ELF"),
            (&arm64, "no header"),
            (&zimage("gzip")[..0x27], "no header"),
        ] {
            assert!(check_image(bad).unwrap_err().contains(why), "{why}");
            assert_eq!(release(bad), None, "{why}");
        }
    }

    #[test]
    fn the_release_is_read_from_the_kernel_in_a_zimage() {
        for by in ["gzip", "xz"] {
            let image = zimage(by);
            assert_eq!(plain(&image).as_deref(), Some(&*kernel()), "{by}");
            assert_eq!(release(&image).as_deref(), Some("6.1.0-50-armmp"), "{by}");
            assert_eq!(release(&image[..4200]), None, "cut: {by}");
        }
    }
}
