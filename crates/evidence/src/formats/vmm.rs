//! `vmm.json`: the steps of the virtual machine monitor's start, as the host observed them.
//!
//! ```json
//! [{"name": "linked", "at_ns": 18200341, "error_ns": 300000, "evidence": "ld.so's own statistics"}]
//! ```
//! Each mark ends a stretch: `executed` (the program is loaded), `linked` (its libraries are linked), `monitor ready`
//! (its monitor sends the greeting), `machine complete` (all devices are created), `first instruction` (the vCPUs were
//! started). A board has a single mark, `power on`, with which its boot starts. If the plugin recorded a first block,
//! that time ends the VMM's phases instead: its error is smaller.
//!
//! It must not distinguish monitors, and it must not place any of the guest's work.

use serde::Deserialize;
use timeline::{DiagnosticKind, Diagnostics, NameId, Ns, Phase, SpanKind, SpanRow, Timeline, TrackId};

/// A recorder writes half a kilobyte.
const BYTES_MAX: usize = 1 << 20;

/// Largest number of unknown marks that have their own diagnostic.
const NAMED_MOST: usize = 8;

#[derive(Deserialize)]
struct Mark {
    name: String,
    at_ns: i64,
    #[serde(default)]
    error_ns: i64,
    #[serde(default)]
    evidence: String,
}

/// The part of the monitor's start that a mark ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The program is loaded.
    Executed,
    /// Its libraries are linked.
    Linked,
    /// Its options are read, and its monitor sends the greeting.
    Monitor,
    /// All devices are created.
    Devices,
    /// The vCPUs are started. It ends with the machine's first instruction, which the host only learns of later.
    Started,
    /// A board is switched on; there is no monitor.
    PowerOn,
}

impl Part {
    fn of(mark: &str) -> Option<Part> {
        match mark {
            "executed" => Some(Part::Executed),
            "linked" => Some(Part::Linked),
            "monitor ready" => Some(Part::Monitor),
            "machine complete" => Some(Part::Devices),
            "first instruction" => Some(Part::Started),
            "power on" => Some(Part::PowerOn),
            _ => None,
        }
    }

    /// The phase that this part is.
    fn phase(self) -> Phase {
        match self {
            Part::Executed => Phase::MonitorExec,
            Part::Linked => Phase::MonitorLinking,
            Part::Monitor => Phase::MonitorOptions,
            Part::Devices => Phase::MonitorDevices,
            Part::Started | Part::PowerOn => Phase::MonitorCpus,
        }
    }
}

/// A step of the monitor's start. It lasts from the end of the previous step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The part that was done.
    pub part: Part,
    pub end: Ns,
    /// Largest error of `end`.
    pub error: Ns,
    /// The evidence for `end`, in words.
    pub evidence: String,
}

/// Reads the known steps and sorts them by time.
pub(crate) fn steps(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Step> {
    if bytes.len() > BYTES_MAX {
        diagnostics.note(DiagnosticKind::VmmMarksUnreadable, || format!("{file}: it has more than {BYTES_MAX} bytes"));
        return Vec::new();
    }
    let marks = match serde_json::from_slice::<Vec<Mark>>(bytes) {
        Ok(marks) => marks,
        Err(e) => {
            diagnostics.note(DiagnosticKind::VmmMarksUnreadable, || format!("{file}: {e}"));
            return Vec::new();
        }
    };
    let mut steps = Vec::new();
    let mut unknown = 0;
    for (i, mark) in marks.into_iter().enumerate() {
        match Part::of(&mark.name) {
            Some(part) => {
                steps.push(Step { part, end: Ns(mark.at_ns), error: Ns(mark.error_ns), evidence: mark.evidence });
            }
            None => {
                // Further unknown marks share one diagnostic, so that a file of many does not fill memory.
                let name = if unknown < NAMED_MOST { mark.name.as_str() } else { "and others" };
                let place = || format!("{file}: mark {}", i + 1);
                diagnostics.note_about(DiagnosticKind::VmmMarkUnknown, name, place);
                unknown += 1;
            }
        }
    }
    steps.sort_by_key(|s| s.end);
    steps
}

/// The step at which the vCPUs were started, or a board was switched on.
pub(crate) fn vcpus_started(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| matches!(step.part, Part::Started | Part::PowerOn))
}

/// Adds the steps as phases and as work on the monitor's track.
pub(crate) fn build(steps: &[Step], first_instruction: Option<Ns>, track: TrackId, timeline: &mut Timeline) {
    let limit = first_instruction.unwrap_or(Ns::MAX);
    let mut start = (Ns::ZERO, Ns::ZERO, "the VMM is executed".to_owned());
    for step in steps.iter().filter(|s| s.end < limit && s.part != Part::Started) {
        add(step.part.phase(), &start, step.end, track, timeline);
        start = (step.end, step.error, step.evidence.clone());
    }
    if let Some(end) = first_instruction {
        add(Part::Started.phase(), &start, end, track, timeline);
    }
}

pub(crate) fn add(
    phase: Phase,
    (start, error, evidence): &(Ns, Ns, String),
    end: Ns,
    track: TrackId,
    timeline: &mut Timeline,
) {
    timeline.boundary(phase, *start, *error, evidence);
    let name = phase.name(&timeline.names).into_owned();
    let name = timeline.names.intern(&name);
    let row = SpanRow { name, detail: NameId::EMPTY, start: *start, end, track, kind: SpanKind::Stage };
    timeline.spans.push(row, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_mark_is_counted_by_its_name() {
        let mut diagnostics = Diagnostics::default();
        let json = br#"[{"name": "machine complete", "at_ns": 9}, {"name": "relinked", "at_ns": 7}, {"name": "linked", "at_ns": 5}]"#;
        let found = steps("vmm.json", json, &mut diagnostics);
        assert_eq!(found.iter().map(|step| step.part).collect::<Vec<_>>(), [Part::Linked, Part::Devices]);
        let unknown = diagnostics.iter().next().expect("a diagnostic");
        assert_eq!((unknown.kind, unknown.about.as_str()), (DiagnosticKind::VmmMarkUnknown, "relinked"));
        assert_eq!((unknown.count, unknown.first.as_str()), (1, "vmm.json: mark 2"));
    }

    #[test]
    fn many_unknown_names_share_one_diagnostic() {
        let mut diagnostics = Diagnostics::default();
        let marks: Vec<String> = (0..1000).map(|i| format!(r#"{{"name": "x{i}", "at_ns": {i}}}"#)).collect();
        assert!(steps("vmm.json", format!("[{}]", marks.join(",")).as_bytes(), &mut diagnostics).is_empty());
        assert_eq!(diagnostics.count(DiagnosticKind::VmmMarkUnknown), 1000);
        assert!(diagnostics.iter().count() <= NAMED_MOST + 1);
    }
}
