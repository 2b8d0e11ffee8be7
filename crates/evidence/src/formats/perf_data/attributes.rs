//! Reads the header of a file and the descriptions of its events.

use super::MAGIC;
use crate::formats::trace_dat::{self, Formats};
use crate::input::bytes::Bytes;
use crate::input::text::lossy;
use hashbrown::HashMap;

/// More events than a user requests from perf.
const EVENTS_MAX: usize = 1 << 12;
/// The shortest `struct perf_event_attr`.
const ATTRIBUTE_BYTES_MIN: usize = 64;
/// Names of `PERF_TYPE_HARDWARE`, by their number.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
/// Names of `PERF_TYPE_SOFTWARE`, by their number.
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
/// Bits of an attribute's flags.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const PRECISE_SHIFT: u64 = 15;
/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
/// `sample_id_all`, among an attribute's flags.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const TRACING_DATA: u32 = 1;
const EVENT_DESC: u32 = 12;
/// The header of a file in a pipe.
const PIPE_HEADER_BYTES: u64 = 16;

/// Bits for the fields that a sample may have.
pub(super) mod bit {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// The layout of an event's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    pub name: String,
    /// The kind of the event, and its number among that kind.
    kind: u32,
    config: u64,
    flags: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// True if records other than samples have a time too.
    pub sample_id_all: bool,
    pub is_tracepoint: bool,
}

impl Attribute {
    /// Reads a `struct perf_event_attr`.
    fn read(bytes: &[u8]) -> Option<Attribute> {
        if bytes.len() < ATTRIBUTE_BYTES_MIN {
            return None;
        }
        let mut bytes = Bytes(bytes);
        let (kind, _length, config, _period) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?);
        let (sample_type, read_format, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let (sample_id_all, is_tracepoint) = (flags & SAMPLE_ID_ALL != 0, kind == TYPE_TRACEPOINT);
        let name = String::new();
        Some(Attribute { name, kind, config, flags, sample_type, read_format, sample_id_all, is_tracepoint })
    }

    /// The name that perf makes for an event that the file does not name.
    fn made_name(&self) -> String {
        // The upper half says which of several kinds of CPUs counts.
        let number = usize::try_from(self.config & 0xffff_ffff).unwrap_or(usize::MAX);
        let known = match self.kind {
            0 => HARDWARE.get(number),
            1 => SOFTWARE.get(number),
            _ => None,
        };
        let name = match (known, self.kind) {
            (Some(name), _) => (*name).to_owned(),
            (None, TYPE_TRACEPOINT) => format!("tracepoint {}", self.config),
            (None, 3) => format!("cache event {:#x}", self.config),
            (None, 4) => format!("r{:x}", self.config),
            (None, kind) => format!("event {kind}/{:#x}", self.config),
        };
        let only = match (self.flags & EXCLUDE_KERNEL != 0, self.flags & EXCLUDE_USER != 0) {
            (true, false) => "u",
            (false, true) => "k",
            _ => "",
        };
        let precise = usize::try_from(self.flags >> PRECISE_SHIFT & 3).unwrap_or(0);
        let modifiers = format!("{only}{}", &"ppp"[..precise]);
        if modifiers.is_empty() { name } else { format!("{name}:{modifiers}") }
    }
}

/// Reads the `wanted` field of a sample. `before`: fields that stand before it if the sample has them.
fn at(body: &[u8], attribute: &Attribute, wanted: u64, before: &[u64]) -> Option<u64> {
    let before = 8 * before.iter().filter(|bit| attribute.sample_type & **bit != 0).count();
    Bytes(body.get(before..)?).u64().filter(|_| attribute.sample_type & wanted != 0)
}

/// Returns the id that identifies a sample's event. `first` shows its place, which all events must share.
pub(super) fn id_of_sample(body: &[u8], first: &Attribute) -> Option<u64> {
    at(body, first, bit::IDENTIFIER, &[])
        .or_else(|| at(body, first, bit::ID, &[bit::IP, bit::TID, bit::TIME, bit::ADDR]))
}

/// Returns the time of a sample.
pub(super) fn time_of_sample(body: &[u8], attribute: &Attribute) -> Option<u64> {
    at(body, attribute, bit::TIME, &[bit::IDENTIFIER, bit::IP, bit::TID])
}

/// All events, and the events' ids.
#[derive(Default)]
pub(super) struct Attributes {
    pub all: Vec<Attribute>,
    by_id: HashMap<u64, usize>,
}

impl Attributes {
    /// Returns the event of a record's id; the first event if the id is missing or unknown.
    pub(super) fn of(&self, id: Option<u64>) -> usize {
        id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
    }

    /// The names of all events, each another one.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut seen: HashMap<String, u64> = HashMap::new();
        for attribute in &self.all {
            let given = || attribute.name.clone();
            let name = if attribute.name.is_empty() { attribute.made_name() } else { given() };
            let same = seen.entry(name.clone()).or_default();
            *same += 1;
            names.push(if *same == 1 { name } else { format!("{name} ({same})") });
        }
        names
    }

    /// Names events by a record that old versions of perf write into a pipe: an event's number, and its name.
    pub(super) fn name_type(&mut self, body: &[u8]) -> Option<()> {
        let mut bytes = Bytes(body);
        let (number, name) = (bytes.u64()?, lossy(bytes.text()?).into_owned());
        let named = self.all.iter_mut().filter(|attribute| attribute.config == number && attribute.name.is_empty());
        named.for_each(|attribute| attribute.name.clone_from(&name));
        Some(())
    }

    /// Adds an event that the pipe describes: an attribute, which contains its own length, and its ids.
    pub(super) fn add_record(&mut self, body: &[u8]) -> Option<()> {
        let length = Bytes(body.get(4..)?).u32()?;
        let mut bytes = Bytes(body);
        let attribute = Attribute::read(bytes.take(length.into())?)?;
        self.add(attribute, &mut bytes, u64::MAX)
    }

    /// Names an event by a later record of the pipe (`PERF_RECORD_EVENT_UPDATE`).
    pub(super) fn rename(&mut self, body: &[u8]) -> Option<()> {
        const GIVES_A_NAME: u64 = 2;
        let mut bytes = Bytes(body);
        let (what, id) = (bytes.u64()?, bytes.u64()?);
        let event = *self.by_id.get(&id)?;
        if what == GIVES_A_NAME {
            self.all[event].name = lossy(bytes.text()?).into_owned();
        }
        Some(())
    }

    fn add(&mut self, attribute: Attribute, ids: &mut Bytes<'_>, count: u64) -> Option<()> {
        if self.all.len() == EVENTS_MAX {
            return None;
        }
        let event = self.all.len();
        self.all.push(attribute);
        for _ in 0..count {
            let Some(id) = ids.u64() else { break };
            self.by_id.insert(id, event);
        }
        Some(())
    }

    /// Reads the feature that also has names: a count, the length of an attribute, and for each event its attribute,
    /// the number of its ids, its name and the ids.
    fn described(section: &[u8]) -> Option<Attributes> {
        let mut attributes = Attributes::default();
        let mut bytes = Bytes(section);
        let (count, length) = (bytes.u32()?, bytes.u32()?);
        for _ in 0..count {
            let attribute = Attribute::read(bytes.take(length.into())?)?;
            let ids = bytes.u32()?;
            let name = bytes.sized(4)?;
            let name = lossy(&name[..memchr::memchr(0, name).unwrap_or(name.len())]).into_owned();
            attributes.add(Attribute { name, ..attribute }, &mut bytes, ids.into())?;
        }
        Some(attributes)
    }

    /// Reads the section without names: attributes, each followed by the place of its ids.
    fn listed(file: &[u8], section: &[u8], length: u64) -> Attributes {
        const PLACE_BYTES: u64 = 16;
        let mut attributes = Attributes::default();
        let mut bytes = Bytes(section);
        while let Some(one) = length.checked_sub(PLACE_BYTES).and_then(|length| bytes.take(length)) {
            let ids = bytes.u64().zip(bytes.u64()).and_then(|place| part(file, place));
            let added = Attribute::read(one)
                .and_then(|attribute| attributes.add(attribute, &mut Bytes(ids.unwrap_or_default()), u64::MAX));
            if added.is_none() {
                break;
            }
        }
        attributes
    }
}

/// The parts of a file.
pub(super) struct Parts<'a> {
    pub attributes: Attributes,
    /// The records, one behind the other.
    pub records: &'a [u8],
    /// Formats of tracepoints.
    pub formats: Formats,
    /// True if the file ends within its records.
    pub is_cut: bool,
}

impl<'a> Parts<'a> {
    /// Finds the parts of a file; `None` if it ends within its header.
    pub(super) fn of(file: &'a [u8]) -> Option<Parts<'a>> {
        let mut bytes = Bytes(file);
        bytes.expect(MAGIC)?;
        let header_bytes = bytes.u64()?;
        if header_bytes == PIPE_HEADER_BYTES {
            let (attributes, formats) = (Attributes::default(), Formats::default());
            return Some(Parts { attributes, records: bytes.0, formats, is_cut: false });
        }
        let attribute_bytes = bytes.u64()?;
        let mut place = || Some((bytes.u64()?, bytes.u64()?));
        let (listed, records, _types) = (place()?, place()?, place()?);
        let features = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
        let data = Bytes::from(file, records.0).map_or(&[][..], |rest| rest.0);
        let length = usize::try_from(records.1).unwrap_or(usize::MAX);
        let (is_cut, data) = (data.len() < length, &data[..data.len().min(length)]);
        let sections = records.0.checked_add(records.1).and_then(|behind| Bytes::from(file, behind));
        let feature = |wanted: u32| {
            let before = (0..wanted).filter(|bit| has(&features, *bit)).count() as u64;
            let mut places = sections.filter(|_| has(&features, wanted))?;
            places.take(16 * before)?;
            part(file, (places.u64()?, places.u64()?))
        };
        let attributes = feature(EVENT_DESC)
            .and_then(Attributes::described)
            .unwrap_or_else(|| Attributes::listed(file, part(file, listed).unwrap_or_default(), attribute_bytes));
        let formats = feature(TRACING_DATA).and_then(trace_dat::formats).unwrap_or_default();
        Some(Parts { attributes, records: data, formats, is_cut })
    }
}

fn has(features: &[u64; 4], bit: u32) -> bool {
    features[(bit / 64) as usize] >> (bit % 64) & 1 == 1
}

fn part(file: &[u8], (at, length): (u64, u64)) -> Option<&[u8]> {
    Bytes::from(file, at)?.take(length)
}
