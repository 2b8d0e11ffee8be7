//! A boot to add to a lake: the document of `show --json`, the manifest, and the user's additions.

use recording::{Manifest, rfc3339};
use report::Summary;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use timeline::Unit;

/// Names and values that the user gives to boots: `team=kernel`.
pub type Labels = Vec<(String, String)>;

fn day(time: SystemTime) -> String {
    rfc3339(time).chars().take("2026-11-26".len()).collect()
}

/// The current day in UTC: `2026-11-26`.
pub fn today() -> String {
    day(SystemTime::now())
}

/// A boot, ready for the lake.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Identity, made by [`crate::identity`].
    pub id: String,
    /// Manifest of the recording.
    pub manifest: Manifest,
    /// Analysis of the boot.
    pub summary: Summary,
    /// Token or name of the machine, if given.
    pub machine: Option<String>,
    /// Kind of machine that the user gave instead of the recording's.
    pub hardware: Option<String>,
    /// True if the boot reached an end mark. If not, its times cover only the part that is shown.
    pub ended: bool,
    /// Labels that the user gave.
    pub labels: Labels,
}

impl Boot {
    /// Begin of the boot in ms since 1970, if known.
    pub fn began_ms(&self) -> Option<i64> {
        let began = humantime::parse_rfc3339(&self.manifest.created).ok()?;
        began.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
    }

    /// Day of the begin, in UTC: `2026-11-26`. 1970-01-01 if unknown.
    pub fn day(&self) -> String {
        let ms = self.began_ms().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        day(UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// Kind of machine, if known.
    pub fn hardware(&self) -> Option<String> {
        self.hardware.clone().or_else(|| report::hardware(&self.summary.subject, &self.manifest))
    }

    /// True if times are nanoseconds, of a deterministic boot guest time. If a counter's rate is unknown, they are ticks.
    pub(crate) fn has_times(&self) -> bool {
        self.summary.time_unit() != Unit::Ticks
    }

    /// Length of the shown part in ns, if known.
    pub(crate) fn shown(&self) -> Option<i64> {
        self.has_times().then_some(self.summary.total_ns)
    }

    /// Length in ns and its error, if known.
    pub(crate) fn total(&self) -> Option<(i64, i64)> {
        let end = self.summary.end.as_ref().filter(|_| self.ended)?;
        Some((self.shown()?, end.error_ns))
    }
}
