//! Kernel images of 32-bit ARM: which of them a VMM can start, and their release.
//!
//! A zImage is a program that unpacks the kernel in its own end (arch/arm/boot/compressed/head.S):
//!
//! ```text
//! 0x24  0x016f2818, by which a loader knows it
//! 0x38  where a table of further facts lies; in it, behind 0x5a534c4b:
//!       where the unpacked kernel's length lies, which is the compressed kernel's last word
//! ```
//! Where the compressed kernel begins is not said. Its format's first bytes say it.

use std::borrow::Cow;

use memchr::memmem;

use super::super::image;
use crate::packed::{self, Compression};

const MAGIC: &[u8] = &0x016f_2818_u32.to_le_bytes();
const MAGIC_AT: usize = 0x24;
/// The same on a CPU whose code is big-endian: QEMU's machines have none.
const MAGIC_OF_BIG_ENDIAN: &[u8] = &0x016f_2818_u32.to_be_bytes();
/// So many places that look like the beginning of a compressed kernel are tried.
const PLACES_MAX: usize = 16;
/// How compressed kernels begin that are read here (gzip, xz, LZMA with the kernel's parameters, LZ4).
const BEGINNINGS: [&[u8]; 4] = [b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x5d\0\0\0\x04", b"\x02\x21\x4c\x18"];

/// What a VMM can start, a zImage; else what it is.
pub(super) fn kernel_kind(head: &[u8]) -> Result<(), &'static str> {
    match (head, head.get(MAGIC_AT..MAGIC_AT + MAGIC.len())) {
        (_, Some(MAGIC)) => Ok(()),
        (_, Some(MAGIC_OF_BIG_ENDIAN)) => Err("it is a zImage for big-endian CPUs"),
        ([], _) => Err("it is empty"),
        ([0x27, 0x05, 0x19, 0x56, ..], _) => Err("it is a uImage, made for U-Boot: give the zImage that is in it"),
        ([0x7f, b'E', b'L', b'F', ..], _) => {
            Err("it is an ELF image: for 32-bit ARM, give the zImage that is built with it")
        }
        _ => Err("it has no header of a zImage"),
    }
}

/// The kernel as it lies in memory, out of a zImage.
pub(super) fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    kernel_kind(image).ok()?;
    let mut places: Vec<usize> = BEGINNINGS.iter().flat_map(|begins| memmem::find_iter(image, begins)).collect();
    places.sort_unstable();
    let unpacked = |at: usize| {
        let data = &image[at..];
        let known = !matches!(Compression::of(data), Compression::No | Compression::Unknown);
        let (kernel, _) = known.then(|| packed::content(data, image::IMAGE_BYTES_MAX).ok())??;
        // Less is no kernel: something in the program that unpacks only looked like its beginning.
        (kernel.len() > data.len()).then_some(Cow::Owned(kernel))
    };
    places.into_iter().take(PLACES_MAX).find_map(unpacked)
}

/// The release of a zImage, such as `6.1.0-50-armmp`.
pub(super) fn release(head: &[u8]) -> Option<String> {
    image::release_of(&plain(head)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// The first bytes of Debian's zImage, and behind the program that unpacks it a kernel, packed by this.
    fn zimage(by: &str) -> Vec<u8> {
        let mut image = 0xe1a0_0000_u32.to_le_bytes().repeat(9);
        image.extend(MAGIC);
        image.resize(4096, 0);
        // Nothing that is packed by gzip: only its beginning.
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
    fn a_zimage_is_told_from_what_is_none() {
        assert_eq!(kernel_kind(&zimage("gzip")), Ok(()));
        assert_eq!(kernel_kind(&zimage("gzip")[..0x28]), Ok(()));
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
            assert!(kernel_kind(bad).unwrap_err().contains(why), "{why}");
            assert_eq!(release(bad), None, "{why}");
        }
    }

    #[test]
    fn the_kernel_in_a_zimage_says_its_release() {
        for by in ["gzip", "xz"] {
            let image = zimage(by);
            assert_eq!(plain(&image).as_deref(), Some(&*kernel()), "{by}");
            assert_eq!(release(&image).as_deref(), Some("6.1.0-50-armmp"), "{by}");
            assert_eq!(release(&image[..4200]), None, "cut: {by}");
        }
    }
}
