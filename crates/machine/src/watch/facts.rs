//! The known facts of a boot, from which [`crate::ending`] determines its end.
//!
//! This module only notes facts as they arrive, and must not judge them. Times are ns since time zero.

use std::collections::VecDeque;

use crate::awaited::{Awaited, Meaning};
use crate::hang::Hang;
use crate::lines::{Line, shown};
use crate::vmm::GuestEnd;
use recording::{End, EndMark};

/// The start of the line that reports a panic, the same in every version of Linux.
const PANIC: &[u8] = b"Kernel panic - not syncing";
const PANIC_END: &[u8] = b"end Kernel panic";
/// Begins the only line of a guest-init without a channel to the host. The reason follows, and the other words end it.
const INIT_WITHOUT_CHANNEL: &str = "bootscope: process 1 runs; ";
const NOTHING_GATHERED: &str = ", so nothing is gathered";
/// The number of the VMM's last lines that are kept for error messages.
const MAX_VMM_LINES: usize = 5;

/// An observation and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at_ns: i64,
    pub(crate) what: String,
}

/// The end of the guest and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shutdown {
    pub(crate) at_ns: i64,
    pub(crate) why: GuestEnd,
}

/// The known facts of a boot.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The VMM's name for messages to the user.
    pub(crate) vmm: &'static str,
    /// The largest error of the stamps of output.
    pub(crate) arrival_error_ns: i64,
    pub(crate) running_ns: Option<i64>,
    /// The start of guest-init as process 1.
    pub(crate) init_ns: Option<i64>,
    /// The reason why guest-init has no channel to the host.
    pub(crate) no_channel: Option<String>,
    /// The end of guest-init's work.
    pub(crate) guest_done: Option<Seen>,
    /// The end mark.
    pub(crate) matched: Option<End>,
    /// True if the end mark is a line that is not printed to its end yet.
    pub(crate) matched_line_open: bool,
    /// The failure of the awaited unit.
    pub(crate) unit_failed: Option<Seen>,
    pub(crate) panic: Option<Seen>,
    /// True if the panic's last line was printed.
    pub(crate) panic_over: bool,
    pub(crate) shutdown: Option<Shutdown>,
    pub(crate) hang: Option<Hang>,
    /// True if the VMM has ended by itself.
    pub(crate) gone: bool,
    /// The reason why the root could not be mounted.
    pub(crate) no_root: Option<String>,
    /// The reason why the workload did not run to its end.
    pub(crate) no_workload: Option<String>,
    /// The reason why a patch to the guest's code could not be written.
    pub(crate) unpatched: Option<Seen>,
    /// The patches that are not written yet.
    pub(crate) missed: Option<String>,
    /// The reason why the watched variable is no longer read.
    pub(crate) watch_failure: Option<String>,
    /// The arrival of the last output.
    pub(crate) heard_ns: i64,
    /// The time since listening began, at the last check: a board's time zero may never come.
    pub(crate) listened_ns: i64,
    /// True if no output arrived for a moment after the guest was off, so all its output is known.
    pub(crate) heard_out: bool,
    pub(crate) console_bytes: u64,
    pub(crate) last_line: String,
    /// The last lines of the VMM's own output.
    pub(crate) vmm_said: VecDeque<String>,
}

impl Facts {
    /// Takes a line of the console, or its beginning if it is not complete. `until` is the pattern of the end mark.
    pub(super) fn take_console_line(&mut self, line: &Line<'_>, until: Option<&mut Awaited>, at_ns: i64) {
        self.note_panic(line, at_ns);
        let meaning = until.map_or(Meaning::Nothing, |until| until.hear(line.text));
        match &mut self.matched {
            None if meaning == Meaning::Failed => self.note_failed(shown(line.text, 200), at_ns),
            None if meaning == Meaning::Reached => {
                let error_ns = Some(self.arrival_error_ns);
                self.matched = Some(End {
                    mark: Some(EndMark::Line),
                    what: shown(line.text, 200),
                    at_ns,
                    error_ns,
                    printk_ns: None,
                });
                self.matched_line_open = !line.whole;
            }
            Some(end) if self.matched_line_open => {
                end.what = shown(line.text, 200);
                self.matched_line_open = !line.whole;
            }
            _ => {}
        }
        if line.text.iter().any(|b| !b.is_ascii_whitespace()) {
            self.last_line = shown(line.text, 200);
        }
    }

    /// Notes that guest-init runs and has no channel: it prints so on the console, and nothing more comes of it.
    pub(super) fn note_no_channel(&mut self, line: &Line<'_>, at_ns: i64) {
        let text = String::from_utf8_lossy(line.text);
        let Some((_, why)) = text.split_once(INIT_WITHOUT_CHANNEL).filter(|_| line.whole) else { return };
        if self.init_ns.is_none() {
            let what = shown(why.trim_end_matches(NOTHING_GATHERED).as_bytes(), 200);
            self.init_ns = Some(at_ns);
            self.guest_done = Some(Seen { at_ns, what: what.clone() });
            self.no_channel = Some(what);
        }
    }

    /// Takes a line of the VMM's own output.
    pub(super) fn take_vmm_line(&mut self, line: &Line<'_>) {
        if line.whole && !line.text.is_empty() {
            self.vmm_said.push_back(shown(line.text, 300));
            if self.vmm_said.len() > MAX_VMM_LINES {
                self.vmm_said.pop_front();
            }
        }
    }

    /// Notes that the awaited unit has failed.
    pub(super) fn note_failed(&mut self, what: String, at_ns: i64) {
        self.unit_failed.get_or_insert(Seen { at_ns, what });
    }

    fn note_panic(&mut self, line: &Line<'_>, at_ns: i64) {
        if !line.whole {
            return;
        }
        if self.panic.is_none() && memchr::memmem::find(line.text, PANIC).is_some() {
            self.panic = Some(Seen { at_ns, what: shown(line.text, 300) });
        }
        self.panic_over |= memchr::memmem::find(line.text, PANIC_END).is_some();
    }
}

/// The message for a panic that only the VMM reported.
pub(crate) fn panicked(vmm: &str) -> String {
    format!("the guest told {vmm} that it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_init_without_a_channel_prints_one_line() {
        let heard = |text: &[u8], whole| {
            let mut facts = Facts::default();
            facts.note_no_channel(&Line { text, whole }, 7);
            (facts.init_ns, facts.no_channel)
        };
        let line =
            b"[ 0.3] bootscope: process 1 runs; the kernel forbids ports: no (os error 38), so nothing is gathered";
        assert_eq!(heard(line, true), (Some(7), Some("the kernel forbids ports: no (os error 38)".to_owned())));
        assert_eq!(heard(line, false), (None, None), "more may come");
        assert_eq!(heard(b"Run /init as init process", true), (None, None));
        assert_eq!(heard(b"bootscope: process 1 runs; \x1b[2J", true).1.as_deref(), Some("?[2J"));
    }
}
