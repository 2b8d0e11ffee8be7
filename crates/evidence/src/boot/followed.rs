//! The calls of a recording with what it takes to name them: read once, for the timeline and for tables. What is made of
//! them is not said here.

use crate::boot::regions::{RanIn, Region};
use crate::formats::calls::Calls;
use crate::formats::symbols::Symbols;

/// Calls, and what is needed to name them.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// What the file says.
    pub calls: Calls,
    /// The guest's functions, where they were at run time.
    pub symbols: Symbols,
    /// The stages of the boot.
    pub regions: Vec<Region>,
    /// In which of them the code of each address ran first.
    pub ran_in: RanIn,
    /// What the kernel was compressed with; empty where that is not known.
    pub compression: String,
}
