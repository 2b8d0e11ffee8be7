//! Measures every commit of a range. All are built first and then booted in turns, so that the host's noise does not
//! favour a commit.

use super::workshop::{Workshop, interrupted};
use super::{RangeResult, Request};
use crate::benches::JOURNAL;
use anyhow::bail;
use benchmark::Document;
use benchmark::range::{Built, Commit, steps};
use report::{CommitRange, RangeCommit};
use std::path::PathBuf;

/// The default folder for the boots of a range.
pub fn folder() -> PathBuf {
    let now: String = recording::Manifest::begun_now().created.chars().filter(char::is_ascii_digit).collect();
    PathBuf::from(format!("boots/range-{now}"))
}

/// Builds and boots the commits.
pub fn run(request: &Request, mut workshop: Workshop) -> anyhow::Result<RangeResult> {
    if workshop.folder.join(JOURNAL).exists() {
        bail!("{} has a bench in it already: give another folder with -o", workshop.folder.display());
    }
    let commits = commits(request, &workshop)?;
    // Check the number of rounds before hours of builds.
    let rounds = workshop.rounds(request.runs, commits.len())?;
    let mut built: Vec<(&Commit, PathBuf)> = Vec::new();
    let mut listed: Vec<RangeCommit> = Vec::new();
    for (i, commit) in commits.iter().enumerate() {
        let cannot_say = match workshop.build(commit, &format!("{} of {}", i + 1, commits.len()))? {
            Built::Kernel { path, .. } => {
                built.push((commit, path));
                None
            }
            Built::CannotSay(why) => {
                workshop.notes.note(&format!("{} cannot say: {why}", commit.short()));
                Some(why)
            }
            Built::Stopped => bail!("stopped; what was built is kept, and the same command goes on from there"),
        };
        let (commit, subject) = (commit.id.clone(), commit.subject.clone());
        listed.push(RangeCommit { commit, subject, cannot_say, median_ns: None, step: None });
    }
    if built.is_empty() {
        bail!(
            "none of {} commits could be built; the logs are in {}",
            commits.len(),
            workshop.folder.join("builds").display()
        );
    }
    let folder = workshop.folder.clone();
    let plan = workshop.plan(built.len(), rounds, 1);
    let document = workshop.bench(&built, plan, &folder)?;
    fill(&mut listed, &document);
    let range = CommitRange {
        schema: "bootscope.range/1".to_owned(),
        repo: workshop.repo.top().display().to_string(),
        bench: folder.display().to_string(),
        deterministic: document.head.deterministic,
        commits: listed,
    };
    let measured = range.commits.iter().filter(|c| c.cannot_say.is_none()).all(|c| c.median_ns.is_some());
    let is_complete = measured && !interrupted(&document);
    Ok(RangeResult::Each { range, is_complete })
}

/// The commits of the range, after their common parent if there is exactly one.
fn commits(request: &Request, workshop: &Workshop) -> anyhow::Result<Vec<Commit>> {
    let commits = workshop.repo.commits(&request.range, request.first_parent)?;
    if commits.is_empty() {
        bail!("no commit is in {}", request.range.join(" "));
    }
    let before = match workshop.repo.boundary(&request.range)?.as_slice() {
        [one] => Some(workshop.repo.commit(one)?),
        _ => None,
    };
    Ok(before.into_iter().chain(commits).collect())
}

/// Fills in the measured times of each commit that was built.
fn fill(listed: &mut [RangeCommit], document: &Document) {
    let steps = steps(document);
    let measured = listed.iter_mut().filter(|c| c.cannot_say.is_none());
    for ((commit, runs), step) in measured.zip(&document.results.variants).zip(steps) {
        commit.median_ns = runs.total.as_ref().map(|total| total.median);
        commit.step = step;
    }
}
