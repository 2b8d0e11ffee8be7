//! `recording.json`: the options of a recording and its outcome.
//!
//! Fields are added, never renamed. Each may be missing, since a killed recorder writes fewer. Fields that this version
//! does not know are ignored. Readers find evidence by listing the folder: the manifest's list only gives its origin.

use crate::outcome::{End, Outcome};
use crate::rfc3339;
use crate::spec::{Accel, GuestSpec, ObserveSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::SystemTime;

/// The schema version that this crate writes, and the latest that it reads.
pub const SCHEMA_VERSION: u32 = 1;

const SCHEMA_PREFIX: &str = "bootscope.recording/";

/// The most bytes of a manifest. A recorder writes about 10 KB.
pub(crate) const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// The most values in a manifest: a hundred times the number in a recording with all files. An empty object takes two
/// bytes of text and about a hundred in memory.
const MAX_VALUES: usize = 1 << 15;

/// The content of `recording.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Manifest {
    /// `bootscope.recording/<version>`.
    pub schema: String,
    /// The version of the bootscope that wrote it.
    #[serde(default)]
    pub tool_version: String,
    /// The time when the recording began: RFC 3339, UTC.
    #[serde(default)]
    pub created: String,
    /// The recorder's progress.
    #[serde(default)]
    pub state: State,
    /// The event at the zero of its time.
    #[serde(default)]
    pub time_base: TimeBase,
    /// The guest and its virtual machine.
    #[serde(default)]
    pub subject: Subject,
    /// The virtual machine monitor and its resource use.
    #[serde(default)]
    pub vmm: Vmm,
    /// The machine that ran the virtual machine monitor.
    #[serde(default)]
    pub host: Host,
    /// Files that went into the boot.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// The recorder's options, in its own format, so that `--like` can repeat them.
    #[serde(default)]
    pub how: serde_json::Value,
    /// Proves to the user who made the recording that `how` and `inputs` are as this user's bootscope wrote them on
    /// this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// The outcome of the boot; `None` for imported evidence.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The event that the measured boot ends at, if it was reached.
    #[serde(default)]
    pub end: Option<End>,
    /// The files of the recording and their origins.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// The overhead of recording, as last measured on this host.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// The rate of an event log's counter in Hz, as given by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_hz: Option<f64>,
    /// The milestone at which an imported boot ends, as given by the user; empty for the best end mark in the evidence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// The boot of an imported log of several, as given by the user: 0 is the last, -1 the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<i32>,
    /// The error of a board's arrival times, in ns; `None` for a VMM's guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_error_ns: Option<i64>,
    /// The hash of a captured boot's ID ([`boot_key`]): two captures of one boot have the same. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_key: String,
    /// Further facts for the reader, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The hash of a boot ID, which Linux makes at random for each boot. It does not lead back to the ID. Empty if the text is not
/// one: 32 hexadecimal digits, with or without dashes.
#[must_use]
pub fn boot_key(boot_id: &str) -> String {
    let digits: String = boot_id.trim().chars().filter(|&c| c != '-').map(|c| c.to_ascii_lowercase()).collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return String::new();
    }
    key_of(&Sha256::new().chain_update("bootscope boot ").chain_update(&digits).finalize())
}

/// A key of 32 hexadecimal digits from a hash.
pub(crate) fn key_of(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The recorder's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The manifest has no state, or cannot be read.
    #[default]
    Unknown,
    /// The recorder is at work, or was killed.
    Running,
    /// The recorder wrote everything that it had.
    Finished,
}

/// The event at the zero of a recording's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeBase {
    /// The host's monotonic clock just before it executed the VMM. For a board, the time when it was switched on.
    Host,
    /// The reset vector, in guest-virtual time.
    GuestVirtual,
    /// The first event of imported evidence.
    #[default]
    Evidence,
}

/// The guest and its virtual machine.
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

/// The virtual machine monitor and its resource use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Vmm {
    /// The full command line, program first.
    pub command: Vec<String>,
    pub path: String,
    /// The version that the program reports.
    pub version: String,
    /// The maximum resident set in bytes.
    pub max_rss_bytes: Option<u64>,
    /// Its user time.
    pub user_ns: Option<u64>,
    /// Its system time.
    pub system_ns: Option<u64>,
}

/// The machine on which the boot was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Host {
    /// The model name.
    pub cpu: String,
    /// The number of CPUs online.
    pub cores: u32,
    /// The kernel release.
    pub kernel: String,
    /// The load average over one minute, at the start.
    pub load1: f64,
    /// The rate of the time stamp counter, measured against the monotonic clock over the boot.
    pub tsc_hz: Option<f64>,
}

/// A file that went into the boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Input {
    /// `kernel`, `initrd`, `disk`, …
    pub role: String,
    /// The path on the host.
    pub path: String,
    pub bytes: u64,
    /// The hash of the content, hexadecimal; empty if it was not computed.
    pub sha256: String,
    /// The compression of a self-extracting kernel or of an initrd (`XZ`, `zstd`, `not compressed`); empty if not
    /// known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compression: String,
}

/// The purpose of a file that goes into a boot.
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
    /// The image that is mounted as the root.
    Root,
    Disk,
    /// A list of the kernel's functions.
    Symbols,
}

impl InputRole {
    /// The word in `recording.json`, and everywhere else.
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

    /// True if a stored word means this role.
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
    /// The accelerator that ran the guest's instructions, if the recording has it.
    #[must_use]
    pub fn accelerator(&self) -> Option<Accel> {
        [Accel::Tcg, Accel::Kvm].into_iter().find(|known| known.as_str() == self.accelerator)
    }
}

/// A file of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// The name in the folder.
    pub file: String,
    pub bytes: u64,
    /// The origin, in a few words.
    pub origin: String,
}

/// The overhead of recording: recorded ÷ plain boot time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Overhead {
    /// The ratio of medians.
    pub ratio: f64,
    /// The lower end of its confidence interval.
    pub low: f64,
    /// The upper end of its confidence interval.
    pub high: f64,
    /// The method of the measurement.
    pub how: String,
    /// The boot that was measured.
    pub of: Measured,
}

/// The boot whose recording overhead was measured. The overhead holds for no other boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Measured {
    /// The hash of the kernel, hexadecimal.
    pub kernel_sha256: String,
    pub machine: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The options that change the overhead, and the user's firmware; empty for a boot with default options.
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
            until: String::new(),
            boot: None,
            arrival_error_ns: None,
            boot_key: String::new(),
            notes: Vec::new(),
        }
    }
}

impl Manifest {
    /// A manifest of this version of the program, with the current time and the state `running`.
    #[must_use]
    pub fn begun_now() -> Self {
        let created = rfc3339(SystemTime::now());
        let tool_version = env!("CARGO_PKG_VERSION").to_owned();
        Manifest { tool_version, created, state: State::Running, ..Manifest::default() }
    }

    /// The key under which the overhead of recording this boot is kept.
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
            (observe.exits, "exits"),
            (!observe.first_executions, "no first executions"),
        ];
        let ways = ways.into_iter().filter(|(is_so, _)| *is_so).map(|(_, way)| way);
        ways.chain(bios).collect::<Vec<&str>>().join(", ")
    }

    /// The outcome as one word. `running` means that the manifest was never finished. `unknown` means that it has no
    /// state.
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

    /// Passes to `change` all texts that may name parts of a machine: command lines, paths, origins, sentences, kernel
    /// releases, and the recorder's options (`how`). Words of the schema and names of files stay unchanged.
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
        // The seal does not fit the changed texts.
        self.seal = None;
    }

    /// Parses `recording.json`.
    pub(crate) fn parse(text: &[u8]) -> Result<Manifest, Unreadable> {
        #[derive(Deserialize)]
        struct SchemaOnly {
            schema: String,
        }
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(Unreadable::Damaged(format!("it has more than {MAX_MANIFEST_BYTES} bytes")));
        }
        // Each value but the first of a list follows a comma. A comma in a string only makes the count larger.
        if text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).nth(MAX_VALUES).is_some() {
            return Err(Unreadable::Damaged(format!("it has more than {MAX_VALUES} values")));
        }
        let damaged = |e: serde_json::Error| Unreadable::Damaged(e.to_string());
        // Read the schema first: a later one may have changed the type of any other field.
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

/// The reason why a manifest cannot be used.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Later(String),
    Damaged(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_depends_on_the_options_of_the_recording() {
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
