//! The tracks of a Perfetto trace: slices and instants that programs wrote (`TrackEvent`), each on a track (`TrackDescriptor`).
//!
//! Names, the default track and the clock of a sequence of packets are kept until the sequence clears its state. Events come as begin
//! and end, as instants, or, from Chrome's older library, as whole slices. Counters and that library's asynchronous events are not read.

use super::clocks::{CLOCK_COST, Clocks};
use super::track_messages::{InternedData, TrackDescriptor, TrackEvent, TrackPacket};
use super::{PACKET_BYTES_MAX, packets, unpacked};
use crate::input::{records_max, unpacked_bytes_max};
use hashbrown::HashMap;
use prost::Message;
use timeline::{DiagnosticKind, Diagnostics, NameId, Names, Ns};

/// The kind of a file, in words.
pub(crate) const KIND: &str = "tracks (Perfetto)";
const STATE_CLEARED: u32 = 1;
const US: i64 = 1000;
/// The track of a sequence's thread that has no number of its own: this and the number of the sequence.
const OF_A_SEQUENCE: u64 = 1 << 62;
/// The category of the slices that are phases of the boot.
const PHASE: &str = "phase";
/// The category of the slices that are rows of the boot path.
const BOOT_PATH: &str = "boot_path";
/// The memory of a slice, an event, a track, a name and a sequence in bytes, each with its part of the timeline.
const SLICE_COST: usize = 260;
const EVENT_COST: usize = 90;
const TRACK_COST: usize = 400;
const NAME_COST: usize = 200;
const INTERNED_COST: usize = 60;
const SEQUENCE_COST: usize = 400;

/// A track as its descriptor names it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Track {
    pub name: NameId,
    pub uuid: u64,
    /// The number of its thread, if it is a thread's.
    pub tid: Option<u64>,
}

/// The part of a slice that an event stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
    Instant,
    /// A slice of this length.
    Whole(Ns),
}

/// The role of a slice in the boot, by its categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    #[default]
    Work,
    Phase,
    BootPath,
}

/// An event of a track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub at: Ns,
    /// The order in the file.
    order: u32,
    /// The place of the track in [`Tracks::tracks`].
    pub track: u32,
    pub name: NameId,
    pub edge: Edge,
    pub role: Role,
}

/// The tracks of one file, and their events in order of time.
#[derive(Default)]
pub(crate) struct Tracks {
    pub tracks: Vec<Track>,
    pub events: Vec<Event>,
    /// True if the times are those of the kernel's clock for sure.
    pub is_on_the_kernels_clock: bool,
}

/// The state of a sequence of packets.
#[derive(Default)]
struct Sequence {
    names: HashMap<u64, NameId>,
    roles: HashMap<u64, Role>,
    track: Option<u64>,
    /// The track of its thread, for events of Chrome's older library.
    thread: Option<u64>,
    clock: Option<u32>,
    /// The last time of events that have differences of microseconds.
    last_us: Option<i64>,
}

struct Reading<'n> {
    names: &'n mut Names,
    tracks: Tracks,
    numbers: HashMap<u64, u32>,
    sequences: HashMap<u32, Sequence>,
    clocks: Clocks,
    /// The bytes of memory that are left for records.
    room: usize,
    beyond: u64,
    damaged: u64,
    not_read: u64,
}

/// The role that a category gives to a slice.
fn role(category: &str) -> Role {
    match category {
        PHASE => Role::Phase,
        BOOT_PATH => Role::BootPath,
        _ => Role::Work,
    }
}

/// Reads the tracks of a trace. Names are interned in `names`.
pub(crate) fn read(file: &str, bytes: &[u8], names: &mut Names, diagnostics: &mut Diagnostics) -> Tracks {
    let mut reading = Reading {
        names,
        tracks: Tracks::default(),
        numbers: HashMap::new(),
        sequences: HashMap::new(),
        clocks: Clocks::default(),
        room: records_max(bytes.len(), 1),
        beyond: 0,
        damaged: 0,
        not_read: 0,
    };
    let mut unpacked_left = unpacked_bytes_max(bytes);
    reading.packets(bytes, Some(&mut unpacked_left));
    let Reading { mut tracks, clocks, beyond, damaged, not_read, .. } = reading;
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, KIND, beyond, None, || file.to_owned());
    diagnostics.note_many(DiagnosticKind::TraceEventDamaged, damaged, || file.to_owned());
    diagnostics.add(DiagnosticKind::TrackEventsUnread, "", not_read, None, || file.to_owned());
    tracks.events.sort_unstable_by_key(|event| (event.at, event.order));
    tracks.is_on_the_kernels_clock = clocks.has_snapshot;
    tracks
}

impl Reading<'_> {
    /// True if memory for a record is left.
    fn has_room(&mut self, cost: usize) -> bool {
        let left = self.room.checked_sub(cost);
        self.beyond += u64::from(left.is_none());
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Reads packets. `unpacked_left` is as in [`super::Text::packets`].
    fn packets(&mut self, bytes: &[u8], mut unpacked_left: Option<&mut u64>) {
        for packet in packets(bytes) {
            let whole = (packet.len() <= PACKET_BYTES_MAX).then(|| TrackPacket::decode(packet).ok()).flatten();
            let Some(packet) = whole else {
                self.damaged += 1;
                continue;
            };
            if let (Some(packed), Some(left)) = (&packet.compressed_packets, &mut unpacked_left) {
                let (bytes, is_whole) = unpacked(packed, left);
                self.damaged += u64::from(!is_whole);
                self.packets(&bytes, None);
            }
            self.packet(packet);
        }
    }

    fn packet(&mut self, packet: TrackPacket) {
        let of = packet.sequence;
        if !self.sequences.contains_key(&of) && !self.has_room(SEQUENCE_COST) {
            return;
        }
        let sequence = self.sequences.entry(of).or_default();
        if packet.incremental_state_cleared || packet.sequence_flags & STATE_CLEARED != 0 {
            *sequence = Sequence::default();
        }
        if let Some(defaults) = &packet.defaults {
            sequence.track = defaults.track_event.as_ref().and_then(|event| event.track_uuid);
            sequence.clock = defaults.timestamp_clock_id;
        }
        let of_thread = packet.thread_descriptor.map(|thread| {
            sequence.last_us = thread.reference_timestamp_us.or(sequence.last_us);
            TrackDescriptor { uuid: OF_A_SEQUENCE | u64::from(of), thread: Some(*thread), ..TrackDescriptor::default() }
        });
        let clock = packet.timestamp_clock_id.or(sequence.clock);
        if let Some(interned) = packet.interned_data {
            self.intern(of, interned);
        }
        if let Some(snapshot) = &packet.clock_snapshot {
            let room = &mut self.room;
            self.clocks.snapshot(of, snapshot, || {
                let left = room.checked_sub(CLOCK_COST);
                *room = left.unwrap_or(*room);
                left.is_some()
            });
        }
        let at = packet.timestamp.map(|timestamp| self.clocks.time(of, clock, timestamp));
        for track in packet.track_descriptor.as_deref().into_iter().chain(&of_thread) {
            self.describe(of, track);
        }
        if let Some(event) = &packet.track_event {
            self.event(of, at, event);
        }
    }

    fn intern(&mut self, of: u32, interned: InternedData) {
        for name in interned.event_names {
            if self.has_room(INTERNED_COST) {
                let id = self.name(&name.name);
                self.sequences.entry(of).or_default().names.insert(name.iid, id);
            }
        }
        for category in interned.event_categories {
            let role = role(&category.name);
            if role != Role::Work && self.has_room(INTERNED_COST) {
                self.sequences.entry(of).or_default().roles.insert(category.iid, role);
            }
        }
    }

    fn name(&mut self, name: &str) -> NameId {
        if let Some(known) = self.names.find(name) {
            return known;
        }
        if self.has_room(NAME_COST + name.len()) { self.names.intern(name) } else { NameId::EMPTY }
    }

    /// The place of a track.
    fn track(&mut self, uuid: u64) -> Option<u32> {
        if let Some(known) = self.numbers.get(&uuid) {
            return Some(*known);
        }
        self.has_room(TRACK_COST).then(|| {
            let number = timeline::number(self.tracks.tracks.len());
            self.tracks.tracks.push(Track { uuid, ..Track::default() });
            *self.numbers.entry(uuid).or_insert(number)
        })
    }

    /// A thread has its own name before that of the track; a process has only one for its instants.
    fn describe(&mut self, of: u32, descriptor: &TrackDescriptor) {
        let Some(number) = self.track(descriptor.uuid) else { return };
        let thread = descriptor.thread.as_ref();
        if let Some(sequence) = self.sequences.get_mut(&of).filter(|_| thread.is_some()) {
            sequence.thread = Some(descriptor.uuid);
        }
        let of_process = || descriptor.process.as_ref().and_then(|process| process.process_name.as_ref());
        let own = descriptor.name.as_ref().or(descriptor.static_name.as_ref());
        let name = thread.and_then(|thread| thread.thread_name.as_ref()).or(own).or_else(of_process);
        let name = name.map(|name| self.name(name));
        let track = &mut self.tracks.tracks[number as usize];
        track.name = name.unwrap_or(track.name);
        track.tid = thread.and_then(|thread| u64::try_from(thread.tid).ok()).or(track.tid);
    }

    /// The time of an event: that of its packet, or one in microseconds on the clock of its sequence.
    fn time_of(&mut self, of: u32, at: Option<Option<Ns>>, event: &TrackEvent) -> Option<Ns> {
        if let Some(at) = at {
            return at;
        }
        let last = &mut self.sequences.get_mut(&of)?.last_us;
        let by_step = event.timestamp_delta_us.and_then(|step| last.map(|last| last.wrapping_add(step)));
        *last = by_step.or(*last);
        by_step.or(event.timestamp_absolute_us)?.checked_mul(US).map(Ns)
    }

    fn event(&mut self, of: u32, at: Option<Option<Ns>>, event: &TrackEvent) {
        let Some(at) = self.time_of(of, at, event) else {
            self.damaged += 1;
            return;
        };
        let Some(edge) = edge(event) else {
            self.not_read += 1;
            return;
        };
        let sequence = self.sequences.entry(of).or_default();
        let iid = event.name_iid.or(event.legacy_event.and_then(|legacy| legacy.name_iid));
        let interned = iid.and_then(|iid| sequence.names.get(&iid)).copied();
        let by_iid = event.category_iids.iter().filter_map(|iid| sequence.roles.get(iid)).copied();
        let roles = event.categories.iter().map(|category| role(category)).chain(by_iid);
        let role = roles.into_iter().find(|role| *role != Role::Work).unwrap_or_default();
        let of_thread = sequence.thread.filter(|_| event.legacy_event.is_some() && event.r#type.is_none());
        let uuid = event.track_uuid.filter(|uuid| *uuid > 0 || of_thread.is_none());
        let uuid = uuid.or(of_thread).or(sequence.track).unwrap_or_default();
        let name = match &event.name {
            Some(name) => self.name(name),
            None => interned.unwrap_or_default(),
        };
        let cost = EVENT_COST + if edge == Edge::End { 0 } else { SLICE_COST };
        let Some(track) = self.track(uuid) else { return };
        if self.has_room(cost) {
            let order = timeline::number(self.tracks.events.len());
            self.tracks.events.push(Event { at, order, track, name, edge, role });
        }
    }
}

/// The part of a slice that an event stands for; `None` for an event that is not read.
fn edge(event: &TrackEvent) -> Option<Edge> {
    let legacy = event.legacy_event.as_ref();
    let whole = || legacy.and_then(|legacy| legacy.duration_us.max(0).checked_mul(US)).map(Ns);
    match (event.r#type, legacy.and_then(|legacy| u8::try_from(legacy.phase).ok())) {
        (Some(1), _) | (None | Some(0), Some(b'B')) => Some(Edge::Begin),
        (Some(2), _) | (None | Some(0), Some(b'E')) => Some(Edge::End),
        (Some(3), _) | (None | Some(0), Some(b'I' | b'i' | b'R')) => Some(Edge::Instant),
        (None | Some(0), Some(b'X')) => whole().map(Edge::Whole),
        _ => None,
    }
}
