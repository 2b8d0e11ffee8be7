//! How a boot was asked for, in two parts: the guest, and how it is observed.
//!
//! Together they are `how` in `recording.json`, in one flat object, so that `--like` can repeat a boot. They are types, so
//! that whoever compares two boots compares specs and keeps no list of fields. Fields are added, never renamed; each has a
//! default, and fields that this version does not know are ignored.
//!
//! Nothing here says how a boot is made, and nothing here is checked: that is for whoever boots.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::patch::Patch;
use crate::watched::Watched;

/// What is booted, on what, and until when.
///
/// All that can change what the guest executes belongs here, also where the recorder asks for it (`trace_events`, `init`):
/// two boots with equal guest specs and equal files are the same boot, however they were observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct GuestSpec {
    /// The guest's architecture, as QEMU names it: `x86_64`, `aarch64`, `riscv64`, `arm`.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub arch: String,
    /// Linux bzImage, ELF image with a PVH note, arm64 or riscv64 Image, or zImage of 32-bit ARM; without one the machine boots from its disks.
    pub kernel: Option<PathBuf>,
    /// The user's own initial RAM file system.
    pub initrd: Option<PathBuf>,
    /// The device tree that the kernel gets, in place of the VMM's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtb: Option<PathBuf>,
    /// The firmware, in place of the VMM's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<PathBuf>,
    /// Kernel command line, as the user wants it; what recording adds is in the recording's command.
    pub append: String,
    /// Units that the guest's systemd is told not to start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    /// Disk images, raw or qcow2; never written.
    pub disks: Vec<PathBuf>,
    /// Raw image of an ext4 or erofs that bootscope's process 1 mounts as the root, before the end mark; never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Whether the root is persistent memory and mounted with `-o dax`, else it is a virtio disk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dax: bool,
    /// A command that the root's shell runs after the end mark; guest memory is looked at again after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Guest memory, a multiple of 1 MiB.
    pub memory_bytes: u64,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The VMM's machine type, with properties if need be.
    pub machine: String,
    /// The kind of VMM.
    #[serde(skip_serializing_if = "VmmKind::is_qemu")]
    pub vmm: VmmKind,
    /// The VMM's program, of whatever kind: a path, or a name to look up.
    pub qemu: PathBuf,
    /// What runs the guest's instructions.
    pub accel: Accel,
    /// Boot so that the same input gives the same boot.
    pub deterministic: bool,
    /// Whether the kernel traces initcalls, the scheduler, modules, work items and interrupts.
    pub trace_events: bool,
    /// Whether process 1 is bootscope's.
    pub init: Init,
    /// What bootscope's process 1 does when it has transferred the evidence.
    pub then: Then,
    /// Where the boot ends.
    pub until: Until,
    /// Further arguments for the VMM, as they are.
    pub extra: Vec<String>,
    /// What the recorder changes in the guest's code while it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Whether a kernel that moves itself at random is kept where its image says, as it is where anything is patched.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed_address: bool,
    /// True if the guest's network card reaches neither the host nor other machines: a boot that somebody sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// A board, which boots what it has: nothing else here describes it but where its boot ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
}

/// A board, of which the recorder has a serial port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Board {
    /// The port: a device (`/dev/ttyUSB0`), or a terminal server's (`tcp:HOST:PORT`, `telnet:HOST:PORT`).
    pub serial: String,
    /// The rate of the port, in bits per second; none: [`Board::BAUD`] of a device, not known of a terminal server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baud: Option<u32>,
    /// The shell command that switches the board off and on; none: the user does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycle: Option<String>,
}

impl Board {
    /// The rate of a device where nobody says another.
    pub const BAUD: u32 = 115_200;
}

/// How a boot is observed from outside, which makes no difference to what the guest executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ObserveSpec {
    /// Give up after this time, in ms.
    pub timeout_ms: Option<u64>,
    /// How long nothing must move for a hang, in ms.
    pub hang_after_ms: u64,
    /// Whether the firmware's debug port is recorded.
    pub firmware_log: bool,
    /// Whether the VMM's plugin notes what ran for the first time when (TCG only).
    #[serde(rename = "first_run")]
    pub first_executions: bool,
    /// Whether the VMM's plugin follows every call (TCG only).
    pub calls: bool,
    /// Shortest call that is kept with its times, ns (of a deterministic boot: instructions); none: the plugin's choice.
    pub min_call_ns: Option<u64>,
    /// Files that name the guest's code, beside what a Linux guest reports itself.
    pub symbols: Vec<SymbolFile>,
    /// Stop the vCPUs and read their stacks once the console has said nothing for so long, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// A variable to read where functions are entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watched>,
    /// The most that each stream (console, firmware, guest, VMM) keeps of its start on disk, index included. Of one that
    /// is longer, the last 64 KiB come on top, with their index.
    pub stream_bytes_max: u64,
}

/// A kind of VMM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VmmKind {
    /// QEMU.
    #[default]
    Qemu,
    /// Firecracker.
    Firecracker,
    /// cloud-hypervisor.
    #[serde(rename = "cloud-hypervisor")]
    CloudHypervisor,
}

impl VmmKind {
    /// Its name, as one writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            VmmKind::Qemu => "qemu",
            VmmKind::Firecracker => "firecracker",
            VmmKind::CloudHypervisor => "cloud-hypervisor",
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VmmKind::Qemu => "QEMU",
            VmmKind::Firecracker => "Firecracker",
            VmmKind::CloudHypervisor => "cloud-hypervisor",
        }
    }

    // serde asks by reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_qemu(&self) -> bool {
        *self == VmmKind::Qemu
    }
}

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM where this kernel makes progress under it, else TCG.
    #[default]
    Auto,
    /// QEMU's translator.
    Tcg,
    /// The host's hardware.
    Kvm,
}

impl Accel {
    /// The word used in `recording.json` and everywhere else.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Accel::Auto => "auto",
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }
}

/// Whose process 1 is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// bootscope's, which marks the hand-over and transfers the evidence.
    #[default]
    Guest,
    /// The guest's own; evidence comes from the console and out of memory.
    Keep,
}

/// What bootscope's process 1 does when it has transferred the evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// Power the machine off.
    #[default]
    PowerOff,
    /// Become the user's own init.
    Exec,
}

/// Where the boot ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Process 1 runs.
    #[default]
    Init,
    /// The machine is powered off.
    PowerOff,
    /// A line on the console or in the kernel log matches.
    Regex(String),
    /// systemd says of this unit that it is active.
    Unit(String),
    /// This TCP port of the guest's is connected to, from the host.
    Tcp(u16),
    /// The guest serves this page, to the host.
    Http(Page),
    /// A thread of this name runs.
    Process(String),
}

impl Until {
    /// The port of the guest's that the host asks.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Until::Tcp(port) => Some(*port),
            Until::Http(page) => Some(page.port),
            _ => None,
        }
    }
}

/// A page that a guest serves by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Page {
    /// The name by which the guest is asked.
    pub host: String,
    /// The port of the guest's.
    pub port: u16,
    /// From its first slash on.
    pub path: String,
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { host, port, path } = self;
        match port {
            80 => write!(f, "http://{host}{path}"),
            port => write!(f, "http://{host}:{port}{path}"),
        }
    }
}

impl FromStr for Page {
    type Err = String;

    /// `http://HOST[:PORT][/PATH]`
    fn from_str(text: &str) -> Result<Page, String> {
        const SUCH: &str = "write http://guest/health, or http://guest:8080/health";
        let rest = text.strip_prefix("http://").ok_or_else(|| format!("`{text}` is no page: {SUCH}"))?;
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok().filter(|&port| port > 0)),
            None => (server, Some(80)),
        };
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        let port = port.filter(|_| !host.is_empty() && is_plain(host) && is_plain(path));
        let port = port.ok_or_else(|| format!("`{text}` is no page: {SUCH}"))?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(Page { host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// Whether this is the name of a unit of systemd's: it says of what kind it is (systemd.unit(5)).
pub fn is_unit_name(name: &str) -> bool {
    const KINDS: [&str; 11] =
        ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
    name.rsplit_once('.').is_some_and(|(own, kind)| !own.is_empty() && !name.contains(' ') && KINDS.contains(&kind))
}

/// A file with names, and where its code is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SymbolFile {
    /// The file.
    pub path: PathBuf,
    /// Where it begins at run time, if not where it was linked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
}

/// The architecture of guests of which a recording says none: that of all recordings before there was another.
const ARCH_UNSAID: &str = "x86_64";

fn is_unsaid(arch: &str) -> bool {
    arch == ARCH_UNSAID
}

impl Default for GuestSpec {
    fn default() -> Self {
        GuestSpec {
            arch: ARCH_UNSAID.to_owned(),
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
            vmm: VmmKind::Qemu,
            qemu: PathBuf::from("qemu-system-x86_64"),
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
            board: None,
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
            min_call_ns: None,
            symbols: Vec::new(),
            silence_ms: None,
            watch: None,
            stream_bytes_max: 256 << 20,
        }
    }
}

impl GuestSpec {
    /// That of a recording's `how`; none if it has none, or one that this version cannot read.
    #[must_use]
    pub fn of(how: &serde_json::Value) -> Option<GuestSpec> {
        GuestSpec::deserialize(how).ok()
    }

    /// Whether bootscope's process 1 is started.
    #[must_use]
    pub fn has_guest_init(&self) -> bool {
        self.init == Init::Guest && self.board.is_none()
    }
}

/// A setting that two boots do not share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Difference {
    /// Its name in `how`.
    pub what: String,
    /// What it was; empty if it was not set.
    pub before: String,
    /// What it is.
    pub after: String,
}

impl GuestSpec {
    /// Every setting in which another boot differs from this one, in the order of their names.
    #[must_use]
    pub fn differences(&self, after: &GuestSpec) -> Vec<Difference> {
        let settings = |spec: &GuestSpec| match serde_json::to_value(spec) {
            Ok(Value::Object(settings)) => settings,
            // A path that is no text: there is nothing to say of such a guest.
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
    /// That of a recording's `how`; none if it has none, or one that this version cannot read.
    #[must_use]
    pub fn of(how: &serde_json::Value) -> Option<ObserveSpec> {
        ObserveSpec::deserialize(how).ok()
    }
}

impl FromStr for SymbolFile {
    type Err = String;

    /// `FILE` or `FILE@0xBASE`. What follows an `@` and is no hexadecimal number belongs to the file's name.
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
    fn both_are_read_out_of_one_flat_object_and_what_is_missing_is_usual() {
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
        let found = before.differences(&after);
        let found: Vec<[&str; 3]> =
            found.iter().map(|d| [d.what.as_str(), d.before.as_str(), d.after.as_str()]).collect();
        assert_eq!(found, [["append", "", "quiet"], ["cpus", "1", "2"], ["root", "disk.img", ""]]);
    }

    #[test]
    fn what_is_written_is_what_ever_was() {
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

    #[test]
    fn a_page_is_written_as_a_browser_takes_it() {
        for (text, host, port, path) in [
            ("http://guest/health?full=1", "guest", 80, "/health?full=1"),
            ("http://a.example:8080", "a.example", 8080, "/"),
            ("http://guest:81/a:b/c", "guest", 81, "/a:b/c"),
        ] {
            let page: Page = text.parse().unwrap();
            assert_eq!((page.host.as_str(), page.port, page.path.as_str()), (host, port, path));
            assert_eq!(page.to_string().parse::<Page>().unwrap(), page);
        }
        for wrong in ["https://guest/", "http://", "http:///x", "http://guest:0/", "http://guest:70000/", "http://g/ x"]
        {
            assert!(wrong.parse::<Page>().unwrap_err().contains("http://guest"), "{wrong}");
        }
    }
}
