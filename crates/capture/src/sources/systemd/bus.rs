//! systemd asked over D-Bus.

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
/// More units than any machine has.
const UNITS_MAX: usize = 20_000;
/// So many units are asked at once: systemd answers several whenever it wakes up.
const AT_ONCE: usize = 16;
/// A call that takes longer is not answered any more.
const CALL: Duration = Duration::from_secs(5);

/// What it says of itself, as `systemctl show` prints it.
pub(super) fn manager() -> zbus::Result<String> {
    Systemd::connect()?.manager()
}

/// What it says of all units, likewise, and which of them it did not.
///
/// # Errors
/// If there is no bus.
pub(super) fn units(until: Instant) -> zbus::Result<(String, Result<(), String>)> {
    let systemd = Systemd::connect()?;
    let mut text = String::new();
    let outcome = systemd.units(&mut text, until);
    Ok((text, outcome))
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
