//! Opens a recording and puts together what the views need: its timeline, and how it was run.

use crate::output::Output;
use analysis::Groups;
use anyhow::{Context, bail};
use benchmark::Values;
use evidence::calls::Followed;
use recording::{Condition, EndMark, Manifest, OutcomeKind, Recording};
use report::{Boot, Facts, Overhead, Subject, WarningLine};
use std::path::Path;
use timeline::{Ns, Timeline};

/// A recording, read.
pub struct Opened {
    /// The folder or packed file.
    pub recording: Recording,
    /// What its evidence says.
    pub timeline: Timeline,
    /// Its calls, if they were followed.
    pub calls: Option<Followed>,
    /// How it was run.
    pub facts: Facts,
}

/// What tells who did what in a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// Followed calls alone.
    Calls,
    /// A trace of the threads, and followed calls.
    TraceAndCalls,
    /// A log that the kernel kept, a trace alone, or less.
    Other,
}

impl Opened {
    /// The rules to make its rows by: those of a file, or its operating system's.
    pub fn groups(&self, file: Option<&Path>) -> anyhow::Result<Groups> {
        let Some(file) = file else { return Ok(Boot::new(&self.timeline, &self.facts).groups().clone()) };
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Groups::parse(&text).with_context(|| format!("{} has no rules for rows", file.display()))
    }

    /// What tells who did what.
    pub fn told_by(&self) -> ToldBy {
        match self.timeline.cpus_followed_until {
            Some(Ns::MAX) => ToldBy::Calls,
            _ if self.timeline.profile.is_empty() => ToldBy::Other,
            _ => ToldBy::TraceAndCalls,
        }
    }

    /// The boot, analysed, its rows made by the rules of a file or its operating system's.
    pub fn boot(&self, group: Option<&Path>) -> anyhow::Result<Boot<'_>> {
        Ok(Boot::with_groups(&self.timeline, &self.facts, self.groups(group)?))
    }

    /// The same boot up to the same end as its calls tell it, whatever log its kernel kept and whatever was traced.
    pub fn by_calls(&self) -> anyhow::Result<Opened> {
        let until = analysis::total(&self.timeline);
        opened(open_recording(self.recording.path())?, |recording| evidence::read_by_calls(recording, until))
    }
}

/// Reads a recording for a view that does not print its warnings: they go to standard error.
pub fn open_warned(path: &Path, output: &Output) -> anyhow::Result<Opened> {
    let opened = open(path)?;
    for warning in WarningLine::all(&opened.timeline) {
        output.note(&format!("{}: warning: {}", path.display(), warning.text));
    }
    Ok(opened)
}

/// Reads a recording.
pub fn open(path: &Path) -> anyhow::Result<Opened> {
    opened(open_recording(path)?, evidence::read)
}

fn opened(
    recording: Recording,
    read: impl Fn(&Recording) -> Result<evidence::Loaded, recording::Error>,
) -> anyhow::Result<Opened> {
    let loaded = read(&recording).with_context(|| format!("cannot read {}", recording.path().display()))?;
    let facts = facts(&recording, &loaded)?;
    Ok(Opened { recording, timeline: loaded.timeline, calls: loaded.calls, facts })
}

/// Opens a recording without reading what is in it.
pub fn open_recording(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path)?;
    refuse_other_folders(&recording)?;
    Ok(recording)
}

/// A folder or an archive without `recording.json` is one only if it holds evidence: the recorder may have been killed early.
pub fn refuse_other_folders(recording: &Recording) -> anyhow::Result<()> {
    const ITS_OWN: [&str; 5] = [recording::MANIFEST_NAME, "console.log", "trace.txt", "kmsg.log", "tslog.txt"];
    let path = recording.path();
    if recording.has_manifest() || recording.names().any(|name| ITS_OWN.contains(&name)) {
        return Ok(());
    }
    if path.is_file() {
        bail!(
            "{} is not a recording: it is an archive without {} and without evidence under a recorder's names; import \
             its files instead",
            path.display(),
            recording::MANIFEST_NAME
        );
    }
    if crate::benches::journal_of(path).is_some() {
        let path = path.display();
        bail!(
            "{path} is a bench: show, export, report, check and history --add take it; recordings that it kept are in {path}/boots"
        );
    }
    if path.join(crate::benches::SEARCH).is_file() {
        bail!(
            "{0} is a search among commits: the same `range --bisect` prints it again; its benches are {0}/step-…",
            path.display()
        );
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let inside = entries.filter(|e| e.path().join(recording::MANIFEST_NAME).exists());
    let inside: Vec<String> = inside.map(|e| e.path().display().to_string()).collect();
    match inside.is_empty() {
        true => bail!("{} is not a recording: it has no {}", path.display(), recording::MANIFEST_NAME),
        false => bail!("{} is not a recording; recordings in it: {}", path.display(), inside.join(", ")),
    }
}

/// What shows how the boot ended. That process 1 was reached, the line of the end mark says already.
fn outcome_detail(manifest: &Manifest, panic: Option<&str>) -> String {
    let Some(outcome) = &manifest.outcome else { return panic.unwrap_or_default().to_owned() };
    let is_init = manifest.end.as_ref().is_some_and(|end| end.mark() == EndMark::Init);
    if is_init && outcome.kind == OutcomeKind::Reached { String::new() } else { outcome.detail.clone() }
}

fn facts(recording: &Recording, found: &evidence::Loaded) -> anyhow::Result<Facts> {
    let manifest = recording.manifest();
    Ok(Facts {
        subject: subject(recording, &found.subject, found.timeline.os.name())?,
        // A killed recorder leaves a manifest that still says it runs.
        outcome: match recording.condition() {
            Condition::Finished if found.panic.is_some() => OutcomeKind::Panic.as_str(),
            Condition::Killed => OutcomeKind::Interrupted.as_str(),
            _ => manifest.outcome_word(),
        }
        .to_owned(),
        outcome_detail: outcome_detail(manifest, found.panic.as_deref()),
        metrics: Values::of_recording(recording)?,
        overhead: manifest.overhead.as_ref().map(|o| Overhead {
            ratio: o.ratio,
            low: o.low,
            high: o.high,
            how: o.how.clone(),
        }),
        how: how(manifest),
        notes: manifest.notes.clone(),
    })
}

/// What was booted: as the recorder or the user said; else as the evidence says.
fn subject(recording: &Recording, found: &evidence::Subject, os: &str) -> anyhow::Result<Subject> {
    let said = &recording.manifest().subject;
    let first = |texts: [&str; 3]| texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned();
    let kernel = match found.kernel.as_str() {
        "" => evidence::kernel_release(recording)?.unwrap_or_else(|| said.kernel.clone()),
        release => release.to_owned(),
    };
    Ok(Subject {
        os: first([&said.os, found.os.name(), os]),
        kernel,
        machine: said.machine.clone(),
        accelerator: said.accelerator.clone(),
        cpus: if said.cpus > 0 { said.cpus } else { found.cpus },
        memory_bytes: if said.memory_bytes > 0 { said.memory_bytes } else { found.memory_bytes },
    })
}

/// How it was run, for the page: what is known, in the order in which one asks.
fn how(manifest: &Manifest) -> Vec<(String, String)> {
    let mut how: Vec<(String, String)> = Vec::new();
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            how.push((label.to_owned(), text));
        }
    };
    add("command line", shell_words(&manifest.vmm.command));
    add("VMM", manifest.vmm.version.clone());
    for input in &manifest.inputs {
        let hash = if input.sha256.is_empty() { String::new() } else { format!(", sha256 {}", input.sha256) };
        add(&input.role, format!("{}, {} bytes{hash}", input.path, input.bytes));
    }
    let host = &manifest.host;
    add("host CPU", host.cpu.clone());
    add(
        "host cores",
        if host.cores > 0 { format!("{}, load {:.2} at the start", host.cores, host.load1) } else { String::new() },
    );
    add("host kernel", host.kernel.clone());
    add("recorded", manifest.created.clone());
    add("bootscope", manifest.tool_version.clone());
    how
}

/// A command line as one would type it.
pub fn shell_words(command: &[String]) -> String {
    let quoted = shlex::Quoter::new().allow_nul(true).join(command.iter().map(String::as_str));
    // Only a NUL cannot be quoted, and here it may stand as it is.
    quoted.unwrap_or_else(|_| command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::shell_words;

    #[test]
    fn a_shell_reads_the_words_that_were_joined() {
        let words = ["qemu", "-append", "quiet a='b c'", "", "it's", "$x `y` !z", "two\nlines"].map(str::to_owned);
        assert_eq!(shlex::split(&shell_words(&words)).unwrap(), words);
        let printed = format!("printf '%s|' {}", shell_words(&words));
        let said = std::process::Command::new("sh").args(["-c", &printed]).output().unwrap().stdout;
        assert_eq!(String::from_utf8(said).unwrap(), words.map(|word| word + "|").concat());
    }
}
