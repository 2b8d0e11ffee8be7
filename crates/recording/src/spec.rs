//! The options of a boot in two parts: the guest, and how it is observed.
//!
//! Together they are `how` in `recording.json`, in one flat object, so that `--like` can repeat a boot. They are types,
//! so that code which compares two boots compares specs and keeps no list of fields. Fields are added, never renamed.
//! Each has a default, and fields that this version does not know are ignored.
//!
//! This module neither boots nor checks anything: the recorder does.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::patch::Patch;
use crate::target::Target;
use crate::until::Until;
use crate::watched_variable::Watched;

/// The guest, its machine and the end of the boot.
///
/// Everything that can change the guest's execution belongs here, also where the recorder needs it (`trace_events`,
/// `init`). Two boots with equal guest specs and equal files are the same boot, however they were observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct GuestSpec {
    /// The guest's architecture, as QEMU names it: `x86_64`, `aarch64`, `riscv64`, `arm`.
    #[serde(skip_serializing_if = "is_default_arch")]
    pub arch: String,
    /// The kernel: Linux bzImage, ELF image with a PVH note, arm64 or riscv64 Image, or zImage of 32-bit ARM. Without
    /// one the machine boots from its disks.
    pub kernel: Option<PathBuf>,
    /// The user's own initial RAM file system.
    pub initrd: Option<PathBuf>,
    /// The device tree for the kernel, in place of the VMM's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtb: Option<PathBuf>,
    /// The firmware, in place of the VMM's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<PathBuf>,
    /// The kernel command line from the user. The recording's command has what the recorder adds.
    pub append: String,
    /// Units that the guest's systemd must not start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    /// Disk images, raw or qcow2; never written.
    pub disks: Vec<PathBuf>,
    /// The raw image of an ext4 or erofs that bootscope's process 1 mounts as the root, before the end mark; never
    /// written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// True if the root is persistent memory, mounted with `-o dax`; false if it is a virtio disk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dax: bool,
    /// A command that the root's shell runs after the end mark. The recorder reads guest memory again after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The size of guest memory, a multiple of 1 MiB.
    pub memory_bytes: u64,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The VMM's machine type, with optional properties.
    pub machine: String,
    /// The VMM that makes the machine, or the board that is one.
    #[serde(flatten)]
    pub target: Target,
    /// The accelerator that runs the guest's instructions.
    pub accel: Accel,
    /// True if the same input must give the same boot.
    pub deterministic: bool,
    /// True if the kernel traces initcalls, the scheduler, modules, work items and interrupts.
    pub trace_events: bool,
    /// The program of process 1.
    pub init: Init,
    /// The action of bootscope's process 1 after the evidence transfer.
    pub then: Then,
    /// The end mark.
    pub until: Until,
    /// Further arguments for the VMM, passed unchanged.
    pub extra: Vec<String>,
    /// The changes of the guest's code that the recorder makes while it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// True if a kernel that can move itself at random stays where its image says. Patches require it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed_address: bool,
    /// True if the guest's network card reaches neither the host nor other machines. It is set for a boot from another
    /// user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
}

/// The observation of a boot from outside. These options do not change the guest's execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ObserveSpec {
    /// The time limit, in ms.
    pub timeout_ms: Option<u64>,
    /// The time without progress after which the boot counts as hung, in ms.
    pub hang_after_ms: u64,
    /// True if the firmware's debug port is recorded.
    pub firmware_log: bool,
    /// True if the VMM's plugin records a first-execution trace (TCG only).
    #[serde(rename = "first_run")]
    pub first_executions: bool,
    /// True if the VMM's plugin records every call (TCG only).
    pub calls: bool,
    /// True if the VMM's plugin counts the accesses that leave the guest (TCG only).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// The shortest call kept with its times, in ns (in instructions for a deterministic boot); `None`: the plugin's
    /// default.
    pub min_call_ns: Option<u64>,
    /// Files with names for the guest's code, beside those that a Linux guest reports itself.
    pub symbols: Vec<SymbolFile>,
    /// The time without console output after which the recorder stops the vCPUs and reads their stacks, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// A variable to read at the entries of functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watched>,
    /// The most bytes that each stream (console, firmware, guest, VMM) keeps of its start on disk, index included. A
    /// longer stream also keeps its last 64 KiB, with their index.
    pub stream_bytes_max: u64,
}

/// The accelerator that runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM if this kernel makes progress under it, else TCG.
    #[default]
    Auto,
    /// QEMU's translator.
    Tcg,
    /// The host's hardware.
    Kvm,
}

impl Accel {
    /// The word in `recording.json`, and everywhere else.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Accel::Auto => "auto",
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }
}

/// The program that runs as process 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// bootscope's, which marks the hand-over and transfers the evidence.
    #[default]
    Guest,
    /// The guest's own; evidence comes from the console and from guest memory.
    Keep,
    /// bootscope's, on a machine without a channel for its messages: its start is the end mark, and evidence comes from
    /// the console and from guest memory.
    Mute,
}

/// The action of bootscope's process 1 after the evidence transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// Power the machine off.
    #[default]
    PowerOff,
    /// Execute the user's own init.
    Exec,
}

/// A file with symbols, and the address of their code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SymbolFile {
    pub path: PathBuf,
    /// Its address at run time, if it differs from the link address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
}

/// The guest's architecture if a recording has no `arch`: old recordings are all of this one.
const DEFAULT_ARCH: &str = "x86_64";

fn is_default_arch(arch: &str) -> bool {
    arch == DEFAULT_ARCH
}

impl Default for GuestSpec {
    fn default() -> Self {
        GuestSpec {
            arch: DEFAULT_ARCH.to_owned(),
            kernel: None,
            initrd: None,
            dtb: None,
            bios: None,
            append: String::new(),
            mask: Vec::new(),
            disks: Vec::new(),
            root: None,
            dax: false,
            workload: None,
            memory_bytes: 512 << 20,
            cpus: 1,
            machine: "pc".to_owned(),
            target: Target::default(),
            accel: Accel::Auto,
            deterministic: false,
            trace_events: true,
            init: Init::Guest,
            then: Then::PowerOff,
            until: Until::Init,
            extra: Vec::new(),
            patches: Vec::new(),
            fixed_address: false,
            isolated: false,
        }
    }
}

impl Default for ObserveSpec {
    fn default() -> Self {
        ObserveSpec {
            timeout_ms: Some(600_000),
            hang_after_ms: 10_000,
            firmware_log: true,
            first_executions: true,
            calls: false,
            exits: false,
            min_call_ns: None,
            symbols: Vec::new(),
            silence_ms: None,
            watch: None,
            stream_bytes_max: 256 << 20,
        }
    }
}

impl GuestSpec {
    /// The guest spec in a recording's `how`; `None` if it is missing or this version cannot read it.
    #[must_use]
    pub fn of(how: &serde_json::Value) -> Option<GuestSpec> {
        GuestSpec::deserialize(how).ok()
    }

    /// True if bootscope's process 1 is started and sends its messages to the host.
    #[must_use]
    pub fn has_guest_init(&self) -> bool {
        self.init == Init::Guest && !self.target.is_board()
    }
}

/// Declares the fields, each with its key in `how`.
macro_rules! fields {
    ($($field:ident $name:literal),+ $(,)?) => {
        /// A field of the specs that a user can set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field { $($field),+ }

        impl Field {
            pub const ALL: &[Field] = &[$(Field::$field),+];

            /// The field's key in `how`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Field::$field => $name),+ }
            }
        }
    };
}

fields! {
    Kernel "kernel",
    Initrd "initrd",
    Dtb "dtb",
    Bios "bios",
    Append "append",
    Mask "mask",
    Disks "disks",
    Root "root",
    Dax "dax",
    Workload "workload",
    Patches "patches",
    Serial "serial",
    Baud "baud",
    PowerCycle "power_cycle",
    Memory "memory_bytes",
    Cpus "cpus",
    Arch "arch",
    Machine "machine",
    Vmm "vmm",
    Qemu "qemu",
    Accel "accel",
    Deterministic "deterministic",
    Extra "extra",
    TraceEvents "trace_events",
    Calls "calls",
    Exits "exits",
    MinCall "min_call_ns",
    Symbols "symbols",
    Silence "silence_ms",
    Watch "watch",
    Init "init",
    Then "then",
    FirmwareLog "firmware_log",
    FirstExecutions "first_run",
    Until "until",
    Timeout "timeout_ms",
    HangAfter "hang_after_ms",
}

impl Field {
    /// The field with a value, as a user writes the value.
    #[must_use]
    pub fn is(self, value: impl fmt::Display) -> Setting {
        Setting { field: self, value: value.to_string() }
    }
}

/// A field, and its value if a sentence names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub field: Field,
    /// Empty if the sentence is about the field whatever its value.
    pub value: String,
}

impl From<Field> for Setting {
    fn from(field: Field) -> Setting {
        Setting { field, value: String::new() }
    }
}

/// A setting that differs between two boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Difference {
    /// The setting's name in `how`.
    pub what: String,
    /// The old value; empty if it was not set.
    pub before: String,
    /// The new value; empty if it is not set.
    pub after: String,
}

impl GuestSpec {
    /// Every setting in which another boot differs from this one, ordered by name.
    #[must_use]
    pub fn differences(&self, after: &GuestSpec) -> Vec<Difference> {
        let settings = |spec: &GuestSpec| match serde_json::to_value(spec) {
            Ok(Value::Object(settings)) => settings,
            // A path that is not text has no JSON: such a guest shows no differences.
            _ => serde_json::Map::new(),
        };
        let word = |value: Option<&Value>| match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let (before, after) = (settings(self), settings(after));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let differ = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
        differ
            .map(|name| Difference { what: name.clone(), before: word(before.get(name)), after: word(after.get(name)) })
            .collect()
    }
}

impl ObserveSpec {
    /// The observe spec in a recording's `how`; `None` if it is missing or this version cannot read it.
    #[must_use]
    pub fn of(how: &serde_json::Value) -> Option<ObserveSpec> {
        ObserveSpec::deserialize(how).ok()
    }
}

impl FromStr for SymbolFile {
    type Err = String;

    /// `FILE` or `FILE@0xBASE`. An `@` without `0x` belongs to the file's name.
    fn from_str(text: &str) -> Result<SymbolFile, String> {
        match text.rsplit_once("@0x") {
            Some((path, base)) if !path.is_empty() => {
                let base = u64::from_str_radix(base, 16)
                    .map_err(|_| format!("{base:?} is no address: write FILE@0x and hexadecimal digits"))?;
                Ok(SymbolFile { path: path.into(), base: Some(base) })
            }
            _ => Ok(SymbolFile { path: text.into(), base: None }),
        }
    }
}

impl fmt::Display for SymbolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.base.map_or(Ok(()), |base| write!(f, "@{base:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_specs_are_read_from_one_flat_object_with_defaults() {
        let how = json!({"cpus": 2, "until": {"regex": "login:"}, "calls": true, "a later version's": 1});
        let guest = GuestSpec { cpus: 2, until: Until::Regex("login:".to_owned()), ..GuestSpec::default() };
        assert_eq!(GuestSpec::of(&how), Some(guest));
        assert_eq!(ObserveSpec::of(&how), Some(ObserveSpec { calls: true, ..ObserveSpec::default() }));
        assert_eq!(GuestSpec::of(&json!(null)), None, "an import says nothing of how it was made");
        assert_eq!(GuestSpec::of(&json!({"cpus": "two"})), None);
    }

    #[test]
    fn every_setting_that_differs_is_named() {
        let before = GuestSpec { root: Some("disk.img".into()), ..GuestSpec::default() };
        let after = GuestSpec { append: "quiet".to_owned(), cpus: 2, ..GuestSpec::default() };
        assert_eq!(before.differences(&before), []);
        let differences = before.differences(&after);
        let differences: Vec<[&str; 3]> =
            differences.iter().map(|d| [d.what.as_str(), d.before.as_str(), d.after.as_str()]).collect();
        assert_eq!(differences, [["append", "", "quiet"], ["cpus", "1", "2"], ["root", "disk.img", ""]]);
    }

    #[test]
    fn default_specs_write_the_same_fields_as_ever() {
        let guest = serde_json::to_value(GuestSpec::default()).unwrap();
        let observe = serde_json::to_value(ObserveSpec::default()).unwrap();
        let names =
            |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            names(&guest),
            "accel append cpus deterministic disks extra init initrd kernel machine memory_bytes qemu then trace_events until"
        );
        assert_eq!(
            names(&observe),
            "calls firmware_log first_run hang_after_ms min_call_ns stream_bytes_max symbols timeout_ms"
        );
    }
}
