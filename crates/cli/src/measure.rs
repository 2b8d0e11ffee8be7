//! A boot reduced to the figures of a bench: recorded, analysed as any recording, kept or removed.

use crate::progress::Watcher;
use crate::{boot, variants::Varied};
use anyhow::{Context, bail};
use benchmark::{Boots, Journal, Measured, PhaseTime, Turn};
use machine::{Observer, RecordOptions};
use recording::{Manifest, OutcomeKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use timeline::Ns;

/// Rows of a boot that are kept one by one; the rest is one row. Usual are some hundred, a guest can have any number.
const ROWS_MOST: usize = 1000;
/// Of a row's name so many characters are kept.
const NAME_CHARACTERS_MOST: usize = 200;
/// What the rest is called.
const REST: &str = "(all other rows)";

/// Boots once into the folder that the options name, and measures. `None` if the user stopped it.
///
/// A boot that fails is measured too: it has an outcome and no total.
///
/// # Errors
/// If the boot cannot be begun, or its recording cannot be written or read.
pub fn boot(options: &RecordOptions, watcher: &mut Watcher) -> anyhow::Result<Option<Measured>> {
    if watcher.stop() {
        return Ok(None);
    }
    let began = Instant::now();
    let recorded = machine::record(options, watcher)?;
    let recorded_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if recorded.outcome.kind == OutcomeKind::Interrupted {
        return Ok(None);
    }
    if let Some(why) = recorded.manifest.notes.iter().find(|note| note.starts_with(machine::NO_WORKLOAD)) {
        bail!("{why}; what it said is in the console.log of {}", options.out.display());
    }
    Ok(Some(Measured { recorded_ns, ..measured(&options.out, &recorded.manifest)? }))
}

/// What a recording says of its boot.
fn measured(folder: &Path, manifest: &Manifest) -> anyhow::Result<Measured> {
    let outcome = manifest.outcome.as_ref();
    let recording = boot::open_recording(folder)?;
    let mut measured = Measured {
        metrics: boot::metrics(&recording)?,
        outcome: manifest.outcome_word().to_owned(),
        host_load: manifest.host.load1,
        ..Measured::default()
    };
    if outcome.is_none_or(|o| o.kind != OutcomeKind::Reached) {
        measured.detail = outcome.map(|o| o.detail.clone()).unwrap_or_default();
        return Ok(measured);
    }
    let opened = boot::open(folder)?;
    let boot = opened.boot(None)?;
    if boot.total <= Ns::ZERO {
        // A boot of which nothing says how long it took is no boot of 0 s.
        measured.detail = "its length is not known, because nothing in it has a time of the guest's; \
                           leave out --no-first-run, or record calls"
            .to_owned();
        return Ok(measured);
    }
    measured.total_ns = Some(boot.total.0);
    measured.phases = boot.phases.iter().map(|p| PhaseTime { name: p.name.to_string(), ns: p.length().0 }).collect();
    let wheres = &boot.tables().wheres;
    measured.rows = rows(wheres.iter().map(|row| (row.name.as_str(), row.self_time)));
    Ok(measured)
}

/// The rows, the largest first; what is beyond the most is one.
fn rows<'a>(all: impl Iterator<Item = (&'a str, Ns)>) -> Vec<PhaseTime> {
    let cut = |name: &str| name.chars().take(NAME_CHARACTERS_MOST).collect();
    let mut rows: Vec<PhaseTime> = all.map(|(name, time)| PhaseTime { name: cut(name), ns: time.0 }).collect();
    let rest: i64 = rows.iter().skip(ROWS_MOST).map(|row| row.ns).sum();
    rows.truncate(ROWS_MOST);
    rows.extend((rest != 0).then(|| PhaseTime { name: REST.to_owned(), ns: rest }));
    rows
}

/// Boots the variants of a bench, and keeps each boot in the journal the moment it is over.
pub struct Booter<'a> {
    variants: &'a [Varied],
    folder: &'a Path,
    journal: &'a mut Journal,
    watcher: &'a mut Watcher,
    began: Instant,
    /// Whether every boot's recording is kept; those that failed always are.
    pub keep_recordings: bool,
    /// How long the bench had been running before, if it goes on.
    pub before: Duration,
    /// Whether each round has a dummy argument of another length.
    pub dithered: bool,
}

impl<'a> Booter<'a> {
    /// Recordings go into folders of `folder`, one for each boot.
    pub fn new(
        variants: &'a [Varied],
        folder: &'a Path,
        journal: &'a mut Journal,
        watcher: &'a mut Watcher,
    ) -> Booter<'a> {
        let began = Instant::now();
        Booter {
            variants,
            folder,
            journal,
            watcher,
            began,
            before: Duration::ZERO,
            keep_recordings: false,
            dithered: false,
        }
    }

    fn recording(&self, number: u32) -> PathBuf {
        recording_of(self.folder, number)
    }
}

/// The recording of a boot, in the folder of all of them.
pub fn recording_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:04}"))
}

impl Boots for Booter<'_> {
    type Error = anyhow::Error;

    fn boot(&mut self, turn: &Turn) -> anyhow::Result<Option<Measured>> {
        let variant = &self.variants[turn.variant];
        self.watcher.doing(&doing(turn, &variant.name));
        let mut options = RecordOptions { out: self.recording(turn.number), ..variant.options.clone() };
        if let (true, Some(round)) = (self.dithered, turn.round) {
            options.guest.append = dithered(&options.guest.append, round);
        }
        boot(&options, self.watcher).with_context(|| format!("boot {} ({})", turn.number, variant.name))
    }

    fn keep(&mut self, boot: &benchmark::Boot) -> anyhow::Result<()> {
        self.journal.boot(boot)?;
        if self.keep_recordings || boot.measured.total_ns.is_none() {
            return Ok(());
        }
        let recording = self.recording(boot.number);
        std::fs::remove_dir_all(&recording).with_context(|| format!("cannot remove {}", recording.display()))
    }

    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }
}

/// What the line of progress begins with: which boot, and when all will be over.
fn doing(turn: &Turn, variant: &str) -> String {
    let of = turn.number.saturating_add(turn.left);
    let left = turn.left_ns.map_or_else(String::new, |left| format!(", {} left", Ns(left.min(i64::MAX as u64) as i64)));
    let warm_up = if turn.round.is_none() { ", warm-up" } else { "" };
    format!("boot {} of at most {of}{left} · {variant}{warm_up}", turn.number + 1)
}

/// So many different lengths, all short beside a command line.
const DITHER_LENGTHS: u32 = 61;

/// The command line with a dummy argument in front, of another length in each round. The kernel takes a name with a dot
/// for some module's, and leaves it alone.
pub fn dithered(append: &str, round: u32) -> String {
    let length = 1 + (round * 7) % DITHER_LENGTHS;
    format!("bootscope.dither={} {append}", "x".repeat(length as usize)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_another_length() {
        let mut lengths: Vec<usize> = (0..DITHER_LENGTHS).map(|round| dithered("quiet", round).len()).collect();
        lengths.sort_unstable();
        assert!(lengths.windows(2).all(|two| two[1] == two[0] + 1), "{lengths:?}");
        assert_eq!(dithered("", 0), "bootscope.dither=x");
    }

    #[test]
    fn rows_beyond_the_most_are_one() {
        let names: Vec<String> = (0..ROWS_MOST + 5).map(|i| i.to_string()).collect();
        let found = rows(names.iter().map(|name| (name.as_str(), Ns(2))));
        assert_eq!((found.len(), found[ROWS_MOST].ns), (ROWS_MOST + 1, 10));
        assert_eq!(found.iter().map(|row| row.ns).sum::<i64>(), 2 * (ROWS_MOST as i64 + 5));
        assert_eq!(rows([("a".repeat(10_000).as_str(), Ns(1))].into_iter())[0].name.len(), NAME_CHARACTERS_MOST);
    }
}
