//! How a boot is to be recorded: everything a user can ask for, with its default.
//!
//! The options are kept in the recording (`how` in `recording.json`) in the form that is given here, so that
//! `--like` can repeat them; a field that a later version adds has a default. What is wrong with them is said
//! before anything is started.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, SymbolFile};

/// How to boot and what to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordOptions {
    /// Linux bzImage, or ELF image with a PVH note; without one the machine boots from its disks.
    pub kernel: Option<PathBuf>,
    /// The user's own initial RAM file system.
    pub initrd: Option<PathBuf>,
    /// Kernel command line, as the user wants it; what recording adds is in the recording's command.
    pub append: String,
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
    /// QEMU machine type, with properties if need be.
    pub machine: String,
    /// The QEMU binary: a path, or a name to look up.
    pub qemu: PathBuf,
    /// What runs the guest's instructions.
    pub accel: Accel,
    /// Boot so that the same input gives the same boot.
    pub deterministic: bool,
    /// Whether the kernel traces initcalls, the scheduler, modules, work items and interrupts.
    pub trace_events: bool,
    /// Whether process 1 is bootscope's.
    pub init: Init,
    /// What bootscope's process 1 does when the evidence is home.
    pub then: Then,
    /// Where the boot ends.
    pub until: Until,
    /// Give up after this time, in ms.
    pub timeout_ms: Option<u64>,
    /// How long nothing must move for a hang, in ms.
    pub hang_after_ms: u64,
    /// Whether the firmware's debug port is recorded.
    pub firmware_log: bool,
    /// Whether QEMU's plugin notes what ran for the first time when (TCG only).
    pub first_run: bool,
    /// Whether QEMU's plugin follows every call (TCG only).
    pub calls: bool,
    /// Shortest call that is kept with its times, ns (of a deterministic boot: instructions); none: the plugin's choice.
    pub min_call_ns: Option<u64>,
    /// Files that name the guest's code, beside what a Linux guest tells itself.
    pub symbols: Vec<SymbolFile>,
    /// The most that each stream (console, firmware, guest, VMM) keeps of its start on disk, index included. Of one that
    /// is longer, the last 64 KiB come on top, with their index.
    pub stream_bytes_max: u64,
    /// Further arguments for QEMU, as they are.
    pub extra: Vec<String>,
    /// What recording costs on this host, as far as it was measured: what fits this boot is noted in the recording.
    #[serde(skip)]
    pub overheads: Vec<recording::Overhead>,
    /// The recording's folder.
    #[serde(skip)]
    pub out: PathBuf,
    /// Replace a recording that is there.
    #[serde(skip)]
    pub force: bool,
}

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Whose process 1 is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// bootscope's, which marks the hand-over and brings the evidence home.
    #[default]
    Guest,
    /// The guest's own; evidence comes from the console and out of memory.
    Keep,
}

/// What bootscope's process 1 does when the evidence is home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// Power the machine off.
    #[default]
    PowerOff,
    /// Become the user's own init.
    Exec,
}

/// Where the boot ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Process 1 runs.
    #[default]
    Init,
    /// The machine is powered off.
    PowerOff,
    /// A line on the console or in the kernel log matches.
    Regex(String),
}

impl Default for RecordOptions {
    fn default() -> Self {
        RecordOptions {
            kernel: None,
            initrd: None,
            append: String::new(),
            disks: Vec::new(),
            root: None,
            dax: false,
            workload: None,
            memory_bytes: 512 << 20,
            cpus: 1,
            machine: "pc".to_owned(),
            qemu: PathBuf::from("qemu-system-x86_64"),
            accel: Accel::Auto,
            deterministic: false,
            trace_events: true,
            init: Init::Guest,
            then: Then::PowerOff,
            until: Until::Init,
            timeout_ms: Some(600_000),
            hang_after_ms: 10_000,
            firmware_log: true,
            first_run: true,
            calls: false,
            min_call_ns: None,
            symbols: Vec::new(),
            stream_bytes_max: 256 << 20,
            extra: Vec::new(),
            overheads: Vec::new(),
            out: PathBuf::new(),
            force: false,
        }
    }
}

impl RecordOptions {
    /// Whether bootscope's process 1 is started.
    #[must_use]
    pub fn guest_init(&self) -> bool {
        self.init == Init::Guest
    }

    /// Says what is wrong with the options, before anything is started or written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mib = 1 << 20;
        if self.memory_bytes < 16 * mib || self.memory_bytes % mib != 0 {
            let found = self.memory_bytes;
            return Err(Error::option(format!("--memory is {found} bytes: give a multiple of 1 MiB, at least 16M")));
        }
        if let Some(host) = crate::host::memory_bytes().filter(|&host| self.memory_bytes > host) {
            let (asked, host) = (self.memory_bytes >> 20, host >> 20);
            return Err(Error::option(format!("--memory {asked}M is more than this host has ({host} MiB): give less")));
        }
        if self.cpus == 0 {
            return Err(Error::option("--cpus is 0: give at least 1"));
        }
        if self.stream_bytes_max == 0 {
            return Err(Error::option("no stream can be kept in 0 bytes"));
        }
        if let Until::Regex(pattern) = &self.until {
            regex::bytes::Regex::new(pattern).map_err(|e| Error::option(no_pattern(pattern, &e)))?;
        }
        if self.append.matches('"').count() % 2 == 1 {
            return Err(Error::option(format!(
                "--append has a double quote that is never closed: {:?}; the kernel would take all that follows, what \
                 recording adds too, for one parameter: close it or leave it out",
                self.append
            )));
        }
        self.check_what_boots()?;
        crate::lab::check(self)?;
        if self.deterministic {
            self.check_deterministic()?;
        }
        self.check_calls()
    }

    fn check_calls(&self) -> Result<(), Error> {
        if self.calls && self.accel == Accel::Kvm {
            return Err(Error::option(
                "--trace calls needs QEMU to translate the guest's code, and with KVM the CPU runs it itself: leave out \
                 --accel kvm, or --trace calls",
            ));
        }
        if self.min_call_ns.is_some() && !self.calls {
            return Err(Error::option("--min-call is about the calls of --trace calls: give that too"));
        }
        Ok(())
    }

    fn check_what_boots(&self) -> Result<(), Error> {
        match &self.kernel {
            Some(kernel) => crate::image::check_kernel(kernel)?,
            None if self.guest_init() => {
                return Err(Error::option(
                    "without --kernel the machine boots from its own disk, and its own process 1 runs: \
                     add --init keep, or give a --kernel",
                ));
            }
            None if self.initrd.is_some() || !self.append.is_empty() => {
                return Err(Error::option("--initrd and --append need a --kernel"));
            }
            None if self.disks.is_empty() && self.extra.is_empty() => {
                return Err(Error::option("nothing to boot: give a --kernel or a --disk"));
            }
            None => {}
        }
        crate::root::check(self)?;
        if self.then == Then::Exec && (!self.guest_init() || self.initrd.is_none() && self.root.is_none()) {
            return Err(Error::option(
                "--then exec hands over to the init of an --initrd or a --root: give one, or boot the guest's own init \
                 from its disk with --init keep",
            ));
        }
        for path in self.initrd.iter().chain(&self.disks) {
            crate::image::check_readable(path)?;
        }
        match self.initrd_oddity()? {
            // It would lie behind bootscope's own archive, and the kernel would leave it out.
            Some(oddity) if self.guest_init() => Err(Error::option(format!(
                "--initrd {oddity}: give what the kernel can unpack, made by `find . | cpio -o -H newc` and compressed \
                 or not"
            ))),
            _ => Ok(()),
        }
    }

    /// What keeps the kernel from unpacking the initrd, beginning with its name.
    pub(crate) fn initrd_oddity(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.initrd else {
            return Ok(None);
        };
        let found = crate::image::check_initrd(path)?;
        Ok(found.err().map(|why| format!("{} is no initial RAM file system: {why}", path.display())))
    }

    fn check_deterministic(&self) -> Result<(), Error> {
        if self.accel == Accel::Kvm {
            return Err(Error::option("--deterministic counts instructions, which KVM cannot: leave out --accel kvm"));
        }
        let why = "its requests are answered by the host's clock, and the boot would not repeat";
        if let Some(disk) = self.disks.first() {
            let disk = disk.display();
            return Err(Error::option(format!(
                "--deterministic takes no block device, but --disk {disk} is one: {why}; put what the boot needs \
                 into the initrd"
            )));
        }
        let spared = if crate::lab::is_booted(self) { crate::lab::SPARED_DEVICES } else { &[] };
        match outside_device(&self.extra, spared) {
            Some(device) => Err(Error::option(format!(
                "--deterministic takes no block or network device, but `{device}` makes one: {why}"
            ))),
            None => Ok(()),
        }
    }
}

/// The first of QEMU's arguments that makes a block or network device, but for those that are spared.
fn outside_device(extra: &[String], spared: &[&str]) -> Option<String> {
    const OPTIONS: &[&str] = &[
        "drive", "blockdev", "hda", "hdb", "hdc", "hdd", "cdrom", "fda", "fdb", "sd", "mtdblock", "pflash", "netdev",
        "iscsi", "virtfs", "fsdev", "loadvm",
    ];
    const DEVICES: &[&str] = &[
        "virtio-blk",
        "virtio-scsi",
        "virtio-net",
        "vhost",
        "nvme",
        "e1000",
        "rtl8139",
        "vmxnet",
        "ne2k",
        "pcnet",
        "i82",
        "tulip",
        "usb-net",
        "usb-storage",
        "usb-uas",
        "scsi-",
        "ide-",
        "ahci",
        "sdhci",
        "virtio-9p",
    ];
    for (at, argument) in extra.iter().enumerate() {
        let value = extra.get(at + 1).map_or("", String::as_str);
        let Some(option) = argument.strip_prefix('-') else {
            continue;
        };
        let option = option.strip_prefix('-').unwrap_or(option);
        let refused = match option {
            "nic" | "net" => value != "none",
            "device" => {
                let model = value.strip_prefix("driver=").unwrap_or(value);
                let is_spared = spared.contains(&model.split(',').next().unwrap_or_default());
                !is_spared && DEVICES.iter().any(|device| model.starts_with(device))
            }
            _ => OPTIONS.contains(&option),
        };
        if refused {
            return Some(format!("{argument} {value}").trim_end().to_owned());
        }
    }
    None
}

/// What is wrong with a pattern, in one line: the library draws a picture, and says what it shows last.
fn no_pattern(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!(
        "--until {pattern:?} is no regular expression: {why}; to match one of ( ) [ ] {{ }} . * + ? | ^ $ \\ itself, \
             put a \\ before it"
    )
}

/// A path as QEMU's comma-separated options take it.
pub(crate) fn escaped(path: &Path) -> Result<String, Error> {
    let text = path.to_str().ok_or_else(|| {
        Error::option(format!("{} is not UTF-8, which QEMU's options need: rename or link it", path.display()))
    })?;
    Ok(text.replace(',', ",,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|&a| a.to_owned()).collect()
    }

    #[test]
    fn options_survive_the_recording_and_new_fields_have_defaults() {
        let options = RecordOptions { until: Until::Regex("login:".to_owned()), cpus: 4, ..RecordOptions::default() };
        let json = serde_json::to_value(&options).unwrap();
        assert_eq!(serde_json::from_value::<RecordOptions>(json).unwrap(), options);
        let same_as_ever = serde_json::to_value(RecordOptions::default()).unwrap();
        assert_eq!(same_as_ever.get("root"), None, "the history tells setups apart by what is written");
        let old: RecordOptions = serde_json::from_str(r#"{"cpus":2,"gone":1}"#).unwrap();
        assert_eq!(old, RecordOptions { cpus: 2, ..RecordOptions::default() });
    }

    #[test]
    fn devices_that_make_a_boot_differ_are_found() {
        for bad in [
            &["-drive", "file=x"][..],
            &["-device", "nvme,serial=1"],
            &["-device", "virtio-blk-pci"],
            &["--device", "driver=e1000"],
            &["-m", "1G", "-nic", "user"],
            &["-hda", "x"],
        ] {
            assert!(outside_device(&extra(bad), &[]).is_some(), "{bad:?}");
        }
        for good in [&["-device", "virtio-rng-pci"][..], &["-nic", "none"], &["-cpu", "max"], &[]] {
            assert_eq!(outside_device(&extra(good), &[]), None, "{good:?}");
        }
        let two = extra(&["-device", "nvme,serial=a", "-device", "virtio-net-pci"]);
        assert_eq!(outside_device(&two, &["nvme"]).as_deref(), Some("-device virtio-net-pci"));
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_said_in_one_line() {
        for (pattern, why) in [("(", "unclosed group"), ("a{2", "unclosed"), ("x{999999999}", "size limit")] {
            let options = RecordOptions { until: Until::Regex(pattern.to_owned()), ..RecordOptions::default() };
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(pattern) && error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_names_the_option() {
        let check = |options: RecordOptions, named: &str| {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        };
        let base = RecordOptions::default;
        check(RecordOptions { memory_bytes: 100, ..base() }, "--memory");
        check(RecordOptions { cpus: 0, ..base() }, "--cpus");
        check(RecordOptions { until: Until::Regex("(".to_owned()), ..base() }, "--until");
        check(RecordOptions { append: "quiet dyndbg=\"file x +p".to_owned(), ..base() }, "--append");
        check(base(), "--kernel");
        check(RecordOptions { init: Init::Keep, ..base() }, "nothing to boot");
        let gone = Some(PathBuf::from("/nonexistent/vmlinuz"));
        check(RecordOptions { kernel: gone, ..base() }, "/nonexistent/vmlinuz");
    }
}
