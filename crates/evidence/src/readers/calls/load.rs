//! The call tree of a recording with calls, for the tables of functions.

use crate::boot::followed::Followed;
use crate::formats::calls::Counts;
use crate::readers::calls::contexts::Contexts;
use crate::readers::calls::profile::{Share, end, profile};
use timeline::{Names, Profile};

/// The call tree of a boot up to its end mark.
#[derive(Clone, Debug, Default)]
pub struct BootCalls {
    /// The plugin's counts of followed and left-out calls.
    pub counts: Counts,
    /// The call tree, in instructions.
    pub profile: Profile,
    /// The names of the tree's nodes.
    pub names: Names,
    /// Counts of instructions inside and outside known calls.
    pub share: Share,
}

impl Followed {
    /// The call tree up to the end mark.
    pub fn tree(&self) -> BootCalls {
        let until = end(&self.calls);
        let contexts = Contexts::new(self);
        let mut names = Names::default();
        let profile = profile(self, until, &contexts, &mut names).profile;
        BootCalls { counts: self.calls.counts, profile, names, share: Share::until(&self.calls, until) }
    }
}
