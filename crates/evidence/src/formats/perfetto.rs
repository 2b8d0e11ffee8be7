//! Converts the kernel's events in a Perfetto trace to the text that the kernel would print. [`tracks`] has what programs wrote.
//!
//! A trace is a protobuf message of packets (Perfetto's `protos/perfetto/trace/perfetto_trace.proto`); the messages below have the needed
//! fields with their numbers. A packet with `ftrace_events` has the events of one CPU. Switches and wake-ups can be in columns
//! (`compact_sched`): stamps as differences, commands by their place in a table, and the thread that a switch stops is the one that the
//! switch before it started. Packets may be compressed.
//!
//! Packets are decoded one by one, and the text is bounded. A file is taken only if its first packets can be decoded and
//! one of them has events.

mod clocks;
mod compact;
mod messages;
mod track_messages;
pub(crate) mod tracks;

use crate::input::{records_max, unpacked_bytes_max};
use flate2::read::ZlibDecoder;
use hashbrown::HashMap;
use messages::{Event, Generic, Packet};
use prost::Message;
use std::fmt::Write as _;
use std::io::Read;
use timeline::{DiagnosticKind, Diagnostics};

/// The kind of a file, in words.
pub(crate) const KIND: &str = "kernel trace (Perfetto)";
/// The key of a packet: field 1, with a length.
const PACKET: u8 = 0x0a;
/// A longer packet is not decoded, because an event of two bytes takes more than 100 in memory. Perfetto writes far shorter ones.
const PACKET_BYTES_MAX: usize = 512 << 10;
/// The text has at most this number of bytes for each byte of the file, plus [`TEXT_BYTES_SMALL`], and never more than
/// [`TEXT_BYTES_MAX`]. While it is sorted, it takes twice that.
const TEXT_RATIO_MAX: usize = 3;
const TEXT_BYTES_SMALL: usize = 9 << 20;
const TEXT_BYTES_MAX: usize = 144 << 20;
/// The memory of the events of a packet stays below half of what an empty file may take.
const _: () = assert!(PACKET_BYTES_MAX / 2 * size_of::<Event>() <= 32 << 20);
/// The memory of a thread's name, with that of its row. Traces of real machines name some thousands.
const THREAD_NAME_COST: usize = 400;
/// Packets that are looked at to know such a file.
const LOOKED_AT: usize = 2000;
const LOOKED_AT_UNPACKED: u64 = 4 << 20;

/// The packets of a trace, up to the first one that is cut.
fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let mut after = rest.strip_prefix(&[PACKET])?;
        let length = prost::encoding::decode_varint(&mut after).ok()?;
        let (packet, next) = after.split_at_checked(usize::try_from(length).ok()?)?;
        rest = next;
        Some(packet)
    })
}

fn decode(packet: &[u8]) -> Option<Packet> {
    (packet.len() <= PACKET_BYTES_MAX).then(|| Packet::decode(packet).ok())?
}

/// Unpacks packets, up to `left` bytes. False if they are damaged.
fn unpacked(packed: &[u8], left: &mut u64) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let is_whole = ZlibDecoder::new(packed).take(*left).read_to_end(&mut bytes).is_ok();
    *left -= bytes.len() as u64;
    (bytes, is_whole)
}

/// True if one of the first packets is of a kind. Compressed ones are unpacked as far as that is quick.
fn has(bytes: &[u8], is_it: impl Fn(&Packet) -> bool) -> bool {
    let mut left = LOOKED_AT_UNPACKED;
    packets(bytes).take(LOOKED_AT).map_while(decode).any(|packet| {
        let inner = packet.compressed_packets.as_ref().map(|packed| unpacked(packed, &mut left).0).unwrap_or_default();
        is_it(&packet) || packets(&inner).take(LOOKED_AT).map_while(decode).any(|packet| is_it(&packet))
    })
}

/// True if bytes are a trace with events of the kernel.
pub(crate) fn recognise(bytes: &[u8]) -> bool {
    has(bytes, |packet| packet.ftrace_events.is_some())
}

/// True if bytes are a trace with tracks of programs.
pub(crate) fn has_tracks(bytes: &[u8]) -> bool {
    has(bytes, |packet| packet.track_event.is_some())
}

/// The lines of a trace, in the order of the file.
struct Text {
    out: String,
    /// The time of each line in ns, and its place.
    lines: Vec<(u64, u32)>,
    most: usize,
    /// The names of threads, and how many of them the lists of threads may give.
    names: HashMap<i32, String>,
    names_most: usize,
    /// The thread that runs on each CPU.
    running: HashMap<u32, (i32, String)>,
    beyond: u64,
    damaged: u64,
}

/// Returns the events as the text that the kernel would print, in order of time; empty without events.
pub fn text(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<u8> {
    let mut text = Text {
        out: String::new(),
        lines: Vec::new(),
        most: (bytes.len().saturating_mul(TEXT_RATIO_MAX) + TEXT_BYTES_SMALL).min(TEXT_BYTES_MAX),
        names: HashMap::new(),
        names_most: records_max(bytes.len(), THREAD_NAME_COST),
        running: HashMap::new(),
        beyond: 0,
        damaged: 0,
    };
    let mut unpacked_left = unpacked_bytes_max(bytes);
    text.packets(bytes, Some(&mut unpacked_left));
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, file, text.beyond, None, || file.to_owned());
    diagnostics.note_many(DiagnosticKind::TraceEventDamaged, text.damaged, || file.to_owned());
    text.sorted()
}

impl Text {
    /// Adds the events of packets. `unpacked_left` is the number of bytes that compressed ones may still become. Without it they are left
    /// out, as are those within another.
    fn packets(&mut self, bytes: &[u8], mut unpacked_left: Option<&mut u64>) {
        for packet in packets(bytes) {
            let Some(packet) = decode(packet) else {
                self.damaged += 1;
                continue;
            };
            for thread in packet.process_tree.into_iter().flat_map(|tree| tree.threads) {
                let is_beyond = self.names.len() >= self.names_most;
                self.beyond += u64::from(is_beyond);
                self.names.extend(thread.name.filter(|_| !is_beyond).map(|name| (thread.tid, name)));
            }
            if let (Some(packed), Some(left)) = (&packet.compressed_packets, &mut unpacked_left) {
                let (bytes, is_whole) = unpacked(packed, left);
                self.damaged += u64::from(!is_whole);
                self.packets(&bytes, None);
            }
            let Some(events) = packet.ftrace_events else { continue };
            let cpu = events.cpu;
            if events.lost_events {
                let first = events.event.first().map(|event| event.timestamp);
                let first = first.or_else(|| events.compact_sched.as_ref()?.switch_timestamp.first().copied());
                let lost = format!("CPU:{cpu} [LOST EVENTS]");
                self.line(first.unwrap_or_default(), |out| out.push_str(&lost));
            }
            events.event.iter().for_each(|event| self.event(cpu, event));
            events.compact_sched.iter().for_each(|columns| self.compact(cpu, columns));
        }
    }

    fn line(&mut self, at: u64, write: impl FnOnce(&mut String)) {
        if self.out.len() > self.most {
            self.beyond += 1;
            return;
        }
        let start = self.out.len();
        write(&mut self.out);
        // A name may have line ends of its own.
        let end = self.out[start..].find('\n').map_or(self.out.len(), |end| start + end);
        self.out.truncate(end);
        self.out.push('\n');
        self.lines.push((at, timeline::number(start)));
    }

    /// A line of an event of that thread.
    fn event_line(&mut self, (cpu, pid, at): (u32, i32, u64), event: &str, write: impl FnOnce(&mut String)) {
        let comm = self.names.get(&pid).filter(|_| pid != 0).cloned();
        self.line(at, |out| {
            let (seconds, ns) = (at / 1_000_000_000, at % 1_000_000_000);
            let _ = match comm {
                Some(comm) => write!(out, "{comm}-{pid}"),
                None if pid == 0 => write!(out, "<idle>-{pid}"),
                None => write!(out, "<...>-{pid}"),
            };
            let _ = write!(out, " [{cpu:03}] ..... {seconds}.{ns:09}: {event}: ");
            write(out);
        });
    }

    fn event(&mut self, cpu: u32, event: &Event) {
        let head = (cpu, i32::try_from(event.pid).unwrap_or(i32::MAX), event.timestamp);
        if let Some(e) = &event.sched_switch {
            self.names.insert(e.prev_pid, e.prev_comm.clone());
            self.names.insert(e.next_pid, e.next_comm.clone());
            self.running.insert(cpu, (e.next_pid, e.next_comm.clone()));
            self.event_line(head, "sched_switch", |out| e.write(out));
        } else if let Some((name, e)) = event.wakes() {
            self.names.insert(e.pid, e.comm.clone());
            self.event_line(head, name, |out| e.write(out));
        } else if let Some(e) = &event.sched_process_fork {
            self.event_line(head, "sched_process_fork", |out| e.write(out));
        } else if let Some(e) = &event.task_newtask {
            self.names.insert(e.pid, e.comm.clone());
            self.event_line(head, "task_newtask", |out| e.write(out));
        } else if let Some(e) = &event.task_rename {
            self.names.insert(e.pid, e.newcomm.clone());
            self.event_line(head, "task_rename", |out| out.push_str(&e.newcomm));
        } else if let Some(e) = &event.sched_process_exec {
            self.event_line(head, "sched_process_exec", |out| e.write(out));
        } else if let Some(e) = &event.sched_process_exit {
            self.event_line(head, "sched_process_exit", |out| e.write(out));
        } else if let Some(e) = &event.print {
            self.event_line(head, "tracing_mark_write", |out| out.push_str(&e.text));
        } else if let Some(e) = &event.console {
            self.event_line(head, "console", |out| out.push_str(&e.text));
        } else if let Some(e) = &event.generic {
            self.event_line(head, &e.event_name, |out| arguments(e, out));
        } else {
            self.event_line(head, "not_read", |_| {});
        }
    }

    /// All lines in order of time, below the heading that the kernel writes.
    fn sorted(mut self) -> Vec<u8> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        // All places differ, so the order is that of a stable sort, which would need memory.
        self.lines.sort_unstable();
        let mut out = b"# tracer: nop\n#\n".to_vec();
        out.reserve(self.out.len());
        for (_, start) in self.lines {
            let line = &self.out.as_bytes()[start as usize..];
            out.extend(memchr::memchr(b'\n', line).map_or(line, |end| &line[..=end]));
        }
        out
    }
}

/// The fields of an event that Perfetto's schema does not have.
fn arguments(event: &Generic, out: &mut String) {
    for (place, field) in event.field.iter().enumerate() {
        let space = if place > 0 { " " } else { "" };
        let _ = match (&field.str_value, field.int_value, field.uint_value) {
            (Some(text), ..) => write!(out, "{space}{}={text}", field.name),
            (_, Some(number), _) => write!(out, "{space}{}={number}", field.name),
            (_, _, number) => write!(out, "{space}{}=0x{:x}", field.name, number.unwrap_or_default()),
        };
    }
}
