//! What is known of a boot so far: facts, noted as they are heard, of which [`crate::ending`] makes an end.
//!
//! Nothing here decides anything. Times are ns since time zero.

use std::collections::VecDeque;

use crate::awaited::{Awaited, Meaning};
use crate::hang::Hang;
use crate::lines::{Line, shown};
use crate::vmm::GuestEnd;
use recording::{End, EndMark};

/// The line that names a panic, of every Linux there is.
const PANIC: &[u8] = b"Kernel panic - not syncing";
const PANIC_END: &[u8] = b"end Kernel panic";
/// So many of the VMM's last lines are kept for people.
const VMM_LINES_MAX: usize = 5;

/// Something that was seen, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at_ns: i64,
    pub(crate) what: String,
}

/// That the guest is at its end, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shutdown {
    pub(crate) at_ns: i64,
    pub(crate) why: GuestEnd,
}

/// What is known of the boot so far.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// What people call the VMM.
    pub(crate) vmm: &'static str,
    /// How far off the stamps of what is heard may be.
    pub(crate) arrival_error_ns: i64,
    pub(crate) running_ns: Option<i64>,
    /// Process 1 is guest-init, and runs.
    pub(crate) init_ns: Option<i64>,
    /// guest-init is done.
    pub(crate) guest_done: Option<Seen>,
    /// The line that was waited for.
    pub(crate) matched: Option<End>,
    /// Its end is not printed yet.
    pub(crate) matched_line_open: bool,
    /// The unit that was waited for has failed.
    pub(crate) unit_failed: Option<Seen>,
    pub(crate) panic: Option<Seen>,
    /// The panic's last line was printed.
    pub(crate) panic_over: bool,
    pub(crate) shutdown: Option<Shutdown>,
    pub(crate) hang: Option<Hang>,
    /// The VMM has ended by itself.
    pub(crate) gone: bool,
    /// Why the root could not be mounted.
    pub(crate) no_root: Option<String>,
    /// Why the workload was not done.
    pub(crate) no_workload: Option<String>,
    /// Why a change to the guest's code could not be made.
    pub(crate) unpatched: Option<Seen>,
    /// Which changes to the guest's code are still to be made.
    pub(crate) missed: Option<String>,
    /// Why a variable is not read any more.
    pub(crate) unwatched: Option<String>,
    /// When anything was heard last.
    pub(crate) heard_ns: i64,
    /// For how long the machine has been listened to, when it was looked at last: a board's time zero may never come.
    pub(crate) listened_ns: i64,
    /// Nothing more came for a moment after the guest was off: all that it said before is known.
    pub(crate) heard_out: bool,
    pub(crate) console_bytes: u64,
    pub(crate) last_line: String,
    /// The end of what the VMM itself said.
    pub(crate) vmm_said: VecDeque<String>,
}

impl Facts {
    /// Takes a line of the console, or as much of it as there is. `until` is the line that is waited for.
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

    /// Takes a line of the VMM's own.
    pub(super) fn take_vmm_line(&mut self, line: &Line<'_>) {
        if line.whole && !line.text.is_empty() {
            self.vmm_said.push_back(shown(line.text, 300));
            if self.vmm_said.len() > VMM_LINES_MAX {
                self.vmm_said.pop_front();
            }
        }
    }

    /// The unit that is waited for has failed.
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

/// What is said of a panic of which only the VMM heard.
pub(crate) fn panicked(vmm: &str) -> String {
    format!("the guest told {vmm} that it panicked")
}
