//! Errors of an arena's operations.

use core::fmt;

/// The reason why an operation failed. The arena is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A quantum, an alignment or a boundary is not a power of two.
    NotPowerOfTwo(u64),
    /// A span, a phase, a boundary or a source's quantum is not a multiple of the quantum.
    NotAligned(u64),
    /// A span or a request has size 0.
    Empty,
    /// A span ends beyond the last address. Or, with it, the spans would contain all 2⁶⁴ addresses, one more than a `u64`
    /// can count.
    Wraps,
    /// Part of the span is in another span already.
    Overlaps {
        /// First address of the refused span.
        start: u64,
        /// Size of the refused span.
        size: u64,
    },
    /// The arena already has memory for tags in [`PIECES_MAX`](crate::PIECES_MAX) pieces.
    TooManyPieces,
    /// The constraints of a request exclude each other, so no arena can satisfy it.
    CannotHold,
    /// The operation needs more tags than are left. Add tags and try again.
    NoTags,
    /// No free segment fits.
    NoSpace,
    /// No free segment fits now. The caller should wait until it is woken.
    WouldBlock,
    /// The source returned a span that is not aligned, too large for the address space, or in another span already. The
    /// span stays unused: it is not returned to the source.
    BadImport(u64),
    /// No span contains the address.
    NotManaged(u64),
    /// No allocated segment begins at the address: it is free already, or was never allocated.
    NotAllocated(u64),
    /// An allocated segment of another size begins at the address.
    OtherSize {
        /// First address of the segment.
        address: u64,
        /// Size with which the segment was requested.
        is: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotPowerOfTwo(number) => write!(f, "{number:#x} is no power of two"),
            Error::NotAligned(number) => write!(f, "{number:#x} is no multiple of the quantum"),
            Error::Empty => f.write_str("a span or a request of nothing"),
            Error::Wraps => f.write_str("a span that ends beyond the last address"),
            Error::Overlaps { start, size } => write!(f, "{size:#x} at {start:#x} overlap another span"),
            Error::TooManyPieces => write!(f, "memory for tags in more than {} pieces", crate::PIECES_MAX),
            Error::CannotHold => f.write_str("constraints that exclude each other"),
            Error::NoTags => f.write_str("no tags are left"),
            Error::NoSpace => f.write_str("nothing that is free fits"),
            Error::WouldBlock => f.write_str("nothing that is free fits now"),
            Error::BadImport(start) => write!(f, "what the source gave at {start:#x} cannot be used"),
            Error::NotManaged(address) => write!(f, "no span has {address:#x}"),
            Error::NotAllocated(address) => write!(f, "no allocated segment begins at {address:#x}"),
            Error::OtherSize { address, is } => write!(f, "the segment at {address:#x} was allocated with {is:#x}"),
        }
    }
}

impl core::error::Error for Error {}
