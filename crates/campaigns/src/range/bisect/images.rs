//! Searches by instructions: one boot of each image, and more only where layouts matter.

use super::{Bench, Searcher};
use anyhow::bail;
use benchmark::range::exact::{self, Count, Counted};
use benchmark::range::{Found, Image};

/// Boots the images of a line's commits.
pub(super) struct Images<'b, 'w> {
    bench: &'b mut Bench<'w>,
}

impl<'b, 'w> Images<'b, 'w> {
    pub(super) fn new(bench: &'b mut Bench<'w>) -> Images<'b, 'w> {
        Images { bench }
    }
}

impl<'w> Searcher<'w> for Images<'_, 'w> {
    fn bench(&mut self) -> &mut Bench<'w> {
        self.bench
    }

    fn search(&mut self) -> anyhow::Result<Option<Found>> {
        exact::run(self.bench.line.len() - 1, self)
    }
}

impl Count for Images<'_, '_> {
    type Error = anyhow::Error;

    fn image(&mut self, commit: usize) -> anyhow::Result<Image> {
        self.bench.image(commit)
    }

    fn boot(&mut self, at: usize, layout: usize) -> anyhow::Result<Counted> {
        let counted = self.bench.count(at, layout)?;
        if counted == Counted::CannotSay {
            let why = self.bench.why_it_does_not_boot(at);
            self.bench.cannot_say(at, why)?;
        }
        Ok(counted)
    }
}

impl Bench<'_> {
    /// The count of a commit's image with a layout, from an earlier boot or from a new one.
    pub(in super::super) fn count(&mut self, at: usize, layout: usize) -> anyhow::Result<Counted> {
        let commit = self.line[at].clone();
        let Some((kernel, image)) = self.workshop.kernel_of(&commit) else {
            bail!("{} was not built", commit.short());
        };
        let layout = u32::try_from(layout)?;
        if let Some(counted) = self.memory.count(&image, layout) {
            return Ok(counted);
        }
        let folder = self.memory.next_folder();
        let booted = self.workshop.boot_once(&commit, kernel, layout, &folder)?;
        let Some(measured) = booted else { return Ok(Counted::Stopped) };
        let counted = Counted::of(&measured);
        self.memory.learn_count(&image, layout, counted);
        let count = measured.total_ns.map_or(measured.outcome, |count| format!("{count} instructions"));
        self.workshop.notes.note(&format!("{} · {}: {count}", self.place(at), commit.short()));
        Ok(counted)
    }

    /// The reason for a commit's failed boot: the folder that has it.
    pub(in super::super) fn why_it_does_not_boot(&self, at: usize) -> String {
        let image = self.workshop.kernel_of(&self.line[at]).map(|(_, image)| image).unwrap_or_default();
        let step = self.memory.steps_of(&image).pop().unwrap_or_default();
        format!("it does not boot; see {}", step.display())
    }
}
