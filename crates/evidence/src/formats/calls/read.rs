//! Reads the bytes of `calls.bin` into [`Calls`]: chunk by chunk, one record at a time.

use super::{Calls, Counts, Interval, Mark, MarkKind, Node, Stretch, Switch, Totals};
use crate::formats::plugin_header;
use crate::input::records_max;
use plugin_formats::calls::{
    self as format, CHUNK_HEADER_BYTES, COUNTS_MOST, HEADER_BYTES, Header, NODE_BYTES_LEAST, Record, Stream, chunk,
};
use plugin_formats::{Broken, Bytes};
use timeline::{DiagnosticKind, Diagnostics};

/// Memory of one record, in bytes, with everything derived from it.
const RECORD_COST: usize = 20;
/// A file of four times this size and more has less room for each byte.
const ROOM_OF_LARGE_BYTES: usize = 6 << 20;

/// Reads the file. `place` names the file. Cut or malformed parts are counted in `diagnostics`, and everything else is
/// returned. Without a valid header, the result is empty.
pub fn read(place: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Calls {
    let mut calls = Calls::default();
    if !header(bytes, place, &mut calls, diagnostics) {
        return calls;
    }
    // In a real boot, one byte of the file becomes eight in memory, twice as many as with a log. The bytes are in memory, too: a large
    // file has less room, so that both stay within eight times its size.
    let records_max = records_max((2 * bytes.len()).min(bytes.len() / 4 * 7 + ROOM_OF_LARGE_BYTES), RECORD_COST);
    let nodes_max = (bytes.len() / NODE_BYTES_LEAST).min(records_max);
    let mut reader = Reader { calls, nodes_max, records: 0, records_max, defined: Vec::new(), counts: Vec::new() };
    let mut beyond = 0;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Some((vcpu, chunk)) = chunk(&bytes[at..]) else {
            diagnostics.note(DiagnosticKind::CallTraceChunkMissing, || format!("{place}: byte {at}"));
            break;
        };
        at += CHUNK_HEADER_BYTES;
        let (mut records, mut stream) = (Bytes::new(chunk), Stream::default());
        while !records.is_at_end() {
            let start = at + records.at();
            if reader.records >= reader.records_max {
                beyond += chunk.len() - records.at();
                break;
            }
            reader.records += weight(chunk[records.at()]);
            if let Err(broken) = reader.record(vcpu, &mut records, &mut stream) {
                let kind = match broken {
                    Broken::Cut => DiagnosticKind::CallTraceCut,
                    Broken::Malformed => DiagnosticKind::CallTraceMalformed,
                };
                diagnostics.note(kind, || format!("{place}: byte {start}"));
                break;
            }
        }
        at += chunk.len();
    }
    let about = format!("bytes of {place}");
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, &about, beyond as u64, None, || place.to_owned());
    reader.finish(place, diagnostics)
}

/// The memory of a record, as a multiple of a usual one, by its tag. Much is derived from stacks, switches and sleeps.
fn weight(tag: u8) -> usize {
    const STACK: u8 = 1;
    const SWITCH: u8 = 5;
    const IDLE: u8 = 6;
    const TOTALS: u8 = 2;
    match (tag & 15, tag >> 4 & 7) {
        (STACK, 0) | (IDLE, _) => 12,
        (STACK, _) => 4,
        (TOTALS, _) => 1,
        (SWITCH, _) => 14,
        _ => 2,
    }
}

fn header(bytes: &[u8], place: &str, calls: &mut Calls, diagnostics: &mut Diagnostics) -> bool {
    let kinds = [DiagnosticKind::CallTraceWithoutHeader, DiagnosticKind::CallTraceVersionUnknown];
    let Some(header) = plugin_header::known(Header::read(bytes), (place, bytes), kinds, diagnostics) else {
        return false;
    };
    let start = &header.start;
    (calls.clock, calls.api, calls.vcpus) = (start.clock, start.api, start.vcpus);
    calls.zero_host_ns = start.zero_ns();
    calls.began = plugin_header::since(calls.zero_host_ns, start.install_host_ns);
    (calls.ticks_per_second, calls.min_call_ticks) = (header.ticks_per_second, header.min_call_ticks);
    calls.call_cost_ps = header.call_cost_ps;
    calls.target = plugin_header::target(&start.target);
    true
}

struct Reader {
    calls: Calls,
    nodes_max: usize,
    records: usize,
    records_max: usize,
    /// For each node, true if it was defined.
    defined: Vec<bool>,
    /// The latest counts of each vCPU.
    counts: Vec<(u16, Counts)>,
}

impl Reader {
    fn record(&mut self, vcpu: u16, from: &mut Bytes, stream: &mut Stream) -> Result<(), Broken> {
        match stream.read(from)? {
            Record::Node { number, parent, kind, function, stack } => {
                return self.define(number, parent, Node { parent: 0, kind, function, stack });
            }
            Record::Totals { node, calls, insns, ticks } => {
                self.room(node)?;
                self.calls.totals.push(Totals { node, calls, insns, ticks: ticks.unwrap_or(0) });
            }
            Record::Span(span) => {
                let span = self.stretch(vcpu, span)?;
                self.calls.spans.push(span);
            }
            Record::Open(open) => {
                let open = self.stretch(vcpu, open)?;
                self.calls.open.push(open);
            }
            Record::Idle(idle) => {
                let idle = self.stretch(vcpu, idle)?;
                self.calls.idle.push(idle);
            }
            Record::Switch { node, at } => {
                self.room(node)?;
                self.calls.switches.push(Switch { node, vcpu, at });
            }
            Record::Sync { at, other_ns } => self.calls.syncs.push((at, other_ns)),
            Record::Mark { at, kind, insns } => {
                let kind = match kind {
                    1 => MarkKind::FirstUser,
                    2 => MarkKind::FirstUserOut,
                    _ => return Err(Broken::Malformed),
                };
                self.calls.marks.push(Mark { kind, vcpu, at, insns });
            }
            Record::Interval { at, .. } => {
                self.calls.intervals.push(Interval { vcpu, to: at, totals_to: self.calls.totals.len() });
            }
            Record::Counts(many) => self.counts(vcpu, many, from)?,
            Record::Exit { at } => self.calls.exit = self.calls.exit.max(Some(at)),
        }
        Ok(())
    }

    fn define(&mut self, number: u32, parent: u64, node: Node) -> Result<(), Broken> {
        let parent = u32::try_from(parent).map_err(|_| Broken::Malformed)?;
        if number == 0 || parent >= number {
            return Err(Broken::Malformed);
        }
        self.room(number)?;
        self.defined[number as usize] = true;
        self.calls.nodes[number as usize] = Node { parent, ..node };
        Ok(())
    }

    /// Converts a stretch. Its node may be defined later in the file.
    fn stretch(&mut self, vcpu: u16, found: format::Stretch) -> Result<Stretch, Broken> {
        self.room(found.node)?;
        Ok(Stretch { node: found.node, vcpu, from: found.to.saturating_sub(found.length), to: found.to })
    }

    fn room(&mut self, number: u32) -> Result<(), Broken> {
        if number as usize > self.nodes_max {
            return Err(Broken::Malformed);
        }
        if number as usize >= self.defined.len() {
            self.defined.resize(number as usize + 1, false);
            self.calls.nodes.resize(number as usize + 1, Node::default());
        }
        Ok(())
    }

    fn counts(&mut self, vcpu: u16, many: u64, from: &mut Bytes) -> Result<(), Broken> {
        // A later version may have more figures; they are ignored.
        if many > COUNTS_MOST {
            return Err(Broken::Malformed);
        }
        let mut counts = Counts::default();
        let figures = (0..many).map(|_| from.number()).collect::<Result<Vec<u64>, _>>()?;
        for (field, n) in counts.fields().into_iter().zip(figures) {
            *field = n;
        }
        match self.counts.iter_mut().find(|(other, _)| *other == vcpu) {
            Some((_, last)) => *last = counts,
            None => self.counts.push((vcpu, counts)),
        }
        Ok(())
    }

    fn finish(mut self, place: &str, diagnostics: &mut Diagnostics) -> Calls {
        let mut calls = self.calls;
        for (_, counts) in &mut self.counts {
            for (sum, n) in calls.counts.fields().into_iter().zip(counts.fields()) {
                *sum = sum.saturating_add(*n);
            }
        }
        let back = calls.settle_syncs();
        calls.intervals.sort_by_key(|i| i.totals_to);
        let lost = self.defined.iter().skip(1).filter(|defined| !**defined).count() as u64;
        let whole = || place.to_owned();
        diagnostics.note_many(DiagnosticKind::CallTraceSyncBack, back, whole);
        diagnostics.note_many(DiagnosticKind::CallPathUndefined, lost, whole);
        diagnostics.note_many(DiagnosticKind::CallPathTableFull, calls.counts.folded, whole);
        diagnostics.note_many(DiagnosticKind::CallsTooDeep, calls.counts.deep, whole);
        diagnostics.note_many(DiagnosticKind::BlocksNotFollowed, calls.counts.blocks_not_followed, whole);
        let without_room = calls.counts.stacks_without_room;
        diagnostics.note_many(DiagnosticKind::StackChangesNotFollowed, without_room, whole);
        diagnostics.note_many(DiagnosticKind::CallTraceFull, calls.counts.records_left_out, whole);
        calls
    }
}
