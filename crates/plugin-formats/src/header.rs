//! The parts that the headers of both files share: the first 32 bytes, and the guest's architecture.

use std::ops::RangeInclusive;

/// A header that is not of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThisHeader {
    /// The file is too short or begins with other bytes.
    Other,
    /// Its version or its clock is unknown.
    Unknown {
        /// The version of the format.
        version: u16,
        clock: u8,
    },
}

/// The clock that a file's times are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Clock {
    /// The host's.
    #[default]
    Host = 0,
    /// The guest's virtual clock.
    Virtual = 1,
}

/// The fields that both headers share: the boot and its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The clock of the file's times.
    pub clock: Clock,
    /// Version of the plugin interface that QEMU implements.
    pub api: u8,
    /// vCPUs that the machine starts with.
    pub vcpus: u32,
    /// Host `CLOCK_MONOTONIC`, ns, at the recording's time zero; 0 if the plugin did not get it.
    pub zero_host_ns: u64,
    /// Host `CLOCK_MONOTONIC`, ns, when the plugin's own clock began.
    pub install_host_ns: u64,
    /// The guest's architecture, NUL padded.
    pub target: [u8; 8],
}

impl Start {
    /// Time zero on the host's clock. If the plugin did not get it, this is the start of the plugin's own clock.
    pub fn zero_ns(&self) -> u64 {
        if self.zero_host_ns == 0 { self.install_host_ns } else { self.zero_host_ns }
    }

    /// Writes it to the front of a header, with the architecture at `target_at`.
    pub(crate) fn write(&self, magic: &[u8; 8], version: u16, target_at: usize, to: &mut [u8]) {
        to[..8].copy_from_slice(magic);
        to[8..10].copy_from_slice(&version.to_le_bytes());
        (to[10], to[11]) = (self.clock as u8, self.api);
        to[12..16].copy_from_slice(&self.vcpus.to_le_bytes());
        to[16..24].copy_from_slice(&self.zero_host_ns.to_le_bytes());
        to[24..32].copy_from_slice(&self.install_host_ns.to_le_bytes());
        to[target_at..target_at + 8].copy_from_slice(&self.target);
    }

    /// Reads it from a file whose header has `BYTES` bytes and the architecture at `target_at`. Also returns the
    /// header's bytes.
    pub(crate) fn read<'a, const BYTES: usize>(
        magic: &[u8; 8],
        versions: RangeInclusive<u16>,
        target_at: usize,
        file: &'a [u8],
    ) -> Result<(Start, &'a [u8; BYTES]), NotThisHeader> {
        let head = file.first_chunk::<BYTES>().filter(|head| head.starts_with(magic)).ok_or(NotThisHeader::Other)?;
        let version_found = u16::from_le_bytes([head[8], head[9]]);
        let clock = match head[10] {
            0 if versions.contains(&version_found) => Clock::Host,
            1 if versions.contains(&version_found) => Clock::Virtual,
            clock => return Err(NotThisHeader::Unknown { version: version_found, clock }),
        };
        let start = Start {
            clock,
            api: head[11],
            vcpus: u32::from_le_bytes([head[12], head[13], head[14], head[15]]),
            zero_host_ns: u64_at(head, 16),
            install_host_ns: u64_at(head, 24),
            target: eight_at(head, target_at),
        };
        Ok((start, head))
    }
}

/// Eight bytes of a header; those beyond its end are 0.
fn eight_at(head: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|i| head.get(at + i).copied().unwrap_or(0))
}

pub(crate) fn u64_at(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(eight_at(head, at))
}

/// A name in eight bytes, cut or NUL padded.
pub fn target(name: &[u8]) -> [u8; 8] {
    eight_at(name, 0)
}
