//! Hand-made guest memory for tests.

use std::io;

use super::{Extent, PhysicalMemory};

/// One extent of zeros to write into.
#[derive(Clone)]
pub struct Image {
    extent: [Extent; 1],
    bytes: Vec<u8>,
}

impl Image {
    pub fn new(phys: u64, bytes: usize) -> Image {
        Image { extent: [Extent { phys, file_offset: 0, bytes: bytes as u64 }], bytes: vec![0; bytes] }
    }

    pub fn put(&mut self, phys: u64, bytes: &[u8]) {
        let at = (phys - self.extent[0].phys) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn put_u64(&mut self, phys: u64, value: u64) {
        self.put(phys, &value.to_le_bytes());
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl PhysicalMemory for Image {
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()> {
        let outside = || super::not_ram(phys);
        let at = phys.checked_sub(self.extent[0].phys).ok_or_else(outside)? as usize;
        let end = at.checked_add(buf.len()).ok_or_else(outside)?;
        buf.copy_from_slice(self.bytes.get(at..end).ok_or_else(outside)?);
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        &self.extent
    }
}
