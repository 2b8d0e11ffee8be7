//! Bisects a line of commits for the first slow one: builds and boots the commits that a search requests.
//!
//! The measurements are in the folder ([`Memory`]). The same command resumes a search that was stopped or killed.

mod images;
mod pairs;

use super::workshop::Workshop;
use crate::{diff, opened_boot};
use anyhow::{Context, bail};
use benchmark::range::{Built, Commit, Found, Image, Memory, Repo, Verdict};
use images::Images;
use pairs::Pairs;
use report::{Bisected, Diff, Moved, Named};
use std::path::PathBuf;

/// The two ends of the range.
pub struct Ends {
    good: Commit,
    bad: Commit,
}

impl Ends {
    /// `good..bad`, as git writes it.
    pub fn of(repo: &Repo, words: &[String]) -> anyhow::Result<Ends> {
        let [word] = words else { bail!("--bisect takes one range, as good..bad") };
        let (good, bad) = word.split_once("..").with_context(|| format!("--bisect {word}: write good..bad"))?;
        let end = |name: &str| repo.commit(if name.is_empty() { "HEAD" } else { name });
        let (good, bad) = (end(good)?, end(bad.trim_start_matches('.'))?);
        match repo.merge_base(&good.id, &bad.id)? {
            Some(base) if base == good.id && base != bad.id => Ok(Ends { good, bad }),
            Some(base) if base == bad.id => {
                bail!("--bisect {word}: the bad end lies before the good one, or is the same")
            }
            Some(base) => {
                bail!("--bisect {word}: the bad end does not grow on the good one; they parted at {base}: begin there")
            }
            None => bail!("--bisect {word}: the two have no commit in common"),
        }
    }

    /// The default folder for the boots: the same for the same ends.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(format!("boots/range-{}-{}", self.good.short(), self.bad.short()))
    }
}

/// Runs the search.
pub fn run(ends: Ends, workshop: Workshop) -> anyhow::Result<Bisected> {
    let notes = workshop.notes;
    let deterministic = workshop.is_deterministic();
    let memory = Memory::open(&workshop.folder, &workshop.search_of(&ends.good, &ends.bad, "bisect")?)?;
    if memory.goes_on() {
        let ((commits, pairs), (images, boots)) = (memory.commits_and_pairs(), memory.images_and_boots());
        let folder = workshop.folder.display();
        notes.note(&match deterministic {
            true => format!("going on: {folder} has {boots} boots of {images} images"),
            false => format!("going on: {folder} has {pairs} pairs of boots of {commits} commits"),
        });
    }
    let mut bisected = Bisected {
        schema: "bootscope.bisect/1".to_owned(),
        repo: workshop.repo.top().display().to_string(),
        good: ends.good.id.clone(),
        bad: ends.bad.id.clone(),
        verdict: None,
        candidates: Vec::new(),
        probability: 0.0,
        ends: None,
        before: None,
        after: None,
        merges: Vec::new(),
        deterministic,
        moved: None,
        kernels: 0,
        images: 0,
        boots: 0,
        pairs: 0,
        cannot_say: Vec::new(),
        evidence: workshop.folder.display().to_string(),
    };
    let mut bench = Bench { workshop, memory, line: Vec::new() };
    if deterministic {
        let step = search(&ends, &mut Images::new(&mut bench), &mut bisected)?;
        bisected.moved = step.map(|step| moved(&mut bench, &step)).transpose()?.flatten();
    } else {
        search(&ends, &mut Pairs::new(&mut bench), &mut bisected)?;
    }
    bisected.kernels = bench.workshop.kernels();
    bisected.pairs = bench.memory.commits_and_pairs().1;
    (bisected.images, bisected.boots) = bench.memory.images_and_boots();
    bisected.cannot_say = bench.memory.cannot_say();
    Ok(bisected)
}

/// The measured commit before the candidates, and the last candidate.
type Step = [Commit; 2];

/// The functions that differ between the two sides of a step, if its boots have call traces.
fn moved(bench: &mut Bench, step: &Step) -> anyhow::Result<Option<Moved>> {
    let mut recordings = Vec::new();
    for commit in step {
        let Some((_, image)) = bench.workshop.kernel_of(commit) else { return Ok(None) };
        recordings.push(bench.recordings(&image));
    }
    let [before, after] = [&recordings[0], &recordings[1]];
    let (Some(first_before), Some(first_after)) = (before.first(), after.first()) else { return Ok(None) };
    let [old, new] = [opened_boot::open(first_before)?, opened_boot::open(first_after)?];
    if old.calls.is_none() || new.calls.is_none() {
        return Ok(None);
    }
    let names = [first_before, first_after].map(|path| path.display().to_string());
    let diff = diff::compared((&names[0], &old), (&names[1], &new), false)?;
    let diff = match before.len().min(after.len()) {
        0 | 1 => diff,
        _ => diff.dithered(&from_the_first(before)?, &from_the_first(after)?),
    };
    Ok(Some(Moved::of(diff)))
}

/// The differences of an image's first boot from those with other layouts.
fn from_the_first(recordings: &[PathBuf]) -> anyhow::Result<Vec<Diff>> {
    let [first, others @ ..] = recordings else { return Ok(Vec::new()) };
    let first = opened_boot::open(first)?;
    let one = |other: &PathBuf| diff::compared(("", &first), ("", &opened_boot::open(other)?), false);
    others.iter().map(one).collect()
}

/// Searches the line from the good end to the bad one. If the result is a merge, searches the line that it merged, from
/// its merge base. Repeats that while the result is a merge.
fn search<'w>(ends: &Ends, searcher: &mut dyn Searcher<'w>, bisected: &mut Bisected) -> anyhow::Result<Option<Step>> {
    let Some(outcome) = along(&ends.good, &ends.bad, searcher)? else { return Ok(None) };
    bisected.take(&outcome, searcher.bench().named(&outcome));
    let mut step = searcher.bench().step(&outcome);
    while let Some(merge) = searcher.bench().only(&found_in(bisected)).filter(|merge| merge.parents.len() > 1) {
        let Some(outcome) = inside(&merge, searcher)? else { return Ok(step) };
        bisected.merges.push(Named::of(&merge));
        bisected.take(&outcome, searcher.bench().named(&outcome));
        step = searcher.bench().step(&outcome);
    }
    Ok(step)
}

fn found_in(bisected: &Bisected) -> Vec<String> {
    let sure = bisected.verdict == Some(Verdict::Slow);
    bisected.candidates.iter().filter(|_| sure).map(|c| c.commit.clone()).collect()
}

/// The first slow commit of a line that a merge brought in. The bench then has that line. `None` if no commit of it is
/// slow, or the search was stopped.
fn inside<'w>(merge: &Commit, searcher: &mut dyn Searcher<'w>) -> anyhow::Result<Option<Found>> {
    for parent in &merge.parents[1..] {
        let workshop = &searcher.bench().workshop;
        let repo = workshop.repo;
        let Some(base) = repo.merge_base(&merge.parents[0], parent)?.filter(|base| base != parent) else { continue };
        let (base, tip) = (repo.commit(&base)?, repo.commit(parent)?);
        workshop.notes.note(&format!("{} is a merge: its own line is searched", merge.short()));
        match along(&base, &tip, searcher)? {
            Some(outcome) if matches!(outcome.verdict, Verdict::Slow | Verdict::Unsure) => return Ok(Some(outcome)),
            _ => {}
        }
    }
    Ok(None)
}

/// Searches the line from the good end to the bad one. `None` if the user stopped the search.
fn along<'w>(good: &Commit, bad: &Commit, searcher: &mut dyn Searcher<'w>) -> anyhow::Result<Option<Found>> {
    let words = [format!("{}..{}", good.id, bad.id)];
    let bench = searcher.bench();
    let commits = bench.workshop.repo.commits(&words, true)?;
    bench.line = std::iter::once(good.clone()).chain(commits).collect();
    searcher.search()
}

/// A way to search a line of commits.
trait Searcher<'w> {
    fn bench(&mut self) -> &mut Bench<'w>;
    /// Searches the bench's line. `None` if the user stopped the search.
    fn search(&mut self) -> anyhow::Result<Option<Found>>;
}

/// The commits of a line, and the place to build and boot them.
pub(super) struct Bench<'w> {
    pub(super) workshop: Workshop<'w>,
    pub(super) memory: Memory,
    /// The line, from its good end on.
    pub(super) line: Vec<Commit>,
}

impl Bench<'_> {
    fn named(&self, outcome: &Found) -> Vec<Named> {
        outcome.candidates.iter().filter_map(|&i| self.line.get(i)).map(Named::of).collect()
    }

    /// The measured commit before the candidates, and the last candidate.
    fn step(&self, outcome: &Found) -> Option<Step> {
        let (first, last) = (outcome.candidates.first()?, outcome.candidates.last()?);
        Some([self.line.get(first.checked_sub(1)?)?.clone(), self.line.get(*last)?.clone()])
    }

    /// The commit of this name, if it is the only one and on the line.
    fn only(&self, names: &[String]) -> Option<Commit> {
        let [name] = names else { return None };
        self.line.iter().find(|commit| commit.id == *name).cloned()
    }

    /// Builds a commit of the line. Remembers if it cannot be built.
    fn build(&mut self, at: usize) -> anyhow::Result<Built> {
        let built = self.workshop.build(&self.line[at], &self.place(at))?;
        if let Built::CannotSay(why) = &built {
            self.cannot_say(at, why.clone())?;
        }
        Ok(built)
    }

    /// Builds a commit of the line, unless it is known that it cannot be measured.
    fn image(&mut self, at: usize) -> anyhow::Result<Image> {
        if self.memory.is_skipped(&self.line[at]) {
            return Ok(Image::CannotSay);
        }
        Ok(match self.build(at)? {
            Built::Kernel { image, .. } => Image::Hash(image),
            Built::CannotSay(_) => Image::CannotSay,
            Built::Stopped => Image::Stopped,
        })
    }

    /// Remembers that a commit cannot be measured.
    ///
    /// # Errors
    /// If it is the good end, with which all others are compared.
    fn cannot_say(&mut self, at: usize, why: String) -> anyhow::Result<()> {
        let commit = &self.line[at];
        if at == 0 {
            bail!("{}, which all others are compared with, cannot say: {why}", commit.short());
        }
        self.workshop.notes.note(&format!("{} cannot say: {why}", commit.short()));
        Ok(self.memory.skip(commit, why)?)
    }

    /// The place of a commit in the line, for the user.
    fn place(&self, at: usize) -> String {
        if at == 0 { "the good end".to_owned() } else { format!("{at} of {}", self.line.len() - 1) }
    }

    /// The recordings of an image that are kept, one for each layout.
    fn recordings(&self, image: &str) -> Vec<PathBuf> {
        let steps = self.memory.steps_of(image);
        steps.iter().filter_map(|step| super::workshop::recording_in(step)).collect()
    }
}
