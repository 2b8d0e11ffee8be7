//! Forged options of a recording. Each document goes the way of a repeated boot: it is parsed, vetted, and becomes QEMU's command
//! line. Every word of that line must be of a closed list, which is written here a second time.

use std::path::{Path, PathBuf};

use recording::{Board, GuestSpec, Target};
use serde_json::{Map, Value, json};

use super::arguments::{Cpu, Inherited, arguments};
use crate::RecordOptions;
use crate::foreign::vetted;
use crate::guest_channel::Wire;

/// The kernel that the user gives where the recorded one is left out.
const OWN_KERNEL: &str = "/home/user/vmlinuz";
const SEED: u64 = 35;

const FIELDS: [&str; 38] = [
    "arch",
    "kernel",
    "initrd",
    "dtb",
    "bios",
    "append",
    "mask",
    "disks",
    "root",
    "dax",
    "workload",
    "memory_bytes",
    "cpus",
    "machine",
    "vmm",
    "qemu",
    "board",
    "accel",
    "deterministic",
    "trace_events",
    "init",
    "then",
    "until",
    "extra",
    "patches",
    "fixed_address",
    "isolated",
    "timeout_ms",
    "hang_after_ms",
    "firmware_log",
    "first_run",
    "calls",
    "exits",
    "min_call_ns",
    "symbols",
    "silence_ms",
    "watch",
    "stream_bytes_max",
];

/// Texts that would run a program, write a file or read one of the user's, as a command, a path, an argument or a property.
const TEXTS: [&str; 22] = [
    "id >/home/user/mark",
    "$(id)`id`;id|id&&id",
    "exec:id >/home/user/mark",
    "/bin/sh",
    "../../bin/sh",
    "sh",
    "/home/user/.ssh/id_ed25519",
    "x/../../../bin/sh",
    "file:/home/user/mark",
    "chardev:evil",
    "pc,dumpdtb=/home/user/mark",
    "virt,dumpdtb=mark",
    "pc,firmware=/home/user/evil.bin",
    "q35,hpet=off,memory-backend=evil",
    "pc,hpet=off",
    "none",
    "-incoming",
    "-qemu-option=evil",
    "tcp:127.0.0.1:9",
    "x,format=raw,file=/etc/shadow",
    "\u{1b}]0;evil\u{7}\n-incoming\nexec:id",
    "",
];

/// Values that the field does take, so that the others of a document reach the command line.
const WORDS: [&str; 12] = [
    "aarch64",
    "arm",
    "riscv64",
    "s390x",
    "ppc64",
    "keep",
    "mute",
    "exec",
    "tcg",
    "firecracker",
    "cloud-hypervisor",
    "poweroff",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn choose<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

/// Every value that a field is given: each text by itself, in a list and in an object, each word, and numbers at the limits.
fn values() -> Vec<Value> {
    let mut all = vec![json!(null), json!(true), json!(false), json!([]), json!({}), json!(1.5)];
    all.extend([0, 1, 512 << 20, u64::from(u32::MAX), 1 << 40, u64::MAX].map(Value::from));
    all.extend(WORDS.map(Value::from));
    for text in TEXTS {
        all.push(text.into());
        all.push(json!([text, "/home/user/mark"]));
        all.push(json!([{"path": text, "base": 1}]));
        all.push(json!({"serial": text, "power_cycle": text, "baud": 1, "regex": text}));
        all.push(json!({"regex": text}));
        all.push(json!({"http": {"host": text, "port": 80, "path": text}}));
        all.push(json!({"tcp": 22}));
    }
    all
}

/// A forged value of the field's own type.
fn fitting(field: &str, random: &mut Random) -> Value {
    let text = random.choose(&TEXTS);
    let number = [0, 1, 2, 512 << 20, 90_000, u64::from(u32::MAX), u64::MAX][random.below(7)];
    match field {
        "arch" => random.choose(&WORDS[..5]).into(),
        "vmm" => random.choose(&["qemu", "firecracker", "cloud-hypervisor"]).into(),
        "init" => random.choose(&["guest", "keep", "mute"]).into(),
        "then" => "exec".into(),
        "accel" => random.choose(&["auto", "tcg", "kvm"]).into(),
        "disks" | "extra" | "mask" => json!([text, random.choose(&TEXTS)]),
        "symbols" => json!([{"path": text, "base": number}]),
        "board" => json!({"serial": text, "power_cycle": text, "baud": 1}),
        "patches" => json!(["call@f+0x1=nop"]),
        "watch" => "V@f".into(),
        "until" => match random.below(3) {
            0 => json!({"regex": text}),
            1 => json!({"tcp": 22}),
            _ => json!({"http": {"host": text, "port": 80, "path": text}}),
        },
        "cpus" => random.below(300).into(),
        field if field.ends_with("_ms") || field.ends_with("_ns") || field.contains("bytes") => number.into(),
        "append" | "kernel" | "initrd" | "dtb" | "bios" | "root" | "workload" | "machine" | "qemu" => text.into(),
        _ => (number % 2 == 1).into(),
    }
}

/// Each field with each value, and documents in which several fields are forged.
fn documents() -> Vec<Value> {
    let values = values();
    let mut documents: Vec<Value> =
        FIELDS.iter().flat_map(|&field| values.iter().map(move |value| json!({ field: value.clone() }))).collect();
    let mut random = Random(SEED);
    for _ in 0..2000 {
        let mut how = Map::new();
        for _ in 0..2 + random.below(6) {
            let field = random.choose(&FIELDS);
            // Most are not boards, of which nothing else matters.
            if field != "board" || random.below(8) == 0 {
                how.insert(field.to_owned(), fitting(field, &mut random));
            }
        }
        documents.push(how.into());
    }
    documents
}

fn fds() -> Inherited {
    let firmware = Some((6, 0x402));
    Inherited {
        monitor: 3,
        gdbstub: None,
        console: 4,
        guest: Some((5, Wire::IoPort(0xe9))),
        firmware,
        ram: Some(7),
        initrd: Some(8),
        port: Some(4022),
    }
}

/// The first word by which a stranger decides about a program or a file of this user's; `None` for harmless options.
fn harm(mut guest: GuestSpec) -> Option<String> {
    match &guest.target {
        Target::Board(Board { serial, power_cycle, .. }) => {
            return (!serial.is_empty() || power_cycle.is_some()).then(|| format!("{serial} {power_cycle:?}"));
        }
        Target::Vmm { program, .. } => {
            let qemu = program.to_str().and_then(|name| name.strip_prefix("qemu-system-")).unwrap_or("");
            let is_known = ["x86_64", "aarch64", "arm", "riscv64", "s390x", "ppc64"].contains(&qemu);
            if !is_known && ![Path::new("firecracker"), Path::new("cloud-hypervisor")].contains(&program.as_path()) {
                return Some(format!("runs {}", program.display()));
            }
        }
    }
    if guest.initrd.is_some() || guest.workload.is_some() {
        return Some(format!("{:?} {:?}", guest.initrd, guest.workload));
    }
    guest.kernel.get_or_insert(OWN_KERNEL.into());
    let version = 7;
    let cpu = Cpu::Translated(crate::arch::of(&guest).cpu(&guest, version));
    // A refusal starts nothing. A path that is not there is refused, and would be taken were it there.
    let line = match arguments(&guest, cpu, &guest.append, &fds(), None) {
        Ok(line) => line,
        Err(refused) => return Some(format!("takes a file: {refused}")),
    };
    let mut words = line.iter();
    while let Some(flag) = words.next() {
        if ["-no-reboot", "-no-shutdown", "-S", "-nodefaults"].contains(&flag.as_str()) {
            continue;
        }
        let value = words.next().map_or("", String::as_str);
        if !is_closed(flag, value) {
            return Some(format!("{flag} {value}"));
        }
    }
    None
}

/// True if a boot of a stranger's may give this option this value.
fn is_closed(flag: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let own_pipe = |text: &str| text.strip_prefix("/proc/self/fd/").is_some_and(is_number);
    match flag {
        "-kernel" => value == OWN_KERNEL,
        "-append" => !value.contains(char::is_control),
        "-machine" => is_closed_machine(value),
        "-object" => value
            .strip_prefix("memory-backend-file,id=ram,size=")
            .and_then(|rest| rest.split_once("M,share=on,mem-path="))
            .is_some_and(|(size, path)| is_number(size) && own_pipe(path)),
        "-m" => value.strip_suffix('M').is_some_and(is_number),
        "-smp" => is_number(value),
        "-nic" => {
            let (card, forward) = value.split_once(",hostfwd=tcp:127.0.0.1:4022-:").unwrap_or((value, "1"));
            let cards = [
                "user,restrict=on",
                "user,model=virtio-net-pci,restrict=on",
                "user,model=virtio-net-device,restrict=on",
            ];
            cards.contains(&card) && is_number(forward)
        }
        "-chardev" => {
            let pipe = value.strip_prefix("file,id=").and_then(|rest| rest.split_once(",path="));
            value == "socket,id=monitor,fd=3"
                || pipe.is_some_and(|(id, path)| id.bytes().all(|byte| byte.is_ascii_alphanumeric()) && own_pipe(path))
        }
        "-serial" => ["null", "chardev:guest"].contains(&value) || value.starts_with("chardev:console"),
        "-device" => {
            ["pvpanic", "isa-debugcon,iobase=0x402,chardev=firmware", "isa-debugcon,iobase=0xe9,chardev=guest"]
                .contains(&value)
        }
        _ => [
            ("-accel", "tcg"),
            ("-initrd", "/proc/self/fd/8"),
            ("-display", "none"),
            ("-mon", "chardev=monitor,mode=control"),
            ("-icount", "shift=0,sleep=off"),
            ("-rtc", "base=2020-01-01T00:00:00,clock=vm"),
            ("-seed", "1"),
            ("-cpu", "cortex-a72"),
            ("-cpu", "cortex-a15"),
            ("-cpu", "qemu64,-cx16"),
        ]
        .contains(&(flag, value)),
    }
}

/// A name, properties that only switch devices, and the recorder's own memory.
fn is_closed_machine(value: &str) -> bool {
    let Some((machine, "ram")) = value.rsplit_once(",memory-backend=") else { return false };
    let mut parts = machine.split(',');
    let is_word = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) && !text.starts_with('-')
    };
    let harmful = ["dtb", "dumpdtb", "firmware", "kernel", "initrd", "append", "memory-backend", "type", "loadparm"];
    parts.next().is_some_and(is_word)
        && parts.all(|part| {
            part.split_once('=')
                .is_some_and(|(name, value)| is_word(name) && is_word(value) && !harmful.contains(&name))
        })
}

#[test]
fn no_forged_document_reaches_a_program_or_a_file() {
    let (mut parsed, mut lines) = (0, 0);
    for how in documents() {
        let Ok(recorded) = serde_json::from_value::<RecordOptions>(how.clone()) else { continue };
        parsed += 1;
        let vetted = vetted(recorded, &[]);
        let observe = &vetted.options.observe;
        assert!(observe.symbols.is_empty() && observe.timeout_ms.is_some(), "{how}: {observe:?}");
        assert_eq!(vetted.options.out, PathBuf::new(), "{how}");
        lines += usize::from(vetted.options.guest.target.is_qemu());
        assert_eq!(harm(vetted.options.guest), None, "{how}");
    }
    println!("{parsed} forged documents are options, and {lines} give a command line of QEMU's");
    assert!(parsed >= 2000 && lines >= 1500, "{parsed} {lines}");
}

/// The trial itself: unvetted, the same documents do harm by each option that can.
#[test]
fn unvetted_documents_do_harm_by_each_option() {
    let mut harmful = std::collections::BTreeMap::<String, usize>::new();
    for how in documents() {
        let Ok(recorded) = serde_json::from_value::<RecordOptions>(how.clone()) else { continue };
        let fields: Vec<&String> = how.as_object().unwrap().keys().collect();
        let [field] = fields[..] else { continue };
        let guest = GuestSpec { isolated: true, ..recorded.guest };
        *harmful.entry(field.clone()).or_default() += usize::from(harm(guest).is_some());
    }
    harmful.retain(|_, harmful| *harmful > 0);
    let fields: Vec<&str> = harmful.keys().map(String::as_str).collect();
    let expected =
        ["append", "bios", "board", "disks", "dtb", "extra", "initrd", "kernel", "machine", "qemu", "root", "workload"];
    assert_eq!(fields, expected, "{harmful:?}");
}
