//! The boots of a bench: each is recorded, read as any recording, and kept or removed. Its figures are `benchmark`'s to say.

use crate::Watcher;
use crate::up_to::UpTo;
use crate::{Varied, opened};
use anyhow::{Context, bail};
use benchmark::{Boots, Journal, Measured, Turn, Values};
use machine::RecordOptions;
use recording::{Manifest, OutcomeKind, Recording};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use timeline::Ns;

/// Boots once into the folder that the options name, and measures. `None` if the user stopped it.
///
/// A boot that fails is measured too: it has an outcome and no total.
///
/// # Errors
/// If the boot cannot be begun, or its recording cannot be written or read.
pub fn boot(options: &RecordOptions, up_to: &UpTo, watcher: &mut dyn Watcher) -> anyhow::Result<Option<Measured>> {
    if watcher.stop() {
        return Ok(None);
    }
    let began = Instant::now();
    let recorded = machine::record(options, watcher.observer())?;
    let recorded_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if recorded.outcome.kind == OutcomeKind::Interrupted {
        return Ok(None);
    }
    if let Some(why) = &recorded.no_workload {
        bail!("the workload failed: {why}; what it said is in the console.log of {}", options.out.display());
    }
    Ok(Some(Measured { recorded_ns, ..measured(&options.out, &recorded.manifest, up_to)? }))
}

/// What a recording says of its boot.
fn measured(folder: &Path, manifest: &Manifest, up_to: &UpTo) -> anyhow::Result<Measured> {
    let outcome = manifest.outcome.as_ref();
    let recording = opened::open_recording(folder)?;
    let mut measured = Measured {
        metrics: Values::of_recording(&recording)?,
        outcome: manifest.outcome_word().to_owned(),
        host_load: manifest.host.load1,
        ..Measured::default()
    };
    if outcome.is_none_or(|o| o.kind != OutcomeKind::Reached) {
        measured.detail = with_last_line(outcome.map(|o| o.detail.clone()).unwrap_or_default(), &recording)?;
        return Ok(measured);
    }
    let mut opened = opened::open(folder)?;
    measured.take_milestones(&opened.timeline);
    if let Err(why) = up_to.cut(&mut opened) {
        measured.detail = format!("{why:#}");
        return Ok(measured);
    }
    let boot = opened.boot(None)?;
    measured.take_figures(boot.total, &boot.phases, boot.tables());
    Ok(measured)
}

/// Of a last line this much is kept.
const LINE_CHARACTERS_MOST: usize = 200;

/// What shows how a boot failed, with what the kernel said last on its console.
fn with_last_line(detail: String, recording: &Recording) -> anyhow::Result<String> {
    let console = recording.read("console.log")?.unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let last = console.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = last.chars().take(LINE_CHARACTERS_MOST).collect();
    Ok(match (detail.is_empty(), last.is_empty() || detail.contains(&last)) {
        (_, true) => detail,
        (true, false) => format!("the last line of its console: {last}"),
        (false, false) => format!("{detail}; the last line of its console: {last}"),
    })
}

/// Boots the variants of a bench, and keeps each boot in the journal the moment it is over.
pub struct Booter<'a> {
    variants: &'a [Varied],
    folder: &'a Path,
    journal: &'a mut Journal,
    watcher: &'a mut dyn Watcher,
    began: Instant,
    /// Whether every boot's recording is kept; those that failed always are.
    pub keep_recordings: bool,
    /// How long the bench had been running before, if it goes on.
    pub before: Duration,
    /// What boots are measured to.
    pub up_to: UpTo,
    /// Whether each round has a dummy argument of another length.
    pub dithered: bool,
}

impl<'a> Booter<'a> {
    /// Recordings go into folders of `folder`, one for each boot.
    pub fn new(
        variants: &'a [Varied],
        folder: &'a Path,
        journal: &'a mut Journal,
        watcher: &'a mut dyn Watcher,
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
            up_to: UpTo::default(),
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
            options.guest.append = benchmark::dithered(&options.guest.append, round);
        }
        boot(&options, &self.up_to, self.watcher).with_context(|| format!("boot {} ({})", turn.number, variant.name))
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
    let left =
        turn.left_ns.map_or_else(String::new, |left| format!(", {} left", Ns(i64::try_from(left).unwrap_or(i64::MAX))));
    let warm_up = if turn.round.is_none() { ", warm-up" } else { "" };
    format!("boot {} of at most {of}{left} · {variant}{warm_up}", turn.number + 1)
}
