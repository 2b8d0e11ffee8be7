//! The facts that a view shows beside the timeline: how the boot was run and what it used.
//!
//! Unknown text is empty, and an unknown number is 0 or `None`; views leave these out.

use benchmark::Values;
use recording::{EndMark, GuestSpec, Manifest, OutcomeKind, Target};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub subject: Subject,
    /// The outcome in one word (`reached`, `panic`, `hang`, …).
    pub outcome: String,
    /// The line, reason or message that shows the outcome.
    pub outcome_detail: String,
    /// The measured metrics.
    pub metrics: Values,
    /// The cost of recording on this machine, as last measured.
    pub overhead: Option<Overhead>,
    /// The configuration of the run, as the page lists it: label and text (`command line`, `host CPU`, `kernel sha256`,
    /// …).
    pub how: Vec<(String, String)>,
    /// Further remarks for the reader, in sentences.
    pub notes: Vec<String>,
    /// The start of the recording, RFC 3339; empty if it is not known.
    pub created: String,
}

/// The kernel and the machine of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Subject {
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// Machine type, such as `pc`.
    pub machine: String,
    /// `tcg`, `kvm`, or empty.
    pub accelerator: String,
    /// Virtual CPUs; 0 if unknown.
    pub cpus: u32,
    /// Guest memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// The cost of recording: recorded boot ÷ plain boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Overhead {
    /// Ratio of medians.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// The method of the measurement.
    pub how: String,
}

impl Facts {
    /// Collects the facts of a recording from its manifest, its subject, its outcome (with the kernel's message, if
    /// there was a panic), and its metrics.
    pub fn of(
        manifest: &Manifest,
        booted: recording::Subject,
        outcome: &str,
        panic: Option<&str>,
        metrics: Values,
    ) -> Facts {
        let recording::Subject { os, kernel, machine, accelerator, cpus, memory_bytes } = booted;
        Facts {
            subject: Subject { os, kernel, machine, accelerator, cpus, memory_bytes },
            outcome: outcome.to_owned(),
            outcome_detail: outcome_detail(manifest, panic),
            metrics,
            overhead: manifest.overhead.as_ref().map(|o| Overhead {
                ratio: o.ratio,
                low: o.low,
                high: o.high,
                how: o.how.clone(),
            }),
            how: how(manifest),
            notes: manifest.notes.clone(),
            created: manifest.created.clone(),
        }
    }
}

/// The detail of the outcome. It is empty if the end mark is reached and is not a log line: the line about the end mark
/// has it.
fn outcome_detail(manifest: &Manifest, panic: Option<&str>) -> String {
    let Some(outcome) = &manifest.outcome else { return panic.unwrap_or_default().to_owned() };
    let is_a_line = manifest.end.as_ref().is_none_or(|end| end.mark() == EndMark::Line);
    if outcome.kind == OutcomeKind::Reached && !is_a_line { String::new() } else { outcome.detail.clone() }
}

/// The known configuration of the run, in the order of a reader's interest.
fn how(manifest: &Manifest) -> Vec<(String, String)> {
    let mut how: Vec<(String, String)> = Vec::new();
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            how.push((label.to_owned(), text));
        }
    };
    add("command line", shell_words(&manifest.vmm.command));
    if let Some(Target::Board(board)) = GuestSpec::of(&manifest.how).map(|guest| guest.target) {
        add("serial port", board.serial);
    }
    add("VMM", manifest.vmm.version.clone());
    for input in &manifest.inputs {
        let hash = if input.sha256.is_empty() { String::new() } else { format!(", sha256 {}", input.sha256) };
        add(&input.role, format!("{}, {} bytes{hash}", input.path, input.bytes));
    }
    let host = &manifest.host;
    add("host CPU", host.cpu.clone());
    if host.cores > 0 {
        add("host cores", host.cores.to_string());
        add("host load", format!("{:.2} at the start", host.load1));
    }
    add("host kernel", host.kernel.clone());
    add("recorded", manifest.created.clone());
    add("bootscope", manifest.tool_version.clone());
    how
}

/// The command line, quoted for a shell.
pub fn shell_words(command: &[String]) -> String {
    let quoted = shlex::Quoter::new().allow_nul(true).join(command.iter().map(String::as_str));
    // Only a NUL cannot be quoted, and this text may have one.
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
        let output = std::process::Command::new("sh").args(["-c", &printed]).output().unwrap().stdout;
        assert_eq!(String::from_utf8(output).unwrap(), words.map(|word| word + "|").concat());
    }
}
