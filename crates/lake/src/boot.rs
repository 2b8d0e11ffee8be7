//! A boot, as somebody hands it to a lake: what `show --json` says of it, its manifest, and what the user says.

use recording::{Manifest, TimeBase, rfc3339};
use report::Summary;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use timeline::Unit;

/// Names and values that say more of boots: `team=kernel`.
pub type Labels = Vec<(String, String)>;

fn day(of: SystemTime) -> String {
    rfc3339(of).chars().take("2026-11-26".len()).collect()
}

/// The day that is not over yet, in UTC.
pub fn today() -> String {
    day(SystemTime::now())
}

/// A boot, ready for the lake.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Which one: [`crate::identity`].
    pub id: String,
    /// What was recorded, and how.
    pub manifest: Manifest,
    /// What bootscope says of it.
    pub summary: Summary,
    /// The machine's token or name, if it was given.
    pub machine: Option<String>,
    /// The kind of machine, if the user says it better than the recording.
    pub hardware: Option<String>,
    /// Whether it reached an end mark. Else its times only say what of it is shown.
    pub ended: bool,
    /// What else the user says.
    pub labels: Labels,
}

impl Boot {
    /// When it was begun, in ms since 1970, if that is known.
    pub fn began_ms(&self) -> Option<i64> {
        let began = humantime::parse_rfc3339(&self.manifest.created).ok()?;
        began.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
    }

    /// The day of that, in UTC: `2026-11-26`; that of 1970 if it is not known.
    pub fn day(&self) -> String {
        let ms = self.began_ms().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        day(UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// The kind of machine, if anything says it. Boots of different kinds are not compared, so all is in it that makes a boot longer and is
    /// no software of the guest.
    pub fn hardware(&self) -> Option<String> {
        if self.hardware.is_some() {
            return self.hardware.clone();
        }
        let subject = &self.summary.subject;
        let counted = self.manifest.time_base == TimeBase::GuestVirtual;
        let parts = [
            subject.machine.clone(),
            if counted { "counted".to_owned() } else { subject.accelerator.clone() },
            if subject.cpus == 0 { String::new() } else { format!("cpus={}", subject.cpus) },
            if subject.memory_bytes == 0 { String::new() } else { format!("memory={}M", self.memory_bytes() >> 20) },
            // A counted boot takes as long on any host.
            if counted { String::new() } else { self.manifest.host.cpu.clone() },
        ];
        let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if known.is_empty() { None } else { Some(known.join(" ")) }
    }

    /// How much memory the machine has. What a running kernel says of it is less, and by how much changes with each kernel: it is rounded up
    /// to eighths of a power of two, in which memory is sold.
    fn memory_bytes(&self) -> u64 {
        let said = self.summary.subject.memory_bytes;
        let is_of_kernel = self.manifest.time_base == TimeBase::Evidence;
        match said.checked_ilog2() {
            Some(log) if is_of_kernel && log > 3 => said.checked_next_multiple_of(1 << (log - 3)).unwrap_or(said),
            _ => said,
        }
    }

    /// Whether its times are nanoseconds. Of a counter whose rate nobody knows they are ticks.
    pub(crate) fn has_times(&self) -> bool {
        self.summary.unit == Unit::Nanoseconds.name()
    }

    /// How much of it is shown, if that is known in nanoseconds.
    pub(crate) fn shown(&self) -> Option<i64> {
        self.has_times().then_some(self.summary.total_ns)
    }

    /// Its length, if it is known, and how far off that may be.
    pub(crate) fn total(&self) -> Option<(i64, i64)> {
        let end = self.summary.end.as_ref().filter(|_| self.ended)?;
        Some((self.shown()?, end.error_ns))
    }
}
