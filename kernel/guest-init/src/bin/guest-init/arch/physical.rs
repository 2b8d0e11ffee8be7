//! Registers of devices at their physical addresses: process 1 maps them by a device node of its own for /dev/mem. The kernel
//! refuses that where a driver of its own has the registers, if it was built with `CONFIG_IO_STRICT_DEVMEM`.

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, open, unlink};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ptr::null_mut;

/// A device node of this program's own for physical memory, for as long as it takes to open it.
const NODE: &str = "/bootscope/mem";

/// Maps so many bytes of registers from this physical address on, in pages of so many.
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
    // SAFETY: a new mapping wherever the kernel likes; it covers nothing that exists.
    let mapped =
        unsafe { mmap(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memory?, from) }?;
    // SAFETY: inside of what was just mapped.
    Ok(unsafe { mapped.cast::<u8>().add(within) })
}
