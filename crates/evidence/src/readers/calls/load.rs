//! The call tree of a recording with calls, as a table of functions shows it.

use crate::boot::followed::Followed;
use crate::formats::calls::Counts;
use crate::readers::calls::contexts::Contexts;
use crate::readers::calls::profile::{Share, end, profile};
use timeline::{Names, Profile};

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
