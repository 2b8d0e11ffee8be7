//! `vmm.json`: what the host saw of the virtual machine monitor's own start.
//!
//! ```json
//! [{"name": "linked", "at_ns": 18200341, "error_ns": 300000, "evidence": "ld.so's own statistics"}]
//! ```
//! Each mark ends a stretch: `executed` (the program is loaded), `linked` (its libraries are),
//! `monitor ready` (it greets), `machine complete` (all devices are made), `first instruction` (the
//! CPUs were let go). The first block that the plugin saw ends all of it sharper.

use crate::boot::{Boot, Moment};
use crate::clocks::Offers;
use crate::reader::{Evidence, File, Input, Own, Reader};
use serde::Deserialize;
use std::rc::Rc;
use timeline::{DiagnosticKind, Diagnostics, NameId, Ns, SpanKind, SpanRow, Timeline, TrackId};

#[derive(Deserialize)]
struct Mark {
    name: String,
    at_ns: i64,
    #[serde(default)]
    error_ns: i64,
    #[serde(default)]
    evidence: String,
}

/// A step of the monitor's start: it lasts from the end of the one before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was being done.
    pub name: &'static str,
    /// When it was done.
    pub end: Ns,
    /// How far off that may be.
    pub error: Ns,
    /// What shows it.
    pub evidence: String,
}

/// The steps that are known, in order of time.
pub fn steps(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Step> {
    match serde_json::from_slice::<Vec<Mark>>(bytes) {
        Ok(marks) => {
            let mut steps: Vec<Step> = marks.into_iter().filter_map(step).collect();
            steps.sort_by_key(|s| s.end);
            steps
        }
        Err(e) => {
            diagnostics.note(DiagnosticKind::VmmMarksUnreadable, || format!("{file}: {e}"));
            Vec::new()
        }
    }
}

fn step(mark: Mark) -> Option<Step> {
    let name = match mark.name.as_str() {
        "executed" => "VMM: exec",
        "linked" => "VMM: linking",
        "monitor ready" => "VMM: options and monitor",
        "machine complete" => "VMM: devices",
        "first instruction" => LET_GO,
        _ => return None,
    };
    Some(Step { name, end: Ns(mark.at_ns), error: Ns(mark.error_ns), evidence: mark.evidence })
}

/// The last step: it ends with the machine's first instruction, which the host only hears of.
const LET_GO: &str = "VMM: CPUs let go";

/// When the host heard that the CPUs were let go.
pub fn let_go(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| step.name == LET_GO)
}

/// Adds the steps as phases and as work on the monitor's track.
pub fn lay(steps: &[Step], first_instruction: Option<Ns>, track: TrackId, timeline: &mut Timeline) {
    let limit = first_instruction.unwrap_or(Ns::MAX);
    let mut start = (Ns::ZERO, Ns::ZERO, "the VMM is executed".to_owned());
    for step in steps.iter().filter(|s| s.end < limit && s.name != LET_GO) {
        add(step.name, &start, step.end, track, timeline);
        start = (step.end, step.error, step.evidence.clone());
    }
    if let Some(end) = first_instruction {
        add(LET_GO, &start, end, track, timeline);
    }
}

fn add(name: &str, (start, error, evidence): &(Ns, Ns, String), end: Ns, track: TrackId, timeline: &mut Timeline) {
    timeline.boundary(name, *start, *error, evidence);
    let name = timeline.names.intern(name);
    let row = SpanRow { name, detail: NameId::EMPTY, start: *start, end, track, kind: SpanKind::Stage };
    timeline.spans.push(row, None);
}

/// What the recorder noted.
#[derive(Default)]
pub(crate) struct Files {
    file: Option<Rc<File>>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Plain("vmm.json")]
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.file.get_or_insert(input.file);
    }

    /// Where a host started the monitor, its start is a stretch of the boot even if nothing tells its steps.
    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        if !boot.is_hosted() {
            return None;
        }
        let read = |file: &Rc<File>| steps(&file.name, &file.bytes, &mut boot.timeline.diagnostics);
        let steps = self.file.as_ref().map(read).unwrap_or_default();
        boot.cpus_started =
            let_go(&steps).map(|step| Moment { at: step.end, error: step.error, evidence: step.evidence.clone() });
        Some(Box::new(Steps(steps)))
    }
}

struct Steps(Vec<Step>);

impl Evidence for Steps {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if offers.started.is_none() {
            offers.started = let_go(&self.0).map(|step| step.end);
        }
    }

    fn around(&mut self, boot: &mut Boot<'_>) {
        let Some(machine) = boot.machine else { return };
        lay(&self.0, machine.first_instruction, machine.monitor, &mut boot.timeline);
        if let Some(at) = machine.first_instruction {
            boot.timeline.tracks.get_mut(machine.firmware).created = Some((at, machine.monitor));
        }
    }
}
