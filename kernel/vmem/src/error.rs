//! What cannot be.

use core::fmt;

/// What was asked for cannot be: the arena is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A quantum, an alignment or a boundary is no power of two.
    NotPowerOfTwo(u64),
    /// A span, a phase, a boundary or a source's quantum is no multiple of the quantum.
    NotAligned(u64),
    /// A span or a request of nothing.
    Empty,
    /// A span that ends beyond the last address; or the last that would make spans of all 2⁶⁴ addresses, which is one more
    /// than can be counted.
    Wraps,
    /// Part of the span is in another span already.
    Overlaps {
        /// Where the refused span begins.
        start: u64,
        /// How large it is.
        size: u64,
    },
    /// Memory for tags was given in as many pieces as there can be.
    TooManyPieces,
    /// The constraints of a request exclude each other, whatever is free.
    CannotHold,
    /// The operation needs more tags than are left: give more, and try again.
    NoTags,
    /// Nothing that is free fits.
    NoSpace,
    /// Nothing that is free fits now: the caller is to wait until it is woken.
    WouldBlock,
    /// What the source gave is not aligned, not as large as asked for, or in a span already. It is used by nobody now.
    BadImport(u64),
    /// No span has the address.
    NotManaged(u64),
    /// No allocated segment begins at the address: it is free already, or was never allocated.
    NotAllocated(u64),
    /// An allocated segment begins there, but of this size.
    OtherSize {
        /// Where it begins.
        address: u64,
        /// The size that it was asked for with.
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
