//! Recognizes kernel images of a PC that a VMM can start, and reads the release from a bzImage's boot header.

/// The release of a bzImage, such as `6.1.0-47-cloud-amd64`.
pub(super) fn release(head: &[u8]) -> Option<String> {
    // Documentation/arch/x86/boot.rst: kernel_version, at 0x20e, is the offset of a string, less 0x200.
    if head.get(0x202..0x206) != Some(b"HdrS") {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(head.get(0x20e..0x210)?.try_into().ok()?)) + 0x200;
    let text = head.get(at..)?.split(|&b| b == 0 || b == b' ').next()?;
    let plain = !text.is_empty() && text.len() < 100 && text.iter().all(u8::is_ascii_graphic);
    plain.then(|| String::from_utf8_lossy(text).into_owned())
}

/// Checks that a VMM can start the file: it must be a bzImage, a multiboot kernel or an ELF image for x86. The error describes the file's
/// actual format.
pub(super) fn check_image(head: &[u8]) -> Result<(), &'static str> {
    // Documentation/arch/x86/boot.rst: boot sector signature, then "HdrS".
    let bzimage = head.get(0x1fe..0x200) == Some(&[0x55, 0xaa]) && head.get(0x202..0x206) == Some(b"HdrS");
    // Multiboot specification 0.6.96, 3.1.1: magic at a multiple of 4 in the first 8 KiB.
    let multiboot = head.chunks_exact(4).take(2048).any(|word| word == 0x1bad_b002_u32.to_le_bytes());
    match head {
        _ if bzimage || multiboot => Ok(()),
        [0x7f, b'E', b'L', b'F', ..] => elf_kind(head),
        [] => Err("it is empty"),
        [0x1f, 0x8b, ..] => Err("it is gzip-compressed, as kernels of other architectures are"),
        [b'M', b'Z', ..] => Err("it is an EFI program without a Linux boot header"),
        _ => Err("it has no Linux boot header"),
    }
}

fn elf_kind(head: &[u8]) -> Result<(), &'static str> {
    // e_machine: EM_386 or EM_X86_64.
    match head.get(18..20) {
        Some([3 | 62, 0]) => Ok(()),
        _ => Err("it is an ELF image for another architecture than x86"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(at: usize, bytes: &[u8], mut image: Vec<u8>) -> Vec<u8> {
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    }

    #[test]
    fn kernel_images_are_recognized() {
        let bzimage = with(0x202, b"HdrS", with(0x1fe, &[0x55, 0xaa], vec![0; 4096]));
        let multiboot = with(0x40, &0x1bad_b002_u32.to_le_bytes(), vec![0; 4096]);
        let elf = |machine| with(18, &[machine, 0], with(0, b"\x7fELF", vec![0; 64]));
        for good in [bzimage, multiboot, elf(62), elf(3)] {
            assert_eq!(check_image(&good), Ok(()));
        }
        let disk = with(0x1fe, &[0x55, 0xaa], vec![0; 4096]);
        for bad in [vec![], b"hello".to_vec(), vec![0x1f, 0x8b, 8], disk, elf(183)] {
            assert!(check_image(&bad).is_err());
        }
    }

    #[test]
    fn a_release_is_read_from_where_the_header_points() {
        let mut image = with(0x202, b"HdrS", vec![0; 8192]);
        assert_eq!(release(&image), None);
        image = with(0x20e, &[0x00, 0x10], image);
        image = with(0x1200, b"6.1.0-47-cloud-amd64 (debian-kernel@x) #1", image);
        assert_eq!(release(&image).as_deref(), Some("6.1.0-47-cloud-amd64"));
        assert_eq!(release(&with(0x20e, &[0xff, 0xff], image)), None);
    }
}
