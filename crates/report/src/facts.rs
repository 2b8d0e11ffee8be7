//! What a view shows beside the timeline: how the boot was run and what it used.
//!
//! Unknown text is empty, an unknown number is 0 or `None`; a view then leaves it out.

use benchmark::Values;
use recording::{EndMark, GuestSpec, Manifest, OutcomeKind};
use serde::{Deserialize, Serialize};

/// Everything about a boot that is not time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// What was booted.
    pub subject: Subject,
    /// How it ended, as one word (`reached`, `panic`, `hang`, …).
    pub outcome: String,
    /// The line, reason or message that shows the outcome.
    pub outcome_detail: String,
    /// What was measured beside the time.
    pub metrics: Values,
    /// What recording costs on this machine, as last measured.
    pub overhead: Option<Overhead>,
    /// How it was run, as the page lists it: label and text (`command line`, `host CPU`, `kernel sha256`, …).
    pub how: Vec<(String, String)>,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
    /// When the recording was begun, RFC 3339; empty if that is not known.
    pub created: String,
}

/// What was booted.
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

/// What recording costs: recorded boot ÷ plain boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Overhead {
    /// Ratio of medians.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// How it was measured.
    pub how: String,
}

impl Facts {
    /// The facts of a recording: its manifest, what was booted, how that ended (and what the kernel said if its evidence shows
    /// a panic), and what was measured.
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

/// What shows how the boot ended. That process 1 was reached, or that the machine went off as it was to, the line of the end
/// mark says already.
fn outcome_detail(manifest: &Manifest, panic: Option<&str>) -> String {
    let Some(outcome) = &manifest.outcome else { return panic.unwrap_or_default().to_owned() };
    let is_a_line = manifest.end.as_ref().is_none_or(|end| end.mark() == EndMark::Line);
    if outcome.kind == OutcomeKind::Reached && !is_a_line { String::new() } else { outcome.detail.clone() }
}

/// How it was run, for the page: what is known, in the order in which a reader asks.
fn how(manifest: &Manifest) -> Vec<(String, String)> {
    let mut how: Vec<(String, String)> = Vec::new();
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            how.push((label.to_owned(), text));
        }
    };
    add("command line", shell_words(&manifest.vmm.command));
    if let Some(board) = GuestSpec::of(&manifest.how).and_then(|guest| guest.board) {
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
