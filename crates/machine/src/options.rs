//! How a boot is to be recorded: the guest, how it is observed, and where the recording goes.
//!
//! The first two are specs, which the recording keeps ([`GuestSpec`], [`ObserveSpec`]). What is wrong with them,
//! [`check`](crate::check) says.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use recording::{GuestSpec, ObserveSpec, VmmKind};

/// How to boot and what to record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordOptions {
    /// The guest.
    #[serde(flatten)]
    pub guest: GuestSpec,
    /// How it is observed.
    #[serde(flatten)]
    pub observe: ObserveSpec,
    /// What recording costs on this host, as far as it was measured: what fits this boot is noted in the recording.
    #[serde(skip)]
    pub overheads: Vec<recording::Overhead>,
    /// The recording's folder.
    #[serde(skip)]
    pub out: PathBuf,
    /// Replace a recording that is there.
    #[serde(skip)]
    pub force: bool,
}

impl RecordOptions {
    /// This guest, observed as usual.
    #[must_use]
    pub fn of(guest: GuestSpec) -> RecordOptions {
        RecordOptions { guest, ..RecordOptions::default() }
    }

    /// The firmware's debug port, where there is one and it is recorded.
    pub(crate) fn firmware_port(&self) -> Option<u16> {
        // Only QEMU's machines have firmware that can be heard so.
        let is_qemus = self.guest.vmm == VmmKind::Qemu && self.guest.board.is_none();
        let is_recorded = self.observe.firmware_log && is_qemus;
        crate::arch::of(&self.guest).firmware_port.filter(|_| is_recorded)
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
