//! What the headers of both files share.

/// A header that is not of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOne {
    /// It is too short or begins with other bytes.
    Other,
    /// Its version or its clock is not known.
    Unknown {
        /// Of the format.
        version: u16,
        /// The clock's number.
        clock: u8,
    },
}

/// What both files begin with, 32 bytes, and how it lies in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Whether times are the guest's.
    pub is_virtual: bool,
    pub api: u8,
    pub vcpus: u32,
    pub zero_host_ns: u64,
    pub install_host_ns: u64,
}

impl Start {
    pub(crate) fn write(&self, magic: &[u8; 8], version: u16, to: &mut [u8]) {
        to[..8].copy_from_slice(magic);
        to[8..10].copy_from_slice(&version.to_le_bytes());
        (to[10], to[11]) = (u8::from(self.is_virtual), self.api);
        to[12..16].copy_from_slice(&self.vcpus.to_le_bytes());
        to[16..24].copy_from_slice(&self.zero_host_ns.to_le_bytes());
        to[24..32].copy_from_slice(&self.install_host_ns.to_le_bytes());
    }

    /// The header of a file, and what it starts with.
    pub(crate) fn read<'a, const BYTES: usize>(
        magic: &[u8; 8],
        version: u16,
        file: &'a [u8],
    ) -> Result<(Start, &'a [u8; BYTES]), NotOne> {
        let head = file.first_chunk::<BYTES>().filter(|head| head.starts_with(magic)).ok_or(NotOne::Other)?;
        let (found, clock) = (u16::from_le_bytes([head[8], head[9]]), head[10]);
        if found != version || clock > 1 {
            return Err(NotOne::Unknown { version: found, clock });
        }
        let start = Start {
            is_virtual: clock == 1,
            api: head[11],
            vcpus: u32::from_le_bytes([head[12], head[13], head[14], head[15]]),
            zero_host_ns: u64_at(head, 16),
            install_host_ns: u64_at(head, 24),
        };
        Ok((start, head))
    }
}

/// Eight bytes of a header; those beyond its end are 0.
pub(crate) fn eight_at(head: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|i| head.get(at + i).copied().unwrap_or(0))
}

pub(crate) fn u64_at(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(eight_at(head, at))
}

/// A name in eight bytes, cut or NUL padded.
pub fn target(name: &[u8]) -> [u8; 8] {
    eight_at(name, 0)
}
