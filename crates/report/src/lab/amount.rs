//! Amounts other than time that an experiment measures: memory, and the cost of a character on the serial port or of a
//! system call.

use super::{LabBoot, measured_in};
use lab::calls::Loops;
use lab::experiments::{Amount, Measure};
use lab::memory_use::MemoryUse;
use lab::vmem::printed_steps;
use serde::{Deserialize, Serialize};
use timeline::{Ns, Unit, rounded_count};

/// A measured amount that is not a function's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabAmount {
    /// The name of the amount.
    pub of: String,
    /// `ns`, `bytes`, `count`, `permille` or `thousandths`.
    pub unit: String,
    /// The unit in which the table shows bytes, as published: `MiB` or `KiB`; empty for the rest.
    #[serde(default)]
    pub shown_in: String,
    /// The published value with the slow setting.
    pub published_slow: Option<f64>,
    /// The published amount, with the remedy.
    pub published_fast: Option<f64>,
    /// The measured amount, slow; `null` if the recording does not have it.
    pub slow: Option<f64>,
    /// The measured amount, with the remedy; `null` also if one figure covers both boots.
    pub fast: Option<f64>,
}

impl LabAmount {
    /// `nth` is the remedy's place.
    pub(super) fn of(amount: &Amount, nth: usize, slow: LabBoot, fast: LabBoot) -> LabAmount {
        let (label, unit, shown_in) = match amount.of {
            Measure::NsPerCharacter => ("serial port, per character", "ns", ""),
            Measure::GuestCache => ("the guest's cache", "bytes", MIB),
            Measure::VmmResident => ("the VMM, at most resident", "bytes", KIB),
            Measure::ChainSteps => ("chain steps", "count", ""),
            Measure::FrameAllocatorPermille => ("the frame allocator's share", "permille", ""),
            Measure::RecordedPermille => ("the frame allocator's share, recorded", "permille", ""),
            Measure::SampledPermille => ("the frame allocator's share, sampled", "permille", ""),
            Measure::SystemCall => ("a system call, in instructions (published: cycles)", "count", ""),
            Measure::BareSystemCall => ("bare syscall and sysret, likewise", "count", ""),
            Measure::SystemCallOfBare => ("the first by the second", "thousandths", ""),
        };
        let label = match (amount.of, sampled(slow), sampled(fast)) {
            (Measure::SampledPermille, Some((_, slow)), Some((_, fast))) => {
                format!("{label} (± {:.1} → {:.1}, binomial)", slow / 10.0, fast / 10.0)
            }
            _ => label.to_owned(),
        };
        let (slow, fast) = match amount.of {
            Measure::NsPerCharacter => (ns_per_character(slow, fast), None),
            Measure::GuestCache => (cached_bytes(slow), cached_bytes(fast)),
            Measure::VmmResident => (resident_bytes(slow), resident_bytes(fast)),
            Measure::ChainSteps => (chain_steps(slow), chain_steps(fast)),
            Measure::FrameAllocatorPermille => (frame_allocator(slow), frame_allocator(fast)),
            Measure::RecordedPermille => (recorded(slow), recorded(fast)),
            Measure::SampledPermille => (sampled(slow).map(|(share, _)| share), sampled(fast).map(|(share, _)| share)),
            Measure::SystemCall => (of_loops(slow, Loops::call), of_loops(fast, Loops::call)),
            Measure::BareSystemCall => (of_loops(slow, Loops::bare), of_loops(fast, Loops::bare)),
            Measure::SystemCallOfBare => (of_loops(slow, call_by_bare), of_loops(fast, call_by_bare)),
        };
        LabAmount {
            of: label,
            unit: unit.to_owned(),
            shown_in: shown_in.to_owned(),
            published_slow: amount.slow.map(|n| n as f64),
            published_fast: amount.fast.get(nth).map(|&n| n as f64),
            slow,
            fast,
        }
    }

    /// The cells of a trial, whose boots may have timed waits.
    pub(super) fn cells(&self, has_waits: bool) -> [String; 5] {
        [
            self.of.clone(),
            self.change(Unit::Nanoseconds, self.published_slow, self.published_fast),
            ratio(self.published_slow, self.published_fast),
            self.change(measured_in(has_waits), self.slow, self.fast),
            ratio(self.slow, self.fast),
        ]
    }

    fn change(&self, time: Unit, slow: Option<f64>, fast: Option<f64>) -> String {
        let show = |n: f64| match (self.unit.as_str(), self.shown_in.as_str()) {
            ("bytes", KIB) => format!("{} KiB", grouped(rounded_count(n / 1024.0))),
            ("bytes", _) => format!("{:.1} MiB", n / 1024.0 / 1024.0),
            ("count", _) => grouped(rounded_count(n)),
            ("thousandths", _) => format!("{:.1}", n / 1000.0),
            ("permille", _) => format!("{:.1} %", n / 10.0),
            _ => time.show(Ns::rounded(n)),
        };
        match (slow, fast) {
            (Some(slow), Some(fast)) => format!("{} → {}", show(slow), show(fast)),
            (Some(slow), None) => show(slow),
            _ => String::new(),
        }
    }
}

/// The units in which bytes were published.
const MIB: &str = "MiB";
const KIB: &str = "KiB";

/// A number in groups of three digits: `27 606 301 196`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.join(" ")
}

/// The time that printing takes less, divided by the number of characters less. `None` if the fast boot does not print
/// less.
fn ns_per_character(slow: LabBoot, fast: LabBoot) -> Option<f64> {
    let printing = |boot: LabBoot| {
        let rows = boot.boot.tables().functions.iter().filter(|row| row.name == "_vprintf");
        rows.map(|row| row.total_time.0).sum::<i64>()
    };
    let characters = slow.console.len().checked_sub(fast.console.len()).filter(|&n| n > 0)?;
    Some((printing(slow) - printing(fast)) as f64 / characters as f64)
}

fn cached_bytes(boot: LabBoot) -> Option<f64> {
    MemoryUse::find(boot.console).map(|memory| memory.cached_kib as f64 * 1024.0)
}

fn resident_bytes(boot: LabBoot) -> Option<f64> {
    boot.boot.facts.metrics.known("vmm_max_rss").map(|&bytes| bytes as f64)
}

fn ratio(slow: Option<f64>, fast: Option<f64>) -> String {
    let ratio = slow.zip(fast.filter(|&fast| fast > 0.0)).map(|(slow, fast)| slow / fast);
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

fn of_loops(boot: LabBoot, what: fn(&Loops) -> f64) -> Option<f64> {
    Loops::find(boot.console).map(|loops| what(&loops))
}

/// The cost of a system call in thousandths of that of a bare one.
fn call_by_bare(loops: &Loops) -> f64 {
    1000.0 * loops.call() / loops.bare()
}

fn chain_steps(boot: LabBoot) -> Option<f64> {
    printed_steps(boot.console).map(|steps| steps as f64)
}

/// The frame allocator's share of the boot after the kernel's machine-dependent part, in thousandths. It holds for one
/// CPU that never idles, as in these boots.
fn frame_allocator(boot: LabBoot) -> Option<f64> {
    let total_ns = |name| total_ns(boot, name);
    let after_init_ns = total_ns("mi_startup") + total_ns("start_init");
    (after_init_ns > 0).then(|| total_ns("frame_allocator") as f64 * 1000.0 / after_init_ns as f64)
}

fn total_ns(boot: LabBoot, function: &str) -> i64 {
    let rows = boot.boot.tables().functions.iter();
    rows.filter(|row| row.name == function).map(|row| row.total_time.0).sum()
}

/// The function whose time the log calls `frame_allocator`.
const SAMPLED_AS: &str = "lab::memory::logged";

/// The recorded share of the sampled time, in thousandths. Hardly any frame is allocated before sampling begins.
fn recorded(boot: LabBoot) -> Option<f64> {
    let began = boot.boot.timeline.sampled.as_ref()?.began?;
    let seen_ns = (boot.boot.total - began).0;
    (seen_ns > 0).then(|| total_ns(boot, "frame_allocator") as f64 * 1000.0 / seen_ns as f64)
}

/// The sampled share, and one standard error, in thousandths.
fn sampled(boot: LabBoot) -> Option<(f64, f64)> {
    let timeline = boot.boot.timeline;
    let events = timeline.sampled.as_ref()?.events();
    let event = events.first()?;
    let function = event.functions().into_iter().find(|row| timeline.names.get(row.name) == SAMPLED_AS)?;
    Some((event.share(function.total) * 1000.0, event.error(function.total) * 1000.0))
}
