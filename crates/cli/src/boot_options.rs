//! The options of a boot as flags, for every command that boots.

use crate::amount;
use crate::boot_values::{Vmm, absolute, until, vmm};
use anyhow::bail;
use campaigns::Notes;
use campaigns::repeat::Repeated;
use clap::ValueEnum;
use machine::{
    Accel, Board, Field, Given, Init, Patch, RecordOptions, Setting, SymbolFile, Target, Then, Until, VmmKind, Watched,
    Words,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The flags. What is not given is as usual, or as in the recording that is to be repeated.
#[derive(clap::Args)]
pub struct BootArgs {
    /// The kernel: a Linux bzImage, an ELF file with a PVH note, an arm64 or riscv64 Image, a zImage of 32-bit ARM, an image
    /// of s390x or ppc64le; packed, as an EFI zboot image, or in a unified kernel image, too
    #[arg(long, value_name = "FILE", help_heading = "What to boot")]
    pub kernel: Option<PathBuf>,
    /// Boot the reference kernel; words of --append make it slow (see `bootscope lab list`)
    #[arg(long, conflicts_with_all = ["kernel", "like", "disks", "root", "init"], help_heading = "What to boot")]
    lab: bool,
    /// Your initrd; without one, it holds only bootscope's process 1
    #[arg(long, value_name = "FILE", help_heading = "What to boot")]
    initrd: Option<PathBuf>,
    /// The device tree (.dtb) for the kernel, in place of QEMU's own. A board such as sabrelite needs one
    #[arg(long, value_name = "FILE", help_heading = "What to boot")]
    dtb: Option<PathBuf>,
    /// Firmware in place of QEMU's own: U-Boot (u-boot.bin), EDK2, qboot. It starts the --kernel or the --disk
    #[arg(long, value_name = "FILE", help_heading = "What to boot")]
    bios: Option<PathBuf>,
    /// Kernel command line
    #[arg(long, value_name = "TEXT", help_heading = "What to boot", allow_hyphen_values = true)]
    append: Option<String>,
    /// Tell the guest's systemd not to start these units (systemd.mask=); nothing after the = masks none. With --init keep
    #[arg(long, value_name = "UNIT,…", value_delimiter = ',', help_heading = "What to boot")]
    mask: Option<Vec<String>>,
    /// Disk image (raw or qcow2), never written; may be repeated
    #[arg(long = "disk", value_name = "FILE", help_heading = "What to boot")]
    disks: Vec<PathBuf>,
    /// Root file system: a raw image of ext4 or erofs (pc, q35), never written. Process 1 loads the kernel's modules for it
    /// (from lib/modules beside the kernel, or /lib/modules) and mounts it; that is the end mark
    #[arg(long, value_name = "IMAGE", help_heading = "What to boot")]
    root: Option<PathBuf>,
    /// Make the --root persistent memory (virtio-pmem), mounted with -o dax: files are mapped, not copied into the page
    /// cache
    #[arg(long, help_heading = "What to boot")]
    dax: bool,
    /// Run this by the root's /bin/sh after the end mark, and measure memory again
    #[arg(long, value_name = "COMMAND", help_heading = "What to boot", allow_hyphen_values = true)]
    workload: Option<String>,
    /// Change the guest's code before FUNC runs for the first time; may be repeated. call@FUNC+0x41=nop removes the call
    /// there, call@FUNC+0x41=OTHER has it call OTHER, bytes@FUNC+0x41=OLD:NEW writes bytes. Several are separated by ';'.
    /// bootscope writes only what fits, and says the bytes before and after; else the outcome is `unpatched`. FUNC is a
    /// name of --symbols or of the kernel's image, or an address. A Linux kernel gets nokaslr
    #[arg(long, value_name = "CHANGE", value_parser = patches, help_heading = "What to boot")]
    patch: Vec<Patches>,
    /// Take all options from this recording, except those given here
    #[arg(long, value_name = "RECORDING", help_heading = "What to boot")]
    pub like: Option<PathBuf>,

    /// With --like: boot a recording that another user or machine made as it says. Its programs, commands, disks and arguments
    /// for QEMU are printed, and taken
    #[arg(long, help_heading = "What to boot")]
    pub trust_recording: bool,

    /// Record a board's boot on its serial console: a device (/dev/ttyUSB0), tcp:HOST:PORT or telnet:HOST:PORT
    #[arg(long, value_name = "PORT", conflicts_with = "lab", help_heading = "A board")]
    serial: Option<String>,
    /// The rate of the console, in bits per second [default: 115200; of tcp and telnet not known]
    #[arg(long, value_name = "RATE", help_heading = "A board")]
    baud: Option<u32>,
    /// The shell command that switches the board off and on. The boot begins when it ends; without one, at the first byte, and
    /// you switch the board on
    #[arg(long, value_name = "COMMAND", help_heading = "A board", allow_hyphen_values = true)]
    power_cycle: Option<String>,

    /// Guest memory [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes, help_heading = "On what")]
    memory: Option<u64>,
    /// Virtual CPUs [default: 1]
    #[arg(long, value_name = "N", help_heading = "On what")]
    cpus: Option<u32>,
    /// The guest's architecture: x86_64, aarch64, riscv64, arm, s390x, ppc64 [default: the kernel's, as its image says; else
    /// x86_64]
    #[arg(long, value_name = "ARCH", help_heading = "On what")]
    arch: Option<String>,
    /// QEMU's machine type, with its properties: pc, q35, microvm, virt, sabrelite [default: pc for x86_64, else virt]
    #[arg(long, value_name = "TYPE", help_heading = "On what")]
    machine: Option<String>,
    /// The QEMU to start [default: qemu-system- and the architecture]
    #[arg(long, value_name = "PROGRAM", help_heading = "On what")]
    qemu: Option<PathBuf>,
    /// The VMM: qemu, firecracker, cloud-hypervisor, or the path of one of the last two. These run guests by KVM, with
    /// their own process 1. With Firecracker, only the console is recorded [default: qemu]
    #[arg(long, value_name = "VMM", value_parser = vmm, conflicts_with_all = ["qemu", "lab"], help_heading = "On what")]
    vmm: Option<Vmm>,
    /// Accelerator; auto takes KVM if this kernel makes progress under it [default: auto]
    #[arg(long, value_name = "WHAT", help_heading = "On what")]
    accel: Option<AccelArg>,
    /// Count instructions: one is one nanosecond, and the same input gives the same boot. No disks, no network
    #[arg(long, help_heading = "On what")]
    deterministic: bool,
    /// Further arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENTS", help_heading = "On what")]
    extra: Vec<String>,

    /// events: what the kernel traces (initcalls, scheduler, modules, work, interrupts); calls: every call from the reset
    /// vector on, by QEMU; exits: how often each function leaves the guest (ports, devices' registers, MSRs, CPUID, HLT,
    /// hypercalls) and first touches a page of memory, by QEMU; events,calls,exits: all [default: events]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', help_heading = "What to record")]
    trace: Vec<Trace>,
    /// With --trace calls: the shortest call whose times are kept; all are counted [default: 1us]
    #[arg(long, value_name = "TIME", value_parser = amount::duration, help_heading = "What to record")]
    min_call: Option<Duration>,
    /// Names of the guest's functions: an ELF or PE image, a System.map, or what nm prints. 0xBASE is the load address, if
    /// it is not the linked one. Debug information in an ELF image names fields for --watch. May be repeated. A Linux guest needs none
    #[arg(long, value_name = "FILE[@0xBASE]", help_heading = "What to record")]
    symbols: Vec<SymbolFile>,
    /// Once the console has been silent for this time (by the host's clock), stop the vCPUs for a moment and read their
    /// stacks; again each time that the silence has grown by half, and ten times the length of the last stop later at the
    /// earliest. `show` prints where the guest was, and what the stops
    /// cost. The names of functions come from --symbols and from the kernel's image
    #[arg(long, value_name = "TIME", value_parser = amount::duration, help_heading = "What to record")]
    silence: Option<Duration>,
    /// Stop the vCPUs for a moment where FUNC is entered (4 functions at most) and read VAR, a symbol of the kernel;
    /// VAR+0x10:8 is 8 bytes at an offset in it. With debug information (--symbols vmlinux) VAR.field, VAR[3].field and
    /// VAR->field are fields by name. `show` prints the values at the first and the last stops, watch.txt has the value
    /// at each. After 2000 stops it is not read again. A Linux kernel gets nokaslr. Not with --silence
    #[arg(long, value_name = "VAR@FUNC[,FUNC]", conflicts_with = "silence", help_heading = "What to record")]
    watch: Option<Watched>,
    /// guest: bootscope's process 1; keep: the guest's own. With keep, evidence comes from console and memory, so
    /// bootscope adds initcall_debug to the command line unless --trace leaves out events [default: guest with --kernel]
    #[arg(long, value_name = "WHOSE", help_heading = "What to record")]
    init: Option<InitArg>,
    /// The last action of bootscope's process 1: power off, or execute the init of the initrd or root [default:
    /// poweroff]
    #[arg(long, value_name = "WHAT", help_heading = "What to record")]
    then: Option<ThenArg>,
    /// Do not record the firmware's debug port
    #[arg(long, help_heading = "What to record")]
    no_firmware_log: bool,
    /// Do not record the first-execution trace (TCG only)
    #[arg(long, alias = "no-first-run", help_heading = "What to record")]
    no_first_executions: bool,

    /// The end mark: init; power-off; unit:NAME, a unit of the guest's own systemd; process:NAME, a program of the guest's;
    /// tcp:PORT, a port of the guest's that accepts; http://guest/PATH, a page that it serves; or a regular expression for a
    /// line of the console or kernel log. The host asks ports and pages through a virtio network card, which replaces the
    /// machine's own [default: init]
    #[arg(long, value_name = "MARK", value_parser = until, help_heading = "How long")]
    until: Option<Until>,
    /// Give up after this time, such as 90s [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = amount::duration, help_heading = "How long")]
    timeout: Option<Duration>,
    /// Call the boot hung after this time without progress; of a board, after such a silence [default: 10s; of a board 60s]
    #[arg(long, value_name = "TIME", value_parser = amount::duration, help_heading = "How long")]
    hang_after: Option<Duration>,
}

/// The default time without progress after which a board counts as hung. A booting board is silent for longer than a
/// guest, and shows no other progress.
const BOARD_HANG_AFTER_MS: u64 = 60_000;

#[derive(Clone, Copy, ValueEnum)]
enum AccelArg {
    Auto,
    Tcg,
    Kvm,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Trace {
    Events,
    Calls,
    Exits,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum InitArg {
    Guest,
    Keep,
}

#[derive(Clone, Copy, ValueEnum)]
enum ThenArg {
    Poweroff,
    Exec,
}

/// The patches in one option.
#[derive(Clone)]
pub struct Patches(pub Vec<Patch>);

/// `call@FUNC+0x41=nop; …`
pub fn patches(text: &str) -> Result<Patches, String> {
    Patch::all(text).map(Patches)
}

impl BootArgs {
    /// The options: those of the recording to repeat, or the defaults, changed by the given flags.
    pub fn options(&self, notes: &dyn Notes) -> anyhow::Result<RecordOptions> {
        self.onto(RecordOptions::default(), notes)
    }

    /// As [`BootArgs::options`], with these options as defaults.
    pub fn onto(&self, options: RecordOptions, notes: &dyn Notes) -> anyhow::Result<RecordOptions> {
        let mut options = match &self.like {
            Some(path) => {
                let next = "give options of your own in its place";
                Repeated::of(path, self.trust_recording, notes)?.with_given(|option| self.gives(option), next)?
            }
            None if self.lab => machine::lab().map_err(|error| error.in_words(FLAGS))?,
            None => options,
        };
        self.apply_board(&mut options)?;
        self.apply(&mut options)?;
        Ok(options)
    }

    /// True if the user gave this option, named as in a recording.
    fn gives(&self, option: &str) -> bool {
        match option {
            "kernel" => self.kernel.is_some(),
            "initrd" => self.initrd.is_some(),
            "dtb" => self.dtb.is_some(),
            "bios" => self.bios.is_some(),
            "append" => self.append.is_some(),
            "mask" => self.mask.is_some(),
            "disks" => !self.disks.is_empty(),
            "root" => self.root.is_some(),
            "workload" => self.workload.is_some(),
            "machine" => self.machine.is_some(),
            "arch" => self.arch.is_some(),
            "until" => self.until.is_some(),
            "extra" => !self.extra.is_empty(),
            "serial" => self.serial.is_some(),
            _ => false,
        }
    }

    /// Applies the options of a board.
    fn apply_board(&self, o: &mut RecordOptions) -> anyhow::Result<()> {
        if let Some(serial) = &self.serial {
            let is_server = ["tcp:", "telnet:"].iter().any(|kind| serial.starts_with(kind));
            let path = || absolute(Path::new(serial)).display().to_string();
            let serial = if is_server || serial.is_empty() { serial.clone() } else { path() };
            if let Target::Board(board) = &mut o.guest.target {
                board.serial = serial;
            } else {
                o.observe.hang_after_ms = BOARD_HANG_AFTER_MS;
                o.guest.target = Target::Board(Board { serial, ..Board::default() });
            }
        }
        match &mut o.guest.target {
            Target::Board(board) => {
                board.baud = self.baud.or(board.baud);
                board.power_cycle = self.power_cycle.clone().or(board.power_cycle.take());
                if self.init.is_some() {
                    bail!("--init does not go with --serial: a board runs its own process 1 anyway; leave it out");
                }
                if self.qemu.is_some() || self.vmm.is_some() {
                    bail!(
                        "--qemu and --vmm do not go with --serial: the board is the machine; leave out one of the two"
                    );
                }
            }
            Target::Vmm { .. } if self.baud.is_some() || self.power_cycle.is_some() => {
                bail!("--baud and --power-cycle are about the board on a serial port: give --serial /dev/ttyUSB0 too")
            }
            Target::Vmm { .. } => {}
        }
        Ok(())
    }

    /// True if the user did not choose process 1. The default is bootscope's if there is a kernel, else the guest's.
    pub fn leaves_init(&self) -> bool {
        self.init.is_none()
    }

    /// Applies the VMM: the given one, or another QEMU.
    fn apply_vmm(&self, o: &mut RecordOptions) {
        if let Some(Vmm { kind, program }) = self.vmm.clone() {
            if kind != VmmKind::Qemu {
                // These VMMs have no channel for the messages of bootscope's process 1.
                o.guest.init = Init::Keep;
            }
            let usual = || machine::usual_program(&o.guest);
            o.guest.target = Target::Vmm { kind, program: program.unwrap_or_else(usual) };
        }
        if let Some(qemu) = &self.qemu {
            o.guest.target = Target::qemu(qemu);
        }
    }

    /// Applies the given flags.
    fn apply(&self, o: &mut RecordOptions) -> anyhow::Result<()> {
        if self.trace.len() > 1 && self.trace.contains(&Trace::None) {
            bail!(
                "--trace none leaves nothing to name beside it: give either none, or some of events, calls and exits"
            );
        }
        let machine_before = o.guest.machine.clone();
        if let Some(kernel) = &self.kernel {
            o.guest.kernel = Some(absolute(kernel));
        }
        if self.kernel.is_some() || self.arch.is_some() {
            machine::choose_arch(&mut o.guest, self.arch.as_deref())?;
        }
        self.apply_files(o);
        if let Some(workload) = &self.workload {
            o.guest.workload = Some(workload.clone());
        }
        if self.lab {
            // Append them after the arguments that its machine needs.
            o.guest.extra.extend_from_slice(&self.extra);
        } else if !self.extra.is_empty() {
            o.guest.extra.clone_from(&self.extra);
        }
        set(&mut o.guest.append, self.append.clone());
        set(&mut o.guest.mask, self.mask.clone());
        o.guest.mask.retain(|unit| !unit.is_empty());
        set(&mut o.guest.memory_bytes, self.memory);
        set(&mut o.guest.cpus, self.cpus);
        set(&mut o.guest.machine, self.machine.clone());
        self.apply_vmm(o);
        set(&mut o.guest.accel, self.accel.map(Accel::from));
        if o.guest.kernel.is_none() {
            o.guest.init = Init::Keep;
        }
        set(&mut o.guest.init, self.init.map(Init::from));
        set(&mut o.guest.then, self.then.map(Then::from));
        // An architecture can bring a machine that bootscope does not know.
        if self.machine.is_some() || o.guest.machine != machine_before {
            let (cpus, memory) = (self.cpus.is_some(), self.memory.is_some());
            machine::fit_machine(&mut o.guest, Given { cpus, memory, init: self.init.is_some() });
        }
        self.apply_observed(o);
        Ok(())
    }

    /// Sets the files and the changes to the guest's code.
    fn apply_files(&self, o: &mut RecordOptions) {
        if let Some(initrd) = &self.initrd {
            o.guest.initrd = Some(absolute(initrd));
        }
        if let Some(dtb) = &self.dtb {
            o.guest.dtb = Some(absolute(dtb));
        }
        if let Some(bios) = &self.bios {
            o.guest.bios = Some(absolute(bios));
        }
        if !self.disks.is_empty() {
            o.guest.disks = self.disks.iter().map(|disk| absolute(disk)).collect();
        }
        if let Some(root) = &self.root {
            o.guest.root = Some(absolute(root));
        }
        if !self.patch.is_empty() {
            o.guest.patches = self.patch.iter().flat_map(|patches| patches.0.clone()).collect();
        }
    }

    /// Sets how the boot is observed and when it ends.
    fn apply_observed(&self, o: &mut RecordOptions) {
        if !self.trace.is_empty() {
            o.guest.trace_events = self.trace.contains(&Trace::Events);
            o.observe.calls = self.trace.contains(&Trace::Calls);
            o.observe.exits = self.trace.contains(&Trace::Exits);
        }
        if let Some(shortest) = self.min_call {
            o.observe.min_call_ns = Some(u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX));
        }
        // A boot can have only one of the two, so setting one clears the other from a repeated recording.
        if let Some(silence) = self.silence {
            (o.observe.silence_ms, o.observe.watch) = (Some(ms(silence)), None);
        }
        if let Some(watch) = &self.watch {
            (o.observe.silence_ms, o.observe.watch) = (None, Some(watch.clone()));
        }
        if !self.symbols.is_empty() {
            let absolute = |file: &SymbolFile| SymbolFile { path: absolute(&file.path), ..file.clone() };
            o.observe.symbols = self.symbols.iter().map(absolute).collect();
        }
        set(&mut o.guest.until, self.until.clone());
        set(&mut o.observe.hang_after_ms, self.hang_after.map(ms));
        if let Some(timeout) = self.timeout {
            o.observe.timeout_ms = Some(ms(timeout));
        }
        o.guest.dax |= self.dax;
        o.guest.deterministic |= self.deterministic;
        o.observe.firmware_log &= !self.no_firmware_log;
        o.observe.first_executions &= !self.no_first_executions;
    }
}

impl From<AccelArg> for Accel {
    fn from(arg: AccelArg) -> Accel {
        match arg {
            AccelArg::Auto => Accel::Auto,
            AccelArg::Tcg => Accel::Tcg,
            AccelArg::Kvm => Accel::Kvm,
        }
    }
}

impl From<InitArg> for Init {
    fn from(arg: InitArg) -> Init {
        match arg {
            InitArg::Guest => Init::Guest,
            InitArg::Keep => Init::Keep,
        }
    }
}

impl From<ThenArg> for Then {
    fn from(arg: ThenArg) -> Then {
        match arg {
            ThenArg::Poweroff => Then::PowerOff,
            ThenArg::Exec => Then::Exec,
        }
    }
}

/// Sets a value if the user gave one.
fn set<T>(to: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *to = given;
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Settings as flags, for messages.
pub const FLAGS: Words = Words(flag);

fn flag(setting: &Setting) -> String {
    let (name, value) = match (setting.field, setting.value.as_str()) {
        (Field::Calls, _) => ("trace", "calls"),
        (Field::Exits, _) => ("trace", "exits"),
        (Field::TraceEvents, "false") => ("trace", "none"),
        (Field::TraceEvents, _) => ("trace", "events"),
        (Field::FirmwareLog, _) => ("no-firmware-log", ""),
        (Field::FirstExecutions, _) => ("no-first-executions", ""),
        (Field::Disks, value) => ("disk", value),
        (Field::Patches, value) => ("patch", value),
        (Field::Extra, value) => ("", value),
        (field, value) => {
            let name = field.name();
            let unit = ["_bytes", "_ms", "_ns"].into_iter().find_map(|unit| name.strip_suffix(unit));
            (unit.unwrap_or(name), value)
        }
    };
    format!("--{} {value}", name.replace('_', "-")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};
    use std::fs;

    fn known_flags() -> Vec<String> {
        let command = BootArgs::augment_args(Command::new("record"));
        command.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect()
    }

    #[test]
    fn every_field_has_a_flag() {
        let known = known_flags();
        for &field in Field::ALL.iter().filter(|&&field| field != Field::Extra) {
            let flag = flag(&field.into());
            assert!(known.iter().any(|known| Some(known.as_str()) == flag.split(' ').next()), "{field:?}: {flag}");
        }
        assert_eq!(flag(&Field::Memory.is("1G")), "--memory 1G");
        assert_eq!(flag(&Field::Extra.into()), "--");
    }

    /// `machine` names fields; only this program knows flags. Its tests may use flags of other programs.
    #[test]
    fn no_flag_is_named_in_the_crate_that_boots() {
        let known = known_flags();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/src")];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                if entry.path().extension().is_none_or(|end| end != "rs") {
                    continue;
                }
                files += 1;
                let text = fs::read_to_string(entry.path()).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                for (n, line) in (1..).zip(code.lines()) {
                    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    let named = words.find(|word| known.iter().any(|flag| flag == word));
                    assert_eq!(named, None, "{}:{n}: name the field: {line}", entry.path().display());
                }
            }
        }
        assert!(files > 50, "{files} files were read");
    }
}
