//! Boots a bench: records each boot, reads it as any recording, and keeps or removes it. The crate `benchmark`
//! evaluates the figures.

use crate::Watcher;
use crate::benches::recording_of;
use crate::boot_view::BootView;
use crate::{PlannedVariant, opened_boot};
use anyhow::{Context, bail};
use benchmark::{Boots, Journal, Measured, Turn, Values};
use machine::RecordOptions;
use recording::{Manifest, OutcomeKind, Recording};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use timeline::Ns;

/// Boots once into the folder in `options`, and measures. Returns `None` if the user stopped it.
///
/// A failed boot is measured too: it has an outcome and no total.
///
/// # Errors
/// If the boot cannot start, or its recording cannot be written or read.
pub fn boot(options: &RecordOptions, view: &BootView, watcher: &mut dyn Watcher) -> anyhow::Result<Option<Measured>> {
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
    Ok(Some(Measured { recorded_ns, ..measured(&options.out, &recorded.manifest, view)? }))
}

/// The figures of a recorded boot.
fn measured(folder: &Path, manifest: &Manifest, view: &BootView) -> anyhow::Result<Measured> {
    let outcome = manifest.outcome.as_ref();
    let recording = opened_boot::open_recording(folder)?;
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
    let mut opened = opened_boot::open(folder)?;
    measured.take_milestones(&opened.timeline);
    if let Err(why) = view.apply(&mut opened) {
        measured.detail = format!("{why:#}");
        return Ok(measured);
    }
    let boot = opened.boot(None)?;
    measured.traced = Some(!boot.timeline.running.is_empty());
    measured.take_figures(boot.timeline, boot.cost(), &boot.phases, boot.tables());
    Ok(measured)
}

/// The most characters kept of a console's last line.
const MAX_LINE_CHARACTERS: usize = 200;

/// The reason for a failed boot, with the last line of its console.
fn with_last_line(detail: String, recording: &Recording) -> anyhow::Result<String> {
    let console = recording.read("console.log")?.unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let last = console.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = last.chars().take(MAX_LINE_CHARACTERS).collect();
    Ok(match (detail.is_empty(), last.is_empty() || detail.contains(&last)) {
        (_, true) => detail,
        (true, false) => format!("the last line of its console: {last}"),
        (false, false) => format!("{detail}; the last line of its console: {last}"),
    })
}

/// Boots the variants of a bench, and writes each boot to the journal as soon as it ends.
pub struct Booter<'a> {
    variants: &'a [PlannedVariant],
    folder: &'a Path,
    journal: &'a mut Journal,
    watcher: &'a mut dyn Watcher,
    began: Instant,
    /// True if every boot's recording is kept. Recordings of failed boots are always kept.
    pub keep_recordings: bool,
    /// The running time of a resumed bench before this run.
    pub before: Duration,
    /// The milestone that ends each boot.
    pub view: BootView,
    /// True if each round gets a dummy argument of another length.
    pub dithered: bool,
}

impl<'a> Booter<'a> {
    /// A booter that records each boot into its own folder in `folder`.
    pub fn new(
        variants: &'a [PlannedVariant],
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
            view: BootView::default(),
            dithered: false,
        }
    }

    fn recording(&self, number: u32) -> PathBuf {
        recording_of(self.folder, number)
    }
}

impl Boots for Booter<'_> {
    type Error = anyhow::Error;

    fn boot(&mut self, turn: &Turn) -> anyhow::Result<Option<Measured>> {
        let variant = &self.variants[turn.variant];
        self.watcher.announce_boot(&progress_text(turn, &variant.name));
        let mut options = RecordOptions { out: self.recording(turn.number), ..variant.options.clone() };
        if let (true, Some(round)) = (self.dithered, turn.round) {
            options.guest.append = benchmark::dithered(&options.guest.append, round);
        }
        boot(&options, &self.view, self.watcher).with_context(|| format!("boot {} ({})", turn.number, variant.name))
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

/// The start of the progress line: the boot's number, and the time left for all boots.
fn progress_text(turn: &Turn, variant: &str) -> String {
    let max_boots = turn.number.saturating_add(turn.left);
    let left =
        turn.left_ns.map_or_else(String::new, |left| format!(", {} left", Ns(i64::try_from(left).unwrap_or(i64::MAX))));
    let warm_up = if turn.round.is_none() { ", warm-up" } else { "" };
    format!("boot {} of at most {max_boots}{left} · {variant}{warm_up}", turn.number + 1)
}
