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

/// `R_AARCH64_RELATIVE`: the address is that of the place, by as much moved as all are (ELF for the Arm 64-bit Architecture).
const RELATIVE: u64 = 1027;
/// What an Image is linked to a multiple of (`MIN_KIMG_ALIGN`).
const ALIGN: u64 = 2 << 20;
/// Addresses of a kernel begin there, with 52 bits of them (`PAGE_OFFSET`).
const KERNEL_HALF: u64 = 0xfff0_0000_0000_0000;

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

/// An Image without compression, which is the kernel as it lies in memory.
pub(super) fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    let image = match image {
        [0x1f, 0x8b, ..] if kernel_kind(image).is_ok() => Cow::Owned(packed::content(image, IMAGE_BYTES_MAX).ok()?.0),
        _ => Cow::Borrowed(image),
    };
    is_image(&image).then_some(image)
}

/// The address, in the kernel's first part, that it writes to this place of an Image when it moves itself, as linked.
///
/// A relocatable kernel has nothing in such places (`--no-apply-dynamic-relocs`), but an entry for each: the place's address, the
/// kind [`RELATIVE`], and what to write (`Elf64_Rela`). Where an Image is linked to, it does not say; but that is a multiple of
/// [`ALIGN`], and what is asked for lies less than that from there.
pub(super) fn relocated(image: &[u8], at: usize) -> Option<u64> {
    if !is_image(image) {
        return None;
    }
    let word = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    memmem::find_iter(image, &RELATIVE.to_le_bytes()).filter(|kind| kind % 8 == 0).find_map(|kind| {
        let (place, address) = (word(kind.checked_sub(8)?)?, word(kind + 8)?);
        let linked = place.checked_sub(at as u64).filter(|linked| *linked >= KERNEL_HALF && linked % ALIGN == 0)?;
        address.checked_sub(linked).is_some_and(|from_start| from_start < ALIGN).then_some(address)
    })
}

/// The release of an Image, such as `6.1.0-50-cloud-arm64`: by what it would print.
pub(super) fn release(image: &[u8]) -> Option<String> {
    let image = plain(image)?;
    let release = |at: usize| {
        let text = image[at + BANNER.len()..].split(|&b| b == b' ').next()?;
        let plain = text.first()?.is_ascii_digit() && text.len() < 100 && text.iter().all(u8::is_ascii_graphic);
        plain.then(|| String::from_utf8_lossy(text).into_owned())
    };
    memmem::find_iter(&image, BANNER).find_map(release)
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
    fn what_a_kernel_writes_when_it_moves_is_in_its_relocations() {
        const START: u64 = 0xffff_8000_0800_0000;
        let mut image = image();
        image.resize(8192, 0);
        // Of another place, of no address, of another kind, and the one that is asked for.
        const TEXT: u64 = START + 0x1_0000;
        let entries = [(0x40, 1027, TEXT), (0x100, 1027, START + ALIGN), (0x100, 257, TEXT), (0x100, 1027, TEXT)];
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
    fn a_release_is_what_linux_would_print() {
        assert_eq!(release(&image()).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&packed(&image(), "gzip", &["-c"])).as_deref(), Some("6.1.0-50-cloud-arm64"));
        assert_eq!(release(&image()[0x40..]), None, "no header");
        assert_eq!(release(&image()[..4096]), None, "no banner");
        assert_eq!(release(b"\x1f\x8b\x08"), None);
    }
}
