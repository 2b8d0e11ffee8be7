//! IBM Z machines: QEMU's `s390-ccw-virtio`.

use memchr::memmem;

use super::super::Arch;
use super::{arch, is_elf_for, tiny_init};

/// The mark of an image that a loader enters itself (arch/s390/boot/head.S).
const MARK: &[u8] = b"S390EP";
const MARK_AT: usize = 0x1_0008;
/// EM_S390
const ELF_MACHINE: u16 = 22;
/// Longest release.
const MAX_RELEASE_BYTES: usize = 100;

pub(in super::super) static ARCH: Arch =
    arch(&::arch::s390x::FACTS, cfg!(target_arch = "s390x"), |_| tiny_init::s390x(), check_image, release);

/// Checks that a VMM can start the file. The error describes the file's actual format.
fn check_image(head: &[u8]) -> Result<(), &'static str> {
    match head {
        [] => Err("it is empty"),
        _ if head.get(MARK_AT..MARK_AT + MARK.len()) == Some(MARK) || is_elf_for(head, ELF_MACHINE) => Ok(()),
        _ => Err("it has no mark of a kernel for s390x"),
    }
}

/// The release, from the text that the decompressor has for messages: `6.1.0-50-s390x (debian-kernel@lists.debian.org) #1 SMP …`.
fn release(image: &[u8]) -> Option<String> {
    memmem::find_iter(image, b") #").find_map(|end| {
        let line = &image[..end];
        let begins = line.iter().rposition(|byte| *byte == 0)? + 1;
        let release = line[begins..].split(|byte| *byte == b' ').next()?;
        let is_release = release.len() < MAX_RELEASE_BYTES && release.first().is_some_and(u8::is_ascii_digit);
        let is_plain = release.contains(&b'.') && release.iter().all(u8::is_ascii_graphic);
        (is_release && is_plain).then(|| String::from_utf8_lossy(release).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognized_and_their_release_is_read() {
        let mut image = vec![0; MARK_AT + 100];
        assert!(check_image(&image).is_err() && check_image(b"").is_err());
        image[MARK_AT..MARK_AT + MARK.len()].copy_from_slice(MARK);
        assert_eq!(check_image(&image), Ok(()));
        assert_eq!(release(&image), None);
        image.extend(b"\0(x) #\x006.1.0-50-s390x (debian-kernel@lists.debian.org) #1 SMP Debian\0");
        assert_eq!(release(&image).as_deref(), Some("6.1.0-50-s390x"));
        let elf = b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16";
        assert_eq!(check_image(elf), Ok(()));
    }
}
