//! `recording.json`: how a recording was made and how it ended.
//!
//! Fields are added, never renamed; each may be missing (a killed recorder knows less), and fields
//! that this version does not know are ignored. Evidence is found by looking into the folder: the
//! manifest's list says where it came from and is never needed to read it.

use crate::rfc3339;
use crate::spec::{Accel, GuestSpec, ObserveSpec};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The latest version of the schema that this crate reads, and the one it writes.
pub const SCHEMA_VERSION: u32 = 1;

const SCHEMA_PREFIX: &str = "bootscope.recording/";

/// A recorder writes 10 KB. A larger text than this is not one that a recorder wrote.
pub(crate) const BYTES_OF_MANIFEST_MAX: usize = 4 << 20;

/// The most values in it: a hundred times as many as of a recording with all files. An empty object takes two bytes in the text and
/// some hundred in memory.
const VALUES_MAX: usize = 1 << 15;

/// The content of `recording.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Manifest {
    /// `bootscope.recording/<version>`.
    pub schema: String,
    /// Version of the bootscope that made it.
    #[serde(default)]
    pub tool_version: String,
    /// When it was begun, RFC 3339, UTC.
    #[serde(default)]
    pub created: String,
    /// Whether the recorder finished.
    #[serde(default)]
    pub state: State,
    /// Where the zero of its time is.
    #[serde(default)]
    pub time_base: TimeBase,
    /// What was booted.
    #[serde(default)]
    pub subject: Subject,
    /// The virtual machine monitor.
    #[serde(default)]
    pub vmm: Vmm,
    /// The machine it ran on.
    #[serde(default)]
    pub host: Host,
    /// Files that went into the boot.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// The recorder's options as given, in the recorder's own form, so that `--like` can repeat them.
    #[serde(default)]
    pub how: serde_json::Value,
    /// Shows the user who made it that `how` and `inputs` are as this user's bootscope wrote them on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// How the boot ended; none for evidence taken elsewhere.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The event that the measured boot ends at, if it was reached.
    #[serde(default)]
    pub end: Option<End>,
    /// The files of the recording and where they came from.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// What recording cost, as last measured on this host.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// How fast the counter of an event log runs, as the user said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_hz: Option<f64>,
    /// How far off the arrival of what a board said may be, in ns; none of a VMM's guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_error_ns: Option<i64>,
    /// What else a reader should know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Whether the recorder finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The manifest does not say, or cannot be read.
    #[default]
    Unknown,
    /// It is still at work, or was killed.
    Running,
    /// It wrote everything it had.
    Finished,
}

/// Where the zero of a recording's time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeBase {
    /// The host's monotonic clock just before the VMM was executed; of a board, when it was switched on.
    Host,
    /// The reset vector, in guest-virtual time.
    GuestVirtual,
    /// The first event of evidence that was taken elsewhere.
    #[default]
    Evidence,
}

/// What was booted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Subject {
    /// Operating system, such as `Linux`; empty if unknown.
    pub os: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// Machine type, such as `pc`.
    pub machine: String,
    /// `tcg`, `kvm` or empty.
    pub accelerator: String,
    /// Virtual CPUs; 0 if unknown.
    pub cpus: u32,
    /// Guest memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// The virtual machine monitor and what it used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Vmm {
    /// Full command line, program first.
    pub command: Vec<String>,
    /// The program's path.
    pub path: String,
    /// Its version, as it says.
    pub version: String,
    /// Maximum resident set in bytes.
    pub max_rss_bytes: Option<u64>,
    /// User time.
    pub user_ns: Option<u64>,
    /// System time.
    pub system_ns: Option<u64>,
}

/// The machine the boot was recorded on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Host {
    /// CPU model name.
    pub cpu: String,
    /// CPUs online.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
    /// Load average over one minute, at the start.
    pub load1: f64,
    /// Rate of the time stamp counter, measured against the monotonic clock over the boot.
    pub tsc_hz: Option<f64>,
}

/// A file that went into the boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Input {
    /// `kernel`, `initrd`, `disk`, …
    pub role: String,
    /// Its path on the host.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Hash of its content, hexadecimal; empty where it was not hashed.
    pub sha256: String,
    /// Of a kernel that unpacks itself, and of an initrd, what it is compressed with (`XZ`, `zstd`, `not compressed`); empty
    /// where that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compression: String,
}

/// What a file that goes into a boot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// The kernel's image.
    Kernel,
    /// The initial RAM disk.
    Initrd,
    /// The device tree.
    Dtb,
    /// The firmware.
    Bios,
    /// What is mounted as the root.
    Root,
    /// A disk.
    Disk,
    /// A list of the kernel's functions.
    Symbols,
}

impl InputRole {
    /// The word used in `recording.json` and everywhere else.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            InputRole::Kernel => "kernel",
            InputRole::Initrd => "initrd",
            InputRole::Dtb => "dtb",
            InputRole::Bios => "bios",
            InputRole::Root => "root",
            InputRole::Disk => "disk",
            InputRole::Symbols => "symbols",
        }
    }

    /// Whether a stored word is this one.
    #[must_use]
    pub fn is(self, word: &str) -> bool {
        self.as_str() == word
    }
}

fn change_strings(value: &mut serde_json::Value, change: &mut impl FnMut(&mut String)) {
    use serde_json::Value;
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_strings(value, change)),
        Value::Object(values) => values.values_mut().for_each(|value| change_strings(value, change)),
        _ => {}
    }
}

impl Subject {
    /// What ran the guest's instructions, where the recording says.
    #[must_use]
    pub fn accelerator(&self) -> Option<Accel> {
        [Accel::Tcg, Accel::Kvm].into_iter().find(|known| known.as_str() == self.accelerator)
    }
}

/// How a boot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Outcome {
    /// Which way.
    pub kind: OutcomeKind,
    /// The line, reason or message that shows it.
    #[serde(default)]
    pub detail: String,
    /// When, in ns since time zero, if known.
    #[serde(default)]
    pub at_ns: Option<i64>,
}

/// The ways a boot can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    /// The end mark was reached.
    Reached,
    /// The guest's kernel panicked.
    Panic,
    /// The guest reset itself before the end mark.
    Reset,
    /// The guest powered itself off before the end mark.
    PowerOff,
    /// Neither console nor kernel log nor disks moved, and the CPUs stood still.
    Hang,
    /// The time limit was up.
    Timeout,
    /// The user stopped it.
    Interrupted,
    /// The virtual machine monitor failed.
    VmmFailed,
    /// A change to the guest's code could not be made, or the boot never came to its place: it is not the boot that was
    /// asked for.
    Unpatched,
    /// The unit that the boot was to end at failed.
    UnitFailed,
    /// The line to the board ended.
    LineLost,
}

impl OutcomeKind {
    /// The word used in `recording.json` and everywhere else.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeKind::Reached => "reached",
            OutcomeKind::Panic => "panic",
            OutcomeKind::Reset => "reset",
            OutcomeKind::PowerOff => "power-off",
            OutcomeKind::Hang => "hang",
            OutcomeKind::Timeout => "timeout",
            OutcomeKind::Interrupted => "interrupted",
            OutcomeKind::VmmFailed => "vmm-failed",
            OutcomeKind::Unpatched => "unpatched",
            OutcomeKind::UnitFailed => "unit-failed",
            OutcomeKind::LineLost => "line-lost",
        }
    }
}

/// What kind of event ends the measured boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndMark {
    /// The kernel handed over to process 1, which said so itself.
    Init,
    /// The guest powered the machine off.
    PowerOff,
    /// The guest reset the machine, for it cannot power it off.
    Reset,
    /// A line of output matched.
    Line,
    /// The guest answered the host on its network.
    Answer,
    /// A thread of the name that was waited for ran.
    Process,
}

/// The event that the measured boot ends at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct End {
    /// Which kind of event it is; see [`End::mark`] for recordings that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<EndMark>,
    /// What a person reads: `init`, `power-off`, or the line that matched.
    #[serde(default)]
    pub what: String,
    /// When it was seen, in ns since time zero.
    #[serde(default)]
    pub at_ns: i64,
    /// How much earlier it may have been, in ns: what lay between two looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<i64>,
    /// The kernel's own stamp of the line that matched, by its printk clock, where the line was found in its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printk_ns: Option<i64>,
}

impl End {
    /// Which kind of event it is. Recordings that were made before `mark` was written have only `what`: of these a line that
    /// is exactly `init` or `power-off` is taken for the event of that name.
    #[must_use]
    pub fn mark(&self) -> EndMark {
        self.mark.unwrap_or(match self.what.as_str() {
            "init" => EndMark::Init,
            "power-off" => EndMark::PowerOff,
            _ => EndMark::Line,
        })
    }
}

/// A file of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// Its name in the folder.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Where it came from, in a few words.
    pub origin: String,
}

/// What recording cost: recorded ÷ plain boot time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Overhead {
    /// Ratio of medians.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// How it was measured.
    pub how: String,
    /// Of what.
    pub of: Measured,
}

/// What a cost of recording was measured of. It is no other boot's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Measured {
    /// Hash of the kernel, hexadecimal.
    pub kernel_sha256: String,
    /// Machine type.
    pub machine: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The ways of recording that cost otherwise, and the user's firmware; empty of a boot as one gets it without options.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ways: String,
}

impl Default for Manifest {
    fn default() -> Self {
        Manifest {
            schema: format!("{SCHEMA_PREFIX}{SCHEMA_VERSION}"),
            tool_version: String::new(),
            created: String::new(),
            state: State::Unknown,
            time_base: TimeBase::Evidence,
            subject: Subject::default(),
            vmm: Vmm::default(),
            host: Host::default(),
            inputs: Vec::new(),
            how: serde_json::Value::Null,
            seal: None,
            outcome: None,
            end: None,
            evidence: Vec::new(),
            overhead: None,
            ticks_hz: None,
            arrival_error_ns: None,
            notes: Vec::new(),
        }
    }
}

impl Manifest {
    /// A manifest begun now, by this version of the program.
    #[must_use]
    pub fn begun_now() -> Self {
        let created = rfc3339(SystemTime::now());
        let tool_version = env!("CARGO_PKG_VERSION").to_owned();
        Manifest { tool_version, created, state: State::Running, ..Manifest::default() }
    }

    /// What the cost of recording this boot is the cost of.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let kernel = self.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
        Measured {
            kernel_sha256: kernel.map(|kernel| kernel.sha256.clone()).unwrap_or_default(),
            machine: self.subject.machine.clone(),
            accelerator: self.subject.accelerator.clone(),
            cpus: self.subject.cpus,
            ways: self.ways(),
        }
    }

    fn ways(&self) -> String {
        let (guest, observe) =
            (GuestSpec::of(&self.how).unwrap_or_default(), ObserveSpec::of(&self.how).unwrap_or_default());
        let bios = self.inputs.iter().find(|input| InputRole::Bios.is(&input.role)).map(|input| &*input.sha256);
        let ways = [
            (guest.deterministic, "deterministic"),
            (!guest.trace_events, "no events"),
            (observe.calls, "calls"),
            (!observe.first_executions, "no first executions"),
        ];
        let ways = ways.into_iter().filter(|(is_so, _)| *is_so).map(|(_, way)| way);
        ways.chain(bios).collect::<Vec<&str>>().join(", ")
    }

    /// How the boot ended, as one word; `running` while, or for ever if, the manifest was never finished; `unknown` if
    /// it does not say.
    #[must_use]
    pub fn outcome_word(&self) -> &'static str {
        match (&self.outcome, self.state) {
            (Some(outcome), _) => outcome.kind.as_str(),
            (None, State::Unknown) => "unknown",
            (None, State::Running) => "running",
            (None, State::Finished) => "imported",
        }
    }

    /// The JSON text, ending in a newline.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain data always serializes");
        text.push(b'\n');
        text
    }

    /// Changes what may name things of a machine: command lines, paths, origins, sentences, releases of kernels, and the recorder's
    /// options (`how`). Words of the schema stay elsewhere, and so do names of files.
    pub fn change_texts(&mut self, change: &mut impl FnMut(&mut String)) {
        change(&mut self.subject.kernel);
        change(&mut self.host.kernel);
        change(&mut self.host.cpu);
        change(&mut self.vmm.version);
        self.overhead.iter_mut().for_each(|overhead| change(&mut overhead.how));
        self.vmm.command.iter_mut().for_each(&mut *change);
        change(&mut self.vmm.path);
        self.inputs.iter_mut().for_each(|input| change(&mut input.path));
        self.outcome.iter_mut().for_each(|outcome| change(&mut outcome.detail));
        self.end.iter_mut().for_each(|end| change(&mut end.what));
        self.evidence.iter_mut().for_each(|evidence| change(&mut evidence.origin));
        self.notes.iter_mut().for_each(&mut *change);
        change_strings(&mut self.how, change);
        // It fits no other words.
        self.seal = None;
    }

    /// Parses `recording.json`.
    pub(crate) fn parse(text: &[u8]) -> Result<Manifest, Unreadable> {
        #[derive(Deserialize)]
        struct SchemaOnly {
            schema: String,
        }
        if text.len() > BYTES_OF_MANIFEST_MAX {
            return Err(Unreadable::Damaged(format!("it has more than {BYTES_OF_MANIFEST_MAX} bytes")));
        }
        // Each value but the first of a list follows a comma. One in a string only makes the count larger.
        if text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).nth(VALUES_MAX).is_some() {
            return Err(Unreadable::Damaged(format!("it has more than {VALUES_MAX} values")));
        }
        let damaged = |e: serde_json::Error| Unreadable::Damaged(e.to_string());
        // The schema first: a later one may have changed the type of any other field.
        let SchemaOnly { schema } = serde_json::from_slice(text).map_err(damaged)?;
        let version = schema.strip_prefix(SCHEMA_PREFIX).and_then(|v| v.parse::<u32>().ok());
        match version {
            Some(0) | None => {
                Err(Unreadable::Damaged(format!("its schema is {schema:?}, not {SCHEMA_PREFIX}{SCHEMA_VERSION}")))
            }
            Some(v) if v > SCHEMA_VERSION => Err(Unreadable::Later(schema)),
            Some(_) => serde_json::from_slice(text).map_err(damaged),
        }
    }
}

/// Why a manifest cannot be used.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Later(String),
    Damaged(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_recording_costs_is_of_the_way_that_it_was_done() {
        let boot = |how: serde_json::Value, bios: Option<&str>| {
            let firmware = |hash: &str| Input {
                role: InputRole::Bios.as_str().to_owned(),
                sha256: hash.to_owned(),
                ..Input::default()
            };
            Manifest { how, inputs: bios.map(firmware).into_iter().collect(), ..Manifest::default() }.measured()
        };
        let usual = boot(serde_json::json!({}), None);
        assert_eq!(usual.ways, "", "as earlier versions kept it");
        for (how, bios, ways) in [
            (serde_json::json!({"deterministic": true, "calls": true}), None, "deterministic, calls"),
            (serde_json::json!({"trace_events": false}), None, "no events"),
            (serde_json::json!({"first_run": false}), Some("ab12"), "no first executions, ab12"),
        ] {
            let other = boot(how, bios);
            assert_eq!(other.ways, ways);
            assert_ne!(other, usual);
        }
    }
}
