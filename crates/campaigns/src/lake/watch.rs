//! Watches a folder in which machines put recordings. Adds each to a lake when it is complete.

use super::{Adder, Document, Request};
use crate::Notes;
use anyhow::Context;
use lake::Lake;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The most failures kept for the document of a watch.
const MAX_FAILED: usize = 1000;

/// Watches a folder until `stop` is true. Calls `added` with the counts after each scan that added boots. With
/// `keeps_failures` the document lists the first failures.
///
/// # Errors
/// If the folder cannot be read at the start, or the lake cannot be opened.
pub fn watch(
    request: &Request,
    (incoming, every): (&Path, Duration),
    stop: &AtomicBool,
    keeps_failures: bool,
    notes: &dyn Notes,
    mut added: impl FnMut(&Document) -> anyhow::Result<()>,
) -> anyhow::Result<Document> {
    let mut adder = Adder::new(request, notes)?;
    let mut watched = SeenEntries::default();
    let mut compaction = DailyCompaction::default();
    let mut last_trouble = String::new();
    // A folder that cannot be read at the start is a mistake of the user. Later, it may come back.
    entries(incoming)?;
    while !stop.load(Ordering::Relaxed) {
        let before = (adder.done.new, adder.done.there);
        let ready = entries(incoming).map(|listing| watched.ready(listing));
        let passed = ready.and_then(|ready| {
            let added = adder
                .add(&ready, stop, |failed| notes.note(&format!("not added: {}: {}", failed.recording, failed.why)));
            added.inspect_err(|_| ready.iter().for_each(|path| watched.mark_not_taken(path)))?;
            match adder.bucket {
                Some(_) => Ok(()),
                None => compaction.compact(adder.lake.get_mut().unwrap_or_else(PoisonError::into_inner)),
            }
        });
        let trouble = passed.err().map_or_else(String::new, |e| format!("{e:#}; trying again"));
        // Report the same trouble once, not at each scan.
        if !trouble.is_empty() && trouble != last_trouble {
            notes.note(&trouble);
        }
        last_trouble = trouble;
        let (new, there) = (adder.done.new - before.0, adder.done.there - before.1);
        if new + there > 0 {
            added(&Document { lake: adder.done.lake.clone(), new, there, ..Document::default() })?;
        }
        // A long watch must not remember every failure.
        let first = if keeps_failures { MAX_FAILED } else { 0 };
        adder.done.failed.truncate(first);
        let next = Instant::now() + every;
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50).min(every));
        }
    }
    Ok(adder.done)
}

/// The state of a folder's entry at a scan: number of files, bytes, and latest change. An entry that is still being
/// written or copied differs at the next scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EntryState {
    files: usize,
    bytes: u64,
    changed: Option<SystemTime>,
}

/// The entries seen at the last scan. Each has its state, and true if it was taken in that state.
#[derive(Default)]
struct SeenEntries(HashMap<PathBuf, (EntryState, bool)>);

impl SeenEntries {
    /// The entries that were equal at two scans and not taken yet.
    fn ready(&mut self, listing: Vec<(PathBuf, EntryState)>) -> Vec<PathBuf> {
        let mut ready = Vec::new();
        let mut now = HashMap::with_capacity(listing.len());
        for (path, state) in listing {
            let taken = match self.0.get(&path) {
                Some(&(before, taken)) if before == state => {
                    if !taken {
                        ready.push(path.clone());
                    }
                    true
                }
                _ => false,
            };
            now.insert(path, (state, taken));
        }
        self.0 = now;
        ready
    }

    /// Marks an entry as not taken, because adding it failed.
    fn mark_not_taken(&mut self, path: &Path) {
        if let Some((_, taken)) = self.0.get_mut(path) {
            *taken = false;
        }
    }
}

/// The entries of the folder. An entry that has just vanished is left out. For an entry that cannot be read, the later
/// reader reports the reason.
fn entries(incoming: &Path) -> anyhow::Result<Vec<(PathBuf, EntryState)>> {
    let cannot = || format!("cannot read the folder {}", incoming.display());
    let mut listing = Vec::new();
    for entry in std::fs::read_dir(incoming).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden || !path.exists() {
            continue;
        }
        let mut state = EntryState::default();
        let inside = std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in inside.chain([path.clone()]) {
            if let Ok(meta) = std::fs::metadata(file) {
                state.files += 1;
                state.bytes = state.bytes.saturating_add(meta.len());
                state.changed = state.changed.max(meta.modified().ok());
            }
        }
        listing.push((path, state));
    }
    listing.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(listing)
}

/// Compacts finished days, once a day.
#[derive(Default)]
struct DailyCompaction {
    /// All days before this one are compacted.
    before: String,
}

impl DailyCompaction {
    /// Compacts, if a day has ended since the last call. After an error the next attempt is on the next day.
    fn compact(&mut self, lake: &mut Lake) -> anyhow::Result<()> {
        let today = lake::today();
        if self.before != today {
            self.before.clone_from(&today);
            lake.compact(Some(&today))?;
        }
        Ok(())
    }
}
