//! A Linux kernel's trace in a hostile guest's memory: its ring buffers, the numbers of its events and the names of its clocks. The
//! input is the memory from 0 on. `made_trace` has the addresses of the variables in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::memory::{Extent, PhysicalMemory, made_trace};
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
    let memory = Memory { bytes, extents: [Extent { phys: 0, file_offset: 0, bytes: bytes.len() as u64 }] };
    let Ok(trace) = made_trace(&memory) else { return };
    // The heading has the number of records. Each is a line, or is counted at the end.
    let text = String::from_utf8_lossy(&trace.text);
    let declared = text.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
    let kept: usize = declared.and_then(|counts| counts.split('/').next()?.parse().ok()).expect("a heading");
    let unknown =
        text.lines().find_map(|line| line.strip_prefix("# ")?.strip_suffix(" records of kinds that are not known"));
    let unknown: usize = unknown.map_or(0, |count| count.parse().expect("a count"));
    let is_event = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"CPU:");
    let lines = trace.text.split(|&byte| byte == b'\n').filter(is_event).count();
    assert!(lines + unknown >= kept, "{lines} lines, {unknown} unknown, of {kept}");
});
