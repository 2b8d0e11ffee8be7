//! An excerpt of a kernel log has no beginning of the boot: which phases it cannot show.

use super::Merge;
use timeline::Boundary;

impl Merge<'_> {
    /// A log that begins inside an initcall has its first message after that initcall's start: none of it is early kernel.
    pub fn only_initcalls(&mut self) {
        let names = &self.timeline.names;
        let is_level = |b: &&Boundary| names.get(b.phase).starts_with("initcalls: ");
        let Some(first) = self.timeline.boundaries.iter().filter(is_level).map(|b| b.at).min() else { return };
        let early = names.find("early kernel");
        self.timeline.boundaries.retain(|b| Some(b.phase) != early || b.at <= first);
    }
}
