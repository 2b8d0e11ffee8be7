//! From the bytes of `calls.bin` to [`Calls`]: chunk by chunk, a record at a time. The format is described in the parent.

use super::{
    CHUNK, CHUNK_HEADER, COUNTS_MAX, CallClock, Calls, Counts, HEADER, Interval, Kind, Mark, MarkKind, NODE_BYTES_MIN,
    Node, Stretch, Switch, Totals, VERSION, recognise,
};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Reads the file. What is cut off or makes no sense is counted in `diagnostics`, and everything else is returned;
/// `place` names the file. A header that is not one gives an empty result.
pub fn read(place: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Calls {
    let mut calls = Calls::default();
    if !header(bytes, place, &mut calls, diagnostics) {
        return calls;
    }
    let mut reader = Reader { calls, nodes_max: bytes.len() / NODE_BYTES_MIN, defined: Vec::new(), counts: Vec::new() };
    let mut at = HEADER;
    while at < bytes.len() {
        let Some((vcpu, chunk)) = chunk(&bytes[at..]) else {
            diagnostics.note(DiagnosticKind::CallTraceChunkMissing, || format!("{place}: byte {at}"));
            break;
        };
        at += CHUNK_HEADER;
        let mut records = Records { bytes: chunk, at: 0, vcpu, node: 0, defined: 0, time: 0, function: 0 };
        while records.at < chunk.len() {
            let start = at + records.at;
            if let Err(kind) = reader.record(&mut records) {
                diagnostics.note(kind, || format!("{place}: byte {start}"));
                break;
            }
        }
        at += chunk.len();
    }
    reader.finish(place, diagnostics)
}

/// A chunk's vCPU and records. The last one may be cut off.
fn chunk(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<CHUNK_HEADER>()?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    head.starts_with(CHUNK).then(|| (u16::from_le_bytes([head[8], head[9]]), &rest[..length.min(rest.len())]))
}

fn header(bytes: &[u8], place: &str, calls: &mut Calls, diagnostics: &mut Diagnostics) -> bool {
    let Some(head) = bytes.first_chunk::<HEADER>().filter(|_| recognise(bytes)) else {
        if !bytes.is_empty() {
            diagnostics.note(DiagnosticKind::CallTraceWithoutHeader, || place.to_owned());
        }
        return false;
    };
    let u64_at = |i: usize| u64::from_le_bytes(head[i..i + 8].try_into().expect("eight bytes"));
    let version = u16::from_le_bytes([head[8], head[9]]);
    if version != VERSION || head[10] > 1 {
        let found = || format!("{place}: version {version}, clock {}", head[10]);
        diagnostics.note(DiagnosticKind::CallTraceVersionUnknown, found);
        return false;
    }
    calls.clock = if head[10] == 0 { CallClock::Host } else { CallClock::Virtual };
    calls.api = head[11];
    calls.vcpus = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    let began = u64_at(24);
    calls.zero_host_ns = if u64_at(16) == 0 { began } else { u64_at(16) };
    let since = i128::from(began) - i128::from(calls.zero_host_ns);
    calls.began = Ns(since.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    (calls.ticks_per_second, calls.min_call_ticks, calls.call_cost_ps) = (u64_at(32), u64_at(40), u64_at(48));
    calls.target = String::from_utf8_lossy(&head[64..72]).trim_end_matches('\0').to_owned();
    true
}

/// Where reading a chunk stands, and what the next record is relative to.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    vcpu: u16,
    node: u32,
    defined: u32,
    time: u64,
    function: u64,
}

struct Reader {
    calls: Calls,
    nodes_max: usize,
    /// Of each node, whether it was defined.
    defined: Vec<bool>,
    /// The last figures of each vCPU.
    counts: Vec<(u16, Counts)>,
}

impl Reader {
    fn record(&mut self, r: &mut Records) -> Result<(), DiagnosticKind> {
        let tag = r.byte()?;
        match tag & 15 {
            1 => return self.define(r, tag),
            2 => {
                let (node, calls, insns) = (self.mention(r)?, r.varint()?, r.varint()?);
                let ticks = if tag & 16 != 0 { r.varint()? } else { 0 };
                self.calls.totals.push(Totals { node, calls, insns, ticks });
            }
            kind @ (3 | 4 | 6) => {
                let (node, to, length) = (self.mention(r)?, r.time()?, r.varint()?);
                let stretch = Stretch { node, vcpu: r.vcpu, from: to.saturating_sub(length), to };
                match kind {
                    3 => self.calls.spans.push(stretch),
                    4 => self.calls.open.push(stretch),
                    _ => self.calls.idle.push(stretch),
                }
            }
            5 => {
                let switch = Switch { node: self.mention(r)?, vcpu: r.vcpu, at: r.time()? };
                self.calls.switches.push(switch);
            }
            7 => {
                let sync = (r.time()?, r.varint()?);
                self.calls.syncs.push(sync);
            }
            8 => {
                let (at, kind, insns) = (r.time()?, r.varint()?, r.varint()?);
                let kind = match kind {
                    1 => MarkKind::FirstUser,
                    2 => MarkKind::FirstUserOut,
                    _ => return Err(DiagnosticKind::CallTraceMalformed),
                };
                self.calls.marks.push(Mark { kind, vcpu: r.vcpu, at, insns });
            }
            9 => {
                let (to, _insns) = (r.time()?, r.varint()?);
                self.calls.intervals.push(Interval { vcpu: r.vcpu, to, totals_to: self.calls.totals.len() });
            }
            10 => self.counts(r)?,
            11 => self.calls.exit = self.calls.exit.max(Some(r.time()?)),
            _ => return Err(DiagnosticKind::CallTraceMalformed),
        }
        Ok(())
    }

    fn define(&mut self, r: &mut Records, tag: u8) -> Result<(), DiagnosticKind> {
        let number = i64::from(r.defined).checked_add(r.signed()?).and_then(|n| u32::try_from(n).ok());
        let number = number.ok_or(DiagnosticKind::CallTraceMalformed)?;
        let (parent, function) = (r.varint()?, r.function.wrapping_add(r.signed()? as u64));
        let kind = Kind::from_bits(tag >> 4 & 7).ok_or(DiagnosticKind::CallTraceMalformed)?;
        let stack = if kind == Kind::Stack { r.varint()? } else { 0 };
        if number == 0 || parent >= u64::from(number) {
            return Err(DiagnosticKind::CallTraceMalformed);
        }
        self.room(number)?;
        self.defined[number as usize] = true;
        self.calls.nodes[number as usize] = Node { parent: parent as u32, kind, function, stack };
        (r.defined, r.function) = (number, function);
        Ok(())
    }

    /// A node's number. It may be defined only later in the file.
    fn mention(&mut self, r: &mut Records) -> Result<u32, DiagnosticKind> {
        let number = i64::from(r.node).checked_add(r.signed()?).and_then(|n| u32::try_from(n).ok());
        r.node = number.ok_or(DiagnosticKind::CallTraceMalformed)?;
        self.room(r.node)?;
        Ok(r.node)
    }

    fn room(&mut self, number: u32) -> Result<(), DiagnosticKind> {
        if number as usize > self.nodes_max {
            return Err(DiagnosticKind::CallTraceMalformed);
        }
        if number as usize >= self.defined.len() {
            self.defined.resize(number as usize + 1, false);
            self.calls.nodes.resize(number as usize + 1, Node::default());
        }
        Ok(())
    }

    fn counts(&mut self, r: &mut Records) -> Result<(), DiagnosticKind> {
        let many = r.varint()?;
        if many > COUNTS_MAX {
            return Err(DiagnosticKind::CallTraceMalformed);
        }
        let mut counts = Counts::default();
        let figures = (0..many).map(|_| r.varint()).collect::<Result<Vec<u64>, _>>()?;
        for (field, n) in counts.fields().into_iter().zip(figures) {
            *field = n;
        }
        match self.counts.iter_mut().find(|(vcpu, _)| *vcpu == r.vcpu) {
            Some((_, last)) => *last = counts,
            None => self.counts.push((r.vcpu, counts)),
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
        calls
    }
}

impl Records<'_> {
    fn byte(&mut self) -> Result<u8, DiagnosticKind> {
        let byte = *self.bytes.get(self.at).ok_or(DiagnosticKind::CallTraceCut)?;
        self.at += 1;
        Ok(byte)
    }

    fn time(&mut self) -> Result<u64, DiagnosticKind> {
        self.time = self.time.saturating_add(self.varint()?);
        Ok(self.time)
    }

    fn signed(&mut self) -> Result<i64, DiagnosticKind> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DiagnosticKind> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DiagnosticKind::CallTraceMalformed)
    }
}
