//! Options of a recording that comes from a stranger: decides which of them another boot may take.
//!
//! A recording is data. A boot takes only values of a closed list from it: numbers, switches, the kernel's command line, a machine by its
//! name. Each is checked as if the user had typed it. A file is taken if its content is the recorded one. Everything that names a program,
//! a device, a command, an output file or arguments for the VMM is left out.
//!
//! Each field of the specs is named here, so that the compiler refuses a new one that was not considered.

use std::path::{Path, PathBuf};

use recording::{
    Board, GuestSpec, Input, InputRole, ObserveSpec, Page, SymbolFile, Target, Until, VmmKind, open_regular,
    unchangeable,
};

use crate::hash::hash;
use crate::host::memory_bytes;
use crate::options::RecordOptions;
use crate::{lab, usual_program};

/// Upper bound for a kernel, initrd, firmware or symbol list. A larger file is not read to compare its content.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Properties of QEMU's machines that name no file, no device and no program.
const MACHINE_PROPERTIES: [&str; 27] = [
    "acpi",
    "aia",
    "auto-kernel-cmdline",
    "dump-guest-core",
    "gic-version",
    "graphics",
    "highmem",
    "highmem-ecam",
    "highmem-mmio",
    "highmem-redists",
    "hpet",
    "i8042",
    "iommu",
    "isa-serial",
    "its",
    "kernel-irqchip",
    "mem-merge",
    "mte",
    "pcie",
    "pic",
    "pit",
    "rtc",
    "secure",
    "usb",
    "virtualization",
    "vmport",
    "x-option-roms",
];

/// An option of a recording that a boot does not take from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its key in `how`.
    pub option: &'static str,
    /// Its full value.
    pub value: String,
    /// The reason why it is not taken.
    pub why: &'static str,
    /// True if the guest would run something else without this option, so that the user has to give it.
    pub is_needed: bool,
}

/// The options that a boot may take, and those that are left out.
#[derive(Clone, Debug)]
pub struct Vetted {
    pub options: RecordOptions,
    /// Ordered as the options are in the specs.
    pub left_out: Vec<LeftOut>,
}

/// Splits a recording's options into those that a boot may take and those that are left out. `inputs` are the files that the recording
/// lists. Reads each file that the boot would take.
#[must_use]
pub fn vetted(recorded: RecordOptions, inputs: &[Input]) -> Vetted {
    let mut vetting = Vetting { inputs, left_out: Vec::new() };
    let guest = vetting.guest(recorded.guest);
    let observe = vetting.observe(recorded.observe);
    Vetted { options: RecordOptions { guest, observe, ..RecordOptions::default() }, left_out: vetting.left_out }
}

const PROGRAM: &str = "it names a program";
const ARGUMENTS: &str = "they are arguments for the VMM";
const COMMAND: &str = "it is a command";
const DEVICE: &str = "it names a device or a server";
const OTHER_FILE: &str = "there is no such file here with the recorded content, which no other user can change";
const NOT_HASHED: &str = "a recording has no hash of it";
const MACHINE: &str = "it has properties that bootscope does not know";
/// One day.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;
const LIMIT: &str = "it is above the usual limit";
const TOO_MUCH_MEMORY: &str = "it is more than half of this machine's memory";
const UNPRINTABLE: &str = "it has characters that cannot be typed";

struct Vetting<'a> {
    inputs: &'a [Input],
    left_out: Vec<LeftOut>,
}

impl Vetting<'_> {
    fn guest(&mut self, recorded: GuestSpec) -> GuestSpec {
        let GuestSpec {
            arch,
            kernel,
            initrd,
            dtb,
            bios,
            append,
            mask,
            disks,
            root,
            dax,
            workload,
            memory_bytes,
            cpus,
            machine,
            target,
            accel,
            deterministic,
            trace_events,
            init,
            then,
            until,
            extra,
            patches,
            fixed_address,
            isolated: _,
        } = recorded;
        let usual = GuestSpec::default();
        let mut guest = GuestSpec {
            arch: self.text("arch", arch, usual.arch),
            kernel: self.file("kernel", kernel, InputRole::Kernel),
            initrd: self.file("initrd", initrd, InputRole::Initrd),
            dtb: self.file("dtb", dtb, InputRole::Dtb),
            bios: self.file("bios", bios, InputRole::Bios),
            append: self.text("append", append, usual.append),
            mask: mask.into_iter().map(|unit| self.text("mask", unit, String::new())).collect(),
            disks: Vec::new(),
            root: None,
            dax,
            workload: None,
            memory_bytes: self.memory(memory_bytes, usual.memory_bytes),
            cpus,
            machine: self.machine(machine),
            target: Target::default(),
            accel,
            deterministic,
            trace_events,
            init,
            then,
            until: self.until(until),
            extra: Vec::new(),
            patches,
            fixed_address,
            // QEMU's user network leads to every service of this machine's loopback.
            isolated: true,
        };
        let other_program;
        (guest.target, other_program) = self.target(target, &guest);
        for disk in disks {
            self.leave_out("disks", disk.display().to_string(), NOT_HASHED, true);
        }
        if let Some(root) = root {
            self.leave_out("root", root.display().to_string(), NOT_HASHED, true);
        }
        if let Some(workload) = workload {
            self.leave_out("workload", workload, COMMAND, true);
        }
        // The arguments that bootscope itself gives the reference kernel's machine are known to be harmless.
        if extra == lab::VMM_ARGUMENTS {
            guest.extra = extra;
        } else if !extra.is_empty() {
            self.leave_out("extra", serde_json::Value::from(extra).to_string(), ARGUMENTS, true);
        }
        if let Some(program) = other_program {
            self.leave_out("qemu", program.display().to_string(), PROGRAM, false);
        }
        guest
    }

    /// The target with its usual program, and the recorded program if it is another one.
    fn target(&mut self, recorded: Target, guest: &GuestSpec) -> (Target, Option<PathBuf>) {
        match recorded {
            Target::Board(board) => (Target::Board(self.board(board)), None),
            Target::Vmm { kind, program } => {
                let usual = match kind {
                    VmmKind::Qemu => usual_program(guest),
                    other => other.as_str().into(),
                };
                let other = Some(program).filter(|program| *program != usual);
                (Target::Vmm { kind, program: usual }, other)
            }
        }
    }

    fn observe(&mut self, recorded: ObserveSpec) -> ObserveSpec {
        let ObserveSpec {
            timeout_ms,
            hang_after_ms,
            firmware_log,
            first_executions,
            calls,
            exits,
            min_call_ns,
            symbols,
            silence_ms,
            watch,
            stream_bytes_max,
        } = recorded;
        let usual = ObserveSpec::default();
        if stream_bytes_max > usual.stream_bytes_max {
            self.leave_out("stream_bytes_max", stream_bytes_max.to_string(), LIMIT, false);
        }
        // `None` is no limit; a limit above a day is longer than any boot is recorded.
        let mut limit = |option: &'static str, limit: Option<u64>, usual: Option<u64>| {
            if limit.is_some_and(|ms| ms <= LONGEST_MS) {
                return limit;
            }
            if limit != usual {
                self.leave_out(option, serde_json::Value::from(limit).to_string(), LIMIT, false);
            }
            usual
        };
        let timeout_ms = limit("timeout_ms", timeout_ms, usual.timeout_ms);
        ObserveSpec {
            timeout_ms,
            hang_after_ms,
            firmware_log,
            first_executions,
            calls,
            exits,
            min_call_ns,
            symbols: symbols.into_iter().filter_map(|file| self.symbols(file)).collect(),
            silence_ms,
            watch,
            stream_bytes_max: stream_bytes_max.min(usual.stream_bytes_max),
        }
    }

    fn leave_out(&mut self, option: &'static str, value: String, why: &'static str, is_needed: bool) {
        self.left_out.push(LeftOut { option, value, why, is_needed });
    }

    /// Limits the guest's memory to half of this machine's, because a guest may fill it.
    fn memory(&mut self, bytes: u64, usual: u64) -> u64 {
        let limit = memory_bytes().map_or(usual, |of_host| (of_host / 2).max(usual));
        if bytes <= limit {
            return bytes;
        }
        self.leave_out("memory_bytes", bytes.to_string(), TOO_MUCH_MEMORY, true);
        usual
    }

    /// Refuses a text with control characters, which the user cannot type.
    fn text(&mut self, option: &'static str, text: String, usual: String) -> String {
        if text.contains(char::is_control) {
            self.leave_out(option, text, UNPRINTABLE, true);
            return usual;
        }
        text
    }

    fn file(&mut self, option: &'static str, path: Option<PathBuf>, role: InputRole) -> Option<PathBuf> {
        let path = path?;
        if let Some(same) = self.recorded(&path, role) {
            return Some(same);
        }
        self.leave_out(option, path.display().to_string(), OTHER_FILE, true);
        None
    }

    fn symbols(&mut self, file: SymbolFile) -> Option<SymbolFile> {
        if let Some(path) = self.recorded(&file.path, InputRole::Symbols) {
            return Some(SymbolFile { path, ..file });
        }
        self.leave_out("symbols", file.to_string(), OTHER_FILE, false);
        None
    }

    /// The path to open if the file has the content that the recording lists for this role and path. Only this user can
    /// change that file, so it has the same content when the VMM opens it.
    fn recorded(&self, path: &Path, role: InputRole) -> Option<PathBuf> {
        let listed = |input: &&Input| role.is(&input.role) && Path::new(&input.path) == path;
        let input = self.inputs.iter().find(listed).filter(|_| path.is_absolute())?;
        let path = unchangeable(path).ok()?;
        has_content(&path, input.bytes, &input.sha256).then_some(path)
    }

    /// Takes a machine's name with properties that are known.
    fn machine(&mut self, machine: String) -> String {
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let mut parts = machine.split(',');
        let is_known = |property: &str| {
            property.split_once('=').is_some_and(|(name, value)| MACHINE_PROPERTIES.contains(&name) && is_word(value))
        };
        let is_plain = parts.next().is_some_and(|name| is_word(name) && !name.starts_with('-')) && parts.all(is_known);
        if is_plain {
            return machine;
        }
        self.leave_out("machine", machine, MACHINE, true);
        GuestSpec::default().machine
    }

    fn until(&mut self, until: Until) -> Until {
        let is_typable = match &until {
            Until::Init | Until::PowerOff => true,
            Until::Regex(text) | Until::Unit(text) | Until::Process(text) => !text.contains(char::is_control),
            Until::Tcp(port) => *port > 0,
            Until::Http(page) => page.to_string().parse::<Page>().as_ref() == Ok(page),
        };
        if is_typable {
            return until;
        }
        self.leave_out("until", format!("{until:?}"), UNPRINTABLE, true);
        Until::Init
    }

    fn board(&mut self, Board { serial, baud, power_cycle }: Board) -> Board {
        self.leave_out("serial", serial, DEVICE, true);
        if let Some(command) = power_cycle {
            self.leave_out("power_cycle", command, COMMAND, false);
        }
        Board { serial: String::new(), baud, power_cycle: None }
    }
}

/// True if the file has this size and hash. Reads only regular files that are neither empty nor above [`MAX_FILE_BYTES`].
fn has_content(path: &Path, bytes: u64, sha256: &str) -> bool {
    if !(1..=MAX_FILE_BYTES).contains(&bytes) {
        return false;
    }
    let Ok(file) = open_regular(path) else { return false };
    let fits = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == bytes);
    fits && hash(file).is_ok_and(|hash| hash == sha256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::os::unix::fs::PermissionsExt;

    fn vet(how: Value, inputs: &[Input]) -> Vetted {
        vetted(serde_json::from_value(how).unwrap(), inputs)
    }

    fn names(vetted: &Vetted) -> Vec<&str> {
        vetted.left_out.iter().map(|left| left.option).collect()
    }

    #[test]
    fn values_of_the_closed_list_are_taken() {
        let how = json!({
            "append": "quiet \"a b\"", "cpus": 4, "memory_bytes": 1 << 30, "machine": "virt,gic-version=max", "arch": "aarch64",
            "qemu": "qemu-system-aarch64", "accel": "tcg", "deterministic": true, "init": "keep", "until": {"regex": "login:"},
            "extra": ["-device", "pvpanic"], "calls": true, "timeout_ms": 90_000, "mask": ["a.service"], "patches": ["call@f+0x1=nop"], "watch": "V@f",
        });
        let vetted = vet(how.clone(), &[]);
        assert_eq!(vetted.left_out, []);
        let mut taken: RecordOptions = serde_json::from_value(how).unwrap();
        taken.guest.isolated = true;
        assert_eq!(vetted.options, taken);
    }

    #[test]
    fn programs_commands_devices_and_arguments_are_left_out() {
        let how = json!({
            "qemu": "/tmp/q", "extra": ["-incoming", "exec:id"], "disks": ["/d"], "root": "/r", "workload": "id",
            "machine": "pc,dumpdtb=/tmp/x", "board": {"serial": "tcp:evil:1", "power_cycle": "id", "baud": 9600},
            "symbols": [{"path": "/etc/shadow"}], "stream_bytes_max": u64::MAX, "timeout_ms": null,
            "until": {"http": {"host": "g\r\nx", "port": 80, "path": "/"}}, "append": "a\u{1b}b", "kernel": "vmlinuz",
        });
        let vetted = vet(how, &[]);
        let left = "kernel append machine until serial power_cycle disks root workload extra stream_bytes_max timeout_ms symbols";
        assert_eq!(names(&vetted), left.split(' ').collect::<Vec<_>>());
        let taken = RecordOptions {
            guest: GuestSpec {
                target: Target::Board(Board { baud: Some(9600), ..Board::default() }),
                isolated: true,
                ..GuestSpec::default()
            },
            ..RecordOptions::default()
        };
        assert_eq!(vetted.options, taken, "what is left is as usual");
        let other = vet(json!({"qemu": "/tmp/q"}), &[]);
        assert_eq!((names(&other), other.left_out[0].is_needed), (vec!["qemu"], false));
        assert_eq!(other.options, RecordOptions::of(GuestSpec { isolated: true, ..GuestSpec::default() }));
    }

    #[test]
    fn a_guest_gets_at_most_half_of_the_memory() {
        let host = memory_bytes().unwrap();
        assert_eq!(vet(json!({"memory_bytes": 1 << 29}), &[]).left_out, []);
        let vetted = vet(json!({"memory_bytes": host / 2 + 1}), &[]);
        assert_eq!((names(&vetted), vetted.left_out[0].is_needed), (vec!["memory_bytes"], true));
        assert_eq!(vetted.options.guest.memory_bytes, GuestSpec::default().memory_bytes);
    }

    #[test]
    fn machines_have_names_and_known_properties() {
        for machine in ["pc", "q35,hpet=off", "virt,highmem=off,gic-version=3", "raspi3b", "pc-i440fx-7.2"] {
            assert_eq!(vet(json!({"machine": machine}), &[]).left_out, [], "{machine}");
        }
        for machine in
            ["", "pc,", "pc,firmware=/x", "pc,hpet", "pc,hpet=/x", "pc hpet=off", "-x", "type=pc", "pc,,hpet=off"]
        {
            assert_eq!(names(&vet(json!({"machine": machine}), &[])), ["machine"], "{machine}");
        }
    }

    #[test]
    fn a_file_is_taken_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinuz");
        std::fs::write(&path, "kernel").unwrap();
        let sha256 = hash(&b"kernel"[..]).unwrap();
        let input = |path: &Path, bytes: u64, sha256: &str| {
            let path = path.display().to_string();
            Input { role: "kernel".to_owned(), path, bytes, sha256: sha256.to_owned(), ..Input::default() }
        };
        let taken = |path: &Path, input: Input| vet(json!({"kernel": path}), &[input]).options.guest.kernel;
        assert_eq!(taken(&path, input(&path, 6, &sha256)), Some(path.clone()));
        assert_eq!(taken(&path, input(&path, 6, "")), None, "it was not hashed");
        assert_eq!(taken(&path, input(&path, 7, &sha256)), None, "another size");
        assert_eq!(taken(&path, input(Path::new("/other"), 6, &sha256)), None, "of another file");
        let initrd = Input { role: "initrd".to_owned(), ..input(&path, 6, &sha256) };
        assert_eq!(taken(&path, initrd), None, "of another role");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(taken(&link, input(&link, 6, &sha256)), Some(path.clone()), "the link could be changed");
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o666);
        assert_eq!(taken(&path, input(&path, 6, &sha256)), None, "another user could change it");
        set(0o644);
        std::fs::write(&path, "Kernel").unwrap();
        assert_eq!(taken(&path, input(&path, 6, &sha256)), None, "another content");
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(taken(&fifo, input(&fifo, 6, &sha256)), None, "a FIFO does not hold it");
        let proc = Path::new("/proc/self/environ");
        let empty = hash(&b""[..]).unwrap();
        assert_eq!(taken(proc, input(proc, 0, &empty)), None, "a file without a size is not read");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let words = prop_oneof![
            Just("exec:id".to_owned()),
            Just("/bin/sh".to_owned()),
            Just("tcp:127.0.0.1:1".to_owned()),
            Just("pc,dumpdtb=/tmp/x".to_owned()),
            Just("keep".to_owned()),
            Just("init".to_owned()),
            ".*",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            words.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(
                    "(serial|power_cycle|baud|path|base|regex|http|tcp|unit|host|port|[a-z]{1,4})",
                    inner,
                    0..4
                )
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Each option in turn has any value of any type.
        #[test]
        fn nothing_that_names_a_program_or_a_file_passes(at in any::<prop::sample::Index>(), value in any_value()) {
            let board = Board { power_cycle: Some("id".to_owned()), baud: Some(1), ..Board::default() };
            let full = GuestSpec { target: Target::Board(board), arch: "arm".to_owned(), dtb: Some("/d".into()), bios: Some("/b".into()), root: Some("/r".into()), workload: Some("id".to_owned()), mask: vec!["a".to_owned()], dax: true, ..GuestSpec::default() };
            let full = RecordOptions { guest: full, ..RecordOptions::default() };
            let Value::Object(mut how) = serde_json::to_value(&full).unwrap() else { unreachable!() };
            let name = at.get(&how.keys().cloned().collect::<Vec<_>>()).clone();
            how.insert(name, value);
            let Ok(recorded) = serde_json::from_value::<RecordOptions>(Value::Object(how)) else { return Ok(()) };
            let vetted = vetted(recorded, &[]);
            let GuestSpec { kernel, initrd, dtb, bios, disks, root, workload, extra, target, machine, .. } = vetted.options.guest.clone();
            prop_assert!([kernel, initrd, dtb, bios, root].iter().all(Option::is_none));
            prop_assert!(disks.is_empty() && (extra.is_empty() || extra == lab::VMM_ARGUMENTS) && workload.is_none() && vetted.options.observe.symbols.is_empty());
            prop_assert!(!machine.contains('/'));
            match target {
                Target::Vmm { program, .. } => prop_assert!(!program.display().to_string().contains('/')),
                Target::Board(board) => prop_assert!(board.serial.is_empty() && board.power_cycle.is_none()),
            }
            prop_assert!(vetted.options.observe.stream_bytes_max <= ObserveSpec::default().stream_bytes_max);
        }
    }
}
