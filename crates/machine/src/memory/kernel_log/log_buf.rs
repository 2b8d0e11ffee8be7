//! printk's log buffer, in kernels from 3.5 to 5.9.
//!
//! It is an array of records of varying length, one after another:
//! ```text
//! printk_log { u64 ts_nsec, u16 len, u16 text_len, u16 dict_len, u8 facility, u8 flags:5 level:3, [u32 caller_id] } text dict padding
//! ```
//! `len` is the length of the whole record; 0 means that the next record is at the start of the buffer. `log_first_idx` is the place of the
//! oldest record, `log_next_idx` that of the next one. `dict` is `KEY=value` pairs with NUL between them. Sequence numbers are kept
//! elsewhere and not published, so records are counted from the oldest.
//!
//! The structure was called `log` up to 3.10; `caller_id` exists from 5.1 on, if configured.

use super::LeftOut;
use super::record::{Caller, Record};
use super::vmcoreinfo::Note;
use crate::arch::paging::View;

/// Upper bound for the buffer. log_buf_len= takes at most 2 GB; a larger log than this is not a boot's.
const MAX_BUFFER_BYTES: u32 = 64 << 20;
/// Upper bound for the records, which can be as short as their headers. A buffer of 64 MB could have four million, each of which takes ten
/// times that in memory.
const MAX_RECORDS: usize = 1 << 20;

/// Offsets of the fields, in bytes from the start of `printk_log`.
#[derive(Clone, Debug)]
pub struct Layout {
    pub header_bytes: usize,
    pub ts_nsec: usize,
    pub len: usize,
    pub text_len: usize,
    pub dict_len: usize,
    pub caller_id: Option<usize>,
}

/// Addresses of the kernel's variables.
#[derive(Clone, Debug)]
pub struct Symbols {
    log_buf: u64,
    log_buf_len: u64,
    log_first_idx: u64,
    pub log_next_idx: u64,
}

impl Layout {
    /// The layout of x86-64 kernels, with or without caller ids.
    pub fn usual(with_caller: bool) -> Layout {
        let (header_bytes, caller_id) = if with_caller { (20, Some(16)) } else { (16, None) };
        Layout { header_bytes, ts_nsec: 0, len: 8, text_len: 10, dict_len: 12, caller_id }
    }

    /// The layout that the kernel's note describes.
    pub fn of_note(note: &Note) -> Result<Layout, String> {
        let name = if note.has("SIZE(printk_log)") { "printk_log" } else { "log" };
        let offset = |field: &str| note.field(&format!("OFFSET({name}.{field})"));
        let layout = Layout {
            header_bytes: note.field(&format!("SIZE({name})"))?,
            ts_nsec: offset("ts_nsec")?,
            len: offset("len")?,
            text_len: offset("text_len")?,
            dict_len: offset("dict_len")?,
            caller_id: offset("caller_id").ok(),
        };
        // facility, flags and level have no key: they are the two bytes after dict_len.
        let ends = [layout.ts_nsec + 8, layout.len + 2, layout.text_len + 2, layout.dict_len + 4];
        let caller_end = layout.caller_id.map_or(0, |at| at + 4);
        if ends.into_iter().chain([caller_end]).all(|end| end <= layout.header_bytes) {
            Ok(layout)
        } else {
            Err("its offsets and sizes contradict each other".to_owned())
        }
    }
}

impl Symbols {
    pub fn of_note(note: &Note) -> Result<Symbols, String> {
        Ok(Symbols {
            log_buf: note.symbol("log_buf")?,
            log_buf_len: note.symbol("log_buf_len")?,
            log_first_idx: note.symbol("log_first_idx")?,
            log_next_idx: note.symbol("log_next_idx")?,
        })
    }

    /// Reads the buffer and its records. The error says which value is impossible.
    pub fn records(&self, view: &View, layout: &Layout) -> Result<(Vec<Record>, LeftOut), String> {
        let wrong = |error: std::io::Error| error.to_string();
        let bytes = view.read_u32(self.log_buf_len).map_err(wrong)?;
        let first = view.read_u32(self.log_first_idx).map_err(wrong)?;
        let next = view.read_u32(self.log_next_idx).map_err(wrong)?;
        if bytes > MAX_BUFFER_BYTES || first >= bytes || next > bytes {
            return Err(format!("its log buffer of {bytes} bytes is read from {first} to {next}, which cannot be"));
        }
        let mut buffer = vec![0; bytes as usize];
        view.read(view.read_u64(self.log_buf).map_err(wrong)?, &mut buffer).map_err(wrong)?;
        Ok(walk(&buffer, first as usize, Some(next as usize), layout))
    }
}

/// The records from `first` to `next`; without `next`, up to the first invalid one.
pub fn walk(buffer: &[u8], first: usize, next: Option<usize>, layout: &Layout) -> (Vec<Record>, LeftOut) {
    let (mut records, mut left_out) = (Vec::new(), LeftOut::default());
    let (mut at, mut wrapped) = (first, false);
    while next != Some(at) {
        let Some(header) = buffer.get(at..at + layout.header_bytes) else {
            left_out.damaged += u64::from(next.is_some());
            break;
        };
        let len = usize::from(u16_at(header, layout.len));
        if len == 0 && next.is_some() && !wrapped {
            (at, wrapped) = (0, true);
            continue;
        }
        let Some(record) = record(&buffer[at..], len, records.len() as u64, layout) else {
            // The start of the next record is lost with this one.
            left_out.damaged += u64::from(next.is_some());
            break;
        };
        if records.len() == MAX_RECORDS {
            left_out.over_limit += 1;
            break;
        }
        records.push(record);
        at += len;
        if wrapped && at > first {
            left_out.damaged += 1;
            break;
        }
    }
    (records, left_out)
}

/// The record at the start of `bytes`, if its lengths are consistent.
pub fn record(bytes: &[u8], len: usize, seq: u64, layout: &Layout) -> Option<Record> {
    let whole = bytes.get(..len).filter(|whole| whole.len() >= layout.header_bytes)?;
    let text_end = layout.header_bytes + usize::from(u16_at(whole, layout.text_len));
    let dict_end = text_end + usize::from(u16_at(whole, layout.dict_len));
    let text = whole.get(layout.header_bytes..text_end)?;
    let dict = whole.get(text_end..dict_end)?;
    let flags = whole[layout.dict_len + 3];
    let caller = |at: usize| Caller(u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes")));
    let ts_nsec = &whole[layout.ts_nsec..layout.ts_nsec + 8];
    Some(Record {
        seq,
        ts_ns: u64::from_le_bytes(ts_nsec.try_into().expect("eight bytes")),
        facility: whole[layout.dict_len + 2],
        level: flags >> 5,
        continues: flags & 8 != 0,
        caller: layout.caller_id.map(caller),
        text: text.to_vec(),
        dict: dict.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()).map(<[u8]>::to_vec).collect(),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A record as a kernel before 5.1 stores it, without padding if `text` fits.
    pub fn stored(ts_nsec: u64, level: u8, text: &str, dict: &str) -> Vec<u8> {
        let len = (16 + text.len() + dict.len()).next_multiple_of(4);
        let mut bytes = ts_nsec.to_le_bytes().to_vec();
        for length in [len, text.len(), dict.len()] {
            bytes.extend_from_slice(&(length as u16).to_le_bytes());
        }
        bytes.extend_from_slice(&[0, level << 5 | 2]);
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(dict.as_bytes());
        bytes.resize(len, 0);
        bytes
    }

    fn texts(records: &[Record]) -> Vec<String> {
        records.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect()
    }

    #[test]
    fn a_wrapped_buffer_is_read_from_its_oldest_record() {
        let (newest, oldest) = (stored(9, 3, "newest", ""), stored(7, 6, "old", "SUBSYSTEM=pci\0DEVICE=+pci:1"));
        let middle = stored(8, 4, "middle", "");
        let mut buffer = vec![0; 256];
        buffer[..newest.len()].copy_from_slice(&newest);
        let first = 128;
        buffer[first..first + oldest.len()].copy_from_slice(&oldest);
        let at = first + oldest.len();
        buffer[at..at + middle.len()].copy_from_slice(&middle);
        // After `middle` comes a length of 0.
        let (records, left_out) = walk(&buffer, first, Some(newest.len()), &Layout::usual(false));
        assert_eq!(texts(&records), ["old", "middle", "newest"]);
        assert_eq!(records[0].dict, [b"SUBSYSTEM=pci".to_vec(), b"DEVICE=+pci:1".to_vec()]);
        assert_eq!((records[2].seq, records[2].ts_ns, records[2].level, records[2].caller), (2, 9, 3, None));
        assert_eq!(left_out, LeftOut::default());
    }

    #[test]
    fn a_record_whose_lengths_contradict_each_other_ends_the_log_and_is_counted() {
        let mut buffer = [stored(1, 6, "good", ""), stored(2, 6, "bad", ""), vec![0; 64]].concat();
        buffer[20 + 10] = 200;
        let (records, left_out) = walk(&buffer, 0, Some(40), &Layout::usual(false));
        assert_eq!(texts(&records), ["good"]);
        assert_eq!(left_out.damaged, 1);
    }

    #[test]
    fn a_bounded_number_of_empty_records_is_read() {
        let buffer = stored(1, 6, "", "").repeat(MAX_RECORDS + 10);
        let (records, left_out) = walk(&buffer, 0, Some(buffer.len()), &Layout::usual(false));
        assert_eq!((records.len(), left_out.over_limit), (MAX_RECORDS, 1));
    }

    #[test]
    fn a_buffer_of_zeros_ends() {
        let (records, left_out) = walk(&[0; 64], 16, Some(48), &Layout::usual(true));
        assert_eq!((records.len(), left_out.damaged), (0, 1));
    }
}
