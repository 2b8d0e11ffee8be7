//! Options of a recording: the guest, how it is observed, and the recording's folder.
//!
//! The recording keeps the first two as specs ([`GuestSpec`], [`ObserveSpec`]). [`check`](crate::check) validates them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use recording::{GuestSpec, ObserveSpec};

/// The guest to boot and what to record of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordOptions {
    #[serde(flatten)]
    pub guest: GuestSpec,
    #[serde(flatten)]
    pub observe: ObserveSpec,
    /// Measured costs of recording on this host. The recording notes the one that was measured for such a boot.
    #[serde(skip)]
    pub overheads: Vec<recording::Overhead>,
    /// The recording's folder.
    #[serde(skip)]
    pub out: PathBuf,
    /// True if an existing recording is replaced.
    #[serde(skip)]
    pub force: bool,
}

impl RecordOptions {
    /// Options for this guest, with the usual observation.
    #[must_use]
    pub fn of(guest: GuestSpec) -> RecordOptions {
        RecordOptions { guest, ..RecordOptions::default() }
    }

    /// The time limit of the recording.
    pub(crate) fn timeout_ns(&self) -> i64 {
        let ms = self.observe.timeout_ms.unwrap_or(u64::MAX);
        i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
    }

    /// The I/O port of the firmware's debug log, if the guest has one and it is recorded.
    pub(crate) fn firmware_port(&self) -> Option<u16> {
        // Only QEMU's machines have firmware with such a port.
        let is_recorded = self.observe.firmware_log && self.guest.target.is_qemu();
        crate::arch::of(&self.guest).facts.qemu.firmware_port.filter(|_| is_recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Until;

    #[test]
    fn options_survive_the_recording_and_new_fields_have_defaults() {
        let options =
            RecordOptions::of(GuestSpec { until: Until::Regex("login:".to_owned()), cpus: 4, ..GuestSpec::default() });
        let json = serde_json::to_value(&options).unwrap();
        assert_eq!(serde_json::from_value::<RecordOptions>(json).unwrap(), options);
        let same_as_ever = serde_json::to_value(RecordOptions::default()).unwrap();
        assert_eq!(same_as_ever.get("root"), None, "the history tells setups apart by what is written");
        let old: RecordOptions = serde_json::from_str(r#"{"cpus":2,"gone":1}"#).unwrap();
        assert_eq!(old, RecordOptions::of(GuestSpec { cpus: 2, ..GuestSpec::default() }));
    }
}
