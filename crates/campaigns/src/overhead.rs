//! The overhead of recording: alternates plain and recorded boots, and keeps the resulting figures.
//!
//! A figure holds for one kernel, one machine type and one number of CPUs. The latest figure of each is kept for later
//! recordings of the same kind.

use crate::Notes;
use crate::Watcher;
use anyhow::{Context, bail};
use machine::RecordOptions;
use recording::{Measured, OutcomeKind, Overhead};
use std::path::PathBuf;
use timeline::Ns;

/// Alternates plain and recorded boots, and keeps the ratio for later recordings.
///
/// # Errors
/// If a boot fails or does not reach its end mark, or the figure cannot be saved.
pub fn measure(
    options: &RecordOptions,
    boots: u32,
    watcher: &mut dyn Watcher,
    notes: &dyn Notes,
) -> anyhow::Result<Overhead> {
    let folder = recording::private_folder().context("cannot make a folder for the boots")?;
    let recorded = RecordOptions { out: folder.path().join("boot"), force: true, ..options.clone() };
    let (mut ratios, mut subject) = (Vec::new(), Measured::default());
    let mut failed = Ok(());
    for boot in 1..=boots {
        watcher.announce_boot(&format!("overhead, boot {boot} of {boots}"));
        match pair(&recorded, boot, watcher) {
            Ok((plain, recorded, measured)) => {
                subject = measured;
                ratios.push(recorded as f64 / plain as f64);
                notes.note(&format!("boot {boot}: plain {}, recorded {}", Ns(plain), Ns(recorded)));
            }
            Err(e) => failed = Err(e),
        }
        if failed.is_err() {
            break;
        }
    }
    watcher.clear();
    drop(folder);
    failed?;
    let kernel = options.guest.kernel.as_ref().and_then(|k| k.file_name()).map(|n| n.to_string_lossy().into_owned());
    let overhead = benchmark::overhead(&ratios, &kernel.unwrap_or_default(), options.guest.cpus, subject);
    let overhead = overhead.context("there is no pair of boots")?;
    save(saved(), &overhead).context("the figure could not be kept for recordings to come")?;
    Ok(overhead)
}

/// One boot of each kind, in alternating order, so that a machine that gets faster or slower favours neither. Returns
/// both times in ns, and the measured boot.
fn pair(options: &RecordOptions, boot: u32, watcher: &mut dyn Watcher) -> anyhow::Result<(i64, i64, Measured)> {
    let (mut plain, mut recorded_ns, mut subject) = (0, 0, Measured::default());
    for plain_now in [boot % 2 == 1, boot % 2 == 0] {
        if plain_now {
            plain = machine::time_plain(options, watcher.observer())?;
        } else {
            let recorded = machine::record(options, watcher.observer())?;
            if recorded.outcome.kind != OutcomeKind::Reached {
                bail!("a boot did not reach its end mark: {}", recorded.manifest.outcome_word());
            }
            subject = recorded.manifest.measured();
            recorded_ns = recorded.end.context("a boot reached its end mark without a time")?.at_ns;
        }
    }
    Ok((plain, recorded_ns, subject))
}

fn path() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_file("overhead.json")
}

/// The most figures that are kept, one for each kind of boot.
const MAX_KEPT: usize = 100;

/// Puts a figure in front of all others, in place of an earlier one for the same kind of boot.
fn save(saved: Vec<Overhead>, overhead: &Overhead) -> anyhow::Result<()> {
    let others = saved.iter().filter(|saved| saved.of != overhead.of);
    let all: Vec<&Overhead> = std::iter::once(overhead).chain(others).take(MAX_KEPT).collect();
    let path = path().context("neither XDG_CACHE_HOME nor HOME is set")?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_vec_pretty(&all)?;
    crate::files::write_file(&path, true, |out| out.write_all(&text)).map(drop)
}

/// The latest figure for each kind of boot on this host, newest first.
pub fn saved() -> Vec<Overhead> {
    let text = path().and_then(|path| recording::read_regular(&path, recording::SMALL_BYTES_MAX).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
