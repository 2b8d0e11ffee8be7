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
