//! TSLOG text: the format of FreeBSD's `sysctl -b debug.tslog`, so that its scripts can read any boot.
//!
//! ```text
//! 0x<thread> <ticks> <ENTER|EXIT|THREAD|EVENT> <name>[ <detail>]
//! ```
//! Spans are entries and exits; waits for holders, holds and marks are events. A tick is a nanosecond, or a counter tick if
//! the timeline counts those. Ticks begin at the earliest record. The last line notes the rate as the recorder
//! (`kernel/tslog`) does: `0x0 <ticks> EVENT TSLOG hz 1000000000`.
//!
//! FreeBSD's scripts look for the two functions that its boot begins and ends in. If the boot lacks them, the thread at
//! the end of the boot path is entered as `start_init`, and its creator as `mi_startup`. If the boot has its kernel's
//! own TSLOG, the program writes that log instead.

use super::Export;
use crate::lanes::{Edge, Label, edges};
use crate::{Boot, harmless};
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::{NameId, Ns, TrackId, TrackKind, Unit, WaitedOn};

pub struct Tslog;

impl Export for Tslog {
    fn name(&self) -> &'static str {
        "tslog"
    }

    fn extension(&self) -> &'static str {
        "tslog.txt"
    }

    fn about(&self) -> &'static str {
        "the kernel's TSLOG as text, for FreeBSD's scripts"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Text { boot, threads: threads(boot), names: HashMap::new(), records: Vec::new() };
        // A thread is named before its first record, and the functions for the whole boot contain all others.
        text.threads();
        let ends = text.roles();
        text.spans();
        text.events();
        ends.into_iter().for_each(|(at, track, role)| text.add(at, track, "EXIT", What::Role(role)));
        // The sort is stable: simultaneous records of a thread stay in order.
        text.records.sort_by_key(|record| record.at);
        let zero = boot.earliest();
        for record in &text.records {
            let ticks = (record.at - zero).0;
            let (thread, name) = (text.threads[record.track.0 as usize], &text.names[&record.label]);
            writeln!(out, "{thread:#x} {ticks} {} {name}", record.what)?;
        }
        match text.records.last() {
            Some(last) if boot.timeline.unit != Unit::Ticks => {
                writeln!(out, "0x0 {} EVENT TSLOG hz 1000000000", (last.at - zero).0)
            }
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Label(Label),
    Name(NameId),
    Event(&'static str, NameId),
    Role(&'static str),
}

struct Record {
    at: Ns,
    track: TrackId,
    what: &'static str,
    label: What,
}

struct Text<'a> {
    boot: &'a Boot<'a>,
    /// The address of each track in the text.
    threads: Vec<u64>,
    names: HashMap<What, String>,
    records: Vec<Record>,
}

impl Text<'_> {
    fn add(&mut self, at: Ns, track: TrackId, what: &'static str, label: What) {
        let boot = self.boot;
        self.names.entry(label).or_insert_with(|| text(boot, label));
        self.records.push(Record { at, track, what, label });
    }

    /// Adds the names of all threads but process 1, which FreeBSD does not name.
    fn threads(&mut self) {
        let init = self.boot.timeline.end.and_then(|end| end.track);
        for (id, t) in self.boot.timeline.tracks.iter().filter(|(id, _)| Some(*id) != init) {
            if let Some((at, _)) = t.created.filter(|_| t.kind == TrackKind::Thread) {
                self.add(at, id, "THREAD", What::Name(t.name));
            }
        }
    }

    /// Enters the functions that FreeBSD's scripts look for, if the boot does not have them. Returns their ends.
    fn roles(&mut self) -> Vec<(Ns, TrackId, &'static str)> {
        let t = self.boot.timeline;
        let has = |name: &str| t.names.find(name).is_some_and(|name| t.spans.iter().any(|(_, s)| s.name == name));
        let Some((init, end)) = t.end.and_then(|end| Some((end.track?, end.at))) else { return Vec::new() };
        if has("start_init") || has("mi_startup") || has("main") {
            return Vec::new();
        }
        let mut ends = Vec::new();
        let created = t.tracks.get(init).created;
        let (born, main) = created.map_or((self.boot.earliest(), None), |(at, by)| (at, Some(by)));
        if let Some(main) = main.filter(|&main| main != init) {
            let from = t.tracks.get(main).created.map_or(self.boot.earliest(), |(at, _)| at);
            self.add(from, main, "ENTER", What::Role("mi_startup"));
            ends.push((born, main, "mi_startup"));
        }
        self.add(born, init, "ENTER", What::Role("start_init"));
        ends.push((end, init, "start_init"));
        ends
    }

    fn spans(&mut self) {
        for lane in self.boot.lanes() {
            let Some(track) = lane.track else { continue };
            let _ = edges::<std::convert::Infallible>(lane.slices(), |edge| {
                match edge {
                    Edge::Begin(slice) => self.add(slice.start, track, "ENTER", What::Label(slice.label)),
                    Edge::End(slice) => self.add(slice.end, track, "EXIT", What::Label(slice.label)),
                }
                Ok(())
            });
        }
    }

    fn events(&mut self) {
        let t = self.boot.timeline;
        for w in &t.waits {
            let WaitedOn::Holders(topic) = w.by else { continue };
            self.add(w.from, w.track, "EVENT", What::Event("WAIT", topic));
            if w.until != Ns::MAX {
                self.add(w.until, w.track, "EVENT", What::Event("UNWAIT", topic));
            }
        }
        for h in &t.holds {
            if h.from != Ns::MIN {
                self.add(h.from, h.track, "EVENT", What::Event("HOLD", h.topic));
            }
            if h.to != Ns::MAX {
                self.add(h.to, h.track, "EVENT", What::Event("RELEASE", h.topic));
            }
        }
        for mark in t.marks.iter().filter(|m| t.tracks.get(m.track).kind != TrackKind::Console) {
            self.add(mark.at, mark.track, "EVENT", What::Name(mark.name));
        }
    }
}

fn text(boot: &Boot, label: What) -> String {
    let name = |id| harmless(boot.timeline.names.get(id)).into_owned();
    match label {
        What::Label(label) => boot.text(label),
        What::Name(id) => name(id),
        What::Event(event, topic) => format!("{event} {}", name(topic)),
        What::Role(role) => role.to_owned(),
    }
}

/// An address for each track: its id in the evidence, if no other track has that id.
fn threads(boot: &Boot) -> Vec<u64> {
    /// The first made-up address: above all process numbers, below all addresses of kernels.
    const MADE_UP: u64 = 0x1_0000_0000;
    let mut ids: HashMap<u64, usize> = HashMap::new();
    for (_, track) in boot.timeline.tracks.iter() {
        *ids.entry(track.id).or_default() += 1;
    }
    let tracks = boot.timeline.tracks.iter();
    let unique = |(id, track): (TrackId, &timeline::Track)| match track.kind {
        TrackKind::Firmware if ids.get(&0) == Some(&1) => 0,
        TrackKind::Thread if track.id != 0 && ids[&track.id] == 1 => track.id,
        _ => MADE_UP + u64::from(id.0),
    };
    tracks.map(unique).collect()
}
