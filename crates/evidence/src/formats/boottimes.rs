//! When Android's init started each service, by its properties, as `getprop` prints them.
//!
//! ```text
//! [ro.boottime.init]: [2467747102]                  when init's second stage began
//! [ro.boottime.init.first_stage]: [73667373]        how long a part of init took: no time of day, and counted
//! [ro.boottime.surfaceflinger]: [2795909113]        when a service was first started
//! ```
//! (Android, `system/core/init/service.cpp` and `init.cpp`.) All in ns of CLOCK_BOOTTIME, which a boot without sleep shares with the kernel's log.
//! What the kernel's log tells of the same service is sharper: it also says when it ended.

use crate::formats::systemd_words::UNITS_MAX;
use crate::input::text::shorten;
use crate::input::text::{Lines, lossy, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// What diagnostics call it.
const NAME: &str = "parts of Android's init";
/// Init itself.
const INIT: &[u8] = b"init";
/// Parts of it, as lengths.
const PART: &[u8] = b"init.";

/// `[ro.boottime.NAME]: [NS]`
pub(crate) fn property(line: &[u8]) -> Option<(&[u8], Ns)> {
    let line = line.trim_ascii().strip_prefix(b"[ro.boottime.")?.strip_suffix(b"]")?;
    let colon = memchr::memmem::rfind(line, b"]: [")?;
    let ns = i64::try_from(whole_number(&line[colon + 4..])?).ok().filter(|ns| *ns < i64::MAX / 4)?;
    (colon > 0).then_some((&line[..colon], Ns(ns)))
}

/// What the properties of a machine say.
#[derive(Clone, Debug, Default)]
pub struct Boottimes {
    /// When init's second stage began.
    pub init: Option<Ns>,
    /// Services, and when each was started.
    pub services: Vec<(String, Ns)>,
}

impl Boottimes {
    /// Adds the properties of a file; other lines are somebody else's.
    pub fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) {
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
