//! systemd's own state, asked over D-Bus, and written as `systemctl show` prints it.
//!
//! It is asked on the system's bus. On systemd's own socket it calls itself by a name that zbus takes for broken, so where there is no
//! bus, `systemctl` asks there. Only the properties of the lists below are kept: others hold environments and command lines, which may
//! have secrets.

use super::Finish;
use crate::bounded::{self, Content, Cut, Failed};
use crate::gather::{File, Given};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use zbus::blocking::Connection;
use zbus::blocking::connection::Builder;
use zbus::message::Body;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

const BUS: &str = "unix:path=/run/dbus/system_bus_socket";
/// What `systemctl` prints of all units.
const BYTES_MAX: usize = 32 << 20;
const NAME: &str = "org.freedesktop.systemd1";
/// More units than any machine has.
const UNITS_MAX: usize = 20_000;
/// So many units are asked at once: systemd answers several whenever it wakes up.
const AT_ONCE: usize = 16;
/// A call that takes longer is not answered any more.
const CALL: Duration = Duration::from_secs(5);

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

/// What systemd says of itself, and when it was done.
pub(crate) fn manager(until: Instant) -> (Given, Finish) {
    let mut given = Given::default();
    if !is_process_1() {
        let init = bounded::line("/proc/1/comm").unwrap_or_default();
        given.missing("units, and when the boot was done", format!("process 1 is not systemd but {init:?}"));
        return (given, Finish::default());
    }
    let (content, origin) = match Systemd::connect().and_then(|systemd| systemd.manager()) {
        Ok(text) => (Content { bytes: text.into_bytes(), cut: Cut::No }, "systemd, over D-Bus"),
        Err(bus) => match show(&manager_properties(), &[], until) {
            Ok(content) => (content, "systemctl show"),
            Err(why) => {
                given.missing("systemd's own times", format!("{BUS}: {bus}; {why}"));
                return (given, Finish::default());
            }
        },
    };
    let finish = Finish::at(finished(&String::from_utf8_lossy(&content.bytes)));
    if finish.monotonic_us == 0 {
        given.missing("the end of the boot", "systemd has not finished to start (systemctl is-system-running --wait)");
    }
    given.put(File::evidence("systemd.txt", content.bytes, origin), content.cut);
    (given, finish)
}

/// systemd makes this folder where it is process 1 (sd_booted(3)).
fn is_process_1() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// µs; 0 where it is not done.
fn finished(text: &str) -> u64 {
    let stamp = text.lines().find_map(|line| line.strip_prefix("FinishTimestampMonotonic="));
    stamp.and_then(|stamp| stamp.trim().parse().ok()).unwrap_or(0)
}

/// What it says of all units.
pub(crate) fn units(until: Instant) -> Given {
    let mut given = Given::default();
    if !is_process_1() {
        return given;
    }
    match Systemd::connect() {
        Ok(systemd) => {
            let mut text = String::new();
            if let Err(why) = systemd.units(&mut text, until) {
                given.missing("units of systemd", why);
            }
            given.put(File::evidence("units.txt", text.into_bytes(), "systemd, over D-Bus"), Cut::No);
        }
        // Without --all it leaves out what is not active, and so what has run and is done.
        Err(bus) => match show(&format!("Id,{},ControlGroup,MainPID", UNIT.join(",")), &["--all", "*"], until) {
            Ok(content) => given.put(File::evidence("units.txt", content.bytes, "systemctl show '*'"), content.cut),
            Err(why) => given.missing("units of systemd", format!("{BUS}: {bus}; {why}")),
        },
    }
    given
}

/// What systemd's own program prints.
fn show(properties: &str, what: &[&str], until: Instant) -> Result<Content, Failed> {
    let mut command = Command::new("systemctl");
    bounded::program(command.args(["show", "--no-pager", "--property", properties]).args(what), BYTES_MAX, until)
}

fn manager_properties() -> String {
    let work = ["Security", "Generators", "UnitsLoad"].iter();
    let work = work.flat_map(|what| [format!("{what}Start"), format!("{what}Finish")]);
    let stamps = ["Firmware", "Loader", "Kernel", "InitRD", "Userspace", "Finish"].map(str::to_owned);
    let stamps = stamps.into_iter().chain(work).map(|what| format!("{what}{MANAGER_STAMP}"));
    MANAGER.iter().map(|key| (*key).to_owned()).chain(stamps).collect::<Vec<_>>().join(",")
}

/// A connection to it.
struct Systemd(Connection);

type Properties<'a> = HashMap<&'a str, Value<'a>>;
/// A row of `ListUnits`: name, description, load, active and sub state, what it follows, path, job, its kind and path.
type Row = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

impl Systemd {
    /// The manager's block.
    fn manager(&self) -> zbus::Result<String> {
        let mut text = String::new();
        let body = self.all("/org/freedesktop/systemd1", "Manager")?;
        let properties: Properties<'_> = body.deserialize()?;
        let mut stamps: Vec<_> = properties.keys().copied().filter(|key| key.ends_with(MANAGER_STAMP)).collect();
        stamps.sort();
        for key in MANAGER.into_iter().chain(stamps) {
            write_property(&mut text, &properties, key);
        }
        Ok(text)
    }

    fn connect() -> zbus::Result<Systemd> {
        Builder::address(BUS)?.method_timeout(CALL).build().map(Systemd)
    }

    /// All properties; their texts stay in the message.
    fn all(&self, path: &str, interface: &str) -> zbus::Result<Body> {
        let interface = format!("{NAME}.{interface}");
        let properties = Some("org.freedesktop.DBus.Properties");
        let reply = self.0.call_method(Some(NAME), path, properties, "GetAll", &(interface,))?;
        Ok(reply.body())
    }

    fn one(&self, path: &str, interface: &str, property: &str) -> zbus::Result<OwnedValue> {
        let interface = format!("{NAME}.{interface}");
        let properties = Some("org.freedesktop.DBus.Properties");
        let reply = self.0.call_method(Some(NAME), path, properties, "Get", &(interface, property))?;
        reply.body().deserialize()
    }

    fn units(&self, text: &mut String, until: Instant) -> Result<(), String> {
        let manager = Some("org.freedesktop.systemd1.Manager");
        let path = "/org/freedesktop/systemd1";
        let reply = self.0.call_method(Some(NAME), path, manager, "ListUnits", &());
        let rows: Vec<Row> = reply.and_then(|reply| reply.body().deserialize()).map_err(|e| e.to_string())?;
        // A unit that others name and nobody has was never started.
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.2 != "not-found").take(UNITS_MAX).collect();
        // Several at once: most of a call is waiting for the bus.
        let parts = rows.chunks(rows.len().div_ceil(AT_ONCE).max(1));
        let (mut late, mut failed) = (0, 0);
        thread::scope(|scope| {
            let asked: Vec<_> = parts.map(|part| scope.spawn(move || self.part(part, until))).collect();
            for asked in asked {
                let Ok((said, part_late, part_failed)) = asked.join() else { continue };
                text.push_str(&said);
                (late, failed) = (late + part_late, failed + part_failed);
            }
        });
        match (late, failed) {
            (0, 0) => Ok(()),
            (0, failed) => Err(format!("{failed} of {} did not answer", rows.len())),
            (late, _) => Err(format!("{late} of {} were not asked for want of time", rows.len())),
        }
    }

    /// Some of the units: what they say, how many were not asked, and how many did not answer.
    fn part(&self, rows: &[Row], until: Instant) -> (String, usize, usize) {
        let (mut text, mut failed) = (String::new(), 0);
        for (done, (name, _, load, state, sub, _, path, ..)) in rows.iter().enumerate() {
            if Instant::now() >= until {
                return (text, rows.len() - done, failed);
            }
            // To ask for all that a unit has costs systemd most of the time; more than half of the units never ran.
            if state == "inactive" && self.never_ran(path) {
                let _ = writeln!(text, "Id={name}\nLoadState={load}\nActiveState={state}\nSubState={sub}\n");
                continue;
            }
            // A unit may be gone since it was listed.
            let body = self.all(path, "Unit");
            let Some(properties) = body.as_ref().ok().and_then(|body| body.deserialize::<Properties<'_>>().ok()) else {
                failed += 1;
                continue;
            };
            let _ = writeln!(text, "Id={name}");
            UNIT.iter().for_each(|key| write_property(&mut text, &properties, key));
            let state = properties.get("ActiveState").map(shown);
            let runs = matches!(state.as_deref(), Some("active" | "activating" | "reloading" | "deactivating"));
            if runs && name.ends_with(".service") {
                self.processes(&mut text, path);
            }
            text.push('\n');
        }
        (text, 0, failed)
    }

    /// Whether a unit that is not active never was.
    fn never_ran(&self, path: &str) -> bool {
        let began = self.one(path, "Unit", "InactiveExitTimestampMonotonic");
        began.is_ok_and(|stamp| matches!(*stamp, Value::U64(0)))
    }

    /// Which processes of a service's are whose.
    fn processes(&self, text: &mut String, path: &str) {
        for property in ["ControlGroup", "MainPID"] {
            if let Ok(value) = self.one(path, "Service", property) {
                let _ = writeln!(text, "{property}={}", shown(&value));
            }
        }
    }
}

fn write_property(text: &mut String, properties: &Properties<'_>, key: &str) {
    if let Some(value) = properties.get(key) {
        let _ = writeln!(text, "{key}={}", shown(value));
    }
}

/// A value in one line, as `systemctl show` prints it.
fn shown(value: &Value<'_>) -> String {
    let line = |text: &str| text.replace(['\n', '\r'], " ");
    match value {
        Value::Str(text) => line(text),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::I32(number) => number.to_string(),
        Value::Array(all) => {
            let words = all.iter().filter_map(|one| if let Value::Str(text) = one { Some(line(text)) } else { None });
            words.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
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
