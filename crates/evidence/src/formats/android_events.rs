//! The progress of Android's boot, from the event log that `logcat -b events` prints.
//!
//! ```text
//! 10-05 00:00:00.920   362   362 I boot_progress_start: 7003         ms of the clock that stops in sleep, since the kernel's start
//! I/boot_progress_ams_ready( 1251): 37500                            logcat -v brief
//! 02-08 23:07:01.842  1553  1653 I sf_stop_bootanim: 7852
//! 11-10 23:04:03.238   644   675 I SurfaceFlinger: Boot is finished (12473 ms)        from the main log
//! ```
//! (Android, `EventLogTags.logtags` of frameworks/base, `event.logtags` of frameworks/native.) The wall clock may be set meanwhile, so
//! the stamp before an event is not used. Two zygotes both report their steps. If system_server is started again, its events are those of no
//! boot.

use crate::input::text::{Lines, lossy, number};
use memchr::memmem;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The name of this evidence in diagnostics.
pub(crate) const NAME: &str = "Android's event log";
/// A boot has fewer than 20.
const EVENTS_MAX: usize = 1 << 10;
const PREFIX: &[u8] = b"boot_progress_";
const FIRST: &str = "boot_progress_start";
const SYSTEM: &str = "boot_progress_system_run";
/// Events at which the user sees the first screen, the better one last.
const SHOWN: [&str; 3] = ["boot_progress_enable_screen", "sf_stop_bootanim", "wm_boot_animation_done"];
const FINISHED: &[u8] = b"Boot is finished (";

/// An event, and its time since the kernel's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub name: String,
    pub at: Ns,
}

/// The events of one boot, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub events: Vec<Event>,
    is_later_boot: bool,
}

/// Reads an event of a boot out of a line.
pub(crate) fn event(line: &[u8]) -> Option<Event> {
    let ms = |text: &[u8]| {
        let (ms, rest) = number(text)?;
        let is_end = rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || b"],".contains(byte));
        let ns = i64::try_from(ms).ok()?.checked_mul(1_000_000).filter(|ns| *ns < i64::MAX / 4)?;
        is_end.then_some(Ns(ns))
    };
    if let Some(at) = memmem::find(line, FINISHED).filter(|_| memmem::find(line, b"SurfaceFlinger").is_some()) {
        return Some(Event { name: SHOWN[1].to_owned(), at: ms(&line[at + FINISHED.len()..])? });
    }
    let start = [PREFIX, SHOWN[1].as_bytes(), SHOWN[2].as_bytes()].iter().find_map(|tag| memmem::find(line, tag))?;
    let is_word = start == 0 || line[start - 1].is_ascii_whitespace() || line[start - 1] == b'/';
    let length = line[start..].iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
    let name = &line[start..start + length];
    let mut rest = line[start + length..].trim_ascii_start();
    if let Some(process) = rest.strip_prefix(b"(") {
        let (_, after) = number(process.trim_ascii_start())?;
        rest = after.strip_prefix(b")")?;
    }
    let value = rest.strip_prefix(b":")?.trim_ascii_start();
    let at = ms(value.strip_prefix(b"[").unwrap_or(value))?;
    is_word.then(|| Event { name: lossy(name).into_owned(), at })
}

impl Events {
    /// Reads the first boot of a text; other lines are skipped.
    pub(crate) fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        for line in Lines::new(bytes) {
            let Some(event) = event(line.bytes) else { continue };
            let place = || format!("{file}:{}", line.number);
            let is_known = |name: &str| self.events.iter().any(|event| event.name == name);
            // Both zygotes start before the system server runs.
            self.is_later_boot |= is_known(SYSTEM) && [FIRST, SYSTEM].contains(&&*event.name);
            if self.is_later_boot {
                diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, place);
            } else if self.events.len() == EVENTS_MAX {
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            } else {
                self.events.push(event);
            }
        }
        self.events.sort_by_key(|event| event.at);
    }

    /// The time at which the boot was done, and true if an event says so.
    pub(crate) fn end(&self) -> Option<(Ns, bool)> {
        let shown = SHOWN.iter().rev().find_map(|name| self.events.iter().find(|event| event.name == *name));
        shown.map(|event| (event.at, true)).or_else(|| Some((self.events.last()?.at, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_every_form_of_logcat() {
        for (line, name, ms) in [
            ("10-05 00:00:00.920   362   362 I boot_progress_start: 7003", FIRST, 7003),
            ("41:02-28 14:20:04.406203   535   535 I boot_progress_start: 11159", FIRST, 11_159),
            ("I/boot_progress_system_run( 1251): 37500", SYSTEM, 37_500),
            ("I/boot_progress_system_run(  12): [37500]", SYSTEM, 37_500),
            ("boot_progress_system_run: 5725 // comment", SYSTEM, 5725),
            ("11-10 23:04:03.237   644   675 I sf_stop_bootanim: 12473", SHOWN[1], 12_473),
            ("12-23 11:03:15.260   553   553 I SurfaceFlinger: Boot is finished (7852 ms)", SHOWN[1], 7852),
        ] {
            assert_eq!(event(line.as_bytes()), Some(Event { name: name.to_owned(), at: Ns::from_ms(ms) }), "{line}");
        }
        for other in
            ["KEY=\"boot_progress_start:_\"", "boot_progress_start", "my_boot_progress_start: 1", "boot_progress_x: 1a"]
        {
            assert_eq!(event(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_second_boot_is_counted_and_two_zygotes_are_one_boot() {
        let text = "boot_progress_start: 1\nboot_progress_start: 2\nboot_progress_system_run: 5\nboot_progress_ams_ready: 4\n\
                    boot_progress_start: 900\nboot_progress_enable_screen: 990\n";
        let (mut events, mut diagnostics) = (Events::default(), Diagnostics::default());
        events.read("e", text.as_bytes(), &mut diagnostics);
        assert_eq!((events.events.len(), events.end()), (4, Some((Ns::from_ms(5), false))));
        assert_eq!(diagnostics.count(DiagnosticKind::SecondStatement), 2);
    }
}
