//! The machine that boots: one that a virtual machine monitor makes, or a board.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The machine that boots: one that a VMM makes, or a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "RecordedTarget", into = "RecordedTarget")]
pub enum Target {
    Vmm {
        kind: VmmKind,
        /// The VMM's program: a path, or a name to look up in `PATH`.
        program: PathBuf,
    },
    /// A board boots its own software. Among the other fields of a guest, only the end mark applies to it.
    Board(Board),
}

/// The form of a [`Target`] in `how`.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct RecordedTarget {
    #[serde(skip_serializing_if = "VmmKind::is_qemu")]
    vmm: VmmKind,
    /// The program of any kind of VMM. The default for a board.
    qemu: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<Board>,
}

impl Default for RecordedTarget {
    fn default() -> Self {
        Target::default().into()
    }
}

impl From<RecordedTarget> for Target {
    fn from(recorded: RecordedTarget) -> Target {
        match recorded {
            RecordedTarget { board: Some(board), .. } => Target::Board(board),
            RecordedTarget { board: None, vmm, qemu } => Target::Vmm { kind: vmm, program: qemu },
        }
    }
}

impl From<Target> for RecordedTarget {
    fn from(target: Target) -> RecordedTarget {
        match target {
            Target::Vmm { kind, program } => RecordedTarget { vmm: kind, qemu: program, board: None },
            Target::Board(board) => RecordedTarget { board: Some(board), ..RecordedTarget::default() },
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Target::qemu("qemu-system-x86_64")
    }
}

impl Target {
    /// A QEMU of this name or path.
    pub fn qemu(program: impl Into<PathBuf>) -> Target {
        Target::Vmm { kind: VmmKind::Qemu, program: program.into() }
    }

    /// The board, if it is one.
    #[must_use]
    pub fn board(&self) -> Option<&Board> {
        match self {
            Target::Board(board) => Some(board),
            Target::Vmm { .. } => None,
        }
    }

    /// The kind of VMM; `None` for a board.
    #[must_use]
    pub fn vmm(&self) -> Option<VmmKind> {
        match self {
            Target::Vmm { kind, .. } => Some(*kind),
            Target::Board(_) => None,
        }
    }

    #[must_use]
    pub fn is_board(&self) -> bool {
        self.board().is_some()
    }

    #[must_use]
    pub fn is_qemu(&self) -> bool {
        self.vmm() == Some(VmmKind::Qemu)
    }
}

/// A board connected to the recorder by a serial port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Board {
    /// The port: a device (`/dev/ttyUSB0`), or that of a terminal server (`tcp:HOST:PORT`, `telnet:HOST:PORT`).
    pub serial: String,
    /// The rate of the port, in bits per second. `None` means [`Board::BAUD`] for a device, and not known for a
    /// terminal server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baud: Option<u32>,
    /// The shell command that switches the board off and on; `None` if the user does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycle: Option<String>,
}

impl Board {
    /// The default rate of a device.
    pub const BAUD: u32 = 115_200;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VmmKind {
    #[default]
    Qemu,
    Firecracker,
    #[serde(rename = "cloud-hypervisor")]
    CloudHypervisor,
}

impl VmmKind {
    /// The name in options and files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            VmmKind::Qemu => "qemu",
            VmmKind::Firecracker => "firecracker",
            VmmKind::CloudHypervisor => "cloud-hypervisor",
        }
    }

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VmmKind::Qemu => "QEMU",
            VmmKind::Firecracker => "Firecracker",
            VmmKind::CloudHypervisor => "cloud-hypervisor",
        }
    }

    // serde requires a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_qemu(&self) -> bool {
        *self == VmmKind::Qemu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::GuestSpec;
    use serde_json::json;

    #[test]
    fn a_target_is_recorded_in_the_fields_that_old_recordings_have() {
        let recorded = |target: Target| {
            let how = serde_json::to_value(GuestSpec { target: target.clone(), ..GuestSpec::default() }).unwrap();
            assert_eq!(GuestSpec::of(&how).unwrap().target, target);
            [how["vmm"].clone(), how["qemu"].clone(), how["board"].clone()]
        };
        assert_eq!(recorded(Target::default()), [json!(null), json!("qemu-system-x86_64"), json!(null)]);
        let firecracker = Target::Vmm { kind: VmmKind::Firecracker, program: "/f".into() };
        assert_eq!(recorded(firecracker), [json!("firecracker"), json!("/f"), json!(null)]);
        let board = Board { serial: "tcp:lab:1".to_owned(), baud: Some(9600), power_cycle: None };
        let expected = [json!(null), json!("qemu-system-x86_64"), json!({"serial": "tcp:lab:1", "baud": 9600})];
        assert_eq!(recorded(Target::Board(board)), expected);
        let old = json!({"board": {"serial": "/dev/ttyUSB0"}, "qemu": "/tmp/q", "vmm": "firecracker"});
        let board = Board { serial: "/dev/ttyUSB0".to_owned(), ..Board::default() };
        assert_eq!(GuestSpec::of(&old).unwrap().target, Target::Board(board), "a board has no VMM");
    }

    #[test]
    fn each_kind_of_vmm_has_one_name_whatever_its_case() {
        for kind in [VmmKind::Qemu, VmmKind::Firecracker, VmmKind::CloudHypervisor] {
            assert_eq!(kind.name().to_lowercase(), kind.as_str());
            assert_eq!(json!(kind), json!(kind.as_str()));
        }
    }
}
