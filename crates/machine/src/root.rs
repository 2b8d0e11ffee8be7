//! A root file system in an image: recognises it, and finds what the guest needs to mount it.
//!
//! Without `dax` it is a virtio disk: the guest copies the data that it reads into its own memory. With `dax` it is virtio-pmem (QEMU's
//! docs/system/devices/virtio-pmem.rst): QEMU maps the file as memory of the machine, and the guest reads it there. It is no NVDIMM: Linux
//! has page structures, and so DAX, only for an NVDIMM with a header of Linux's own in front of the file system (`pmem_attach_disk` in
//! drivers/nvdimm/pmem.c). bootscope writes to no image: a disk is a snapshot, the memory is a private mapping.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use guest_init::config::Root;
use recording::{GuestSpec, open_disk};
use rustix::fs::{Access, access};

use crate::Error;
use crate::profile::GuestProfile;
use crate::refusal::{Text, text};
use recording::Field;

/// Linux maps persistent memory in sections of this size (include/linux/mmzone.h, SUBSECTION_SIZE).
const PMEM_ALIGN_BYTES: u64 = 2 << 20;
/// DAX maps whole pages.
const PAGE_BYTES: u64 = 4096;

/// Checks `root`, `dax` and `workload`.
pub(crate) fn check(options: &GuestSpec, profile: &GuestProfile) -> Result<(), Error> {
    let Some(image) = &options.root else {
        return match (options.dax, &options.workload) {
            (true, _) => {
                let why = text![Field::Dax, " says how ", Field::Root, " is mounted"];
                Err(Error::refused(Field::Dax, why, "give that too"))
            }
            (_, Some(_)) => {
                let why = text![Field::Workload, " is run in the ", Field::Root];
                Err(Error::refused(Field::Workload, why, "give that too"))
            }
            _ => Ok(()),
        };
    };
    let root = Field::Root.is(image.display());
    let refused = |why: Text, instead: Text| Err(Error::refused(Field::Root, text![root, ": ", why], instead));
    if !options.target.is_qemu() {
        // It is the root disk of that VMM's machine, and the kernel mounts it.
        return Ok(());
    }
    if options.kernel.is_none() {
        let why = "bootscope's process 1 mounts it, and needs the image's own kernel";
        return refused(why.into(), text!["give that with ", Field::Kernel]);
    }
    if !profile.mounts {
        return refused(
            "the lab kernel has no file systems".into(),
            text!["give a Linux ", Field::Kernel, " in its place"],
        );
    }
    if !options.has_guest_init() {
        let why = text!["bootscope's process 1 mounts it, and ", Field::Init.is("keep"), " leaves that out"];
        return refused(why, "drop one of the two".into());
    }
    if options.initrd.is_some() {
        let instead = text!["leave that out, or mount the root by its init and ", Field::Disks];
        return refused(text!["it takes the place of an ", Field::Initrd], instead);
    }
    if options.deterministic {
        let why = text![Field::Deterministic, " takes no disk, because the host's clock answers it"];
        return refused(why, "leave out one of the two".into());
    }
    let machine = options.machine.split(',').next().unwrap_or_default();
    let with_pci = crate::arch::of(options).facts.qemu.pci_machines;
    if !with_pci.iter().any(|kind| machine.contains(kind)) {
        let why = text![Field::Machine.is(machine), " has no PCI for it"];
        return refused(why, format!("use {}", with_pci.join(" or ")).into());
    }
    if options.workload.as_ref().is_some_and(|command| command.contains(char::is_control) || command.trim().is_empty())
    {
        let why = text![Field::Workload, " is one line for the root's /bin/sh"];
        return Err(Error::refused(Field::Workload, why, "write a script into the image for more"));
    }
    superblock(image)?.check_dax(options.dax, image)
}

/// Facts from an image's superblock, and the image's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Image {
    file_system: &'static str,
    block_bytes: u64,
    bytes: u64,
}

/// Reads an image's superblock.
fn superblock(path: &Path) -> Result<Image, Error> {
    let mut file = open_disk(path).map_err(Error::unreadable(path))?;
    // The metadata of a block device has no length, so its end is searched for.
    let bytes = file.seek(SeekFrom::End(0)).map_err(Error::unreadable(path))?;
    let mut head = Vec::new();
    file.rewind().and_then(|()| file.take(4096).read_to_end(&mut head)).map_err(Error::unreadable(path))?;
    let (file_system, block_bytes) = file_system(&head)
        .map_err(|found| Error::refused(Field::Root, text![Field::Root.is(path.display()), ": ", found], ""))?;
    Ok(Image { file_system, block_bytes, bytes })
}

/// The file system and its block size in bytes, or what the image contains instead.
fn file_system(head: &[u8]) -> Result<(&'static str, u64), Text> {
    const OTHER: &str =
        "it holds no ext4 and no erofs from its first block on; make one with `mkfs.ext4 -d FOLDER IMAGE SIZE`";
    // Both superblocks are 1024 bytes into the image: Documentation/filesystems/ext4/super.rst (s_magic at 0x38,
    // s_log_block_size at 0x18), and erofs_fs.h in the kernel (magic at 0, blkszbits at 12).
    let magic = |at: usize, value: &[u8]| head.get(1024 + at..1024 + at + value.len()) == Some(value);
    let byte = |at: usize| head.get(1024 + at).copied().filter(|&shift| shift < 17);
    match () {
        () if magic(0x38, &[0x53, 0xef]) => Ok(("ext4", 1024 << byte(0x18).ok_or(OTHER)?)),
        () if magic(0, &[0xe2, 0xe1, 0xf5, 0xe0]) => Ok(("erofs", 1 << byte(12).ok_or(OTHER)?)),
        () if head.starts_with(b"QFI\xfb") => Err("it is a qcow2 image, of which no file system can be mapped: \
             `qemu-img convert -O raw` makes a raw one"
            .into()),
        () if head.get(510..512) == Some(&[0x55, 0xaa]) => Err(text![
            "it has a partition table, and ",
            Field::Root,
            " takes the file system alone: copy the partition out, or boot the whole disk with ",
            Field::Disks,
            " and ",
            Field::Init.is("keep")
        ]),
        () => Err(OTHER.into()),
    }
}

impl Image {
    fn check_dax(self, dax: bool, path: &Path) -> Result<(), Error> {
        let root = Field::Root.is(path.display());
        let refused = |why: String| Err(Error::refused(Field::Dax, text![Field::Dax, " of ", root, ": ", why], ""));
        match () {
            () if !dax => Ok(()),
            () if self.block_bytes != PAGE_BYTES => refused(format!(
                "its {} has blocks of {} bytes, and only whole pages can be mapped: `mkfs.ext4 -b 4096`",
                self.file_system, self.block_bytes
            )),
            () if self.bytes % PMEM_ALIGN_BYTES != 0 => refused(format!(
                "it is {} bytes long, and persistent memory is a multiple of 2 MiB: `truncate -s %2M` makes it one",
                self.bytes
            )),
            // A private mapping is never written back, but the VMM opens the file for writing.
            () => access(path, Access::WRITE_OK).or_else(|e| {
                refused(format!("QEMU maps it privately, and wants to be allowed to write it all the same: {e}"))
            }),
        }
    }
}

/// The modules that the guest needs to mount the root, and to find each disk.
pub(crate) fn modules(options: &GuestSpec) -> Result<Vec<&'static str>, Error> {
    let Some(path) = &options.root else { return Ok(Vec::new()) };
    let mut names = vec!["virtio_pci"];
    if options.dax {
        names.extend(["virtio_pmem", "nd_pmem"]);
    }
    if !options.dax || !options.disks.is_empty() {
        names.push("virtio_blk");
    }
    names.push(superblock(path)?.file_system);
    Ok(names)
}

/// The root that guest-init mounts.
pub(crate) fn for_guest(options: &GuestSpec) -> Result<Option<Root>, Error> {
    let Some(path) = &options.root else { return Ok(None) };
    let device = if options.dax { "pmem0" } else { "vda" };
    Ok(Some(Root {
        device: device.to_owned(),
        file_system: superblock(path)?.file_system.to_owned(),
        dax: options.dax,
    }))
}

/// Length of the image in bytes.
pub(crate) fn image_bytes(image: &Path) -> Result<u64, Error> {
    Ok(superblock(image)?.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Init;
    use std::path::PathBuf;

    fn head(at: usize, bytes: &[u8], block: (usize, u8)) -> Vec<u8> {
        let mut head = vec![0; 4096];
        head[1024 + at..1024 + at + bytes.len()].copy_from_slice(bytes);
        head[1024 + block.0] = block.1;
        head
    }

    fn ext4(block: u8) -> Vec<u8> {
        head(0x38, &[0x53, 0xef], (0x18, block))
    }

    /// Options with a kernel, and an image of these bytes that is extended to `bytes`.
    fn options(dir: &Path, image: &[u8], bytes: u64) -> GuestSpec {
        let (root, kernel) = (dir.join("root,1.img"), dir.join("vmlinuz"));
        std::fs::write(&root, image).unwrap();
        std::fs::File::options().write(true).open(&root).unwrap().set_len(bytes).unwrap();
        std::fs::write(&kernel, b"x").unwrap();
        GuestSpec { root: Some(root), kernel: Some(kernel), ..GuestSpec::default() }
    }

    fn linux() -> GuestProfile {
        GuestProfile { mounts: true, ..GuestProfile::default() }
    }

    #[test]
    fn file_systems_are_told_from_other_images() {
        assert_eq!(file_system(&ext4(2)), Ok(("ext4", 4096)));
        assert_eq!(file_system(&ext4(0)), Ok(("ext4", 1024)));
        assert_eq!(file_system(&head(0, &[0xe2, 0xe1, 0xf5, 0xe0], (12, 12))), Ok(("erofs", 4096)));
        let mut table = vec![0; 4096];
        table[510..512].copy_from_slice(&[0x55, 0xaa]);
        for (bad, why) in [
            (table, "partition table"),
            (b"QFI\xfb".to_vec(), "qcow2"),
            (vec![0; 4096], "mkfs.ext4"),
            (ext4(200), "ext4"),
        ] {
            assert!(file_system(&bad).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn impossible_options_are_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let base = options(dir.path(), &ext4(2), 4 << 20);
        let with = |change: fn(&mut GuestSpec)| {
            let mut options = base.clone();
            change(&mut options);
            check(&options, &linux()).unwrap_err().to_string()
        };
        assert!(check(&base, &linux()).is_ok() && check(&GuestSpec { dax: true, ..base.clone() }, &linux()).is_ok());
        for (error, word) in [
            (with(|o| o.deterministic = true), "deterministic"),
            (with(|o| o.init = Init::Keep), "init=keep"),
            (with(|o| o.kernel = None), "kernel"),
            (with(|o| o.initrd = Some(PathBuf::from("x"))), "initrd"),
            (with(|o| o.machine = "microvm,x=y".to_owned()), "microvm has no PCI"),
            (with(|o| o.workload = Some("a\nb".to_owned())), "one line"),
            (with(|o| (o.dax, o.root) = (true, None)), "root"),
            (with(|o| (o.workload, o.root) = (Some("true".to_owned()), None)), "root"),
        ] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert!(check(&base, &GuestProfile::default()).unwrap_err().to_string().contains("no file systems"));
        // Each error names what conflicts, and nothing else.
        assert!(!with(|o| o.init = Init::Keep).contains("lab"));
        let without_kernel = with(|o| (o.kernel, o.init) = (None, Init::Keep));
        assert!(!without_kernel.contains("init=keep") && !without_kernel.contains("lab"), "{without_kernel}");
        for (image, bytes, word) in [(ext4(0), 4 << 20, "-b 4096"), (ext4(2), (4 << 20) + 4096, "truncate -s %2M")] {
            let options = GuestSpec { dax: true, ..options(dir.path(), &image, bytes) };
            let error = check(&options, &linux()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_root_is_a_disk_or_memory() {
        let dir = tempfile::tempdir().unwrap();
        let disk = options(dir.path(), &ext4(2), 4 << 20);
        assert_eq!(modules(&disk).unwrap(), ["virtio_pci", "virtio_blk", "ext4"]);
        let dax = GuestSpec { dax: true, ..disk };
        assert_eq!(modules(&dax).unwrap(), ["virtio_pci", "virtio_pmem", "nd_pmem", "ext4"]);
        assert_eq!(for_guest(&dax).unwrap().unwrap().device, "pmem0");
    }
}
