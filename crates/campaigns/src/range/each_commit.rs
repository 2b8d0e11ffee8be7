//! Measures every commit of a range. All are built first; commits with the same image are booted as one.
//!
//! By the clock, images are booted in turns, so that the host's noise favours none. Boots that count instructions repeat
//! exactly, so each image is booted once, unless the user asks for more rounds.

use super::bisect::Bench;
use super::workshop::{Workshop, interrupted};
use super::{RangeResult, Request};
use crate::benches::JOURNAL;
use anyhow::bail;
use benchmark::range::exact::Counted;
use benchmark::range::{Built, Commit, Memory, SEARCH, one_boot, steps};
use benchmark::{Document, Measured};
use report::{CommitRange, RangeCommit};
use statistics::verdict::Comparison;
use statistics::{Interval, describe};
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
    let by_rounds = !workshop.is_deterministic() || request.runs.is_some();
    // Check the number of rounds, or the folder, before hours of builds.
    let rounds = workshop.rounds(request.runs, commits.len())?;
    let memory = match (by_rounds, commits.first(), commits.last()) {
        (false, Some(first), Some(last)) => {
            Some(Memory::open(&workshop.folder, &workshop.search_of(first, last, "each")?)?)
        }
        _ if workshop.folder.join(SEARCH).exists() => {
            bail!("{} has boots of a search in it: give another folder with -o", workshop.folder.display())
        }
        _ => None,
    };
    let mut line = Line::build(commits, &mut workshop)?;
    let (folder, deterministic) = (workshop.folder.clone(), workshop.is_deterministic());
    let repo = workshop.repo.top().display().to_string();
    let is_whole = match memory {
        Some(memory) => {
            let commits = line.commits.iter().map(|c| c.commit.clone()).collect();
            line.boot_once(&mut Bench { workshop, memory, line: commits })?
        }
        None => line.boot_in_turns(&mut workshop, rounds)?,
    };
    let commits: Vec<RangeCommit> = line.commits.into_iter().map(|c| c.listed).collect();
    let schema = "bootscope.range/1".to_owned();
    let range = CommitRange { schema, repo, bench: folder.display().to_string(), deterministic, commits };
    let measured = range.commits.iter().filter(|c| c.cannot_say.is_none()).all(|c| c.median_ns.is_some());
    Ok(RangeResult::Each { range, is_complete: measured && is_whole })
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

/// The commits of a range, and their images.
struct Line {
    commits: Vec<LineCommit>,
    /// Path of each different image, and the commit that it was first built for.
    images: Vec<(Commit, PathBuf)>,
}

struct LineCommit {
    commit: Commit,
    /// Index of its image; `None` if it does not build.
    image: Option<usize>,
    listed: RangeCommit,
}

impl Line {
    /// Builds all commits.
    fn build(commits: Vec<Commit>, workshop: &mut Workshop) -> anyhow::Result<Line> {
        let of = commits.len();
        let mut line = Line { commits: Vec::new(), images: Vec::new() };
        let mut hashes: Vec<String> = Vec::new();
        for (i, commit) in commits.into_iter().enumerate() {
            let mut listed =
                RangeCommit { commit: commit.id.clone(), subject: commit.subject.clone(), ..RangeCommit::default() };
            match workshop.build(&commit, &format!("{} of {of}", i + 1))? {
                Built::Kernel { path, image, .. } => {
                    listed.image = Some(image.clone());
                    if !hashes.contains(&image) {
                        hashes.push(image);
                        line.images.push((commit.clone(), path));
                    }
                }
                Built::CannotSay(why) => {
                    workshop.notes.note(&format!("{} cannot say: {why}", commit.short()));
                    listed.cannot_say = Some(why);
                }
                Built::Stopped => bail!("stopped; what was built is kept, and the same command goes on from there"),
            }
            let image = listed.image.as_ref().and_then(|image| hashes.iter().position(|hash| hash == image));
            line.commits.push(LineCommit { commit, image, listed });
        }
        if line.images.is_empty() {
            let logs = workshop.folder.join("builds");
            bail!("none of {of} commits could be built; the logs are in {}", logs.display());
        }
        let (images, built) = (line.images.len(), line.commits.iter().filter(|c| c.image.is_some()).count());
        if images < built {
            workshop.notes.note(&format!("{built} commits have {images} different images"));
        }
        Ok(line)
    }

    /// Boots each image once, and again with another layout where a step rests on a single boot, up to a tenth more boots.
    /// Returns true if nothing stopped it.
    fn boot_once(&mut self, bench: &mut Bench) -> anyhow::Result<bool> {
        let mut counts: Vec<Vec<f64>> = vec![Vec::new(); self.images.len()];
        for (image, counts) in counts.iter_mut().enumerate() {
            match bench.count(self.first_with(image), 0)? {
                Counted::Instructions(count) => counts.push(count),
                Counted::CannotSay => {
                    let why = bench.why_it_does_not_boot(self.first_with(image));
                    self.cannot_say(image, &why);
                }
                Counted::Stopped => return Ok(false),
            }
        }
        let mut more = self.images.len() / 10;
        let order = self.order();
        let of_line = |counts: &[Vec<f64>]| order.iter().map(|&image| counts[image].clone()).collect::<Vec<_>>();
        while let Some(at) = one_boot::again(&of_line(&counts)).filter(|_| more > 0) {
            let image = order[at];
            match bench.count(self.first_with(image), counts[image].len())? {
                Counted::Instructions(count) => counts[image].push(count),
                Counted::CannotSay => break,
                Counted::Stopped => return Ok(false),
            }
            more -= 1;
        }
        let median = |image: usize| {
            let estimate = describe::mean(&counts[image]);
            // It repeats exactly: layouts are no error of this boot.
            (!counts[image].is_empty()).then_some(Interval { estimate, low: estimate, high: estimate, confidence: 0.0 })
        };
        self.fill(median, one_boot::steps(&of_line(&counts)));
        Ok(true)
    }

    /// Boots all images in turns. Returns true if nothing stopped it.
    fn boot_in_turns(&mut self, workshop: &mut Workshop, rounds: u32) -> anyhow::Result<bool> {
        let folder = workshop.folder.clone();
        let mut plan = workshop.plan(self.images.len(), rounds, 1);
        // An image that does not boot takes no other with it.
        (plan.leaves_out, plan.leaves_out_first) = (true, true);
        let kernels: Vec<(&Commit, PathBuf)> =
            self.images.iter().map(|(commit, path)| (commit, path.clone())).collect();
        let document = workshop.bench(&kernels, plan, &folder)?;
        for image in 0..self.images.len() {
            if document.results.variants[image].total.is_none() && !interrupted(&document) {
                self.cannot_say(image, &why_it_does_not_boot(&document, image));
            }
        }
        let median = |image: usize| document.results.variants[image].total.as_ref().map(|total| total.median);
        self.fill(median, steps(&document, &self.order()));
        Ok(!interrupted(&document))
    }

    /// The first commit with an image.
    fn first_with(&self, image: usize) -> usize {
        self.commits.iter().position(|commit| commit.image == Some(image)).unwrap_or(0)
    }

    /// The images in the order of the commits, without those that cannot be measured. No image follows itself.
    fn order(&self) -> Vec<usize> {
        let measured = self.commits.iter().filter(|commit| commit.listed.cannot_say.is_none());
        let mut order: Vec<usize> = measured.filter_map(|commit| commit.image).collect();
        order.dedup();
        order
    }

    /// Marks the commits with an image that does not boot.
    fn cannot_say(&mut self, image: usize, why: &str) {
        for commit in self.commits.iter_mut().filter(|commit| commit.image == Some(image)) {
            commit.listed.cannot_say = Some(why.to_owned());
        }
    }

    /// Fills in each commit's time and step. `steps` are in the order of [`Line::order`].
    fn fill(&mut self, median: impl Fn(usize) -> Option<Interval>, steps: Vec<Option<Comparison>>) {
        let (mut before, mut steps) = (None, steps.into_iter());
        for commit in self.commits.iter_mut().filter(|commit| commit.listed.cannot_say.is_none()) {
            let Some(image) = commit.image else { continue };
            commit.listed.median_ns = median(image);
            commit.listed.is_same_image = before == Some(image);
            if before != Some(image) {
                commit.listed.step = steps.next().flatten();
            }
            before = Some(image);
        }
    }
}

/// The reason why a variant has no total: the outcome of its last boot, and where that boot's recording is.
fn why_it_does_not_boot(document: &Document, variant: usize) -> String {
    let last = document.boots.iter().rfind(|boot| boot.variant == variant);
    let Some(last) = last else { return "it was not booted".to_owned() };
    let Measured { outcome, detail, .. } = &last.measured;
    let detail = if detail.is_empty() { String::new() } else { format!(", {detail}") };
    format!("it does not boot ({outcome}{detail}); see boots/{:04}", last.number)
}
