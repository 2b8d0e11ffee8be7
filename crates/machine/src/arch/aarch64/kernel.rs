//! Kernel images of arm64: which of them a VMM can start, and their release.

use std::borrow::Cow;

use memchr::memmem;

use crate::packed;

/// No kernel is longer, unpacked.
pub(super) const IMAGE_BYTES_MAX: u64 = 256 << 20;
/// Documentation/arch/arm64/booting.rst: the header's magic number.
const MAGIC: &[u8] = b"ARM\x64";
const MAGIC_AT: usize = 0x38;
/// What Linux prints first; the release follows.
const BANNER: &[u8] = b"Linux version ";

/// What a VMM can start: an Image, as it is or compressed by gzip; else what it is.
pub(super) fn kernel_kind(head: &[u8]) -> Result<(), &'static str> {
    match head {
        _ if is_image(head) => Ok(()),
        [] => Err("it is empty"),
        [0x1f, 0x8b, ..] if is_image(&packed::gzip_begin(head, MAGIC_AT + MAGIC.len())) => Ok(()),
        [0x1f, 0x8b, ..] => Err("it is gzip-compressed, and what is in it is no arm64 Image"),
        [b'M', b'Z', _, _, b'z', b'i', b'm', b'g', ..] => {
            Err("it is an EFI zboot image, which unpacks itself under UEFI only: give the Image that is in it")
        }
        [0x7f, b'E', b'L', b'F', ..] => Err("it is an ELF image: for arm64, give the Image that is built with it"),
        _ => Err("it has no header of an arm64 Image"),
    }
}

fn is_image(head: &[u8]) -> bool {
    head.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// The release of an Image, such as `6.1.0-50-cloud-arm64`: by what it would print.
pub(super) fn release(image: &[u8]) -> Option<String> {
    let image = match image {
        [0x1f, 0x8b, ..] => Cow::Owned(packed::content(image, IMAGE_BYTES_MAX).ok()?.0),
        _ => Cow::Borrowed(image),
    };
    let release = |at: usize| {
        let text = image[at + BANNER.len()..].split(|&b| b == b' ').next()?;
        let plain = text.first()?.is_ascii_digit() && text.len() < 100 && text.iter().all(u8::is_ascii_graphic);
        plain.then(|| String::from_utf8_lossy(text).into_owned())
    };
    is_image(&image).then(|| memmem::find_iter(&image, BANNER).find_map(release))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    fn image() -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(MAGIC);
        image.extend(b"Linux version %s (%s)\nLinux version 6.1.0-50-cloud-arm64 (debian-kernel@x) #1\n");
        image
    }

    #[test]
    fn an_image_is_told_from_what_is_none_also_compressed() {
        let zipped = packed(&image(), "gzip", &["-c"]);
        for good in [&image(), &zipped] {
            assert_eq!(kernel_kind(good), Ok(()));
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
            assert!(kernel_kind(bad).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn a_release_is_what_linux_would_print() {
        assert_eq!(release(&image()).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&packed(&image(), "gzip", &["-c"])).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&image()[0x40..]), None, "no header");
        assert_eq!(release(&image()[..4096]), None, "no banner");
        assert_eq!(release(b"\x1f\x8b\x08"), None);
    }
}
