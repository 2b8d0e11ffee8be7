//! The reader of [`boottimes`](crate::formats::boottimes).

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::boottimes::{Boottimes, property};
use crate::formats::systemd_words::UNITS_MAX;
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::reader::{Evidence, Reader};
use hashbrown::HashSet;
use std::rc::Rc;
use timeline::{Diagnostics, Manager, NameId, Ns, Phase, ServiceUnit, Timeline};

/// The files with such lines.
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

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let mut times = Boottimes::default();
        for file in &self.0 {
            times.read(&file.name, &file.bytes, &mut timeline.diagnostics);
        }
        times.services.sort_by_key(|(_, at)| *at);
        // Without services, these times must not affect the clock of the boot.
        (!times.services.is_empty()).then(|| Box::new(times) as Box<dyn Evidence>)
    }
}

impl Evidence for Boottimes {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let zero = boot.monotonic_zero();
        let timeline = &mut boot.timeline;
        let listed: HashSet<NameId> = timeline.units.iter().map(|unit| unit.name).collect();
        for (service, at) in &self.services {
            let name = timeline.names.intern(service);
            if !listed.contains(&name) && timeline.units.len() < UNITS_MAX {
                let (start, settled) = (Some(zero + *at), Some(zero + *at));
                timeline.units.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
                timeline.unit_managers.insert(name, Manager::Android);
            }
        }
        if let Some(init) = self.init {
            // Init's first stage ran before that.
            let error = Ns::from_ms(500);
            timeline.boundary(Phase::Process1, zero + init, error, "ro.boottime.init: its second stage began");
        }
        let zero = boot.kernel_clock_zero();
        boot.timeline.boundary(Phase::EarlyKernel, zero, Ns::from_ms(10), "ro.boottime counts from the kernel's start");
    }
}
