//! Messages of Android's init in the kernel's log: the actions that it runs, their commands, and the services that it
//! starts.
//!
//! ```text
//! init: processing action (early-init) from (/system/etc/init/hw/init.rc:15)        until the next one; no file if old
//! init: Command 'mount_all /fstab' action=fs (/init.rc:12) took 31760ms and succeeded  only if it took 50 ms or failed
//! init: Command 'start ueventd' action=early-init (/init.rc:30) returned 0 took 127.725ms.  the same in Android 8
//! init: starting service 'vold'...                                 Android 7: `Starting`
//! init: ... started service 'vold' has pid 156                     since Android 13
//! init: Service 'bpfloader' (pid 383) exited with status 0 waiting took 0.439000 seconds    init waited for it
//! init: Service 'aconfigd' (pid 400) exited with status 0 oneshot service took 0.039000 seconds in background
//! ```
//! (Android, `system/core/init/action.cpp`, `builtins.cpp`, `service.cpp`.) A service becomes a unit. It counts as
//! active when init has started it. If its message shows that the service is meant to end, it counts as active when it
//! has ended. A service that ended is a track with a span, created by init. A command is a span on init's track, inside
//! its action. The length of an action is not logged: it lasts at least until init's last message in it.
//!
//! printk may drop messages of init (`output lines suppressed due to ratelimiting`); these are missing.

use crate::boot::Placing;
use crate::formats::systemd_words::UNITS_MAX;
use crate::input::text::shorten;
use hashbrown::HashMap;
use timeline::{Manager, NameId, Ns, ServiceUnit, SpanKind, SpanRow, Timeline, TrackId, TrackKind, Wait, WaitedOn};

/// The lowest number of a service's track. No process has such a number.
const FIRST_ID: u64 = 1 << 41;
/// The longest time that a command can take.
const SECONDS_MAX: f64 = 1e6;

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Message<'a> {
    Action(&'a str),
    Command {
        command: &'a str,
        action: &'a str,
        took: Ns,
    },
    Starting(&'a str),
    Started {
        service: &'a str,
        pid: Option<u64>,
    },
    Ended {
        service: &'a str,
        failed: bool,
        ends: bool,
        waited: bool,
    },
    /// Another message of init.
    Other,
}

/// The content of init's message, which follows its name and a vendor's prefix, if there is one.
fn parse(text: &str) -> Option<Message<'_>> {
    let text = match text.starts_with('[') {
        true => text.split_once("] ")?.1.trim_start(),
        false => text,
    };
    let text = text.strip_prefix("init: ")?;
    if let Some(rest) = text.strip_prefix("processing action (") {
        let action = rest.split_once(") from (").map_or_else(|| rest.strip_suffix(')'), |(action, _)| Some(action));
        return Some(action.map_or(Message::Other, Message::Action));
    }
    if let Some(rest) = text.strip_prefix("Command '") {
        return Some(command(rest).unwrap_or(Message::Other));
    }
    if let Some(rest) = text.strip_prefix("starting service '").or_else(|| text.strip_prefix("Starting service '")) {
        return Some(rest.strip_suffix("'...").map_or(Message::Other, Message::Starting));
    }
    if let Some(rest) = text.strip_prefix("... started service '") {
        let Some((service, pid)) = rest.rsplit_once("' has pid ") else { return Some(Message::Other) };
        return Some(Message::Started { service, pid: pid.trim().parse().ok() });
    }
    let Some(rest) = text.strip_prefix("Service '") else { return Some(Message::Other) };
    let Some((service, rest)) = rest.split_once("' (pid ") else { return Some(Message::Other) };
    let status = rest.split_once(") exited with status ").map(|(_, status)| status);
    let killed = rest.contains(") received signal ") || rest.contains(") killed by signal ");
    if status.is_none() && !killed {
        return Some(Message::Other);
    }
    let failed = status.is_none_or(|status| status.split(' ').next() != Some("0"));
    let waited = rest.contains(" waiting took ");
    let ends = waited || rest.contains(" oneshot service took ") || service.starts_with("exec ");
    Some(Message::Ended { service, failed, ends, waited })
}

/// Reads `mount_all /fstab' action=fs (/init.rc:12) took 31760ms and succeeded`.
fn command(rest: &str) -> Option<Message<'_>> {
    let (command, rest) = rest.split_once("' action=")?;
    let (before, took) = rest.rsplit_once(" took ").or_else(|| rest.split_once(" took "))?;
    let (ms, _) = took.split_once("ms")?;
    let seconds = ms.parse::<f64>().ok()? / 1e3;
    #[allow(clippy::cast_possible_truncation)] // It is in range.
    let took = (0.0..SECONDS_MAX).contains(&seconds).then(|| Ns((seconds * 1e9).round() as i64))?;
    let action = before.rsplit_once(" (").map_or(before, |(action, _)| action);
    Some(Message::Command { command, action, took })
}

/// A service that init began to start.
struct Service {
    unit: usize,
    start: Ns,
    is_over: bool,
}

/// The action that is running.
struct Action {
    name: NameId,
    from: Ns,
    until: Ns,
}

/// The state of init after the messages so far.
struct Init {
    track: TrackId,
    services: HashMap<NameId, Service>,
    action: Option<Action>,
    /// The end of the last span on its track.
    busy_until: Ns,
    /// True if it logs when a service was started.
    logs_started: bool,
    tracks: u64,
}

/// Places init's messages on a boot's timeline. They must be in order of time.
pub(crate) fn place<'m>(messages: impl Iterator<Item = (Ns, &'m str)>, boot: &mut Placing<'_>) {
    let mut init: Option<Init> = None;
    for (at, text) in messages {
        let Some(message) = parse(text) else { continue };
        // Process 1 of other systems may have the same name. It is Android's after the first message that only
        // Android's init prints.
        if init.is_none() && message != Message::Other {
            init = Some(Init::begin(at, boot));
        }
        if let Some(init) = &mut init {
            init.handle(at, message, &mut boot.timeline);
        }
    }
    if let Some(init) = init {
        init.finish(&mut boot.timeline);
    }
}

impl Init {
    fn begin(at: Ns, boot: &mut Placing<'_>) -> Init {
        let first = boot.first_thread();
        let known = boot.init.filter(|init| *init != first);
        let timeline = &mut boot.timeline;
        let track = known.or_else(|| timeline.tracks.find(TrackKind::Thread, 1)).unwrap_or_else(|| {
            let name = timeline.names.intern("init");
            timeline.tracks.add(name, TrackKind::Thread, 1)
        });
        timeline.tracks.get_mut(track).created.get_or_insert((at, first));
        boot.init = Some(track);
        let (services, action) = (HashMap::new(), None);
        Init { track, services, action, busy_until: Ns::MIN, logs_started: false, tracks: 0 }
    }

    fn handle(&mut self, at: Ns, message: Message<'_>, timeline: &mut Timeline) {
        if let Some(action) = self.action.as_mut().filter(|_| !matches!(message, Message::Action(_))) {
            action.until = action.until.max(at);
        }
        match message {
            Message::Action(name) => {
                self.end_action(at, timeline);
                self.action = Some(Action { name: timeline.names.intern(&shorten(name)), from: at, until: at });
            }
            Message::Command { command, action, took } => {
                // The length is in whole ms, and the message was printed a little later.
                let from = self.action.as_ref().map_or(self.busy_until, |action| action.from.max(self.busy_until));
                let start = (at - took).max(from);
                if start < at {
                    let (name, detail) =
                        (timeline.names.intern(&shorten(command)), timeline.names.intern(&shorten(action)));
                    let (track, kind) = (self.track, SpanKind::Work);
                    timeline.spans.push(SpanRow { name, detail, start, end: at, track, kind }, None);
                    self.busy_until = at;
                }
            }
            Message::Starting(service) => self.starting(at, service, timeline),
            Message::Started { service, pid } => {
                self.logs_started = true;
                if let Some(unit) = self.known(service, timeline) {
                    timeline.units[unit].settled.get_or_insert(at);
                    timeline.units[unit].main_pid = pid;
                }
            }
            Message::Ended { service, failed, ends, waited } => self.ended(at, service, failed, ends, waited, timeline),
            Message::Other => {}
        }
    }

    fn known(&self, service: &str, timeline: &mut Timeline) -> Option<usize> {
        let name = timeline.names.intern(&shorten(service));
        self.services.get(&name).map(|service| service.unit)
    }

    fn starting(&mut self, at: Ns, service: &str, timeline: &mut Timeline) {
        if timeline.units.len() >= UNITS_MAX {
            return;
        }
        let name = timeline.names.intern(&shorten(service));
        let unit = timeline.units.len();
        timeline.units.push(ServiceUnit { name, start: Some(at), ..ServiceUnit::default() });
        timeline.unit_managers.insert(name, Manager::Android);
        self.services.insert(name, Service { unit, start: at, is_over: false });
    }

    fn ended(&mut self, at: Ns, service: &str, failed: bool, ends: bool, waited: bool, timeline: &mut Timeline) {
        let name = timeline.names.intern(&shorten(service));
        let Some(known) = self.services.get_mut(&name).filter(|known| !known.is_over) else { return };
        known.is_over = true;
        let (start, unit) = (known.start, &mut timeline.units[known.unit]);
        if ends || unit.settled.is_none() {
            (unit.settled, unit.failed) = (Some(at), failed);
        }
        let track = timeline.tracks.add(name, TrackKind::Thread, FIRST_ID + self.tracks);
        self.tracks += 1;
        timeline.tracks.get_mut(track).created = Some((start, self.track));
        if start < at {
            let (detail, kind) = (NameId::EMPTY, SpanKind::Process);
            timeline.spans.push(SpanRow { name, detail, start, end: at, track, kind }, None);
            if waited {
                let by = WaitedOn::Thread(track);
                timeline.waits.push(Wait {
                    track: self.track,
                    from: start,
                    woken: at,
                    until: at,
                    by,
                    uninterruptible: false,
                });
            }
        }
    }

    fn end_action(&mut self, at: Ns, timeline: &mut Timeline) {
        let Some(action) = self.action.take() else { return };
        let (start, end) = (action.from, action.until.min(at));
        if start < end {
            let (name, detail, kind) = (timeline.names.intern("action"), action.name, SpanKind::Stage);
            timeline.spans.push(SpanRow { name, detail, start, end, track: self.track, kind }, None);
        }
        self.busy_until = self.busy_until.max(end);
    }

    /// If init does not log when services were started, they count as active from the time when it began to start them.
    fn finish(mut self, timeline: &mut Timeline) {
        self.end_action(Ns::MAX, timeline);
        if !self.logs_started {
            for service in self.services.values() {
                let unit = &mut timeline.units[service.unit];
                unit.settled = unit.settled.or(unit.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_each_android_are_read() {
        let ms = Ns::from_ms;
        let cases = [
            ("init: processing action (early-init)", Message::Action("early-init")),
            ("init: processing action (a=* && (b)) from (/x.rc:4)", Message::Action("a=* && (b)")),
            ("[6:           init:    1] init: processing action (fs) from (<Builtin Action>:0)", Message::Action("fs")),
            (
                "init: Command 'mount_all /f' action=fs (/i.rc:12) took 31760ms and succeeded",
                Message::Command { command: "mount_all /f", action: "fs", took: ms(31_760) },
            ),
            (
                "init: Command 'start ueventd' action=early-init (/init.rc:30) returned 0 took 127.5ms.",
                Message::Command { command: "start ueventd", action: "early-init", took: Ns::from_us(127_500) },
            ),
            ("init: starting service 'exec 1 (/system/bin/vdc x)'...", Message::Starting("exec 1 (/system/bin/vdc x)")),
            ("init: Starting service 'drm'...", Message::Starting("drm")),
            ("init: ... started service 'vold' has pid 156", Message::Started { service: "vold", pid: Some(156) }),
            (
                "init: Service 'bpfloader' (pid 383) exited with status 0 waiting took 0.439000 seconds",
                Message::Ended { service: "bpfloader", failed: false, ends: true, waited: true },
            ),
            (
                "init: Service 'zygote' (pid 7) received signal 6",
                Message::Ended { service: "zygote", failed: true, ends: false, waited: false },
            ),
            ("init: Command 'x' action=y took -1ms and", Message::Other),
            ("init: Command 'x' action=y took 1e300ms and", Message::Other),
            ("init: Service 'x' (pid ", Message::Other),
            ("init: hello", Message::Other),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        assert_eq!((parse("systemd[1]: x"), parse("[init: x"), parse("")), (None, None, None));
    }
}
