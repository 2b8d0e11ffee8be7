//! The reader of [`vmm`](crate::formats::vmm).

use crate::boot::offers::Offers;
use crate::boot::{Found, Moment, Placing};
use crate::formats::vmm::{Step, build, steps, vcpus_started};
use crate::input::{File, Input};
use crate::readers::reader::{Evidence, Own, Reader};
use std::rc::Rc;
use timeline::{Diagnostics, FileLoss, Timeline};

/// The recorder's file.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Rc<File>>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("vmm.json")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::VmmSteps
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input.file);
    }

    /// If a host started the monitor, its start is a part of the boot even without evidence of its steps.
    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        if !found.is_hosted() {
            return None;
        }
        let read = |file: &Rc<File>| steps(&file.name, &file.bytes, &mut timeline.diagnostics);
        let steps = self.file.as_ref().map(read).unwrap_or_default();
        *found.cpus_started = vcpus_started(&steps).map(|step| Moment {
            at: step.end,
            error: step.error,
            evidence: step.evidence.clone(),
        });
        Some(Box::new(Steps(steps)))
    }
}

struct Steps(Vec<Step>);

impl Evidence for Steps {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if offers.started.is_none() {
            offers.started = vcpus_started(&self.0).map(|step| step.end);
        }
    }

    fn around(&mut self, boot: &mut Placing<'_>) {
        let Some(machine) = boot.machine else { return };
        let Some(monitor) = machine.monitor else { return };
        build(&self.0, machine.first_instruction, monitor, &mut boot.timeline);
        if let Some(at) = machine.first_instruction {
            boot.timeline.tracks.get_mut(machine.firmware).created = Some((at, monitor));
        }
    }
}
