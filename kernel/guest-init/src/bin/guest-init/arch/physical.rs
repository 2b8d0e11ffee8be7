//! Registers of devices at their physical addresses. Process 1 maps them with its own device node for /dev/mem. A
//! kernel built with `CONFIG_IO_STRICT_DEVMEM` refuses this if one of its drivers has the registers.

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, open, unlink};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ptr::null_mut;

/// This program's own device node for physical memory; it exists only while it is opened.
const NODE: &str = "/bootscope/mem";

/// Maps `bytes` bytes of registers from this physical address on, in pages of `page_bytes`.
pub fn map(address: u64, page_bytes: u64, bytes: usize) -> Result<*mut u8, Errno> {
    match mknodat(CWD, NODE, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 1)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e),
    }
    let memory = open(NODE, OFlags::RDWR | OFlags::SYNC | OFlags::CLOEXEC, Mode::empty());
    unlink(NODE)?;
    let within = address % page_bytes;
    let (from, within) = (address - within, within as usize);
    let bytes = bytes + within;
    // SAFETY: a new mapping at an address that the kernel chooses; it covers no existing mapping.
    let mapped =
        unsafe { mmap(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memory?, from) }?;
    // SAFETY: inside the new mapping.
    Ok(unsafe { mapped.cast::<u8>().add(within) })
}
