//! Start times of the services of Android's init, from its properties as `getprop` prints them.
//!
//! ```text
//! [ro.boottime.init]: [2467747102]                  when init's second stage began
//! [ro.boottime.init.first_stage]: [73667373]        the length of a part of init: counted, not placed
//! [ro.boottime.surfaceflinger]: [2795909113]        when a service was first started
//! ```
//! (Android, `system/core/init/service.cpp` and `init.cpp`.) All are ns of CLOCK_BOOTTIME, which in a boot without
//! sleep equals the clock of the kernel's log. If the kernel's log shows the same service, its times are used instead:
//! it also shows when the service ended.

use crate::formats::systemd_words::UNITS_MAX;
use crate::input::text::{Lines, lossy, shorten, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The name of the lengths in diagnostics.
const NAME: &str = "parts of Android's init";
/// The property of init itself.
const INIT: &[u8] = b"init";
/// Prefix of the properties with the lengths of init's parts.
const PART: &[u8] = b"init.";

/// Reads `[ro.boottime.NAME]: [NS]`.
pub(crate) fn property(line: &[u8]) -> Option<(&[u8], Ns)> {
    let line = line.trim_ascii().strip_prefix(b"[ro.boottime.")?.strip_suffix(b"]")?;
    let colon = memchr::memmem::rfind(line, b"]: [")?;
    let ns = i64::try_from(whole_number(&line[colon + 4..])?).ok().filter(|ns| *ns < i64::MAX / 4)?;
    (colon > 0).then_some((&line[..colon], Ns(ns)))
}

/// The properties of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boottimes {
    /// The beginning of init's second stage.
    pub init: Option<Ns>,
    /// The services, each with its start time.
    pub services: Vec<(String, Ns)>,
}

impl Boottimes {
    /// Adds the properties of a file; other lines are skipped.
    pub(crate) fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
        for line in Lines::new(bytes) {
            let place = || format!("{file}:{}", line.number);
            match property(line.bytes) {
                None => {}
                Some((INIT, at)) => self.init = self.init.or(Some(at)),
                Some((part, _)) if part.starts_with(PART) => {
                    diagnostics.note_about(DiagnosticKind::SumWithoutPlace, NAME, place);
                }
                Some(_) if self.services.len() == UNITS_MAX => {
                    diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, "ro.boottime", place);
                }
                Some((service, at)) => self.services.push((shorten(&lossy(service)), at)),
            }
        }
    }
}
