//! Perfetto's protobuf trace: packets of track descriptors and track events (ui.perfetto.dev opens it).
//!
//! The messages below have only the needed fields of Perfetto's public `trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto` and `interned_data.proto`, with their numbers. A test decodes the output with Perfetto's
//! schema.
//!
//! Groups of lanes are processes, and lanes are their threads. A thread of a user process is in that process, by its
//! number; the process tree has its parent. Slices are begin and end events; marks and warnings are instants. A watched
//! variable is a counter, if the host's times are the timeline's. All events share one sequence with interned names;
//! the packet that first uses a name carries it.
//!
//! Two categories say what `import` needs: the slices of `phase` are the phases, and the track of `boot_path` has the rows that the
//! boot path is charged to. A gap on it belongs to the phase alone.

use super::Export;
use crate::lanes::{Edge, Group, Label, Lane, edges};
use crate::{Boot, harmless};
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::{Ns, Process, TimeBase, TrackId, TrackKind};

pub struct Perfetto;

impl Export for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn extension(&self) -> &'static str {
        "pftrace"
    }

    fn about(&self) -> &'static str {
        "tracks, boot path, phases and CPUs, for ui.perfetto.dev"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let names = HashMap::new();
        let mut packets = Packets { boot, out, names, owners: owners(boot), begun: false, zero: boot.earliest() };
        for group in Group::ALL {
            packets.group(group)?;
        }
        packets.processes()?;
        let lanes = boot.lanes();
        for lane in &lanes {
            packets.lane(lane)?;
        }
        packets.rows()?;
        packets.marks(&lanes)?;
        packets.watched()?;
        packets.warnings()
    }
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const SEQUENCE: u32 = 1;
/// Lanes and groups have smaller numbers.
const WARNINGS: u64 = 1 << 32;
const WATCHED: u64 = WARNINGS + 1;
/// The rows of the boot path. Names of rows are interned with this and the number of the row.
const ROWS: u64 = WARNINGS + 2;
const ROWS_THREAD: u32 = NO_THREAD - 1;
const PHASE: &str = "phase";
const BOOT_PATH: &str = "boot_path";
/// The tracks of processes have numbers from here on: this plus the process number.
const PROCESSES: u64 = 1 << 33;
/// The thread number of a lane that is not a thread of a process. Linux thread numbers have at most 22 bits.
const NO_THREAD: u32 = 1_100_000_000;

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
    #[prost(bool, tag = "87")]
    first_packet_on_sequence: bool,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(double, optional, tag = "44")]
    double_counter_value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<EventName>,
}

#[derive(Clone, PartialEq, Message)]
struct EventName {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

/// Marks a track as a counter's. It names no unit.
#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, tag = "5")]
    thread_name: String,
}

/// The processes and their parents.
#[derive(Clone, PartialEq, Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<ProcessOfTree>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessOfTree {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    ppid: i32,
    #[prost(string, repeated, tag = "3")]
    cmdline: Vec<String>,
}

/// The process of each track. If several processes had the number, the last one counts.
fn owners<'a>(boot: &'a Boot) -> HashMap<TrackId, &'a Process> {
    let tracks = &boot.timeline.tracks;
    let is_thread = |process: &&Process| process.pid > 0 && process.pid < u64::from(Group::Boot.number());
    let track = |process: &'a Process| Some((tracks.find(TrackKind::Thread, process.pid)?, process));
    boot.timeline.processes.iter().filter(is_thread).filter_map(track).collect()
}

struct Packets<'a> {
    boot: &'a Boot<'a>,
    out: &'a mut dyn Write,
    /// The interned number of each name.
    names: HashMap<Label, u64>,
    /// The process of each thread that has one.
    owners: HashMap<TrackId, &'a Process>,
    begun: bool,
    /// Perfetto's times are unsigned, so all times are moved to put the earliest at zero.
    zero: Ns,
}

impl Packets<'_> {
    /// Writes a packet as an element of `Trace.packet`, field 1.
    fn put(&mut self, packet: TracePacket) -> io::Result<()> {
        let flags = if self.begun { NEEDS_STATE } else { STATE_CLEARED };
        let packet = TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            sequence_flags: flags,
            first_packet_on_sequence: !self.begun,
            ..packet
        };
        self.begun = true;
        self.out.write_all(&[1 << 3 | 2])?;
        self.out.write_all(&packet.encode_length_delimited_to_vec())
    }

    fn group(&mut self, group: Group) -> io::Result<()> {
        let number = group.number();
        let process = ProcessDescriptor { pid: as_id(number), process_name: group.name().to_owned() };
        let descriptor = TrackDescriptor { uuid: number.into(), process: Some(process), ..TrackDescriptor::default() };
        self.put(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })
    }

    /// Writes the kernel's processes.
    fn processes(&mut self) -> io::Result<()> {
        let mut all: Vec<&Process> = self.owners.values().copied().collect();
        all.sort_by_key(|process| process.pid);
        if all.is_empty() {
            return Ok(());
        }
        let name = |process: &Process| harmless(self.boot.timeline.names.get(process.name)).into_owned();
        let of_tree = |process: &&Process| ProcessOfTree {
            pid: as_pid(process.pid),
            ppid: as_pid(process.parent),
            cmdline: vec![name(process)],
        };
        let tree = ProcessTree { processes: all.iter().map(of_tree).collect() };
        let descriptors: Vec<TrackDescriptor> = all
            .iter()
            .map(|process| {
                let descriptor = ProcessDescriptor { pid: as_pid(process.pid), process_name: name(process) };
                let uuid = PROCESSES + process.pid;
                TrackDescriptor { uuid, process: Some(descriptor), ..TrackDescriptor::default() }
            })
            .collect();
        self.put(TracePacket { timestamp: Some(0), process_tree: Some(tree), ..TracePacket::default() })?;
        for descriptor in descriptors {
            self.put(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        }
        Ok(())
    }

    /// The place of a lane: the track and number of its process, its number as a thread, and its name.
    fn place(&self, lane: &Lane) -> (u64, i32, i32, String) {
        let owner = lane.track.and_then(|track| Some((track, *self.owners.get(&track)?)));
        match owner {
            Some((track, process)) => {
                let pid = as_pid(process.pid);
                (PROCESSES + process.pid, pid, pid, harmless(self.boot.track_name(track)).into_owned())
            }
            None => {
                let group = lane.group.number();
                (group.into(), as_id(group), as_id(NO_THREAD + lane.number), lane.name.clone())
            }
        }
    }

    fn lane(&mut self, lane: &Lane) -> io::Result<()> {
        let (parent, pid, tid, thread_name) = self.place(lane);
        let descriptor = TrackDescriptor {
            uuid: lane.number.into(),
            thread: Some(ThreadDescriptor { pid, tid, thread_name }),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        };
        self.put(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        edges(lane.slices(), |edge| match edge {
            Edge::Begin(slice) => self.event(slice.start, SLICE_BEGIN, lane.number, Some(slice.label)),
            Edge::End(slice) => self.event(slice.end, SLICE_END, lane.number, None),
        })
    }

    /// Writes the rows of the boot path, each where it was charged.
    fn rows(&mut self) -> io::Result<()> {
        let boot = self.boot;
        let rows = boot.stays.row_stretches(boot.path(), &boot.phases, boot.groups());
        let group = Group::Boot.number();
        let thread_name = "rows of the boot path".to_owned();
        let descriptor = TrackDescriptor {
            uuid: ROWS,
            thread: Some(ThreadDescriptor { pid: as_id(group), tid: as_id(ROWS_THREAD), thread_name }),
            parent_uuid: Some(group.into()),
            ..TrackDescriptor::default()
        };
        self.put(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        let mut is_written = vec![false; rows.names.len()];
        for stretch in &rows.stretches {
            let iid = ROWS + 1 + u64::from(stretch.row);
            let interned_data = (!std::mem::replace(&mut is_written[stretch.row as usize], true)).then(|| {
                let name = harmless(&rows.names[stretch.row as usize]).into_owned();
                InternedData { event_names: vec![EventName { iid, name }] }
            });
            let of_rows = |r#type| TrackEvent { r#type, track_uuid: ROWS, ..TrackEvent::default() };
            let begin =
                TrackEvent { name_iid: Some(iid), categories: vec![BOOT_PATH.to_owned()], ..of_rows(SLICE_BEGIN) };
            self.track_event(stretch.from, begin, interned_data)?;
            self.track_event(stretch.to, of_rows(SLICE_END), None)?;
        }
        Ok(())
    }

    /// Writes each mark on the lane of its track.
    fn marks(&mut self, lanes: &[Lane]) -> io::Result<()> {
        let numbers: HashMap<_, _> = lanes.iter().filter_map(|l| Some((l.track?, l.number))).collect();
        for mark in &self.boot.timeline.marks {
            if let Some(&number) = numbers.get(&mark.track) {
                self.event(mark.at, INSTANT, number, Some(Label::Span(mark.name, timeline::NameId::EMPTY)))?;
            }
        }
        Ok(())
    }

    /// Writes the warnings as instants at the beginning, on a separate track.
    fn warnings(&mut self) -> io::Result<()> {
        let boot = self.boot;
        for (i, warning) in super::warnings(boot).enumerate() {
            if i == 0 {
                let track =
                    TrackDescriptor { uuid: WARNINGS, name: Some("warnings".to_owned()), ..TrackDescriptor::default() };
                self.put(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
            }
            let name = Some(warning);
            let event = TrackEvent { r#type: INSTANT, track_uuid: WARNINGS, name, ..TrackEvent::default() };
            self.put(TracePacket { timestamp: Some(0), track_event: Some(event), ..TracePacket::default() })?;
        }
        Ok(())
    }

    /// Writes a watched variable as a counter. On a guest's clock the host's times have no place.
    fn watched(&mut self) -> io::Result<()> {
        let timeline = self.boot.timeline;
        let Some(watched) = timeline.watched.as_ref().filter(|_| timeline.time_base == TimeBase::Host) else {
            return Ok(());
        };
        let track = TrackDescriptor {
            uuid: WATCHED,
            name: Some(harmless(&watched.variable).into_owned()),
            counter: Some(CounterDescriptor {}),
            ..TrackDescriptor::default()
        };
        self.put(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
        for reading in &watched.readings {
            let Some(value) = reading.value else { continue };
            let whole = if watched.is_signed {
                Some(i64::from_le_bytes(value.to_le_bytes()))
            } else {
                i64::try_from(value).ok()
            };
            let event = TrackEvent {
                r#type: COUNTER,
                track_uuid: WATCHED,
                counter_value: whole,
                double_counter_value: if whole.is_none() { Some(value as f64) } else { None },
                ..TrackEvent::default()
            };
            let timestamp = Some((reading.at - self.zero).0.unsigned_abs());
            self.put(TracePacket { timestamp, track_event: Some(event), ..TracePacket::default() })?;
        }
        Ok(())
    }

    fn event(&mut self, at: Ns, r#type: i32, lane: u32, label: Option<Label>) -> io::Result<()> {
        let mut interned_data = None;
        let name_iid = label.map(|label| {
            let next = self.names.len() as u64 + 1;
            *self.names.entry(label).or_insert_with(|| {
                let name = self.boot.text(label);
                interned_data = Some(InternedData { event_names: vec![EventName { iid: next, name }] });
                next
            })
        });
        let is_phase = matches!(label, Some(Label::Phase(_)));
        let categories = is_phase.then(|| PHASE.to_owned()).into_iter().collect();
        let event = TrackEvent { r#type, name_iid, track_uuid: lane.into(), categories, ..TrackEvent::default() };
        self.track_event(at, event, interned_data)
    }

    fn track_event(&mut self, at: Ns, event: TrackEvent, interned_data: Option<InternedData>) -> io::Result<()> {
        let timestamp = Some((at - self.zero).0.unsigned_abs());
        self.put(TracePacket { timestamp, track_event: Some(event), interned_data, ..TracePacket::default() })
    }
}

/// Process numbers are smaller than group numbers.
fn as_pid(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Lane and group numbers are below 2^31.
fn as_id(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use timeline::{Reading, Timeline, Watched};

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    fn exported(time_base: TimeBase) -> Vec<TracePacket> {
        let reading = |at, value| Reading { at: Ns(at), value, function: "f".to_owned(), ..Reading::default() };
        let readings = vec![reading(5, Some(7)), reading(6, None), reading(9, Some(u64::MAX))];
        let watched = Watched { variable: "n\u{1b}".to_owned(), readings, ..Watched::default() };
        let timeline = Timeline { time_base, watched: Some(watched), ..Timeline::default() };
        let facts = Facts::default();
        let mut out = Vec::new();
        Perfetto.write(&Boot::new(&timeline, &facts), &mut out).unwrap();
        Trace::decode(&*out).unwrap().packet
    }

    #[test]
    fn a_watched_variable_is_a_counter_on_a_separate_track() {
        let packets = exported(TimeBase::Host);
        let counters = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        let counters: Vec<_> = counters.filter(|track| track.counter.is_some()).collect();
        assert_eq!(counters.len(), 1);
        assert_eq!((counters[0].uuid, counters[0].name.as_deref()), (WATCHED, Some("n\\x1b")));
        let events = packets.iter().filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)));
        let values: Vec<_> = events
            .filter(|(_, event)| event.r#type == COUNTER && event.track_uuid == WATCHED)
            .map(|(at, event)| (at, event.counter_value, event.double_counter_value))
            .collect();
        assert_eq!(values, [(5, Some(7), None), (9, None, Some(u64::MAX as f64))]);
    }

    #[test]
    fn a_process_is_one_with_its_number_and_its_parent() {
        let mut timeline = Timeline::default();
        let [init, shell] = ["init", "sh\u{1b}"].map(|name| timeline.names.intern(name));
        let tracks = [(1, init), (7, shell)].map(|(id, name)| timeline.tracks.add(name, TrackKind::Thread, id));
        let process = |pid, parent, name| Process { pid, parent, depth: 0, name, start: Ns::ZERO, end: None };
        timeline.processes = vec![process(1, 0, init), process(7, 1, shell)];
        let facts = Facts::default();
        let mut out = Vec::new();
        Perfetto.write(&Boot::new(&timeline, &facts), &mut out).unwrap();
        let packets = Trace::decode(&*out).unwrap().packet;
        let tree = packets.iter().find_map(|packet| packet.process_tree.clone()).unwrap();
        let tree: Vec<_> = tree.processes.iter().map(|p| (p.pid, p.ppid, p.cmdline[0].as_str())).collect();
        assert_eq!(tree, [(1, 0, "init"), (7, 1, "sh\\x1b")]);
        let descriptors = || packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        let threads: Vec<_> = descriptors().filter_map(|d| Some((d.parent_uuid?, d.thread.clone()?))).collect();
        for (parent, thread) in threads.iter().filter(|(_, thread)| thread.tid < 100) {
            let process = descriptors().find(|d| d.uuid == *parent).unwrap().process.clone().unwrap();
            assert_eq!((process.pid, thread.pid), (thread.tid, thread.tid));
        }
        assert_eq!(threads.iter().filter(|(_, thread)| thread.tid < 100).count(), tracks.len());
    }

    #[test]
    fn the_hosts_times_are_on_no_guests_clock() {
        let packets = exported(TimeBase::GuestVirtual);
        assert!(packets.iter().all(|packet| packet.track_descriptor.as_ref().is_none_or(|t| t.counter.is_none())));
    }
}
