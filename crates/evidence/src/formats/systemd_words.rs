//! systemd's messages in the kernel's log, if it logs there (`systemd.log_target=kmsg`): its start, the units that it
//! started, and the targets that it reached.
//!
//! They follow systemd's src/core/main.c and src/core/job.c. Depending on its option `status_unit_format`, it prints a
//! unit's name, its description, or both. The systemd of an initrd prints the same messages, about units with the same
//! names.

use hashbrown::{HashMap, HashSet};
use timeline::{DiagnosticKind, NameId, Ns, Phase, ServiceUnit, Timeline};

/// The beginning of systemd's messages.
const SAYS: &str = "systemd[1]: ";
/// Largest number of units kept: no machine has more.
pub(crate) const UNITS_MAX: usize = 100_000;

/// The beginning of the message with systemd's version.
pub(crate) const BEGINS: &str = "systemd[1]: systemd ";

/// The beginning of the message that the boot is done.
pub(crate) const FINISHED: &str = "systemd[1]: Startup finished in ";

/// Targets that many units wait for, and the phase that begins when each is reached.
pub(crate) const MILESTONES: [(&str, Phase); 3] = [
    ("sysinit.target", Phase::AfterSysinit),
    ("basic.target", Phase::AfterBasic),
    ("multi-user.target", Phase::AfterMultiUser),
];

/// The targets that a machine usually boots to.
pub(crate) const DEFAULT_TARGETS: [&str; 2] = ["multi-user.target", "graphical.target"];

/// The descriptions of these targets, for a systemd that prints only those.
const DESCRIBED: [(&str, &str); 4] = [
    ("Graphical Interface", "graphical.target"),
    ("System Initialization", "sysinit.target"),
    ("Basic System", "basic.target"),
    ("Multi-User System", "multi-user.target"),
];

/// The change of a unit that a message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    Starting,
    Active,
    Failed,
}

/// The beginning of each kind of message; the unit follows.
const WORDS: [(&str, Becomes); 24] = [
    ("Starting ", Becomes::Starting),
    ("Mounting ", Becomes::Starting),
    ("Activating swap ", Becomes::Starting),
    ("Expecting device ", Becomes::Starting),
    ("Started ", Becomes::Active),
    ("Finished ", Becomes::Active),
    ("Mounted ", Becomes::Active),
    ("Activated swap ", Becomes::Active),
    ("Found device ", Becomes::Active),
    ("Reached target ", Becomes::Active),
    ("Listening on ", Becomes::Active),
    ("Set up automount ", Becomes::Active),
    ("Created slice ", Becomes::Active),
    ("Failed to start ", Becomes::Failed),
    ("Failed to mount ", Becomes::Failed),
    ("Failed to activate swap ", Becomes::Failed),
    ("Failed to listen on ", Becomes::Failed),
    ("Failed to set up automount ", Becomes::Failed),
    ("Dependency failed for ", Becomes::Failed),
    ("Assertion failed for ", Becomes::Failed),
    ("Timed out waiting for device ", Becomes::Failed),
    ("Timed out starting ", Becomes::Failed),
    ("Timed out mounting ", Becomes::Failed),
    ("Timed out activating swap ", Becomes::Failed),
];

/// The unit that a message is about, and its change. If systemd prints only descriptions, it is the unit's description.
fn about(text: &str) -> Option<(&str, Becomes)> {
    of_message(text.strip_prefix(SAYS)?)
}

/// The same for a message without its prefix.
fn of_message(text: &str) -> Option<(&str, Becomes)> {
    let (unit, becomes) = WORDS.iter().find_map(|&(word, becomes)| Some((text.strip_prefix(word)?, becomes)))?;
    Some((unit.split_once(" - ").map_or_else(|| unit.trim_end_matches('.'), |(name, _)| name), becomes))
}

/// The name of the unit in a message, and its change.
fn unit(text: &str) -> Option<(&str, Becomes)> {
    about(text).filter(|(unit, _)| recording::is_unit_name(unit))
}

/// The same for the text of a message that is known to be systemd's. If it has only the unit's description, that is the unit's name.
pub(crate) fn said_of_unit(message: &str) -> Option<(&str, Becomes)> {
    let (unit, becomes) = of_message(message).filter(|(unit, _)| !unit.is_empty())?;
    Some((described(unit), becomes))
}

/// The name of a target of which systemd printed the description.
fn described(unit: &str) -> &str {
    DESCRIBED.iter().find(|(described, _)| *described == unit).map_or(unit, |(_, name)| name)
}

/// The name of the target that a message reports as reached.
pub(crate) fn reached(text: &str) -> Option<&str> {
    let (unit, becomes) = about(text)?;
    let is_target = text[SAYS.len()..].starts_with("Reached target ") && becomes == Becomes::Active;
    is_target.then(|| described(unit))
}

/// systemd's process 1 writes at most this number of messages into the kernel's log in [`LIMIT_INTERVAL`], and drops
/// further ones silently. Since version 254 the limit can be turned off (its src/basic/log.c).
const LIMIT: u32 = 200;
const LIMIT_INTERVAL: Ns = Ns::from_ms(5000);
/// Its message before it drops messages, from that version on.
const DROPS: &str = "systemd[1]: Too many messages being logged to kmsg";

/// Counts messages as systemd does for its limit.
#[derive(Default)]
struct Limit {
    since: Option<Ns>,
    messages: u32,
    reached: u64,
}

impl Limit {
    fn message(&mut self, at: Ns, text: &str) {
        if !text.starts_with(SAYS) {
            return;
        }
        if text.starts_with(BEGINS) || self.since.is_none_or(|since| at - since > LIMIT_INTERVAL) {
            self.end();
            (self.since, self.messages) = (Some(at), 0);
        }
        self.messages += 1;
        if text.starts_with(DROPS) {
            self.messages = LIMIT;
        }
    }

    /// Ends an interval. Exactly [`LIMIT`] messages mean that the limit was reached.
    fn end(&mut self) {
        self.reached += u64::from(self.messages == LIMIT);
        self.messages = 0;
    }
}

/// Beginnings of the messages in which it says that it is the initrd's.
const IN_INITRD: [&str; 2] = ["systemd[1]: Running in initrd", "systemd[1]: Running in initial RAM disk"];
/// The prefix for the name of a unit of the initrd's that the root has too.
const OF_INITRD: &str = "initrd:";

/// Places the units of a log's messages on a timeline. The messages must be in order of time. The initrd's systemd and the
/// root's are two managers. A unit that both have is the root's by its name, and the initrd's has [`OF_INITRD`] before it.
pub(crate) fn units<'m>(messages: impl Iterator<Item = (Ns, &'m str)>, timeline: &mut Timeline) {
    let mut units = Units::default();
    let mut limit = Limit::default();
    let (first, mut in_initrd, mut root) = (timeline.units.len(), false, None);
    for (at, text) in messages {
        limit.message(at, text);
        if text.starts_with(BEGINS) {
            units.last.clear();
            root = root.or(in_initrd.then_some(timeline.units.len()));
        }
        in_initrd |= IN_INITRD.iter().any(|words| text.starts_with(words));
        if let Some((name, becomes)) = unit(text) {
            units.add(name, becomes, at, timeline);
        }
    }
    if let Some(root) = root {
        name_initrd_units(first, root, timeline);
    }
    limit.end();
    timeline.diagnostics.note_many(DiagnosticKind::SystemdDroppedMessages, limit.reached, String::new);
}

/// Renames the units from `first` on that the root has again, from `root` on.
fn name_initrd_units(first: usize, root: usize, timeline: &mut Timeline) {
    let of_root: HashSet<NameId> = timeline.units[root..].iter().map(|unit| unit.name).collect();
    let both: Vec<usize> = (first..root).filter(|place| of_root.contains(&timeline.units[*place].name)).collect();
    for place in both {
        let name = format!("{OF_INITRD}{}", timeline.names.get(timeline.units[place].name));
        timeline.units[place].name = timeline.names.intern(&name);
    }
}

/// Follows units through consecutive messages.
#[derive(Default)]
pub(crate) struct Units {
    /// The index of the latest unit of each name.
    last: HashMap<NameId, usize>,
}

impl Units {
    /// Continues after the units of a timeline.
    pub(crate) fn of(timeline: &Timeline) -> Units {
        Units { last: timeline.units.iter().enumerate().map(|(place, unit)| (unit.name, place)).collect() }
    }

    /// Adds a message that a unit begins to start, or that its start is over.
    pub(crate) fn add(&mut self, name: &str, becomes: Becomes, at: Ns, timeline: &mut Timeline) {
        if timeline.units.len() >= UNITS_MAX {
            return;
        }
        let name = timeline.names.intern(name);
        let known = self.last.get(&name).copied().filter(|_| becomes != Becomes::Starting);
        let known = known.filter(|&known| timeline.units[known].settled.is_none());
        let place = known.unwrap_or_else(|| {
            let start = (becomes == Becomes::Starting).then_some(at);
            timeline.units.push(ServiceUnit { name, start, ..ServiceUnit::default() });
            timeline.units.len() - 1
        });
        self.last.insert(name, place);
        if becomes != Becomes::Starting {
            let unit = &mut timeline.units[place];
            (unit.settled, unit.failed) = (Some(at), becomes == Becomes::Failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::TimeBase;

    /// The number of times that the limit was reached, with `count` messages, one per ms, and then the message `last`.
    fn limited(count: i64, last: &str) -> u64 {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let messages = (0..count).map(|ms| (Ns::from_ms(ms), "systemd[1]: Starting a.service..."));
        let others = (0..300).map(|ms| (Ns::from_ms(ms), "systemd-udevd[7]: Starting up"));
        units(messages.chain(others).chain([(Ns::from_ms(7000), last)]), &mut timeline);
        timeline.diagnostics.count(DiagnosticKind::SystemdDroppedMessages)
    }

    #[test]
    fn intervals_with_dropped_messages_are_counted() {
        let next = "systemd[1]: Started a.service.";
        assert_eq!([199, 200, 201].map(|count| limited(count, next)), [0, 1, 0]);
        assert_eq!(limited(200, "systemd[1]: systemd 252 running in system mode"), 1);
        assert_eq!(limited(20, "systemd[1]: Too many messages being logged to kmsg, ignoring"), 1);
    }

    #[test]
    fn a_unit_of_both_managers_is_the_root_s_by_its_name() {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let messages = [
            "systemd[1]: systemd 252 running in system mode",
            "systemd[1]: Running in initrd.",
            "systemd[1]: Reached target sysinit.target - System Initialization.",
            "systemd[1]: Reached target initrd.target - Initrd Default Target.",
            "systemd[1]: systemd 252 running in system mode",
            "systemd[1]: Reached target sysinit.target - System Initialization.",
        ];
        units((0..).map(Ns::from_ms).zip(messages), &mut timeline);
        let found: Vec<_> = timeline
            .units
            .iter()
            .map(|unit| (timeline.names.get(unit.name), unit.settled.unwrap().0 / 1_000_000))
            .collect();
        assert_eq!(found, [("initrd:sysinit.target", 2), ("initrd.target", 3), ("sysinit.target", 5)]);
    }

    #[test]
    fn a_target_is_recognised_in_each_form() {
        for text in ["basic.target - Basic System.", "basic.target.", "Basic System."] {
            assert_eq!(reached(&format!("systemd[1]: Reached target {text}")), Some("basic.target"), "{text}");
        }
        assert_eq!(reached("systemd[1]: Reached target swap.target - Swaps."), Some("swap.target"));
        assert_eq!(reached("systemd[1]: Started cron.service - cron."), None);
        assert_eq!(reached("Reached target Basic System."), None);
    }

    #[test]
    fn units_start_settle_and_start_again() {
        let log = [
            (1, "systemd[1]: Starting a.service - A, and more..."),
            (2, "systemd[1]: Mounting tmp.mount - /tmp..."),
            (3, "systemd[1]: a.service: Deactivated successfully."),
            (4, "systemd[1]: Finished a.service - A, and more."),
            (5, "systemd[1]: Reached target x.target - X."),
            (6, "cron[77]: Started nothing."),
            (7, "systemd[1]: Failed to mount tmp.mount - /tmp."),
            (8, "systemd[1]: Starting a.service - A, and more..."),
            (9, "systemd[1]: systemd 252 running in system mode (+PAM)"),
            (10, "systemd[1]: Starting a.service - A, and more..."),
            (11, "systemd[1]: Dependency failed for a.service - A, and more."),
            (12, "systemd[1]: Starting of Arbitrary Executable unsupported."),
        ];
        let mut timeline = Timeline::default();
        units(log.iter().map(|&(at, text)| (Ns(at), text)), &mut timeline);
        let found: Vec<_> = timeline
            .units
            .iter()
            .map(|unit| (timeline.names.get(unit.name), unit.start, unit.settled, unit.failed))
            .collect();
        let at = |at| Some(Ns(at));
        let expected = [
            ("a.service", at(1), at(4), false),
            ("tmp.mount", at(2), at(7), true),
            ("x.target", None, at(5), false),
            ("a.service", at(8), None, false),
            ("a.service", at(10), at(11), true),
        ];
        assert_eq!(found, expected);
    }
}
