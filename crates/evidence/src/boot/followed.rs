//! The calls of a recording with the data that names them. They are read once, for the timeline and for tables.

use crate::boot::regions::{RanIn, Region};
use crate::formats::calls::Calls;
use crate::formats::symbols::Symbols;

/// Calls, and the data that names them.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The contents of the file.
    pub calls: Calls,
    /// The guest's functions, at their run-time addresses.
    pub symbols: Symbols,
    /// The stages of the boot.
    pub regions: Vec<Region>,
    /// The stage in which the code of each address ran first.
    pub ran_in: RanIn,
    /// The method by which the kernel was compressed; empty if it is not known.
    pub compression: String,
}
