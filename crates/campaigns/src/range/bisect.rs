//! Bisects a line of commits for the first slow one: builds and boots the commits that [`benchmark::range::Search`]
//! requests.
//!
//! The measurements are in the folder ([`Memory`]). The same command resumes a search that was stopped or killed.

use super::workshop::{Workshop, interrupted};
use anyhow::{Context, bail};
use benchmark::Ended;
use benchmark::range::{self, Answer, Built, Commit, Found, Measure, Memory, Repo, Search, Verdict};
use report::{Bisected, Named};
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
    let mut memory = Memory::open(&workshop.folder, &workshop.search_of(&ends.good, &ends.bad)?)?;
    if memory.goes_on() {
        let (commits, pairs) = memory.commits_and_pairs();
        let folder = workshop.folder.display();
        notes.note(&format!("going on: {folder} has {pairs} pairs of boots of {commits} commits"));
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
        kernels: 0,
        pairs: 0,
        cannot_say: Vec::new(),
        evidence: workshop.folder.display().to_string(),
    };
    let mut booter = Pairs { workshop, memory: &mut memory, line: Vec::new(), warm: false };
    search(&ends, &mut booter, &mut bisected)?;
    bisected.kernels = booter.workshop.kernels();
    bisected.pairs = memory.commits_and_pairs().1;
    bisected.cannot_say = memory.cannot_say();
    Ok(bisected)
}

/// Searches the line from the good end to the bad one. If the result is a merge, searches the line that it merged, from
/// its merge base. Repeats that while the result is a merge.
fn search(ends: &Ends, booter: &mut Pairs, bisected: &mut Bisected) -> anyhow::Result<()> {
    let Some(outcome) = along(&ends.good, &ends.bad, booter)? else { return Ok(()) };
    bisected.take(&outcome, booter.named(&outcome));
    while let Some(merge) = booter.only(&found_in(bisected)).filter(|merge| merge.parents.len() > 1) {
        let Some((outcome, named)) = inside(&merge, booter)? else { return Ok(()) };
        bisected.merges.push(Named::of(&merge));
        bisected.take(&outcome, named);
    }
    Ok(())
}

fn found_in(bisected: &Bisected) -> Vec<String> {
    let sure = bisected.verdict == Some(Verdict::Slow);
    bisected.candidates.iter().filter(|_| sure).map(|c| c.commit.clone()).collect()
}

/// The first slow commit of a line that a merge brought in. `None` if no commit of it is slow, or the search was
/// stopped.
fn inside(merge: &Commit, booter: &mut Pairs) -> anyhow::Result<Option<(Found, Vec<Named>)>> {
    for parent in &merge.parents[1..] {
        let Some(base) = booter.workshop.repo.merge_base(&merge.parents[0], parent)?.filter(|base| base != parent)
        else {
            continue;
        };
        let (base, tip) = (booter.workshop.repo.commit(&base)?, booter.workshop.repo.commit(parent)?);
        booter.workshop.notes.note(&format!("{} is a merge: its own line is searched", merge.short()));
        match along(&base, &tip, booter)? {
            Some(outcome) if matches!(outcome.verdict, Verdict::Slow | Verdict::Unsure) => {
                let named = booter.named(&outcome);
                return Ok(Some((outcome, named)));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn along(good: &Commit, bad: &Commit, booter: &mut Pairs) -> anyhow::Result<Option<Found>> {
    let words = [format!("{}..{}", good.id, bad.id)];
    let commits = booter.workshop.repo.commits(&words, true)?;
    booter.line = std::iter::once(good.clone()).chain(commits).collect();
    let mut search = Search::new(booter.line.len() - 1);
    booter.memory.tell(&booter.line, &mut search);
    range::run(&mut search, booter)
}

/// Builds and boots the pairs of commits that a search requests.
struct Pairs<'a, 'w> {
    workshop: Workshop<'w>,
    memory: &'a mut Memory,
    /// The searched line, from its good end on.
    line: Vec<Commit>,
    /// True if the host is warmed up.
    warm: bool,
}

impl Pairs<'_, '_> {
    fn named(&self, outcome: &Found) -> Vec<Named> {
        outcome.candidates.iter().filter_map(|&i| self.line.get(i)).map(Named::of).collect()
    }

    /// The commit of this name, if it is the only one and on the line.
    fn only(&self, names: &[String]) -> Option<Commit> {
        let [name] = names else { return None };
        self.line.iter().find(|commit| commit.id == *name).cloned()
    }

    fn cannot_say(&mut self, commit: &Commit, why: String) -> anyhow::Result<Answer> {
        self.workshop.notes.note(&format!("{} cannot say: {why}", commit.short()));
        self.memory.skip(commit, why)?;
        Ok(Answer::CannotSay)
    }
}

impl Measure for Pairs<'_, '_> {
    type Error = anyhow::Error;

    fn measure(&mut self, at: usize, pairs: u32) -> anyhow::Result<Answer> {
        let (good, commit) = (self.line[0].clone(), self.line[at].clone());
        let first = match self.workshop.build(&good, "the good end")? {
            Built::Kernel { path, .. } => path,
            Built::CannotSay(why) => bail!("{}, which all others are compared with, cannot say: {why}", good.short()),
            Built::Stopped => return Ok(Answer::Stopped(Vec::new())),
        };
        let second = match self.workshop.build(&commit, &format!("{at} of {}", self.line.len() - 1))? {
            Built::Kernel { path, .. } => path,
            Built::CannotSay(why) => return self.cannot_say(&commit, why),
            Built::Stopped => return Ok(Answer::Stopped(Vec::new())),
        };
        let plan = self.workshop.plan(2, pairs, u32::from(!self.warm));
        self.warm = true;
        let folder = self.memory.next_folder();
        let document = self.workshop.bench(&[(&good, first), (&commit, second)], plan, &folder)?;
        let logs = range::log_ratios(&document);
        self.memory.learn(&good, &commit, &logs);
        if interrupted(&document) || self.workshop.stopped() {
            return Ok(Answer::Stopped(logs));
        }
        match document.ended {
            Some(Ended::NeverReached(0)) => {
                bail!("{}, which all others are compared with, does not boot", good.short())
            }
            Some(Ended::NeverReached(_)) => {
                self.cannot_say(&commit, format!("it does not boot; see {}", folder.display()))
            }
            _ => {
                let log_ratios = self.memory.logs(&good, &commit);
                let mean = range::mean_ratio(log_ratios);
                let text = format!(
                    "{at} of {} · {}: {mean:.4} of the good end, {} pairs",
                    self.line.len() - 1,
                    commit.short(),
                    log_ratios.len()
                );
                self.workshop.notes.note(&text);
                Ok(Answer::Pairs(logs))
            }
        }
    }
}
