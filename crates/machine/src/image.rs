//! Checks of the user's files: kinds of kernels, formats of disks, hashes. Only reads.

use std::path::Path;

use recording::{Input, InputRole, open_disk};

use crate::arch::{self, Arch};
use crate::file_head::{first, head};
use crate::hash::hash;
use crate::refusal::text;
use crate::{Error, initrd, kernel_file, kernel_image};
use recording::Field;

/// Fails unless the file can be opened and is no folder.
pub(crate) fn check_readable(path: &Path) -> Result<(), Error> {
    head(path).map(drop)
}

/// Fails unless a VMM can start the file without a boot loader.
pub(crate) fn check_kernel(arch: &Arch, path: &Path) -> Result<(), Error> {
    let head = kernel_file::head(path)?;
    match ((arch.check_kernel)(&head), arch::of_kernel(&head)) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(its)) => {
            let why =
                format!("{} is a kernel for {}, and the guest is {}", path.display(), its.facts.name, arch.facts.name);
            Err(Error::refused(Field::Arch, why, text!["leave out ", Field::Arch]))
        }
        (Err(found), None) => Err(Error::NotAKernel { path: path.to_path_buf(), found: found.to_owned() }),
    }
}

/// Returns an inner error with the reason if a kernel cannot unpack the file as an initial RAM file system.
pub(crate) fn check_initrd(path: &Path) -> Result<Result<(), &'static str>, Error> {
    Ok(initrd_kind(&head(path)?))
}

/// Fails unless the file is a device tree that a loader accepts (Devicetree Specification, 5.2).
pub(crate) fn check_device_tree(path: &Path) -> Result<(), Error> {
    match head(path)?.starts_with(b"\xd0\x0d\xfe\xed") {
        true => Ok(()),
        false => {
            let why = text![Field::Dtb, format!(": {} is no device tree", path.display())];
            Err(Error::refused(Field::Dtb, why, "give a .dtb file, as the kernel's build makes it"))
        }
    }
}

/// The release of a Linux kernel, such as `6.1.0-47-cloud-amd64`, if its image contains it.
pub(crate) fn linux_release(arch: &Arch, path: &Path) -> Result<Option<String>, Error> {
    Ok((arch.linux_release)(&first(path, arch.release_bytes_max)?))
}

/// The usual name of a disk image's format. Only a known magic number is trusted: the guest can write a raw image, which must not be taken
/// for another format.
pub(crate) fn disk_format(path: &Path) -> Result<&'static str, Error> {
    Ok(match head(path)?.get(..4) {
        Some(b"QFI\xfb") => "qcow2",
        _ => "raw",
    })
}

/// The file's entry in the manifest. A disk is not hashed, because hashing it could take longer than the boot.
pub(crate) fn input(role: InputRole, path: &Path, hashed: bool) -> Result<Input, Error> {
    let mut file = open_disk(path).map_err(Error::unreadable(path))?;
    let bytes = file.metadata().map_err(Error::unreadable(path))?.len();
    let mut sha256 = String::new();
    if hashed {
        sha256 = hash(&mut file).map_err(Error::unreadable(path))?;
    }
    let compression = match role {
        InputRole::Kernel => kernel_image::compressed_with(file),
        InputRole::Initrd => initrd::compressed_with(file),
        _ => Ok(None),
    };
    let compression = compression.map_err(Error::unreadable(path))?.unwrap_or_default().to_owned();
    Ok(Input { role: role.as_str().to_owned(), path: path.display().to_string(), bytes, sha256, compression })
}

fn initrd_kind(head: &[u8]) -> Result<(), &'static str> {
    // Zeros may lie before an archive, and between two.
    let padding = head.iter().take_while(|&&byte| byte == 0).count();
    match &head[padding..] {
        [] => Err("it is empty"),
        // Documentation/driver-api/early-userspace/buffer-format.rst.
        [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => Ok(()),
        [b'0', b'7', b'0', b'7', b'0', b'7', ..] => Err("it is a cpio archive of the old format, not of `newc`"),
        // The kernel's lib/decompress.c: gzip (twice), bzip2, lzma, xz, lzo, lz4, zstd. Only the kernel can check the content.
        [0x1f, 0x8b | 0x9e, ..] | [0x42, 0x5a, ..] | [0x5d, 0, ..] | [0xfd, 0x37, ..] => Ok(()),
        [0x89, 0x4c, ..] | [0x02, 0x21, ..] | [0x28, 0xb5, ..] => Ok(()),
        _ => Err("it is neither a cpio archive nor compressed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initrd_is_an_archive_or_compressed() {
        for good in
            [&b"070701003"[..], b"\x00\x00\x00\x00070702", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh9"]
        {
            assert_eq!(initrd_kind(good), Ok(()), "{good:?}");
        }
        for (bad, why) in
            [(&b""[..], "empty"), (&[0; 512], "empty"), (b"070707", "old format"), (b"#!/bin/sh", "neither")]
        {
            assert!(initrd_kind(bad).unwrap_err().contains(why), "{bad:?}");
        }
    }

    #[test]
    fn a_hash_is_the_known_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let entry = input(InputRole::Kernel, &path, true).unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((entry.bytes, entry.sha256.as_str()), (3, known));
        assert_eq!(input(InputRole::Disk, &path, false).unwrap().sha256, "");
    }
}
