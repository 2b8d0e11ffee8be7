//! printk's ring buffer, in kernels from 5.10 on (kernel/printk/printk_ringbuffer.h).
//!
//! ```text
//! printk_ringbuffer { desc_ring { count_bits, *descs, *infos, head_id, tail_id, … },
//!                     text_data_ring { size_bits, *data, head_lpos, tail_lpos }, … }
//! descs[id mod count] { state_var = state << 62 | id, begin, next }     where the text is
//! infos[id mod count] { seq, ts_nsec, text_len, facility, flags:5 level:3, caller_id, subsystem[16], device[48] }
//! data[lpos mod size] { id, text, padding to 8 }
//! ```
//! Ids and logical positions only grow (modulo 2^62 and 2^64), and start shortly before they wrap. The states are 0 reserved (being
//! written), 1 committed (complete, may still be continued), 2 finalized and 3 reusable (overwritten). A text that would cross the end of
//! `data` starts at its beginning instead, with only its id before the end. If `begin` and `next` are both odd, there is no text: 3 for an
//! empty one, 1 for one that did not fit.
//!
//! The guest may be writing. As in the kernel's own readers, a record counts only if its state is the same after its text was read. The
//! amount read is bounded by [`MAX_RECORDS`] and [`MAX_TEXT_BYTES`], whatever the guest claims.

use std::io;

use super::LeftOut;
use super::record::{Caller, Record};
use super::vmcoreinfo::Note;
use crate::arch::paging::{View, is_kernel};

/// Upper bound for the records that are read, newest first; a ring of 8 MB has this number.
const MAX_RECORDS: u64 = 1 << 18;
/// Upper bound for all texts together; overlapping blocks could contain more than their ring.
const MAX_TEXT_BYTES: u64 = 64 << 20;
const ID_MASK: u64 = (1 << 62) - 1;

const RESERVED: u64 = 0;
const REUSABLE: u64 = 3;
const EMPTY_TEXT: u64 = 3;

/// Offsets of the fields, in bytes from the start of their structure.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Size of `printk_ringbuffer`.
    pub ring_bytes: usize,
    pub count_bits: usize,
    pub descs: usize,
    pub infos: usize,
    pub head_id: usize,
    pub tail_id: usize,
    pub size_bits: usize,
    pub data: usize,
    /// Size of `prb_desc`.
    pub desc_bytes: usize,
    pub state_var: usize,
    pub begin: usize,
    pub next: usize,
    /// Size of `printk_info`.
    pub info_bytes: usize,
    pub seq: usize,
    pub ts_nsec: usize,
    pub text_len: usize,
    pub caller_id: usize,
    /// Device facts: key, offset, length.
    pub dict: Vec<(&'static str, usize, usize)>,
}

impl Layout {
    /// The layout of x86-64 kernels. `data_ring` is the offset of the text ring's fields: 40 in 5.10, and 48 in 6.1 and 6.12, whose
    /// desc_ring has one more word at its end.
    pub fn usual(data_ring: usize, info_bytes: usize) -> Layout {
        let dict = if info_bytes == 88 { vec![("SUBSYSTEM", 24, 16), ("DEVICE", 40, 48)] } else { vec![] };
        Layout {
            ring_bytes: data_ring + 40,
            count_bits: 0,
            descs: 8,
            infos: 16,
            head_id: 24,
            tail_id: 32,
            size_bits: data_ring,
            data: data_ring + 8,
            desc_bytes: 24,
            state_var: 0,
            begin: 8,
            next: 16,
            info_bytes,
            seq: 0,
            ts_nsec: 8,
            text_len: 16,
            caller_id: 20,
            dict,
        }
    }

    /// The layout that the kernel's note describes.
    pub fn of_note(note: &Note) -> Result<Layout, String> {
        let offset = |name: &str| note.field(&format!("OFFSET({name})"));
        let size = |name: &str| note.field(&format!("SIZE({name})"));
        let counter = offset("atomic_long_t.counter")?;
        if size("atomic_long_t")? != 8 {
            return Err("it is of a 32-bit kernel, which is not read".to_owned());
        }
        let (desc_ring, data_ring) =
            (offset("printk_ringbuffer.desc_ring")?, offset("printk_ringbuffer.text_data_ring")?);
        let blk = offset("prb_desc.text_blk_lpos")?;
        let dev = offset("printk_info.dev_info")?;
        let layout = Layout {
            ring_bytes: size("printk_ringbuffer")?,
            count_bits: desc_ring + offset("prb_desc_ring.count_bits")?,
            descs: desc_ring + offset("prb_desc_ring.descs")?,
            infos: desc_ring + offset("prb_desc_ring.infos")?,
            head_id: desc_ring + offset("prb_desc_ring.head_id")? + counter,
            tail_id: desc_ring + offset("prb_desc_ring.tail_id")? + counter,
            size_bits: data_ring + offset("prb_data_ring.size_bits")?,
            data: data_ring + offset("prb_data_ring.data")?,
            desc_bytes: size("prb_desc")?,
            state_var: offset("prb_desc.state_var")? + counter,
            begin: blk + offset("prb_data_blk_lpos.begin")?,
            next: blk + offset("prb_data_blk_lpos.next")?,
            info_bytes: size("printk_info")?,
            seq: offset("printk_info.seq")?,
            ts_nsec: offset("printk_info.ts_nsec")?,
            text_len: offset("printk_info.text_len")?,
            caller_id: offset("printk_info.caller_id")?,
            dict: vec![
                ("SUBSYSTEM", dev + offset("dev_printk_info.subsystem")?, note.field("LENGTH(printk_info_subsystem)")?),
                ("DEVICE", dev + offset("dev_printk_info.device")?, note.field("LENGTH(printk_info_device)")?),
            ],
        };
        layout.check()
    }

    /// Checks that every field lies within its structure.
    fn check(self) -> Result<Layout, String> {
        let ring = [self.count_bits, self.descs, self.infos, self.head_id, self.tail_id, self.size_bits, self.data];
        let desc = [self.state_var, self.begin, self.next];
        // facility, flags and level have no key: they are the two bytes before caller_id.
        let info = [self.seq, self.ts_nsec, self.text_len, self.caller_id];
        let within = |fields: &[usize], bytes: usize| fields.iter().all(|field| field + 8 <= bytes);
        let dict = self.dict.iter().all(|(_, offset, length)| offset + length <= self.info_bytes);
        let fits = within(&ring, self.ring_bytes) && within(&desc, self.desc_bytes) && within(&info, self.info_bytes);
        if fits && dict && self.caller_id >= 2 {
            Ok(self)
        } else {
            Err("its offsets and sizes contradict each other".to_owned())
        }
    }
}

/// Content of the ring's structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub count_bits: u32,
    pub descs: u64,
    pub infos: u64,
    pub head_id: u64,
    pub tail_id: u64,
    pub size_bits: u32,
    pub data: u64,
}

impl Header {
    /// `bytes` are those of the structure, `layout.ring_bytes` of them. The error says which value is impossible.
    pub fn parse(bytes: &[u8], layout: &Layout) -> Result<Header, String> {
        let header = Header {
            count_bits: u32_at(bytes, layout.count_bits),
            descs: u64_at(bytes, layout.descs),
            infos: u64_at(bytes, layout.infos),
            head_id: u64_at(bytes, layout.head_id),
            tail_id: u64_at(bytes, layout.tail_id),
            size_bits: u32_at(bytes, layout.size_bits),
            data: u64_at(bytes, layout.data),
        };
        let pointers = [header.descs, header.infos, header.data].iter().all(|&p| is_kernel(p) && p % 8 == 0);
        // A log of 2 GB, the largest possible, has 2^26 descriptors.
        let sizes = (1..=26).contains(&header.count_bits) && (6..=31).contains(&header.size_bits);
        let ids = header.head_id <= ID_MASK && header.tail_id <= ID_MASK;
        if pointers && sizes && ids && header.ids() <= header.count() {
            Ok(header)
        } else {
            Err(format!("what it calls a ring buffer is none: {header:x?}"))
        }
    }

    pub fn count(&self) -> u64 {
        1 << self.count_bits
    }

    /// The number of ids from tail to head.
    pub fn ids(&self) -> u64 {
        (self.head_id.wrapping_sub(self.tail_id) & ID_MASK) + 1
    }

    pub fn index(&self, id: u64) -> u64 {
        id & (self.count() - 1)
    }
}

/// A ring whose structure was read.
pub struct Ring<'a> {
    pub view: &'a View<'a>,
    pub layout: &'a Layout,
    pub header: Header,
}

/// The reason why an id gave no record.
enum Missing {
    Unfinished,
    Overwritten,
    WithoutText,
    Damaged,
}

impl From<io::Error> for Missing {
    /// Its memory cannot be read: the guest's pointers are wrong.
    fn from(_: io::Error) -> Missing {
        Missing::Damaged
    }
}

impl Ring<'_> {
    /// All complete records, from the oldest to the newest.
    pub fn records(&self) -> (Vec<Record>, LeftOut) {
        let (mut records, mut left_out) = (Vec::new(), LeftOut::default());
        // Newest first, so that a limit leaves out the oldest. Overwritten records are counted only between others; the oldest record's
        // number shows how many were at the tail and before it.
        let (mut overwritten, mut older, mut text_bytes) = (0, 0, 0);
        for back in 0..self.header.ids() {
            if back >= MAX_RECORDS || text_bytes > MAX_TEXT_BYTES {
                left_out.over_limit = self.header.ids() - back;
                older += left_out.over_limit;
                break;
            }
            older += 1;
            match self.record(self.header.head_id.wrapping_sub(back) & ID_MASK) {
                Ok(record) => {
                    text_bytes += record.text.len() as u64;
                    left_out.overwritten += overwritten;
                    (overwritten, older) = (0, 0);
                    records.push(record);
                }
                Err(Missing::Overwritten) => {
                    overwritten += 1;
                    older -= 1;
                }
                Err(Missing::Unfinished) => left_out.unfinished += 1,
                Err(Missing::WithoutText) => left_out.without_text += 1,
                Err(Missing::Damaged) => left_out.damaged += 1,
            }
        }
        records.reverse();
        left_out.before = records.first().map_or(0, |oldest| oldest.seq.saturating_sub(older));
        (records, left_out)
    }

    /// True if the descriptors of the newest ids carry these ids. Otherwise this is no ring, or its pointers lead elsewhere.
    pub fn newest_fit(&self) -> bool {
        // The newest may be incomplete; of the two before it, at least one is there once anything was logged.
        let carries = |back: u64| {
            let id = self.header.head_id.wrapping_sub(back) & ID_MASK;
            let address = self.desc_address(self.header.index(id)).wrapping_add(self.layout.state_var as u64);
            self.view.read_u64(address).is_ok_and(|state_var| state_var & ID_MASK == id)
        };
        let tried = self.header.ids().min(3);
        (0..tried).filter(|&back| carries(back)).count() as u64 >= tried.div_ceil(2)
    }

    /// The number of the newest record that was begun; `None` before the first.
    pub fn newest_seq(&self) -> io::Result<Option<u64>> {
        // The head's place may still have the record that it replaces; then the one before it is newer.
        let head = self.seq_at(self.header.head_id)?;
        let before = self.seq_at(self.header.head_id.wrapping_sub(1))?;
        Ok(head.max(before))
    }

    /// The sequence number at this id's place, if it belongs to that place and is a possible number.
    pub fn seq_at(&self, id: u64) -> io::Result<Option<u64>> {
        let index = self.header.index(id);
        let seq = self.view.read_u64(self.info_address(index).wrapping_add(self.layout.seq as u64))?;
        // Before the first record, place 0 has minus the count, and the last place has 0.
        Ok((self.header.index(seq) == index && seq < 1 << 63).then_some(seq))
    }

    pub fn desc_address(&self, index: u64) -> u64 {
        self.header.descs.wrapping_add(index * self.layout.desc_bytes as u64)
    }

    pub fn info_address(&self, index: u64) -> u64 {
        self.header.infos.wrapping_add(index * self.layout.info_bytes as u64)
    }

    fn record(&self, id: u64) -> Result<Record, Missing> {
        let index = self.header.index(id);
        let mut desc = vec![0; self.layout.desc_bytes];
        self.view.read(self.desc_address(index), &mut desc)?;
        let state_var = u64_at(&desc, self.layout.state_var);
        self.check_state(id, state_var)?;
        let mut info = vec![0; self.layout.info_bytes];
        self.view.read(self.info_address(index), &mut info)?;
        let seq = u64_at(&info, self.layout.seq);
        let span = (u64_at(&desc, self.layout.begin), u64_at(&desc, self.layout.next));
        let text = self.text(id, span, u16_at(&info, self.layout.text_len));
        // Checked before the data that was read: an overwritten record is not a damaged one.
        let state_after = self.view.read_u64(self.desc_address(index).wrapping_add(self.layout.state_var as u64))?;
        if state_after & ID_MASK != id || state_after >> 62 == REUSABLE {
            return Err(Missing::Overwritten);
        }
        if state_after >> 62 == RESERVED {
            return Err(Missing::Unfinished);
        }
        if self.header.index(seq) != index {
            return Err(Missing::Damaged);
        }
        Ok(self.decode(seq, &info, text?))
    }

    fn check_state(&self, id: u64, state_var: u64) -> Result<(), Missing> {
        let there = state_var & ID_MASK;
        if there == id.wrapping_sub(self.header.count()) & ID_MASK || state_var == 0 {
            return Err(Missing::Unfinished); // The head has moved on, but its descriptor is not taken yet.
        }
        if there != id {
            let newer = there.wrapping_sub(id) & ID_MASK < 1 << 61;
            return Err(if newer { Missing::Overwritten } else { Missing::Damaged });
        }
        match state_var >> 62 {
            RESERVED => Err(Missing::Unfinished),
            REUSABLE => Err(Missing::Overwritten),
            _ => Ok(()),
        }
    }

    /// The text of the data block from `begin` to `next`.
    fn text(&self, id: u64, (begin, next): (u64, u64), text_len: u16) -> Result<Vec<u8>, Missing> {
        if begin & 1 == 1 && next & 1 == 1 {
            let is_empty = begin == EMPTY_TEXT && next == EMPTY_TEXT;
            return if is_empty { Ok(Vec::new()) } else { Err(Missing::WithoutText) };
        }
        let size = 1u64 << self.header.size_bits;
        let offset = |lpos: u64| lpos & (size - 1);
        // `next` is the first position after the block: a block that ends with the ring does not wrap.
        let wraps = next.wrapping_sub(1) & !(size - 1) != begin & !(size - 1);
        let (start, block_bytes) = if wraps { (0, offset(next)) } else { (offset(begin), next.wrapping_sub(begin)) };
        let in_order = next.wrapping_sub(begin) <= 2 * size;
        let aligned = begin % 8 == 0 && next % 8 == 0;
        if !aligned || !in_order || block_bytes > size - start || block_bytes < 8 + u64::from(text_len) {
            return Err(Missing::Damaged);
        }
        let mut block = vec![0; 8 + usize::from(text_len)];
        self.view.read(self.header.data.wrapping_add(start), &mut block)?;
        if u64_at(&block, 0) != id {
            return Err(Missing::Damaged);
        }
        Ok(block.split_off(8))
    }

    fn decode(&self, seq: u64, info: &[u8], text: Vec<u8>) -> Record {
        let (caller_id, flags) = (self.layout.caller_id, info[self.layout.caller_id - 1]);
        let dict = self.layout.dict.iter().filter_map(|&(key, offset, length)| {
            let field = info[offset..offset + length].split(|&byte| byte == 0).next().unwrap_or_default();
            (!field.is_empty()).then(|| [key.as_bytes(), b"=", field].concat())
        });
        Record {
            seq,
            ts_ns: u64_at(info, self.layout.ts_nsec),
            facility: info[caller_id - 2],
            level: flags >> 5,
            continues: flags & 8 != 0,
            caller: Some(Caller(u32_at(info, caller_id))),
            text,
            dict: dict.collect(),
        }
    }
}

// The offsets are those of a checked layout.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
