//! Chooses between KVM and TCG.
//!
//! First bootscope measures how fast KVM runs the code of a guest's kernel. A CPU runs billions of instructions a second. A KVM without
//! hardware virtualisation interprets them: it does a few million, and stops at the first one that it cannot interpret. There TCG is faster
//! and goes on, so KVM is not tried.
//!
//! On some hosts `/dev/kvm` opens and a small guest runs, but a stock kernel prints nothing for ever. So `Accel::Auto` trusts only a trial
//! of this kernel, on this host, under this VMM. The kernel is booted once under KVM with an early console and nothing else. If it prints
//! its banner and goes on, KVM is usable; if it is silent for [`SILENCE`] before that, KVM is not. The result is remembered, so each kernel
//! pays for it once.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use recording::{Accel, GuestSpec, Host, Init};
use serde::{Deserialize, Serialize};

use crate::lines::{Lines, shown};
use crate::options::RecordOptions;
use crate::refusal::{Text, text};
use crate::vmm::{Heard, Instruments, Launch, Program, Source};
use crate::{Error, Observer, arch, memo};
use recording::Field;

/// A running kernel with early messages prints one at least this often.
const SILENCE: Duration = Duration::from_secs(3);
/// Longest duration of a trial.
const MAX_TRIAL: Duration = Duration::from_secs(15);
/// The number of lines after the banner that show that the kernel goes on.
const MIN_LINES_AFTER_BANNER: u32 = 20;
const BANNER: &[u8] = b"Linux version";

/// A KVM that runs fewer instructions of a guest's kernel in a second interprets them. One such KVM ran 2 to 4 million; a CPU of 2005 runs
/// a thousand million.
pub(crate) const INTERPRETED_PER_S_MAX: u64 = 100_000_000;
/// The module of a KVM for guests whose kernels are built for it.
const PVM: &str = "/sys/module/kvm_pvm";

/// The chosen accelerator.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) kvm: bool,
    /// The reason, if the choice may be unexpected.
    pub(crate) note: Option<Text>,
}

#[derive(Serialize, Deserialize)]
struct Remembered {
    usable: bool,
    why_not: String,
}

/// Chooses for this kernel (by its hash) on this host.
pub(crate) fn choose(
    options: &RecordOptions,
    program: &dyn Program,
    host: &Host,
    kernel_sha256: &str,
    observer: &mut dyn Observer,
) -> Result<Choice, Error> {
    let tcg = |why: Text| Ok(Choice { kvm: false, note: Some(text!["TCG is used: ", why]) });
    let kvm = Field::Accel.is("kvm");
    let arch = arch::of(&options.guest);
    if program.needs_kvm() {
        return by_kvm_alone(program.name(), host);
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    match (options.guest.accel, device) {
        (Accel::Tcg, _) => Ok(Choice { kvm: false, note: None }),
        _ if options.guest.deterministic || options.observe.calls || options.observe.exits => {
            Ok(Choice { kvm: false, note: None })
        }
        (Accel::Kvm, _) if !arch.is_hosts => {
            let why = text![kvm, format!(": this host's CPUs do not run {} code", arch.facts.name)];
            Err(Error::refused(Field::Accel, why, "leave it out, or record on such a host"))
        }
        (Accel::Auto, _) if !arch.is_hosts => {
            tcg(format!("this host's CPUs do not run {} code", arch.facts.name).into())
        }
        (Accel::Kvm, Ok(_)) => Ok(Choice { kvm: true, note: interpreted(host).map(Text::from) }),
        (Accel::Kvm, Err(error)) => {
            let why = text![kvm, format!(": /dev/kvm cannot be opened ({error})")];
            let instead = text!["load the kvm module and join the group kvm, or use ", Field::Accel.is("tcg")];
            Err(Error::refused(Field::Accel, why, instead))
        }
        (Accel::Auto, Err(error)) => tcg(format!("/dev/kvm cannot be opened ({error})").into()),
        (Accel::Auto, Ok(_)) => match interpreted(host) {
            Some(why) => tcg(why.into()),
            None if options.guest.kernel.is_none() => {
                tcg(text!["whether KVM works can be tried only with a ", Field::Kernel, "; ", kvm, " takes it untried"])
            }
            None => {
                let found = remembered(options, program, host, kernel_sha256, observer)?;
                if found.usable { Ok(Choice { kvm: true, note: None }) } else { tcg(found.why_not.into()) }
            }
        },
    }
}

/// Takes KVM for a VMM that has nothing else, with a note if it is slow.
fn by_kvm_alone(vmm: &str, host: &Host) -> Result<Choice, Error> {
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Ok(Choice { kvm: true, note: interpreted(host).map(Text::from) }),
        Err(error) => {
            let why = format!("{vmm} runs guests by KVM alone, and /dev/kvm cannot be opened ({error})");
            let instead = text!["load the kvm module and join the group kvm, or use ", Field::Vmm.is("qemu")];
            Err(Error::refused(Field::Vmm, why, instead))
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Speed {
    per_s: u64,
}

/// A note that this host's KVM interprets a guest kernel's code, if it does. If the speed cannot be measured, a trial decides.
fn interpreted(host: &Host) -> Option<String> {
    let key = format!("{}\n{}", host.cpu, host.kernel);
    let per_s = match memo::recall::<Speed>("kvm-speed", &key) {
        Some(known) => known.per_s,
        None => {
            let per_s = arch::kvm_instructions_per_s().ok()?;
            memo::remember("kvm-speed", &key, &Speed { per_s });
            per_s
        }
    };
    interpreted_at(per_s, Path::new(PVM).exists())
}

fn interpreted_at(per_s: u64, is_pvm: bool) -> Option<String> {
    let module = if is_pvm { " (kvm_pvm)" } else { "" };
    (per_s < INTERPRETED_PER_S_MAX).then(|| {
        format!(
            "this host's KVM{module} interprets a guest kernel's instructions, {:.1} million a second: a stock kernel is \
             slow there, and stops at an instruction that KVM does not know",
            per_s as f64 / 1e6
        )
    })
}

fn remembered(
    options: &RecordOptions,
    program: &dyn Program,
    host: &Host,
    kernel_sha256: &str,
    observer: &mut dyn Observer,
) -> Result<Remembered, Error> {
    let (path, version) = (program.path().display(), program.version());
    // Further arguments are part of the key: a CPU model among them can decide.
    let machine = format!("{} {:?}", options.guest.machine, options.guest.extra);
    let key = format!("{}\n{}\n{path}\n{version}\n{machine}\n{kernel_sha256}", host.cpu, host.kernel);
    if let Some(known) = memo::recall("kvm", &key) {
        return Ok(known);
    }
    let found = match try_kvm(&options.guest, program, observer)? {
        TrialResult::Progresses => Remembered { usable: true, why_not: String::new() },
        TrialResult::Silent(why_not) => Remembered { usable: false, why_not },
        // A new trial costs nothing, and the cause may be an argument and not KVM.
        TrialResult::Ended(why_not) => return Ok(Remembered { usable: false, why_not }),
    };
    memo::remember("kvm", &key, &found);
    Ok(found)
}

/// Bytes of the VMM's output that are kept.
const MAX_OUTPUT_BYTES: usize = 4096;

/// The result of a trial under KVM.
enum TrialResult {
    /// The kernel makes progress.
    Progresses,
    /// It does not.
    Silent(String),
    /// The VMM ended.
    Ended(String),
}

/// Boots the kernel under KVM until it is clear whether it makes progress.
fn try_kvm(guest: &GuestSpec, program: &dyn Program, observer: &mut dyn Observer) -> Result<TrialResult, Error> {
    let trial = GuestSpec { initrd: None, disks: Vec::new(), cpus: 1, init: Init::Keep, ..guest.clone() };
    let arch = arch::of(guest);
    let mut vm = program.start(&Launch {
        guest: &trial,
        kvm: true,
        kernel_line: &format!("console={} {}", arch.console(guest), arch.facts.linux.early_console),
        initrd: None,
        channel: None,
        instruments: Instruments::default(),
    })?;
    let (began, mut lines, mut seen) = (Instant::now(), Lines::default(), Trial::default());
    let (mut last_line, mut output) = (began, Vec::new());
    loop {
        match vm.hear(Duration::from_millis(50)) {
            Heard::Said { source: Source::Console, bytes, .. } => {
                lines.feed(&bytes, &mut |line| {
                    if line.whole {
                        seen.take(line.text);
                        last_line = Instant::now();
                    }
                });
            }
            Heard::Said { source: Source::Vmm, bytes, .. } => {
                output.extend(bytes.iter().take(MAX_OUTPUT_BYTES.saturating_sub(output.len())));
            }
            Heard::Said { .. } | Heard::News { .. } | Heard::Silence => {}
            Heard::Gone => {
                vm.wait()?;
                let why = ended_at_once(vm.name(), &output);
                return Ok(TrialResult::Ended(why.in_words(observer.words()).to_string()));
            }
        }
        if seen.makes_progress() {
            return Ok(TrialResult::Progresses);
        }
        if last_line.elapsed() > SILENCE || began.elapsed() > MAX_TRIAL {
            let how_far = if seen.banner { "stopped printing" } else { "printed no banner" };
            let silence = SILENCE.as_secs();
            let why = format!("this kernel {how_far} for {silence} s under KVM here (remembered; ");
            let why = text![why, Field::Accel.is("kvm"), " insists)"];
            return Ok(TrialResult::Silent(why.in_words(observer.words()).to_string()));
        }
        if observer.stop() {
            return Err(Error::Stopped);
        }
    }
}

/// The note on a VMM that ended with this output.
fn ended_at_once(name: &str, output: &[u8]) -> Text {
    // The VMM's first line is the cause; those after it follow from it.
    let first = output.split(|&b| b == b'\n' || b == b'\r').find(|line| !line.is_empty()).unwrap_or_default();
    let output = shown(first, 200);
    text![
        format!("under KVM, {name} ended at once: {output}. Times under TCG differ from hardware: compare boots "),
        "with `bootscope bench`, or count instructions with ",
        Field::Deterministic,
        ". ",
        Field::Accel.is("kvm"),
        " makes this an error"
    ]
}

/// Progress of a kernel in a trial.
#[derive(Debug, Default)]
struct Trial {
    banner: bool,
    lines_after: u32,
}

impl Trial {
    fn take(&mut self, line: &[u8]) {
        self.lines_after += u32::from(self.banner);
        self.banner |= memchr::memmem::find(line, BANNER).is_some();
    }

    fn makes_progress(&self) -> bool {
        self.lines_after >= MIN_LINES_AFTER_BANNER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kvm_that_interprets_is_named_with_its_speed() {
        let note = interpreted_at(2_530_000, true).unwrap();
        assert!(note.contains("KVM (kvm_pvm) interprets") && note.contains("2.5 million a second"), "{note}");
        assert!(interpreted_at(2_530_000, false).unwrap().contains("KVM interprets"));
        assert_eq!(interpreted_at(1_000_000_000, true), None);
    }

    #[test]
    fn a_decompressor_alone_does_not_show_that_a_kernel_runs() {
        let mut trial = Trial::default();
        (0..50).for_each(|_| trial.take(b"input_data: 0x0000000002b4a2c4"));
        assert!(!trial.makes_progress());
        trial.take(b"[    0.000000] Linux version 6.1.0-47-cloud-amd64");
        assert!(!trial.makes_progress());
        (0..20).for_each(|_| trial.take(b"[    0.000000] x"));
        assert!(trial.makes_progress());
    }
}
