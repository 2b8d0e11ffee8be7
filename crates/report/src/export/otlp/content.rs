//! The part of a boot that goes to OpenTelemetry: spans with their parents, gauges, and the resource. This file must
//! not know the wire format.

use crate::lanes::Slice;
use crate::{Boot, harmless};
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;
use timeline::{Ns, TimeBase};

/// The most pieces of the boot path. Only the longest are kept, because backends refuse larger traces.
const MAX_PATH_SPANS: usize = 5000;

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Texts(Vec<String>),
}

/// Names and values.
pub(super) type Attributes = Vec<(&'static str, Value)>;

/// A span. Its parent has a smaller place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub name: String,
    pub start: Ns,
    pub end: Ns,
    pub parent: Option<usize>,
    pub attributes: Attributes,
    /// The reason for the failure, if it failed.
    pub failed: Option<String>,
}

/// A gauge: one value for each of several things, or a single value.
pub(super) struct Gauge {
    pub name: String,
    pub about: &'static str,
    pub unit: &'static str,
    pub points: Vec<(Attributes, f64)>,
}

/// Everything that is exported.
pub(super) struct Content {
    pub resource: Attributes,
    pub spans: Vec<Span>,
    pub gauges: Vec<Gauge>,
    /// Time zero, in nanoseconds since 1970.
    zero: u64,
    /// The last moment of the boot.
    end: Ns,
    hash: [u8; 32],
}

impl Content {
    pub fn of(boot: &Boot) -> Content {
        let mut content = Content {
            resource: resource(boot),
            spans: Vec::new(),
            gauges: gauges(boot),
            zero: zero(boot),
            end: boot.total,
            hash: [0; 32],
        };
        content.boot(boot);
        content.phases(boot);
        content.units(boot);
        content.path(boot);
        content.hash = content.hashed();
        content
    }

    /// The id of the trace: 16 bytes, at least one of them not 0.
    pub fn trace_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id.copy_from_slice(&self.hash[..16]);
        id[15] |= u8::from(id == [0; 16]);
        id
    }

    /// The id of the span at a place: 8 bytes, at least one of them not 0.
    pub fn span_id(&self, place: usize) -> [u8; 8] {
        let hash = Sha256::new().chain_update(self.hash).chain_update((place as u64).to_le_bytes()).finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        id[7] |= u8::from(id == [0; 8]);
        id
    }

    /// A moment in nanoseconds since 1970. Moments before time zero become time zero.
    pub fn unix(&self, at: Ns) -> u64 {
        self.zero.saturating_add(u64::try_from(at.0).unwrap_or(0))
    }

    pub fn end(&self) -> u64 {
        self.unix(self.end)
    }

    fn add(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// Adds the first span, which holds all others.
    fn boot(&mut self, boot: &Boot) {
        let facts = boot.facts;
        let mut attributes = vec![("bootscope.kind", Value::Text("boot".to_owned()))];
        let outcome = Some(&facts.outcome).filter(|outcome| !outcome.is_empty());
        attributes.extend(outcome.map(|outcome| ("bootscope.outcome", Value::Text(outcome.clone()))));
        let detail = Some(&facts.outcome_detail).filter(|detail| !detail.is_empty());
        attributes.extend(detail.map(|detail| ("bootscope.outcome_detail", Value::Text(shown(detail)))));
        let warnings: Vec<String> = crate::export::warnings(boot).collect();
        if !warnings.is_empty() {
            attributes.push(("bootscope.warnings", Value::Texts(warnings)));
        }
        let (start, end) = (Ns::ZERO, boot.total);
        self.add(Span { name: "boot".to_owned(), start, end, parent: None, attributes, failed: None });
    }

    fn phases(&mut self, boot: &Boot) {
        for phase in &boot.phases {
            let attributes = vec![
                ("bootscope.kind", Value::Text("phase".to_owned())),
                ("bootscope.error_ns", Value::Number(phase.error.0)),
                ("bootscope.evidence", Value::Text(shown(&phase.evidence))),
            ];
            let (name, start, end) = (shown(&phase.name), phase.start, phase.end);
            self.add(Span { name, start, end, parent: Some(0), attributes, failed: None });
        }
    }

    /// Adds the units. A unit that is active at once, such as a target, has length zero. One that is still starting
    /// ends with the boot.
    fn units(&mut self, boot: &Boot) {
        for unit in &boot.timeline.units {
            let Some(start) = unit.start.or(unit.settled) else { continue };
            let end = unit.settled.unwrap_or(boot.total).max(start);
            let state = match unit.settled {
                None => "starting",
                Some(_) if unit.failed => "failed",
                Some(_) => "active",
            };
            let attributes = vec![
                ("bootscope.kind", Value::Text("unit".to_owned())),
                ("bootscope.unit.state", Value::Text(state.to_owned())),
            ];
            let failed = unit.failed.then(|| "the unit failed".to_owned());
            let name = shown(boot.timeline.names.get(unit.name));
            self.end = self.end.max(end);
            self.add(Span { name, start, end, parent: Some(0), attributes, failed });
        }
    }

    fn path(&mut self, boot: &Boot) {
        let slices = boot.path_slices();
        if slices.is_empty() {
            return;
        }
        let shortest = shortest_kept(&slices);
        let kept = slices.iter().filter(|slice| length(slice) >= shortest);
        let left_out = slices.len() - kept.clone().count();
        let mut attributes = vec![("bootscope.kind", Value::Text("path".to_owned()))];
        if left_out > 0 {
            attributes.push(("bootscope.left_out", Value::Number(i64::try_from(left_out).unwrap_or(i64::MAX))));
            attributes.push(("bootscope.left_out_below_ns", Value::Number(shortest.0)));
        }
        let (start, end) = (Ns::ZERO, boot.total);
        let name = "boot path".to_owned();
        let root = self.add(Span { name, start, end, parent: Some(0), attributes, failed: None });
        // The ancestors of the next slice.
        let mut open: Vec<(Slice, usize)> = Vec::new();
        for slice in kept {
            open.retain(|(around, _)| around.holds(slice));
            let parent = open.last().map_or(root, |(_, place)| *place);
            let attributes = vec![("bootscope.kind", Value::Text("path".to_owned()))];
            let (name, start, end) = (boot.text(slice.label), slice.start, slice.end);
            let place = self.add(Span { name, start, end, parent: Some(parent), attributes, failed: None });
            open.push((*slice, place));
        }
    }

    /// The hash of the whole content but the time of the export.
    fn hashed(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.zero.to_le_bytes());
        hash.update(format!("{:?}", self.resource));
        for span in &self.spans {
            hash.update(format!("{span:?}"));
        }
        hash.finalize().into()
    }
}

fn length(slice: &Slice) -> Ns {
    slice.end - slice.start
}

/// The length above which at most [`MAX_PATH_SPANS`] slices lie. A callee is kept only if it is as long.
fn shortest_kept(slices: &[Slice]) -> Ns {
    if slices.len() <= MAX_PATH_SPANS {
        return Ns::ZERO;
    }
    let mut lengths: Vec<Ns> = slices.iter().map(length).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    Ns(lengths[MAX_PATH_SPANS].0 + 1)
}

fn shown(text: &str) -> String {
    harmless(text).into_owned()
}

/// Time zero in nanoseconds since 1970, or 0 if it is unknown.
fn zero(boot: &Boot) -> u64 {
    let begun = humantime::parse_rfc3339(&boot.facts.created).ok();
    let since = begun.and_then(|begun| begun.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// The machine and its kernel, with OpenTelemetry's names if they exist.
fn resource(boot: &Boot) -> Attributes {
    let subject = &boot.facts.subject;
    let base = match boot.timeline.time_base {
        TimeBase::Host => "the VMM's start",
        TimeBase::GuestVirtual => "the guest's reset",
        TimeBase::Evidence => "the evidence's first event",
    };
    let texts = [
        ("service.name", "boot".to_owned()),
        ("os.type", subject.os.to_lowercase()),
        ("os.version", shown(&subject.kernel)),
        ("bootscope.machine", shown(&subject.machine)),
        ("bootscope.accelerator", shown(&subject.accelerator)),
        ("bootscope.recorded", shown(&boot.facts.created)),
        ("bootscope.time_zero", base.to_owned()),
        ("bootscope.time_unit", boot.timeline.unit.name().to_owned()),
    ];
    let mut attributes: Attributes =
        texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, Value::Text(text))).collect();
    let numbers =
        [("bootscope.cpus", i64::from(subject.cpus)), ("bootscope.memory_bytes", signed(subject.memory_bytes))];
    attributes.extend(numbers.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name, Value::Number(n))));
    attributes
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The lengths in seconds, and the measured metrics.
fn gauges(boot: &Boot) -> Vec<Gauge> {
    let seconds = |ns: Ns| ns.0 as f64 / 1e9;
    let attribute = |name: &'static str, text: &str| vec![(name, Value::Text(shown(text)))];
    let gauge = |name: &str, about, points| Gauge { name: name.to_owned(), about, unit: "s", points };
    let phases = boot.phases.iter().map(|phase| (attribute("bootscope.phase", &phase.name), seconds(phase.length())));
    let units = boot.timeline.units.iter().filter_map(|unit| {
        let took = unit.settled? - unit.start?;
        Some((attribute("bootscope.unit", boot.timeline.names.get(unit.name)), seconds(took)))
    });
    let rows = boot.wheres();
    let rows = rows.iter().map(|row| (attribute("bootscope.row", &row.name), seconds(Ns(row.self_ns))));
    let mut gauges = vec![
        gauge("bootscope.boot.duration", "from time zero to the end mark", vec![(Vec::new(), seconds(boot.total))]),
        gauge("bootscope.phase.duration", "how long a phase took", phases.collect()),
        gauge("bootscope.unit.duration", "how long a unit took to start", units.collect()),
        gauge("bootscope.path.duration", "what the boot path charges to a row", rows.collect()),
    ];
    for (metric, _) in boot.facts.metrics.iter() {
        let Some(value) = boot.facts.metrics.get(metric) else { continue };
        let (unit, value) = match metric.unit {
            benchmark::metrics::Unit::Nanoseconds => ("s", value as f64 / 1e9),
            benchmark::metrics::Unit::Bytes => ("By", value as f64),
        };
        let name = format!("bootscope.{}", metric.name);
        gauges.push(Gauge { name, about: metric.text, unit, points: vec![(Vec::new(), value)] });
    }
    gauges.retain(|gauge| !gauge.points.is_empty());
    gauges
}
