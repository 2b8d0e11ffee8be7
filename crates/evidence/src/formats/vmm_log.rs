//! The log of a virtual machine monitor: Firecracker's, or cloud-hypervisor's at the level `info`.
//!
//! ```text
//! 2026-09-23T07:39:00.347439668 [anonymous-instance:main] Running Firecracker v1.12.0
//! 2026-09-23T07:39:00.348000000 [anonymous-instance:main:DEBUG:src/vmm/src/builder.rs:120] event_start: build microvm for boot
//! 2026-09-23T07:39:00.355280637 [anonymous-instance:main] Successfully started microvm that was configured from one single json
//! 2026-09-23T07:39:00.478539111 [anonymous-instance:fc_vcpu 0] Guest-boot-time = 123456 us 123 ms,  98765 CPU us 98 CPU ms
//!
//! cloud-hypervisor: 8.123456ms: <vmm> INFO:vmm/src/lib.rs:557 -- Booting VM
//! cloud-hypervisor:   0.018312s: <vcpu0> WARN:devices/src/legacy/debug_port.rs:76 -- [Debug I/O port: Kernel code 0x41] 0.018312 seconds
//! ```
//! (firecracker, `src/vmm/src/logger/logging.rs`, `builder.rs`, `devices/pseudo/boot_timer.rs`; cloud-hypervisor, `src/main.rs`,
//! `devices/src/legacy/debug_port.rs`.) The boot timer counts from the start of the machine, and the stamps from the monitor's own start,
//! or of the wall clock. Steps count from the first line.

use crate::formats::read_stamp::date;
use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, lossy, number, seconds};
use memchr::memmem;
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

const FIRECRACKER: &str = "Firecracker";
const CLOUD_HYPERVISOR: &str = "cloud-hypervisor";
/// Texts that begin a line of Firecracker's that no other program writes.
const SURE: [&[u8]; 4] = [b"Running Firecracker v", b"event_start: ", b"event_end: ", b"Guest-boot-time = "];
/// The vCPUs run from here on.
const STARTED: [&[u8]; 3] = [b"event_end: boot microvm", b"Successfully started microvm", b"Booted VM"];
const BOOTED: &[u8] = b"Guest-boot-time = ";
/// The codes with which a guest reports its progress on port 0x80, by the words of cloud-hypervisor.
const REPORTED: &[u8] = b"[Debug I/O port: ";

/// A line of such a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    program: &'static str,
    /// By the log's own clock.
    at: Ns,
    is_vcpu: bool,
    pub text: &'a [u8],
}

/// Reads a line.
pub(crate) fn entry(line: &[u8]) -> Option<Entry<'_>> {
    firecracker(line).or_else(|| cloud_hypervisor(line))
}

fn firecracker(line: &[u8]) -> Option<Entry<'_>> {
    let (stamp, rest) = date(line)?;
    let at = Ns(stamp.ns);
    let rest = rest.strip_prefix(b" [")?;
    let origin = &rest[..memmem::find(rest, b"] ")?];
    let text = rest[origin.len() + 2..].trim_ascii_end();
    let is_vcpu = memmem::find(origin, b":fc_vcpu").is_some();
    (origin.contains(&b':') || is_sure(text)).then_some(Entry { program: FIRECRACKER, at, is_vcpu, text })
}

fn cloud_hypervisor(line: &[u8]) -> Option<Entry<'_>> {
    let rest = line.strip_prefix(b"cloud-hypervisor:")?.trim_ascii_start();
    let (ns, _, rest) = seconds(rest)?;
    let ns = i64::try_from(ns).ok()?;
    // The unit is that of Rust's durations.
    let units: [(&[u8], i64); 5] =
        [(b"ms: ", 1_000), ("µs: ".as_bytes(), 1_000_000), (b"us: ", 1_000_000), (b"ns: ", 1_000_000_000), (b"s: ", 1)];
    let (rest, part) = units.iter().find_map(|(unit, part)| Some((rest.strip_prefix(*unit)?, *part)))?;
    let text = &rest[memmem::find(rest, b" -- ")? + 4..];
    Some(Entry {
        program: CLOUD_HYPERVISOR,
        at: Ns(ns / part),
        is_vcpu: rest.starts_with(b"<vcpu"),
        text: text.trim_ascii_end(),
    })
}

fn is_sure(text: &[u8]) -> bool {
    SURE.iter().any(|sure| text.starts_with(sure))
}

/// True for a line that no other program writes.
pub(crate) fn is_line(line: &[u8]) -> bool {
    entry(line).is_some_and(|entry| entry.program == CLOUD_HYPERVISOR || is_sure(entry.text))
}

/// The start of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Up to the start of the vCPUs.
    pub steps: Steps,
    /// The end of the guest's boot by the boot timer, since the first line.
    pub booted: Option<Ns>,
    /// The guest's own reports of its progress, since the first line.
    pub reports: Vec<(Ns, String)>,
}

/// At most this number of reports is kept.
const REPORTS_MAX: usize = 1 << 10;

/// Reads the first machine of a log; other lines are skipped.
pub(crate) fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Option<Start> {
    let (mut zero, mut is_started) = (None, false);
    let mut start = Start { steps: Steps::new("", Ns::from_us(1)), booted: None, reports: Vec::new() };
    for line in Lines::new(bytes) {
        let Some(Entry { program, at, is_vcpu, text }) = entry(line.bytes) else { continue };
        let place = || format!("{file}:{}", line.number);
        if zero.is_some() && text.starts_with(SURE[0]) {
            diagnostics.note_about(DiagnosticKind::SecondStatement, program, place);
            break;
        }
        let at = at - *zero.get_or_insert(at);
        start.steps.program = program;
        if let Some((us, _)) = text.strip_prefix(BOOTED).map(<[u8]>::trim_ascii_start).and_then(number) {
            start.booted.get_or_insert(at);
            start.begun(at, us, is_started, diagnostics);
            is_started = true;
        } else if let Some(report) = text.strip_prefix(REPORTED).filter(|_| start.reports.len() < REPORTS_MAX) {
            let report = &report[..memchr::memchr(b']', report).unwrap_or(report.len())];
            start.reports.push((at, lossy(report).into_owned()));
        } else if !is_started && !is_vcpu {
            is_started = STARTED.iter().any(|words| text.starts_with(words));
            let begins = start.steps.steps.is_empty().then_some(Phase::MonitorStart);
            let step = Step { at, name: lossy(text).into_owned(), begins };
            start.steps.add(step, diagnostics, place);
        }
    }
    start.steps.hands_over = is_started;
    zero.map(|_| start)
}

impl Start {
    /// Adds the start of the machine by its boot timer, where no line has it.
    fn begun(&mut self, booted: Ns, us: u64, is_started: bool, diagnostics: &mut Diagnostics) {
        let took = i64::try_from(us).ok().and_then(|us| us.checked_mul(1000));
        let Some(at) = took.map(|took| booted - Ns(took)).filter(|at| !is_started && *at >= self.steps.last()) else {
            return;
        };
        let begins = self.steps.steps.is_empty().then_some(Phase::MonitorStart);
        let step = Step { at, name: "the boot timer starts".to_owned(), begins };
        self.steps.add(step, diagnostics, String::new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_monitors_are_read() {
        let of = |line: &'static str| entry(line.as_bytes()).map(|entry| (entry.program, entry.at.0, entry.text));
        let text = &b"Booting VM"[..];
        for (stamp, ns) in [("8.123456ms", 8_123_456), ("0.018312s", 18_312_000), ("528.803µs", 528_803)] {
            let line = format!("cloud-hypervisor:  {stamp}: <vmm> INFO:vmm/src/lib.rs:557 -- Booting VM").leak();
            assert_eq!(of(line), Some((CLOUD_HYPERVISOR, ns, text)));
        }
        let first = of("2026-09-23T07:39:00.000000001 [a:main] Running Firecracker v1.12.0").unwrap();
        let second = of("2026-09-23T07:39:01.5 [a:main] event_start: boot microvm").unwrap();
        assert_eq!((first.0, second.1 - first.1), (FIRECRACKER, 1_499_999_999));
        assert!(is_line(b"2026-09-23T07:39:01.5 [a:fc_vcpu 0] Guest-boot-time =  12345 us 12 ms"));
        assert!(!is_line(b"2026-09-23T07:39:01.5 [a:b] hello") && !is_line(b"2026-09-23T07:39:01.5 hello"));
    }

    #[test]
    fn a_boot_timer_alone_shows_when_the_machine_began() {
        let text = "2026-09-23T07:39:00.5 [a:main] Running Firecracker v1.12.0\n\
                    2026-09-23T07:39:01.0 [a:fc_vcpu 0] Guest-boot-time =  400000 us 400 ms,  1 CPU us 0 CPU ms\n";
        let start = read("f", text.as_bytes(), &mut Diagnostics::default()).unwrap();
        assert_eq!((start.steps.last(), start.booted), (Ns::from_ms(100), Some(Ns::from_ms(500))));
    }
}
