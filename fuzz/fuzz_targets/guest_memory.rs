//! A guest's memory, read from outside: the kernel log in it, and QEMU's text about the place of the memory. The input is the
//! memory from 0 on, and also the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::memory::{Extent, LogProbe, PhysicalMemory};
use machine::ram_extents;
use std::io;

struct Memory<'a> {
    bytes: &'a [u8],
    extents: [Extent; 1],
}

impl PhysicalMemory for Memory<'_> {
    fn read_at(&self, phys: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(phys).map_err(io::Error::other)?;
        let part = from.checked_add(buffer.len()).and_then(|to| self.bytes.get(from..to));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::InvalidInput)?);
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = ram_extents(&String::from_utf8_lossy(bytes), "ram");
    if bytes.is_empty() {
        return;
    }
    let extents = [Extent { phys: 0, file_offset: 0, bytes: bytes.len() as u64 }];
    let memory = Memory { bytes, extents };
    let Ok(probe) = LogProbe::find(&memory) else { return };
    let _ = probe.newest_seq(&memory);
    let Ok(log) = probe.read(&memory) else { return };
    log.last_words();
    let kmsg = log.to_kmsg();
    let lines = kmsg.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let records = lines.filter(|line| !line.starts_with(b"#") && !line.starts_with(b" ")).count();
    assert_eq!(records, log.records.len());
});
