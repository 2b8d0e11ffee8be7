//! When Android's init started each service, by its properties, as `getprop` prints them.
//!
//! ```text
//! [ro.boottime.init]: [2467747102]                  when init's second stage began
//! [ro.boottime.init.first_stage]: [73667373]        how long a part of init took: no time of day, and counted
//! [ro.boottime.surfaceflinger]: [2795909113]        when a service was first started
//! ```
//! (Android, `system/core/init/service.cpp` and `init.cpp`.) All in ns of CLOCK_BOOTTIME, which a boot without sleep shares with the kernel's log.
//! What the kernel's log tells of the same service is sharper: it also says when it ended.

use crate::boot::Boot;
use crate::boot::offers::Offers;
use crate::formats::firmware::shorten;
use crate::formats::systemd_words::UNITS_MAX;
use crate::input::text::{Line, Lines, lossy, whole_number};
use crate::input::{File, Input};
use crate::readers::reader::{Evidence, Reader};
use hashbrown::HashSet;
use std::rc::Rc;
use timeline::{DiagnosticKind, Diagnostics, Manager, NameId, Ns, Phase, ServiceUnit};

/// What diagnostics call it.
const NAME: &str = "parts of Android's init";
/// Init itself.
const INIT: &[u8] = b"init";
/// Parts of it, as lengths.
const PART: &[u8] = b"init.";

/// `[ro.boottime.NAME]: [NS]`
fn property(line: &[u8]) -> Option<(&[u8], Ns)> {
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

/// The files that have such lines.
#[derive(Default)]
pub(crate) struct Files(Vec<Rc<File>>);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["start times of Android's services (ro.boottime)"]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        property(line.bytes).map(|_| 0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let mut times = Boottimes::default();
        for file in &self.0 {
            times.read(&file.name, &file.bytes, &mut boot.timeline.diagnostics);
        }
        times.services.sort_by_key(|(_, at)| *at);
        // Other boots have no part in its clock.
        (!times.services.is_empty()).then(|| Box::new(times) as Box<dyn Evidence>)
    }
}

impl Evidence for Boottimes {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn phases(&mut self, boot: &mut Boot<'_>) {
        let zero = boot.monotonic_zero();
        let timeline = &mut boot.timeline;
        let told: HashSet<NameId> = timeline.units.iter().map(|unit| unit.name).collect();
        for (service, at) in &self.services {
            let name = timeline.names.intern(service);
            if !told.contains(&name) && timeline.units.len() < UNITS_MAX {
                let (start, settled) = (Some(zero + *at), Some(zero + *at));
                timeline.units.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
                timeline.unit_managers.insert(name, Manager::Android);
            }
        }
        if let Some(init) = self.init {
            // Its first stage ran before that.
            let error = Ns::from_ms(500);
            timeline.boundary(Phase::Process1, zero + init, error, "ro.boottime.init: its second stage began");
        }
        let zero = boot.kernel_clock_zero();
        boot.timeline.boundary(Phase::EarlyKernel, zero, Ns::from_ms(10), "ro.boottime counts from the kernel's start");
    }
}
