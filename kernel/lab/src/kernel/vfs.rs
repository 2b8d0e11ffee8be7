//! Mounts file systems: the kernel's few file systems, and root.

use crate::console::kprintln;
use crate::hold::ROOT_MOUNT;
use crate::{ata, boot, cache, script};
use core::ops::Range;
use lab::cpio;
use lab::switches::{Kind, Root, RootOn, RootWait};

struct FileSystem {
    name: &'static str,
    /// True if its device is there.
    is_there: fn() -> bool,
    mount: fn() -> Result<usize, &'static str>,
}

const ALWAYS: fn() -> bool = || true;
static INITRD: FileSystem = FileSystem { name: "initrd", is_there: ALWAYS, mount: mount_initrd };
static RAMFS: FileSystem = FileSystem { name: "ramfs", is_there: ALWAYS, mount: || Ok(0) };
static DEVFS: FileSystem = FileSystem { name: "devfs", is_there: ALWAYS, mount: || Ok(0) };
/// A file system that finds its disk by name.
static UFS: FileSystem = FileSystem { name: "ufs", is_there: || ata::is_found("ada0"), mount: || Ok(0) };
/// A file system that needs all members of its pool.
static ZFS: FileSystem = FileSystem { name: "zfs", is_there: ata::is_pool_whole, mount: || Ok(0) };

/// Mounts devfs, then root (`root_on=`). Before that it waits for every bus that may still find a disk, or only until the file
/// system's devices are there (`root_wait=`). In the second case it first checks whether they are there already.
pub fn mountroot() {
    let _scope = tslog::scope!("vfs_mountroot");
    vfs_mount(&DEVFS, "/dev");
    let root = match boot::switches().root_on {
        RootOn::Memory if boot::initrd().is_empty() => &RAMFS,
        RootOn::Memory => &INITRD,
        RootOn::Ufs => &UFS,
        RootOn::Zfs => &ZFS,
    };
    match boot::switches().root_wait {
        RootWait::All => ROOT_MOUNT.wait(),
        RootWait::Needed if (root.is_there)() => {}
        RootWait::Needed => ROOT_MOUNT.wait_until(root.is_there),
    }
    assert!((root.is_there)(), "vfs_mountroot: {}: no bus has found what it is on", root.name);
    vfs_mount(root, "/");
}

/// Mounts a file system. All mounts go through this function.
fn vfs_mount(file_system: &'static FileSystem, on: &str) {
    tslog::enter!("VFS_MOUNT", file_system.name);
    script::at(Kind::Mount, file_system.name);
    let mounted = (file_system.mount)();
    tslog::exit!("VFS_MOUNT", file_system.name);
    match mounted {
        Ok(files) => kprintln!("{on}: {}, {files} files", file_system.name),
        Err(why) => kprintln!("{on}: {}: {why}", file_system.name),
    }
}

fn mount_initrd() -> Result<usize, &'static str> {
    let archive = match boot::switches().root {
        Root::Copy => cache::read_through(boot::initrd()).ok_or("there is no room to cache it")?,
        Root::Direct => in_place(boot::initrd()),
    };
    let whole = cpio::entries(archive).take_while(Result::is_ok).count();
    match cpio::entries(archive).nth(whole) {
        None => Ok(whole),
        Some(_) => Err("the archive is damaged"),
    }
}

fn in_place(disk: Range<u64>) -> &'static [u8] {
    // SAFETY: the initrd was cut out of free memory, and no code writes it.
    unsafe { core::slice::from_raw_parts(disk.start as *const u8, (disk.end - disk.start) as usize) }
}
