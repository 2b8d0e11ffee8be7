//! Choosing between KVM and TCG.
//!
//! First bootscope measures how fast KVM runs the code of a guest's kernel. On the CPU it is billions of instructions a second. A KVM
//! that interprets them, because the hardware's virtualisation is not there, does a few million, and stops at the first that it
//! cannot interpret. There TCG is quicker and goes on, so KVM is not tried.
//!
//! There are hosts where `/dev/kvm` opens, a small guest runs, and a stock kernel prints nothing for ever. So
//! `--accel auto` believes only what it has seen: this kernel, on this host, under this VMM. It is booted once under
//! KVM with an early console and nothing else; when it has printed its banner and gone on, KVM is usable; when it falls
//! silent for [`SILENCE`] before, it is not. The answer is remembered, so a kernel pays for it once.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use recording::{Accel, GuestSpec, Host, Init};
use serde::{Deserialize, Serialize};

use crate::lines::{Lines, shown};
use crate::options::RecordOptions;
use crate::vmm::{Heard, Instruments, Launch, Program, Source};
use crate::{Error, Observer, arch, memo};

/// A kernel that prints its early messages prints one at least this often, or does not run.
const SILENCE: Duration = Duration::from_secs(3);
/// No trial takes longer.
const TRIAL_MAX: Duration = Duration::from_secs(15);
/// Lines after the banner that show that it goes on.
const LINES_ENOUGH: u32 = 20;
const BANNER: &[u8] = b"Linux version";

/// A KVM that runs fewer instructions of a guest's kernel in a second interprets them. One that does so ran 2 to 4 million; a
/// CPU of 2005 runs a thousand million.
pub(crate) const INTERPRETED_PER_S_MAX: u64 = 100_000_000;
/// The module of a KVM for guests whose kernels are built for it.
const PVM: &str = "/sys/module/kvm_pvm";

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) kvm: bool,
    /// Why not what one might expect.
    pub(crate) note: Option<String>,
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
    let tcg = |why: String| Ok(Choice { kvm: false, note: Some(format!("TCG is used: {why}")) });
    let arch = arch::of(&options.guest);
    if program.needs_kvm() {
        return by_kvm_alone(program.name(), host);
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    match (options.guest.accel, device) {
        (Accel::Tcg, _) => Ok(Choice { kvm: false, note: None }),
        _ if options.guest.deterministic || options.observe.calls => Ok(Choice { kvm: false, note: None }),
        (Accel::Kvm, _) if !arch.is_hosts => Err(Error::option(format!(
            "--accel kvm: this host's CPUs do not run {} code: leave it out, or record on such a host",
            arch.name
        ))),
        (Accel::Auto, _) if !arch.is_hosts => tcg(format!("this host's CPUs do not run {} code", arch.name)),
        (Accel::Kvm, Ok(_)) => Ok(Choice { kvm: true, note: interpreted(host) }),
        (Accel::Kvm, Err(error)) => Err(Error::option(format!(
            "--accel kvm: /dev/kvm cannot be opened ({error}): load the kvm module and join the group kvm, or use \
             --accel tcg"
        ))),
        (Accel::Auto, Err(error)) => tcg(format!("/dev/kvm cannot be opened ({error})")),
        (Accel::Auto, Ok(_)) => match interpreted(host) {
            Some(why) => tcg(why),
            None if options.guest.kernel.is_none() => {
                tcg("whether KVM works can be tried only with a --kernel; --accel kvm takes it untried".to_owned())
            }
            None => {
                let found = remembered(options, program, host, kernel_sha256, observer)?;
                if found.usable { Ok(Choice { kvm: true, note: None }) } else { tcg(found.why_not) }
            }
        },
    }
}

/// What is to be known where a VMM has nothing but KVM.
fn by_kvm_alone(vmm: &str, host: &Host) -> Result<Choice, Error> {
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Ok(Choice { kvm: true, note: interpreted(host) }),
        Err(error) => Err(Error::option(format!(
            "{vmm} runs guests by KVM alone, and /dev/kvm cannot be opened ({error}): load the kvm module and join the group \
             kvm, or use --vmm qemu"
        ))),
    }
}

#[derive(Serialize, Deserialize)]
struct Speed {
    per_s: u64,
}

/// That this host's KVM interprets the code of a guest's kernel, if it does. Where that cannot be measured, a trial tells.
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
    // Further arguments belong to it: a CPU model among them decides.
    let machine = format!("{} {:?}", options.guest.machine, options.guest.extra);
    let key = format!("{}\n{}\n{path}\n{version}\n{machine}\n{kernel_sha256}", host.cpu, host.kernel);
    if let Some(known) = memo::recall("kvm", &key) {
        return Ok(known);
    }
    let found = match try_kvm(&options.guest, program, observer)? {
        Trialled::GetsOn => Remembered { usable: true, why_not: String::new() },
        Trialled::Silent(why_not) => Remembered { usable: false, why_not },
        // It costs nothing to see again, and may be no matter of KVM at all but of an argument.
        Trialled::Ended(why_not) => return Ok(Remembered { usable: false, why_not }),
    };
    memo::remember("kvm", &key, &found);
    Ok(found)
}

/// How much of what the VMM says is looked at.
const SAID_MAX: usize = 4096;

/// What came of a trial under KVM.
enum Trialled {
    /// The kernel makes progress.
    GetsOn,
    /// It does not.
    Silent(String),
    /// The VMM ended.
    Ended(String),
}

/// Boots the kernel under KVM for as long as it takes to see whether it gets on; why it does not.
fn try_kvm(guest: &GuestSpec, program: &dyn Program, observer: &mut dyn Observer) -> Result<Trialled, Error> {
    let trial = GuestSpec { initrd: None, disks: Vec::new(), cpus: 1, init: Init::Keep, ..guest.clone() };
    let arch = arch::of(guest);
    let mut vm = program.start(&Launch {
        guest: &trial,
        kvm: true,
        kernel_line: &format!("console={} {}", arch.console(guest), arch.early_console),
        initrd: None,
        channel: None,
        instruments: Instruments::default(),
    })?;
    let (began, mut lines, mut seen) = (Instant::now(), Lines::default(), Trial::default());
    let (mut last_line, mut said) = (began, Vec::new());
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
                said.extend(bytes.iter().take(SAID_MAX.saturating_sub(said.len())));
            }
            Heard::Said { .. } | Heard::News { .. } | Heard::Silence => {}
            Heard::Gone => {
                vm.wait()?;
                // What follows its first line is how it ended for that.
                let first = said.split(|&b| b == b'\n' || b == b'\r').find(|line| !line.is_empty()).unwrap_or_default();
                let said = shown(first, 200);
                return Ok(Trialled::Ended(format!(
                    "under KVM, {} ended at once: {said}. Times under TCG differ from hardware: \
                     compare boots with `bootscope bench`, or count instructions with --deterministic. --accel kvm makes this an error",
                    vm.name()
                )));
            }
        }
        if seen.gets_on() {
            return Ok(Trialled::GetsOn);
        }
        if last_line.elapsed() > SILENCE || began.elapsed() > TRIAL_MAX {
            let how_far = if seen.banner { "stopped printing" } else { "printed no banner" };
            let silence = SILENCE.as_secs();
            return Ok(Trialled::Silent(format!(
                "this kernel {how_far} for {silence} s under KVM here (remembered; --accel kvm insists)"
            )));
        }
        if observer.stop() {
            return Err(Error::Stopped);
        }
    }
}

/// How far a kernel got.
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

    fn gets_on(&self) -> bool {
        self.lines_after >= LINES_ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kvm_that_interprets_is_named_with_its_speed() {
        let said = interpreted_at(2_530_000, true).unwrap();
        assert!(said.contains("KVM (kvm_pvm) interprets") && said.contains("2.5 million a second"), "{said}");
        assert!(interpreted_at(2_530_000, false).unwrap().contains("KVM interprets"));
        assert_eq!(interpreted_at(1_000_000_000, true), None);
    }

    #[test]
    fn a_decompressor_alone_does_not_show_that_a_kernel_runs() {
        let mut trial = Trial::default();
        (0..50).for_each(|_| trial.take(b"input_data: 0x0000000002b4a2c4"));
        assert!(!trial.gets_on());
        trial.take(b"[    0.000000] Linux version 6.1.0-47-cloud-amd64");
        assert!(!trial.gets_on());
        (0..20).for_each(|_| trial.take(b"[    0.000000] x"));
        assert!(trial.gets_on());
    }
}
