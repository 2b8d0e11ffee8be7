//! `vmm.json`: what the host saw of the virtual machine monitor's own start.
//!
//! ```json
//! [{"name": "linked", "at_ns": 18200341, "error_ns": 300000, "evidence": "ld.so's own statistics"}]
//! ```
//! Each mark ends a stretch: `executed` (the program is loaded), `linked` (its libraries are),
//! `monitor ready` (it greets), `machine complete` (all devices are made), `first instruction` (the
//! CPUs were let go). The first block that the plugin saw ends all of it sharper.

use serde::Deserialize;
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
