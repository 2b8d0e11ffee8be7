//! A guest's memory, read on the host while the guest runs, hangs or is dead.
//!
//! Guest RAM is a file (a memfd that the VMM maps shared), so reading it is `pread` at a file offset: no mapping and no unsafe code. A
//! guest that changes the bytes during a read can at worst produce inconsistent bytes, which every reader here must expect anyway.
//!
//! [`Extent`]s map guest-physical addresses to offsets in that file; the VMM reports them. [`kernel_log`] reads a Linux kernel's log, even
//! if the kernel prints nothing on its console. [`event_log`] reads the log of any kernel that keeps one with `kernel/tslog`, and
//! [`TraceImage`] a Linux kernel's trace.
//!
//! Nothing here may trust the guest: it can set the sizes, offsets and pointers that are read to any value.

mod btf;
mod efi_images;
mod event_log;
mod firmware_volume;
mod kernel_log;
mod kernel_trace;
mod limited;
mod sweep;
mod tasks;

#[cfg(test)]
pub(crate) mod image;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub use crate::physical_memory::{Extent, PhysicalMemory};
pub(crate) use efi_images::EfiImages;
pub(crate) use event_log::EventLogPlace;
pub use event_log::{EventLog, event_log};
pub use kernel_log::{Caller, KernelLog, LastWords, LeftOut, LogError, LogProbe, Method, Record, kernel_log};
pub use kernel_trace::{KernelTrace, NoTrace, TraceImage, made_trace};
pub(crate) use limited::Limited;
pub(crate) use tasks::{TaskList, Tasks};

/// A size of guest memory as a host's `usize`. A host whose addresses are too short for it cannot run the guest.
fn host_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The RAM of a guest, in the file that backs it.
#[derive(Debug)]
pub struct GuestRam {
    file: File,
    extents: Vec<Extent>,
}

impl GuestRam {
    /// `file` backs guest RAM; `extents` map its parts to guest-physical addresses.
    ///
    /// # Errors
    /// `InvalidInput` if extents are empty, overlap or wrap around.
    pub fn new(file: File, mut extents: Vec<Extent>) -> io::Result<GuestRam> {
        extents.sort_by_key(|extent| extent.phys);
        let wraps = |e: &Extent| {
            e.bytes == 0 || e.phys.checked_add(e.bytes).is_none() || e.file_offset.checked_add(e.bytes).is_none()
        };
        let overlap = extents.windows(2).any(|pair| pair[0].range().end > pair[1].phys);
        if extents.is_empty() || overlap || extents.iter().any(wraps) {
            let what = format!("guest RAM needs extents that neither are empty nor overlap, got {extents:x?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(GuestRam { file, extents })
    }

    /// Writes a little-endian word into the running guest, which must expect it there.
    ///
    /// # Errors
    /// As [`PhysicalMemory::read_at`].
    pub fn write_u32(&self, phys: u64, value: u32) -> io::Result<()> {
        let (extent, within) = self.locate(phys)?;
        if extent.bytes - within < 4 {
            return Err(not_ram(extent.range().end));
        }
        self.file.write_all_at(&value.to_le_bytes(), extent.file_offset + within)
    }

    /// The extent that contains `phys`, and the offset in it.
    fn locate(&self, phys: u64) -> io::Result<(&Extent, u64)> {
        let after = self.extents.partition_point(|extent| extent.phys <= phys);
        let extent = after.checked_sub(1).map(|at| &self.extents[at]).ok_or_else(|| not_ram(phys))?;
        let within = phys - extent.phys;
        if within < extent.bytes { Ok((extent, within)) } else { Err(not_ram(phys)) }
    }

    /// The next data in this extent's part of the file, from `within` on.
    fn data_in(&self, extent: &Extent, within: u64) -> Option<Range<u64>> {
        use rustix::fs::{SeekFrom, seek};
        let from = extent.file_offset + within;
        // A file system without support for holes reports that all is data. An error other than "no data from here on" (ENXIO) is treated
        // the same way: reading a hole costs time, but skipping data costs evidence.
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Err(rustix::io::Errno::NXIO) => return None,
            Err(_) => return Some(extent.phys + within..extent.range().end),
            Ok(start) => start,
        };
        let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
        let limit = extent.file_offset + extent.bytes;
        let (start, end) = (start.max(from), end.min(limit));
        (start < end).then(|| extent.phys + (start - extent.file_offset)..extent.phys + (end - extent.file_offset))
    }
}

impl PhysicalMemory for GuestRam {
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = phys.checked_add(done as u64).ok_or_else(|| not_ram(phys))?;
            let (extent, within) = self.locate(at)?;
            let here = usize::try_from(extent.bytes - within).map_or(buf.len(), |rest| rest.min(buf.len() - done));
            self.file.read_exact_at(&mut buf[done..done + here], extent.file_offset + within)?;
            done += here;
        }
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }

    fn next_data(&self, phys: u64) -> Option<Range<u64>> {
        self.extents
            .iter()
            .filter(|extent| extent.range().end > phys)
            .find_map(|extent| self.data_in(extent, phys.saturating_sub(extent.phys)))
    }
}

fn not_ram(phys: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("guest-physical address {phys:#x} is not RAM"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Two extents with a gap between them, in the file in the opposite order.
    fn ram() -> GuestRam {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[[2u8; 0x1000], [1u8; 0x1000]].concat()).unwrap();
        let low = Extent { phys: 0, file_offset: 0x1000, bytes: 0x1000 };
        let high = Extent { phys: 0x4000, file_offset: 0, bytes: 0x1000 };
        GuestRam::new(file, vec![high, low]).unwrap()
    }

    #[test]
    fn reads_each_extent_from_its_place_in_the_file() {
        let mut buf = [0; 4];
        ram().read_at(0x10, &mut buf).unwrap();
        assert_eq!(buf, [1; 4]);
        ram().read_at(0x4ffc, &mut buf).unwrap();
        assert_eq!(buf, [2; 4]);
    }

    #[test]
    fn reading_outside_names_the_address() {
        let mut buf = [0; 4];
        for (phys, named) in [(0x1000, "0x1000"), (0xffe, "0x1000"), (0x4ffe, "0x5000"), (u64::MAX, "0xfff")] {
            let error = ram().read_at(phys, &mut buf).unwrap_err();
            assert!(error.to_string().contains(named), "{phys:#x}: {error}");
        }
    }

    #[test]
    fn a_word_written_is_read_back_and_none_is_written_past_the_end() {
        let ram = ram();
        ram.write_u32(0x4010, 0x1234_5678).unwrap();
        let mut buf = [0; 4];
        ram.read_at(0x4010, &mut buf).unwrap();
        assert_eq!(u32::from_le_bytes(buf), 0x1234_5678);
        assert!(ram.write_u32(0xffe, 1).is_err());
    }

    #[test]
    fn extents_that_overlap_are_refused() {
        let extent = |phys| Extent { phys, file_offset: 0, bytes: 0x1000 };
        for extents in [vec![], vec![extent(0), extent(0x800)], vec![extent(u64::MAX)]] {
            assert!(GuestRam::new(tempfile::tempfile().unwrap(), extents).is_err());
        }
    }

    #[test]
    fn untouched_memory_is_passed_over() {
        // On a file system without holes the answer is coarser, and there is nothing to test.
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(b"x", 9 << 20).unwrap();
        let low = Extent { phys: 0, file_offset: 0, bytes: 4 << 20 };
        let high = Extent { phys: 1 << 32, file_offset: 4 << 20, bytes: 12 << 20 };
        let ram = GuestRam::new(file, vec![low, high]).unwrap();
        let data = ram.next_data(0).unwrap();
        let place = (1 << 32) + (5 << 20);
        assert!(data.contains(&place) && data.end - data.start <= 2 << 20, "{data:x?}");
        assert_eq!(ram.next_data(data.end), None);
    }
}
