//! Reads one sample. Its event's attribute tells which fields it has; their order is that of perf_event_open(2).

use super::attributes::{Attribute, Attributes, bit, id_of_sample};
use super::records::Record;
use super::threads::{FileNo, NameNo, Threads};
use crate::input::bytes::Bytes;
use timeline::Ns;

/// Stacks are read to this depth.
const FRAMES_MAX: u64 = 1024;
/// Values from here on are not addresses: they give the kind of the following addresses.
const CONTEXT_MIN: u64 = u64::MAX - 4094;
/// The bits for the CPU's mode.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;

/// An entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub address: u64,
    /// The file that is mapped there, unless it is a kernel address.
    pub file: Option<FileNo>,
}

/// The state of a CPU at one moment.
pub(super) struct Sample {
    pub at: Option<Ns>,
    pub cpu: Option<u64>,
    pub tid: u64,
    pub name: NameNo,
    pub event: usize,
    pub is_user: Option<bool>,
    pub period: Option<u64>,
    /// The innermost function is first.
    pub stack: Box<[Frame]>,
}

/// A sample, and a tracepoint's data.
pub(super) struct Read<'a> {
    pub sample: Sample,
    pub event: usize,
    pub at: Option<u64>,
    pub raw: Option<&'a [u8]>,
}

/// Reads a field of eight bytes, if samples have it.
fn field(bytes: &mut Bytes<'_>, attribute: &Attribute, bit: u64) -> Option<Option<u64>> {
    if attribute.sample_type & bit == 0 { Some(None) } else { bytes.u64().map(Some) }
}

impl Sample {
    /// Reads a sample; `None` if it ends before its last field.
    pub(super) fn read<'a>(record: &Record<'a>, attributes: &Attributes, threads: &Threads) -> Option<Read<'a>> {
        let event = attributes.of(id_of_sample(record.body, attributes.all.first()?));
        let attribute = &attributes.all[event];
        let mut bytes = Bytes(record.body);
        let mut next = |bit| field(&mut bytes, attribute, bit);
        let (_identifier, ip, ids, at) = (next(bit::IDENTIFIER)?, next(bit::IP)?, next(bit::TID)?, next(bit::TIME)?);
        let (_address, _id, _stream) = (next(bit::ADDR)?, next(bit::ID)?, next(bit::STREAM_ID)?);
        let (cpu, period) = (next(bit::CPU)?, next(bit::PERIOD)?);
        if attribute.sample_type & bit::READ != 0 {
            skip_counts(&mut bytes, attribute.read_format)?;
        }
        let (pid, tid) = ids.map_or((0, 0), |ids| (ids & 0xffff_ffff, ids >> 32));
        let frame = |address| Frame { address, file: threads.at(pid, address) };
        let mut stack = Vec::new();
        if attribute.sample_type & bit::CALLCHAIN != 0 {
            let count = bytes.u64()?;
            for place in 0..count {
                let address = bytes.u64()?;
                if address < CONTEXT_MIN && place < FRAMES_MAX {
                    stack.push(frame(address));
                }
            }
        }
        if stack.is_empty() {
            stack.extend(ip.map(frame));
        }
        let raw = if attribute.sample_type & bit::RAW != 0 { Some(bytes.sized(4)?) } else { None };
        let is_user = match record.mode & MODE {
            MODE_KERNEL => Some(false),
            MODE_USER => Some(true),
            _ => None,
        };
        let sample = Sample {
            at: at.and_then(|at| i64::try_from(at).ok()).map(Ns),
            cpu: cpu.map(|cpu| cpu & 0xffff_ffff),
            tid,
            name: threads.name_of(pid, tid),
            event,
            is_user,
            period,
            stack: stack.into(),
        };
        Some(Read { sample, event, at, raw })
    }
}

/// Skips the values of counters, which are not used.
fn skip_counts(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    const ENABLED: u64 = 1;
    const RUNNING: u64 = 2;
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    const LOST: u64 = 16;
    let has = |bit| u64::from(format & bit != 0);
    let times = has(ENABLED) + has(RUNNING);
    let of_each = 1 + has(ID) + has(LOST);
    let words =
        if format & GROUP == 0 { times + of_each } else { bytes.u64()?.checked_mul(of_each)?.checked_add(times)? };
    bytes.take(words.checked_mul(8)?).map(|_| ())
}
