//! Queries systemd over D-Bus.

use super::{BUS, MANAGER, MANAGER_STAMP, UNIT};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};
use zbus::blocking::Connection;
use zbus::blocking::connection::Builder;
use zbus::message::Body;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

const NAME: &str = "org.freedesktop.systemd1";
/// A limit that exceeds the units of any machine.
const MAX_UNITS: usize = 20_000;
/// The number of units queried at once: systemd answers several each time it wakes up.
const PARALLEL_QUERIES: usize = 16;
/// The longest time that a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The manager's state, in the format of `systemctl show`.
pub(super) fn manager() -> zbus::Result<String> {
    Systemd::connect()?.manager()
}

/// The state of all units, in the same format, and an error if some units are missing.
///
/// # Errors
/// If there is no bus.
pub(super) fn units(until: Instant) -> zbus::Result<(String, Result<(), String>)> {
    let systemd = Systemd::connect()?;
    let mut text = String::new();
    let outcome = systemd.units(&mut text, until);
    Ok((text, outcome))
}

/// A connection to systemd.
struct Systemd(Connection);

type Properties<'a> = HashMap<&'a str, Value<'a>>;
/// A row of `ListUnits`: name, description, load, active and sub state, followed unit, path, job, the job's kind and
/// path.
type Row = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

impl Systemd {
    /// The manager's block of properties.
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
        Builder::address(BUS)?.method_timeout(CALL_TIMEOUT).build().map(Systemd)
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
        // A unit that others name but that does not exist was never started.
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.2 != "not-found").take(MAX_UNITS).collect();
        // Several queries at once: a call mostly waits for the bus.
        let parts = rows.chunks(rows.len().div_ceil(PARALLEL_QUERIES).max(1));
        let (mut late, mut failed) = (0, 0);
        thread::scope(|scope| {
            let queries: Vec<_> = parts.map(|part| scope.spawn(move || self.part(part, until))).collect();
            for query in queries {
                let Ok((part_text, part_late, part_failed)) = query.join() else { continue };
                text.push_str(&part_text);
                (late, failed) = (late + part_late, failed + part_failed);
            }
        });
        match (late, failed) {
            (0, 0) => Ok(()),
            (0, failed) => Err(format!("{failed} of {} did not answer", rows.len())),
            (late, _) => Err(format!("{late} of {} were not asked for want of time", rows.len())),
        }
    }

    /// Some of the units: their state, the number of units not queried, and the number that did not answer.
    fn part(&self, rows: &[Row], until: Instant) -> (String, usize, usize) {
        let (mut text, mut failed) = (String::new(), 0);
        for (done, (name, _, load, state, sub, _, path, ..)) in rows.iter().enumerate() {
            if Instant::now() >= until {
                return (text, rows.len() - done, failed);
            }
            // A query for all properties of a unit costs systemd most of the time, and more than half of the units
            // never ran.
            if state == "inactive" && self.never_ran(path) {
                let _ = writeln!(text, "Id={name}\nLoadState={load}\nActiveState={state}\nSubState={sub}\n");
                continue;
            }
            // A unit may have disappeared since it was listed.
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

    /// True if an inactive unit never was active.
    fn never_ran(&self, path: &str) -> bool {
        let began = self.one(path, "Unit", "InactiveExitTimestampMonotonic");
        began.is_ok_and(|stamp| matches!(*stamp, Value::U64(0)))
    }

    /// Writes the processes of a service.
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

/// A value in one line, in the format of `systemctl show`.
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
