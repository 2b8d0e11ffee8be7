//! The archive with process 1 for a guest: in cpio's "newc" format, as the kernel unpacks it.
//!
//! An entry is a header, the name with its NUL, and the data. The header is `070701` and thirteen 8-digit hexadecimal
//! fields. Zeros pad name and data up to a multiple of four from the archive's start. `TRAILER!!!` ends it.
//!
//! **Put this archive before the user's own initrd, not after it.** The kernel unpacks concatenated archives in order.
//! It needs an uncompressed archive at a multiple of four bytes (init/initramfs.c), and skips zeros between archives.
//! Before the user's initrd the position is always right: this archive is padded to 512 bytes. After it, the kernel
//! would no longer find a boot configuration in the user's initrd, which must be at the very end. Some decompressors
//! (lz4) would also take the following bytes for their own. And the user's own entries win if both have one (`/dev`).
//!
//! The archive contains nothing of the host: no times, owners or inode numbers of real files.

use crate::config::Config;

/// Path of process 1 in the guest, for `rdinit=`.
pub const INIT_PATH: &str = "/bootscope/init";
/// Path of its configuration in the guest.
pub const CONFIG_PATH: &str = "/bootscope/config";
/// Another name of process 1, for `rdinit=` if there is a root to mount. Started by this name, process 1 loads the
/// modules and mounts the root. Then it starts itself as [`INIT_PATH`], whose first instructions are the mark.
pub const ROOT_PATH: &str = "/bootscope/root";
/// Folder of the modules.
pub const MODULES_PATH: &str = "/bootscope/modules";
/// The mount point of the root.
pub const SYSROOT_PATH: &str = "/bootscope/sysroot";
/// The folder with the root's device, where devtmpfs is mounted.
pub const DEV_PATH: &str = "/dev";
/// The mount point of procfs: its own folder, so that the user's init finds its mount points as the kernel left them.
pub const PROC_PATH: &str = "/bootscope/proc";
/// The mount point of tracefs, or of debugfs on kernels without tracefs.
pub const TRACING_PATH: &str = "/bootscope/tracing";
/// Its own device node for the kernel log, so that devtmpfs is not needed.
pub const KMSG_PATH: &str = "/bootscope/kmsg";

const DIRECTORY: u32 = 0o040_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
const EXECUTABLE: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;
const SYMBOLIC_LINK: u32 = 0o120_777;

/// A kernel module that the guest loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its file name, without a folder.
    pub file: String,
    /// Its ELF image, not compressed.
    pub bytes: Vec<u8>,
}

/// Makes the archive: process 1, its configuration, its folders and device nodes, and for a root, the modules. Its
/// length is a multiple of 512 bytes.
pub fn archive(init_elf: &[u8], config: &Config, modules: &[Module]) -> Vec<u8> {
    let mut out = Archive::default();
    out.entry("dev", DIRECTORY, (0, 0), &[]);
    // The kernel opens it as standard input, output and error of process 1.
    out.entry("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
    out.entry("bootscope", DIRECTORY, (0, 0), &[]);
    out.entry(&PROC_PATH[1..], DIRECTORY, (0, 0), &[]);
    out.entry(&TRACING_PATH[1..], DIRECTORY, (0, 0), &[]);
    out.entry(&KMSG_PATH[1..], CHARACTER_DEVICE, (1, 11), &[]);
    out.entry(&CONFIG_PATH[1..], PLAIN, (0, 0), config.to_string().as_bytes());
    out.entry(&INIT_PATH[1..], EXECUTABLE, (0, 0), init_elf);
    if config.root.is_some() {
        out.entry(&ROOT_PATH[1..], SYMBOLIC_LINK, (0, 0), INIT_PATH.as_bytes());
        for folder in [SYSROOT_PATH, MODULES_PATH] {
            out.entry(&folder[1..], DIRECTORY, (0, 0), &[]);
        }
        for module in modules {
            out.entry(&format!("{}/{}", &MODULES_PATH[1..], module.file), PLAIN, (0, 0), &module.bytes);
        }
    }
    out.finish()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), data: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(data.len()).expect("a cpio entry holds less than 4 GiB");
        let links = if mode == DIRECTORY { 2 } else { 1 };
        // inode, mode, uid, gid, links, mtime, size, device, device of the node, length of name and NUL, (no) checksum
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, major, minor, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08x}").as_bytes()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad(4);
        self.bytes.extend_from_slice(data);
        self.pad(4);
    }

    fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.pad(512);
        self.bytes
    }
}
