//! Mounting: the file systems this kernel has, and the root that the first process comes from.

use crate::console::kprintln;
use crate::hold::ROOT_MOUNT;
use crate::{boot, cache, script};
use core::ops::Range;
use lab::cpio;
use lab::switches::{Kind, Root, RootWait};

struct FileSystem {
    name: &'static str,
    mount: fn() -> Result<usize, &'static str>,
}

static INITRD: FileSystem = FileSystem { name: "initrd", mount: mount_initrd };
static RAMFS: FileSystem = FileSystem { name: "ramfs", mount: || Ok(0) };
static DEVFS: FileSystem = FileSystem { name: "devfs", mount: || Ok(0) };

/// Mounts devfs, then root: the initrd if there is one. Root waits for what may still find disks, all of it or only
/// what it is on, which an initrd or a ramfs never is (`root_wait=`).
pub fn mountroot() {
    let _scope = tslog::scope!("vfs_mountroot");
    vfs_mount(&DEVFS, "/dev");
    if boot::switches().root_wait == RootWait::All {
        ROOT_MOUNT.wait();
    }
    vfs_mount(if boot::initrd().is_empty() { &RAMFS } else { &INITRD }, "/");
}

/// Every mount there is goes through here.
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
    // SAFETY: the initrd was cut out of free memory, and nobody writes it.
    unsafe { core::slice::from_raw_parts(disk.start as *const u8, (disk.end - disk.start) as usize) }
}
