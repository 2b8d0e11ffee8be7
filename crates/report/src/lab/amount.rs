//! What an experiment measures beside time: memory, and what a character on the serial port costs.

use super::{LabAmount, LabBoot};
use lab::experiments::{Amount, Measure};
use lab::memory_use::MemoryUse;
use timeline::Ns;

impl LabAmount {
    pub(super) fn of(amount: &Amount, slow: LabBoot, fast: LabBoot) -> LabAmount {
        let (of, unit) = match amount.of {
            Measure::NsPerCharacter => ("serial port, per character", "ns"),
            Measure::GuestCache => ("the guest's cache", "bytes"),
            Measure::VmmResident => ("the VMM, at most resident", "bytes"),
        };
        let (slow, fast) = match amount.of {
            Measure::NsPerCharacter => (ns_per_character(slow, fast), None),
            Measure::GuestCache => (cached_bytes(slow), cached_bytes(fast)),
            Measure::VmmResident => (resident_bytes(slow), resident_bytes(fast)),
        };
        LabAmount {
            of: of.to_owned(),
            unit: unit.to_owned(),
            published_slow: amount.slow.map(|n| n as f64),
            published_fast: amount.fast.map(|n| n as f64),
            slow,
            fast,
        }
    }

    pub(super) fn cells(&self) -> [String; 5] {
        [
            self.of.clone(),
            self.change(self.published_slow, self.published_fast),
            ratio(self.published_slow, self.published_fast),
            self.change(self.slow, self.fast),
            ratio(self.slow, self.fast),
        ]
    }

    fn change(&self, slow: Option<f64>, fast: Option<f64>) -> String {
        let show = |n: f64| if self.unit == "bytes" { megabytes(n) } else { Ns(n.round() as i64).to_string() };
        match (slow, fast) {
            (Some(slow), Some(fast)) => format!("{} → {}", show(slow), show(fast)),
            (Some(slow), None) => show(slow),
            _ => String::new(),
        }
    }
}

/// As the published figures are.
fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

/// What printing takes less, by what is printed less. None if nothing is.
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
    boot.boot.facts.memory.vmm_max_rss_bytes.map(|bytes| bytes as f64)
}

fn ratio(slow: Option<f64>, fast: Option<f64>) -> String {
    let ratio = slow.zip(fast.filter(|&fast| fast > 0.0)).map(|(slow, fast)| slow / fast);
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}
