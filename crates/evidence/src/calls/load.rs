//! The calls of a recording with their names: read once, for the timeline and for tables.

use super::contexts::Contexts;
use super::profile::{Share, end, profile};
use super::{Calls, Counts};
use crate::first_run::regions::{RanIn, Region};
use crate::first_run::symbols::Symbols;
use timeline::{Names, Profile};

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

/// The call tree of a boot until its end mark.
#[derive(Clone, Debug, Default)]
pub struct BootCalls {
    /// How well calls were followed.
    pub counts: Counts,
    /// The call tree, in instructions.
    pub profile: Profile,
    /// The names of its nodes.
    pub names: Names,
    /// How much of the boot it accounts for.
    pub share: Share,
}

impl Followed {
    /// Its call tree.
    pub fn tree(&self) -> BootCalls {
        let until = end(&self.calls);
        let contexts = Contexts::new(self);
        let mut names = Names::default();
        let profile = profile(self, until, &contexts, &mut names).profile;
        BootCalls { counts: self.calls.counts, profile, names, share: Share::until(&self.calls, until) }
    }
}
