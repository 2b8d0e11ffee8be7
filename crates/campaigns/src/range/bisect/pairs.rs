//! A search by the length of boots: compares each commit with the good end in pairs of boots.

use super::super::workshop::interrupted;
use super::{Bench, Searcher};
use anyhow::bail;
use benchmark::Ended;
use benchmark::range::{self, Answer, Built, Found, Image, Measure, Search};

/// Boots pairs of a commit and the line's good end.
pub(super) struct Pairs<'b, 'w> {
    bench: &'b mut Bench<'w>,
    /// True if the host is warmed up.
    warm: bool,
}

impl<'b, 'w> Pairs<'b, 'w> {
    pub(super) fn new(bench: &'b mut Bench<'w>) -> Pairs<'b, 'w> {
        Pairs { bench, warm: false }
    }
}

impl<'w> Searcher<'w> for Pairs<'_, 'w> {
    fn bench(&mut self) -> &mut Bench<'w> {
        self.bench
    }

    fn search(&mut self) -> anyhow::Result<Option<Found>> {
        let mut search = Search::new(self.bench.line.len() - 1);
        self.bench.memory.tell(&self.bench.line, &mut search);
        range::run(&mut search, self)
    }
}

impl Measure for Pairs<'_, '_> {
    type Error = anyhow::Error;

    fn image(&mut self, at: usize) -> anyhow::Result<Image> {
        self.bench.image(at)
    }

    fn measure(&mut self, at: usize, pairs: u32) -> anyhow::Result<Answer> {
        let bench = &mut *self.bench;
        let mut kernels = Vec::new();
        for commit in [0, at] {
            match bench.build(commit)? {
                Built::Kernel { path, .. } => kernels.push((bench.line[commit].clone(), path)),
                Built::CannotSay(_) => return Ok(Answer::CannotSay),
                Built::Stopped => return Ok(Answer::Stopped(Vec::new())),
            }
        }
        let [(good, first), (commit, second)] = &kernels[..] else { return Ok(Answer::CannotSay) };
        let plan = bench.workshop.plan(2, pairs, u32::from(!self.warm));
        self.warm = true;
        let folder = bench.memory.next_folder();
        let document = bench.workshop.bench(&[(good, first.clone()), (commit, second.clone())], plan, &folder)?;
        let logs = range::log_ratios(&document);
        bench.memory.learn(good, commit, &logs);
        if interrupted(&document) || bench.workshop.stopped() {
            return Ok(Answer::Stopped(logs));
        }
        match document.ended {
            Some(Ended::NeverReached(0)) => {
                bail!("{}, which all others are compared with, does not boot", good.short())
            }
            Some(Ended::NeverReached(_)) => {
                bench.cannot_say(at, format!("it does not boot; see {}", folder.display()))?;
                Ok(Answer::CannotSay)
            }
            _ => {
                let log_ratios = bench.memory.logs(good, commit);
                let mean = range::mean_ratio(log_ratios);
                let pairs = log_ratios.len();
                let place = bench.place(at);
                let text = format!("{place} · {}: {mean:.4} of the good end, {pairs} pairs", commit.short());
                bench.workshop.notes.note(&text);
                Ok(Answer::Pairs(logs))
            }
        }
    }
}
