//! systemd's own state, from D-Bus, in the format of `systemctl show`.
//!
//! The connection is to the system's bus. On systemd's own socket, systemd uses a bus name that zbus rejects as
//! malformed. So without a bus, `systemctl` connects there. Only the properties listed below are kept. Others hold
//! environments and command lines, which may have secrets.

use super::Finish;
use crate::bounded::{self, Content, Cut, Failed};
use crate::gather::{Collected, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Without D-Bus, only `systemctl` is used, which takes longer.
#[cfg(not(feature = "dbus"))]
mod bus {
    use std::time::Instant;

    const NOT_BUILT: &str = "this program was built without D-Bus";

    pub(super) fn manager() -> Result<String, &'static str> {
        Err(NOT_BUILT)
    }

    pub(super) fn units(_until: Instant) -> Result<(String, Result<(), String>), &'static str> {
        Err(NOT_BUILT)
    }
}
#[cfg(feature = "dbus")]
mod bus;

const BUS: &str = "unix:path=/run/dbus/system_bus_socket";
/// The limit on the output of `systemctl` for all units.
const MAX_BYTES: usize = 32 << 20;
const MANAGER: [&str; 4] = ["Version", "Virtualization", "Architecture", "SystemState"];
const MANAGER_STAMP: &str = "TimestampMonotonic";
const UNIT: [&str; 18] = [
    "Names",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "After",
    "Before",
    "Requires",
    "Requisite",
    "BindsTo",
    "Wants",
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "ActiveExitTimestampMonotonic",
    "InactiveEnterTimestampMonotonic",
    "ConditionResult",
    "ConditionTimestampMonotonic",
    "AssertTimestampMonotonic",
];

/// systemd's state, and the end of the boot.
pub(crate) fn manager(until: Instant) -> (Collected, Finish) {
    let mut collected = Collected::default();
    if !is_process_1() {
        let init = bounded::line("/proc/1/comm").unwrap_or_default();
        collected.missing("units, and when the boot was done", format!("process 1 is not systemd but {init:?}"));
        return (collected, Finish::default());
    }
    let (content, origin) = match bus::manager() {
        Ok(text) => (Content { bytes: text.into_bytes(), cut: Cut::No }, "systemd, over D-Bus"),
        Err(bus) => match show(&manager_properties(), &[], until) {
            Ok(content) => (content, "systemctl show"),
            Err(why) => {
                collected.missing("systemd's own times", format!("{BUS}: {bus}; {why}"));
                return (collected, Finish::default());
            }
        },
    };
    let finish = Finish::at(finished(&String::from_utf8_lossy(&content.bytes)));
    if finish.monotonic_us == 0 {
        collected
            .missing("the end of the boot", "systemd has not finished to start (systemctl is-system-running --wait)");
    }
    collected.put(File::evidence("systemd.txt", content.bytes, origin), content.cut);
    (collected, finish)
}

/// True if systemd is process 1: it then makes this folder (sd_booted(3)).
fn is_process_1() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// The end of the startup in µs; 0 if it has not ended.
fn finished(text: &str) -> u64 {
    let stamp = text.lines().find_map(|line| line.strip_prefix("FinishTimestampMonotonic="));
    stamp.and_then(|stamp| stamp.trim().parse().ok()).unwrap_or(0)
}

/// The state of all units.
pub(crate) fn units(until: Instant) -> Collected {
    let mut collected = Collected::default();
    if !is_process_1() {
        return collected;
    }
    match bus::units(until) {
        Ok((text, outcome)) => {
            if let Err(why) = outcome {
                collected.missing("units of systemd", why);
            }
            collected.put(File::evidence("units.txt", text.into_bytes(), "systemd, over D-Bus"), Cut::No);
        }
        // Without --all, systemctl omits inactive units, and so those that have run and ended.
        Err(bus) => match show(&format!("Id,{},ControlGroup,MainPID", UNIT.join(",")), &["--all", "*"], until) {
            Ok(content) => collected.put(File::evidence("units.txt", content.bytes, "systemctl show '*'"), content.cut),
            Err(why) => collected.missing("units of systemd", format!("{BUS}: {bus}; {why}")),
        },
    }
    collected
}

/// The output of `systemctl show`.
fn show(properties: &str, what: &[&str], until: Instant) -> Result<Content, Failed> {
    let mut command = Command::new("systemctl");
    bounded::program(command.args(["show", "--no-pager", "--property", properties]).args(what), MAX_BYTES, until)
}

fn manager_properties() -> String {
    let work = ["Security", "Generators", "UnitsLoad"].iter();
    let work = work.flat_map(|what| [format!("{what}Start"), format!("{what}Finish")]);
    let stamps = ["Firmware", "Loader", "Kernel", "InitRD", "Userspace", "Finish"].map(str::to_owned);
    let stamps = stamps.into_iter().chain(work).map(|what| format!("{what}{MANAGER_STAMP}"));
    MANAGER.iter().map(|key| (*key).to_owned()).chain(stamps).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_boot_was_done() {
        assert_eq!(finished("Version=252\nFinishTimestampMonotonic=12954211\n"), 12_954_211);
        assert_eq!((finished("FinishTimestampMonotonic=0\n"), finished(""), finished("Finish")), (0, 0, 0));
    }
}
