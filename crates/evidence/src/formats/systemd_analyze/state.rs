//! The state of systemd and of each unit: as `systemctl show '*'` and `systemctl show` print it, as
//! `systemd-analyze dump` does, or as `bootscope capture` requests it over D-Bus.
//!
//! ```text
//! UserspaceTimestampMonotonic=2022733            show: the manager, whose block has no Id
//! FinishTimestampMonotonic=12954211
//!
//! Id=ssh.service                                 a unit in each block; a blank line ends it
//! Names=ssh.service sshd.service
//! After=network.target basic.target
//! InactiveExitTimestampMonotonic=11803214        µs of CLOCK_MONOTONIC; 0: never
//!
//! Manager: systemd 252 (252.39-1~deb12u2)        dump
//! Timestamp userspace: Tue 2026-11-24 13:31:32 UTC
//! -> Unit ssh.service:
//!     Inactive Exit Timestamp: Tue 2026-11-24 13:32:41 UTC
//!     After: network.target (origin-file)
//! ```
//! (systemd's sources, `src/core/dbus-manager.c`, `dbus-unit.c`, `manager-dump.c`, `unit-serialize.c`; org.freedesktop.systemd1(5).) The
//! manager's stamps of firmware and loader say how long before the kernel each began. A dump has whole seconds of the wall clock,
//! so its units may be a second off.
//!
//! It reads one line at a time and keeps names of the units alone. It must not decide what a unit's times mean for the boot.

use super::line::NAME_MAX;
use super::wall;
use crate::formats::systemd_span::span;
use crate::input::text::{lossy, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// More units than any machine has, and more names in one order.
const UNITS_MAX: usize = 1 << 16;
const NAMES_MAX: usize = 1 << 12;
/// Names in all orders together: as many as a hundred for each of twenty thousand units.
const ALL_NAMES_MAX: usize = 1 << 21;

/// A stamp on the manager's clock; `None` if the event never happened.
pub(crate) type Stamp = Option<Ns>;

/// Stretches that the manager stamps of its own work, by the words of its properties, and what they are called.
pub(crate) const WORK: [(&str, &str, &str); 3] = [
    ("SecurityStart", "SecurityFinish", "set up security"),
    ("GeneratorsStart", "GeneratorsFinish", "run generators"),
    ("UnitsLoadStart", "UnitsLoadFinish", "load units"),
];

/// The manager's own properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manager {
    /// The time from the start of the firmware to that of the kernel.
    pub firmware: Stamp,
    /// The time from the start of the loader to that of the kernel.
    pub loader: Stamp,
    /// The start of the initrd's systemd.
    pub initrd: Stamp,
    /// The start of the root's systemd.
    pub userspace: Stamp,
    /// The end of its first transaction.
    pub finish: Stamp,
    /// Start and end of each part of [`WORK`].
    pub work: [(Stamp, Stamp); 3],
    /// True if it runs in a container, whose kernel it did not see start.
    pub is_contained: bool,
}

/// The properties of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// The last time that it began to start.
    pub inactive_exit: Stamp,
    /// The last time that it became active.
    pub active_enter: Stamp,
    /// The last time that it became inactive.
    pub inactive_enter: Stamp,
    pub failed: bool,
    /// Units that it is ordered after.
    pub after: Vec<String>,
    /// Units that it requires, binds to, or needs to be there.
    pub requires: Vec<String>,
    pub wants: Vec<String>,
    /// Its main process.
    pub main_pid: Option<u64>,
    /// The control group of its processes.
    pub control_group: String,
}

/// The properties of the manager and of all units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub manager: Manager,
    /// In the order of the text.
    pub units: Vec<Unit>,
}

/// The kind of the text that the next line belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// The properties of one object; the unit so far.
    #[default]
    Show,
    /// A dump, of which this many seconds of the wall clock are the kernel's zero.
    Dump { zero: Option<i64> },
}

/// Reads texts, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reader {
    /// The state from `systemctl show`, with exact stamps.
    pub exact: State,
    /// The state from a dump, with stamps in whole seconds.
    pub wall: State,
    within: Within,
    unit: Unit,
    names: usize,
}

/// True if a line is certainly of such a text.
pub(crate) fn is_line(line: &[u8]) -> bool {
    if line.starts_with(b"-> Unit ") || line.starts_with(b"Timestamp ") && dump_manager(line).is_some() {
        return true;
    }
    const SURE: [&[u8]; 6] = [
        b"InactiveExitTimestampMonotonic",
        b"ActiveEnterTimestampMonotonic",
        b"UserspaceTimestampMonotonic",
        b"FinishTimestampMonotonic",
        b"FirmwareTimestampMonotonic",
        b"LoaderTimestampMonotonic",
    ];
    let Some((key, value)) = property(line) else { return false };
    SURE.contains(&key) && whole_number(value).is_some()
}

/// `Key=Value`
fn property(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', &line[..line.len().min(64)])?;
    let (key, value) = (&line[..equals], &line[equals + 1..]);
    (!key.is_empty() && key.iter().all(u8::is_ascii_alphanumeric)).then_some((key, value))
}

/// `Timestamp kernel: Tue 2026-11-24 13:30:55 UTC`
fn dump_manager(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.trim_ascii_start().strip_prefix(b"Timestamp ")?;
    let colon = memchr::memmem::find(rest, b": ")?;
    let (what, when) = (&rest[..colon], &rest[colon + 2..]);
    (wall::seconds(when).is_some() || span(when).is_some()).then_some((what, when))
}

/// µs of the clock that does not jump; 0 and the largest number mean never.
fn monotonic(value: &[u8]) -> Stamp {
    let us = whole_number(value).filter(|us| *us > 0 && *us < u64::MAX)?;
    Some(Ns(i64::try_from(us).ok()?.checked_mul(1000)?))
}

/// A name, without the quotes that `systemctl` puts around one with a backslash.
fn name(text: &[u8]) -> String {
    let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let name = lossy(&text[..text.len().min(NAME_MAX)]).into_owned();
    quoted.map_or(name, |text| lossy(&text[..text.len().min(2 * NAME_MAX)]).replace("\\\\", "\\"))
}

impl Reader {
    /// Takes a line, if it is one of these.
    pub(crate) fn line(&mut self, line: &[u8], place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) -> bool {
        if let Some(unit) = line.strip_prefix(b"-> Unit ") {
            self.end_unit(place, diagnostics);
            self.dump();
            self.unit.name = name(unit.trim_ascii_end().strip_suffix(b":").unwrap_or(unit));
            return true;
        }
        if line.starts_with(b"-> Job ") {
            self.end_unit(place, diagnostics);
            return true;
        }
        if let Some((what, when)) = dump_manager(line) {
            self.dump();
            self.dump_stamp(what, when);
            return true;
        }
        match (&self.within, line) {
            (Within::Dump { .. }, _) => {
                let Some(text) = line.strip_prefix(b"\t") else { return false };
                let Some(colon) = memchr::memmem::find(text, b": ") else { return false };
                self.dump_property(&text[..colon], &text[colon + 2..])
            }
            (Within::Show, b"" | b"\r") => {
                self.end_unit(place, diagnostics);
                false
            }
            (Within::Show, _) => property(line).is_some_and(|(key, value)| self.show_property(key, value)),
        }
    }

    /// Ends a text and keeps its last unit.
    pub(crate) fn end(&mut self, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        self.end_unit(place, diagnostics);
        // Without the kernel's zero they are dates.
        if self.within == (Within::Dump { zero: None }) {
            (self.wall.manager.firmware, self.wall.manager.loader) = (None, None);
        }
        self.within = Within::Show;
    }

    /// True if no property was read.
    pub(crate) fn is_empty(&self) -> bool {
        let says = |state: &State| state.units.is_empty() && state.manager == Manager::default();
        says(&self.exact) && says(&self.wall)
    }

    fn dump(&mut self) {
        if matches!(self.within, Within::Show) {
            self.within = Within::Dump { zero: None };
        }
    }

    fn end_unit(&mut self, place: impl FnOnce() -> String, diagnostics: &mut Diagnostics) {
        let unit = std::mem::take(&mut self.unit);
        let state = if matches!(self.within, Within::Show) { &mut self.exact } else { &mut self.wall };
        if unit.name.is_empty() {
            return;
        }
        if state.units.len() == UNITS_MAX {
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, super::NAME, place);
            return;
        }
        state.units.push(unit);
    }

    /// Names in a list, as many as there is room for.
    fn list<'t>(names: &mut usize, into: &mut Vec<String>, list: impl Iterator<Item = &'t [u8]>) {
        let room = NAMES_MAX.saturating_sub(into.len()).min(ALL_NAMES_MAX - *names);
        let before = into.len();
        into.extend(list.filter(|text| !text.is_empty()).take(room).map(name));
        *names += into.len() - before;
    }

    fn show_property(&mut self, key: &[u8], value: &[u8]) -> bool {
        let value = value.trim_ascii();
        let (unit, manager) = (&mut self.unit, &mut self.exact.manager);
        let words = || value.split(|byte| *byte == b' ');
        match key {
            b"Id" => unit.name = name(value),
            b"Names" => Self::list(&mut self.names, &mut unit.aliases, words()),
            b"After" => Self::list(&mut self.names, &mut unit.after, words()),
            b"Requires" | b"Requisite" | b"BindsTo" => Self::list(&mut self.names, &mut unit.requires, words()),
            b"Wants" => Self::list(&mut self.names, &mut unit.wants, words()),
            b"InactiveExitTimestampMonotonic" => unit.inactive_exit = monotonic(value),
            b"ActiveEnterTimestampMonotonic" => unit.active_enter = monotonic(value),
            b"InactiveEnterTimestampMonotonic" => unit.inactive_enter = monotonic(value),
            b"ActiveState" => unit.failed = value == b"failed",
            b"MainPID" => unit.main_pid = whole_number(value).filter(|pid| *pid > 0),
            b"ControlGroup" => unit.control_group = lossy(&value[..value.len().min(4096)]).into_owned(),
            b"FirmwareTimestampMonotonic" => manager.firmware = monotonic(value),
            b"LoaderTimestampMonotonic" => manager.loader = monotonic(value),
            b"InitRDTimestampMonotonic" => manager.initrd = monotonic(value),
            b"UserspaceTimestampMonotonic" => manager.userspace = monotonic(value),
            b"FinishTimestampMonotonic" => manager.finish = monotonic(value),
            b"Virtualization" => manager.is_contained = wall::is_container(value),
            _ => return Self::work(manager, key, value),
        }
        true
    }

    fn work(manager: &mut Manager, key: &[u8], value: &[u8]) -> bool {
        let Some(stamp) = key.strip_suffix(b"TimestampMonotonic") else { return false };
        for ((start, finish, _), known) in WORK.iter().zip(&mut manager.work) {
            if stamp == start.as_bytes() {
                known.0 = monotonic(value);
                return true;
            }
            if stamp == finish.as_bytes() {
                known.1 = monotonic(value);
                return true;
            }
        }
        false
    }

    /// A stamp of the manager's in a dump: firmware and loader before the kernel, all others after it.
    fn dump_stamp(&mut self, what: &[u8], when: &[u8]) {
        let Within::Dump { zero } = &mut self.within else { return };
        let Some(seconds) = wall::seconds(when) else { return };
        if what == b"kernel" {
            *zero = Some(seconds);
        }
        // Firmware and loader stand before the kernel, so what they say is kept until its zero is known.
        let manager = &mut self.wall.manager;
        match what {
            b"firmware" => manager.firmware = Some(Ns(seconds)),
            b"loader" => manager.loader = Some(Ns(seconds)),
            b"kernel" => {
                let before = |at: Stamp| at.map(|at| wall::whole(seconds.saturating_sub(at.0)));
                (manager.firmware, manager.loader) = (before(manager.firmware), before(manager.loader));
            }
            b"initrd" => manager.initrd = wall::since(*zero, seconds),
            b"userspace" => manager.userspace = wall::since(*zero, seconds),
            b"finish" => manager.finish = wall::since(*zero, seconds),
            _ => {}
        }
    }

    fn dump_property(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Within::Dump { zero } = self.within else { return false };
        let value = value.trim_ascii();
        let stamp = || wall::seconds(value).and_then(|seconds| wall::since(zero, seconds));
        // `After: network.target (origin-file)`
        let other = || std::iter::once(value.split(|byte| *byte == b' ').next().unwrap_or_default());
        let unit = &mut self.unit;
        match key {
            b"Alias" => Self::list(&mut self.names, &mut unit.aliases, other()),
            b"After" => Self::list(&mut self.names, &mut unit.after, other()),
            b"Requires" | b"Requisite" | b"BindsTo" => Self::list(&mut self.names, &mut unit.requires, other()),
            b"Wants" => Self::list(&mut self.names, &mut unit.wants, other()),
            b"Inactive Exit Timestamp" => unit.inactive_exit = stamp(),
            b"Active Enter Timestamp" => unit.active_enter = stamp(),
            b"Inactive Enter Timestamp" => unit.inactive_enter = stamp(),
            b"Unit Active State" => unit.failed = value == b"failed",
            b"Main PID" => unit.main_pid = whole_number(value).filter(|pid| *pid > 0),
            b"CGroup" if value != b"n/a" => {
                unit.control_group = lossy(&value[..value.len().min(4096)]).into_owned();
            }
            _ => return false,
        }
        true
    }
}

impl State {
    /// The zero of its times: in a container the manager's own start.
    pub(crate) fn zero(&self) -> Ns {
        Some(&self.manager)
            .filter(|manager| manager.is_contained)
            .and_then(|manager| manager.userspace)
            .unwrap_or(Ns::ZERO)
    }
}

impl Unit {
    /// The time when its last start began, and the time when it ended: the unit was active, done or failed. The end is
    /// `None` while the start goes on.
    pub(crate) fn times(&self) -> Option<(Ns, Stamp)> {
        let start = self.inactive_exit.or(self.active_enter)?;
        let over = [self.active_enter, self.inactive_enter].into_iter().flatten().filter(|at| *at >= start).min();
        Some((start, over))
    }
}
