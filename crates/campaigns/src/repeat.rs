//! The options of a boot that is to be made again, out of a recording or a bench: all of them if this user's bootscope made
//! it on this machine, else those that are safe to take from a stranger.

use crate::Notes;
use anyhow::{Context, bail};
use benchmark::Head;
use machine::RecordOptions;
use machine::foreign::{LeftOut, vetted};
use recording::{Recording, Sealer};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The options for repeating a recorded boot.
pub struct Repeated {
    /// The options, without those that are left out.
    pub options: RecordOptions,
    left_out: Vec<LeftOut>,
    path: PathBuf,
}

impl Repeated {
    /// The options of a recording. If another user or machine made it, unsafe options are removed and printed. With
    /// `is_trusted` they are printed and kept.
    ///
    /// # Errors
    /// If it cannot be opened, or has no options.
    pub fn of(path: &Path, is_trusted: bool, notes: &dyn Notes) -> anyhow::Result<Repeated> {
        let recording = Recording::open(path)?;
        let manifest = recording.manifest();
        if manifest.how.is_null() {
            bail!(
                "{} does not say how it was run (it was imported): give --kernel and so on instead of --like",
                path.display()
            );
        }
        let recorded: RecordOptions = serde_json::from_value(manifest.how.clone())
            .with_context(|| format!("{}: recording.json: how", path.display()))?;
        if Sealer::of_user().is_ok_and(|sealer| manifest.is_sealed_by(&sealer)) {
            return Ok(Repeated { options: recorded, left_out: Vec::new(), path: path.to_owned() });
        }
        let vetted = vetted(recorded.clone(), &manifest.inputs);
        let taken = if is_trusted { "taken from" } else { "left out of" };
        for LeftOut { option, value, why, .. } in &vetted.left_out {
            notes.warn(&format!(
                "{taken} {}, which another user or machine made: {option}, because {why}: {value}",
                path.display()
            ));
        }
        match is_trusted {
            true => Ok(Repeated { options: recorded, left_out: Vec::new(), path: path.to_owned() }),
            false => Ok(Repeated { options: vetted.options, left_out: vetted.left_out, path: path.to_owned() }),
        }
    }

    /// The options, if the boot is the same without what is left out of them.
    ///
    /// # Errors
    /// If it is not, and the user did not give another value: `is_given` says that of an option by its name in `how`.
    /// `next` is what to do about it.
    pub fn with_given(self, is_given: impl Fn(&str) -> bool, next: &str) -> anyhow::Result<RecordOptions> {
        let missing: Vec<&LeftOut> =
            self.left_out.iter().filter(|left| left.is_needed && !is_given(left.option)).collect();
        if missing.is_empty() {
            return Ok(self.options);
        }
        let mut text = String::new();
        for LeftOut { option, value, why, .. } in missing {
            let _ = write!(text, "{}{option} is {value}, and {why}", if text.is_empty() { "" } else { "; " });
        }
        bail!(
            "{} was made by another user or on another machine, and its boot is not the same without what is not taken from it: \
             {text}; {next}, or take all of its options with --trust-recording",
            self.path.display()
        )
    }
}

/// True if this user's bootscope made a recording on this machine.
///
/// # Errors
/// If it cannot be opened.
pub fn is_own(path: &Path) -> anyhow::Result<bool> {
    let recording = Recording::open(path)?;
    Ok(Sealer::of_user().is_ok_and(|sealer| recording.manifest().is_sealed_by(&sealer)))
}

/// Refuses to go on with a bench or a try that this user's bootscope did not begin on this machine; with `is_trusted` it only
/// prints how its boots are made.
///
/// # Errors
/// If it is another's.
pub fn check_begun_here(folder: &Path, head: &Head, is_trusted: bool, notes: &dyn Notes) -> anyhow::Result<()> {
    let name = folder.display();
    if Sealer::of_user().is_ok_and(|sealer| head.is_sealed_by(&sealer)) {
        return Ok(());
    }
    if !is_trusted {
        bail!(
            "{name} was begun by another user, on another machine, or by an earlier bootscope, and it says which programs to run: \
             begin a bench of your own, or go on with it as it is with --trust-recording"
        );
    }
    for variant in &head.variants {
        notes.warn(&format!(
            "taken from {name}, which another user or machine began: variant {}: {}",
            variant.name, variant.how
        ));
    }
    if let Some(trial) = &head.trial {
        let sources = serde_json::to_string(&trial.sources).context("the sources of a try")?;
        notes.warn(&format!("taken from {name}: sources: {sources}"));
        for remedy in &trial.remedies {
            let changes = serde_json::to_string(&remedy.changes).context("the changes of a try")?;
            notes.warn(&format!("taken from {name}: changes: {changes}"));
        }
    }
    Ok(())
}
