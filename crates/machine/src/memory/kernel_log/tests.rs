//! Logs in hand-made memory: a small kernel that logs as Linux does, and the records that are read back.

use proptest::prelude::*;

use super::ring::Layout;
use super::vmcoreinfo::tests::put_note;
use super::*;
use crate::arch::paging::IMAGE_START;
use crate::memory::image::Image;

const BASE: u64 = 0x40_0000;
const PHYS_BASE: u64 = 0x20_0000;
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
const RING_VARIABLE: u64 = BASE;
const RING: u64 = BASE + 0x580;
const DESCS: u64 = BASE + 0x1000;
const INFOS: u64 = BASE + 0x2000;
const DATA: u64 = BASE + 0x4000;
const TABLES: u64 = BASE + 0x8000;
const NOTE: u64 = BASE + 0x1_0000;
const IMAGE_BYTES: usize = 0x2_0000;
const ID_MASK: u64 = u64::MAX >> 2;

/// A kernel with 16 descriptors and 512 bytes of text.
struct Kernel {
    image: Image,
    layout: Layout,
    head_id: u64,
    tail_id: u64,
    head_lpos: u64,
    tail_lpos: u64,
    next_seq: u64,
    /// The records that a reader must find, oldest first: number and text.
    expected: Vec<(u64, String)>,
}

const COUNT: u64 = 16;
const SIZE: u64 = 512;

fn image_virt(phys: u64) -> u64 {
    IMAGE_START + (phys - PHYS_BASE)
}

impl Kernel {
    /// `direct`: the arrays are reached by the direct map, as after `log_buf_len=`.
    fn new(layout: Layout, direct: bool) -> Kernel {
        let mut image = Image::new(BASE, IMAGE_BYTES);
        let virt = |phys| if direct { DIRECT_MAP + phys } else { image_virt(phys) };
        image.put_u64(RING_VARIABLE, image_virt(RING));
        image.put_u64(RING + layout.count_bits as u64, 4);
        image.put_u64(RING + layout.size_bits as u64, 9);
        image.put_u64(RING + layout.descs as u64, virt(DESCS));
        image.put_u64(RING + layout.infos as u64, virt(INFOS));
        image.put_u64(RING + layout.data as u64, virt(DATA));
        // The direct map, 2 MB pages from 0 to 1 GB.
        image.put_u64(TABLES + 273 * 8, (TABLES + 0x1000) | 1);
        image.put_u64(TABLES + 0x1000, (TABLES + 0x2000) | 1);
        (0..512).for_each(|n| image.put_u64(TABLES + 0x2000 + n * 8, n << 21 | 0x81));
        // As Linux starts: the last descriptor means "no record", and positions are about to wrap.
        let first_id = (COUNT + 1).wrapping_neg() & ID_MASK;
        let mut kernel = Kernel {
            image,
            layout,
            head_id: first_id,
            tail_id: first_id,
            head_lpos: SIZE.wrapping_neg(),
            tail_lpos: SIZE.wrapping_neg(),
            next_seq: 0,
            expected: Vec::new(),
        };
        kernel.put_desc(first_id, 3, (1, 1));
        kernel.put_info_word(0, kernel.layout.seq, COUNT.wrapping_neg());
        kernel.put_header();
        kernel
    }

    fn put_header(&mut self) {
        let (head, tail) = (self.layout.head_id as u64, self.layout.tail_id as u64);
        self.image.put_u64(RING + head, self.head_id);
        self.image.put_u64(RING + tail, self.tail_id);
        self.image.put_u64(RING + self.layout.data as u64 + 8, self.head_lpos);
        self.image.put_u64(RING + self.layout.data as u64 + 16, self.tail_lpos);
    }

    fn desc(&self, id: u64) -> u64 {
        DESCS + (id % COUNT) * self.layout.desc_bytes as u64
    }

    fn put_desc(&mut self, id: u64, state: u64, (begin, next): (u64, u64)) {
        let desc = self.desc(id);
        self.image.put_u64(desc + self.layout.begin as u64, begin);
        self.image.put_u64(desc + self.layout.next as u64, next);
        self.put_state(id, state);
    }

    fn put_state(&mut self, id: u64, state: u64) {
        let desc = self.desc(id);
        self.image.put_u64(desc + self.layout.state_var as u64, state << 62 | id);
    }

    fn put_info_word(&mut self, index: u64, field: usize, value: u64) {
        self.image.put_u64(INFOS + index * self.layout.info_bytes as u64 + field as u64, value);
    }

    /// Logs a record and leaves it in `state`. Returns its id.
    fn log(&mut self, text: &str, state: u64) -> u64 {
        let id = self.head_id.wrapping_add(1) & ID_MASK;
        if id.wrapping_sub(self.tail_id) & ID_MASK == COUNT {
            self.forget_oldest();
        }
        let block = (8 + text.len() as u64).next_multiple_of(8);
        let begin = self.head_lpos;
        let wraps = (begin % SIZE) + block >= SIZE;
        let start = if wraps { (begin - begin % SIZE).wrapping_add(SIZE) } else { begin };
        let next = start.wrapping_add(block);
        while next.wrapping_sub(self.tail_lpos) > SIZE {
            self.forget_text();
        }
        let at = DATA + if wraps { 0 } else { begin % SIZE };
        self.image.put_u64(DATA + begin % SIZE, id);
        self.image.put_u64(at, id);
        self.image.put(at + 8, text.as_bytes());
        self.put_info(id, text.len());
        self.put_desc(id, state, (begin, next));
        (self.head_id, self.head_lpos) = (id, next);
        self.expected.push((self.next_seq, text.to_owned()));
        self.next_seq += 1;
        self.put_header();
        id
    }

    fn put_info(&mut self, id: u64, text_len: usize) {
        let (index, layout) = (id % COUNT, self.layout.clone());
        self.put_info_word(index, layout.seq, self.next_seq);
        self.put_info_word(index, layout.ts_nsec, self.next_seq * 1001);
        let info = INFOS + index * layout.info_bytes as u64;
        self.image.put(info + layout.text_len as u64, &(text_len as u16).to_le_bytes());
        self.image.put(info + layout.caller_id as u64 - 2, &[1, 6 << 5 | 2]);
        self.image.put(info + layout.caller_id as u64, &77u32.to_le_bytes());
        for &(key, offset, length) in &layout.dict {
            let mut value = key.to_lowercase().into_bytes();
            value.resize(length, 0);
            self.image.put(info + offset as u64, &value);
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.tail_id;
        let begin = self.tail_lpos;
        while self.tail_lpos == begin && self.text_of(oldest).is_some_and(|(b, _)| b == begin) {
            self.forget_text();
        }
        self.put_state(oldest, 3);
        self.tail_id = oldest.wrapping_add(1) & ID_MASK;
    }

    fn text_of(&self, id: u64) -> Option<(u64, u64)> {
        let mut words = [0; 16];
        self.image.read_at(self.desc(id) + self.layout.begin as u64, &mut words).unwrap();
        let begin = u64::from_le_bytes(words[..8].try_into().unwrap());
        (begin & 1 == 0).then(|| (begin, u64::from_le_bytes(words[8..].try_into().unwrap())))
    }

    /// Gives up the oldest text, and with it its record.
    fn forget_text(&mut self) {
        let mut id = self.tail_id;
        while self.text_of(id).is_none_or(|(begin, _)| begin != self.tail_lpos) {
            id = id.wrapping_add(1) & ID_MASK;
        }
        self.tail_lpos = self.text_of(id).unwrap().1;
        self.put_state(id, 3);
        self.expected.remove(0);
    }

    /// Adds the note that describes this kernel.
    fn with_note(mut self) -> Kernel {
        let l = &self.layout;
        let offsets = [
            ("printk_ringbuffer.desc_ring", 0),
            ("printk_ringbuffer.text_data_ring", l.size_bits),
            ("prb_desc_ring.count_bits", l.count_bits),
            ("prb_desc_ring.descs", l.descs),
            ("prb_desc_ring.infos", l.infos),
            ("prb_desc_ring.head_id", l.head_id),
            ("prb_desc_ring.tail_id", l.tail_id),
            ("prb_data_ring.size_bits", 0),
            ("prb_data_ring.data", l.data - l.size_bits),
            ("prb_desc.state_var", l.state_var),
            ("prb_desc.text_blk_lpos", l.begin),
            ("prb_data_blk_lpos.begin", 0),
            ("prb_data_blk_lpos.next", l.next - l.begin),
            ("printk_info.seq", l.seq),
            ("printk_info.ts_nsec", l.ts_nsec),
            ("printk_info.text_len", l.text_len),
            ("printk_info.caller_id", l.caller_id),
            ("printk_info.dev_info", l.dict[0].1),
            ("dev_printk_info.subsystem", 0),
            ("dev_printk_info.device", l.dict[1].1 - l.dict[0].1),
            ("atomic_long_t.counter", 0),
        ];
        let sizes = [
            ("printk_ringbuffer", l.ring_bytes),
            ("prb_desc", l.desc_bytes),
            ("printk_info", l.info_bytes),
            ("atomic_long_t", 8),
        ];
        let mut text = format!(
            "OSRELEASE=6.1.0-test\nSYMBOL(prb)={:x}\nSYMBOL(init_top_pgt)={:x}\nNUMBER(phys_base)={PHYS_BASE}\n\
             NUMBER(pgtable_l5_enabled)=0\nKERNELOFFSET=1e400000\n\
             LENGTH(printk_info_subsystem)={}\nLENGTH(printk_info_device)={}\n",
            image_virt(RING_VARIABLE),
            image_virt(TABLES),
            l.dict[0].2,
            l.dict[1].2
        );
        offsets.iter().for_each(|(name, value)| text += &format!("OFFSET({name})={value}\n"));
        sizes.iter().for_each(|(name, value)| text += &format!("SIZE({name})={value}\n"));
        put_note(&mut self.image, NOTE, &text);
        self
    }

    fn check(&self, method: Method) -> KernelLog {
        let log = kernel_log(&self.image).unwrap();
        let got: Vec<_> = log.records.iter().map(|r| (r.seq, String::from_utf8_lossy(&r.text).into_owned())).collect();
        assert_eq!(got, self.expected);
        assert_eq!(log.method, method);
        log
    }
}

/// A layout that no kernel has: only a reader of the note finds the log.
fn odd_layout() -> Layout {
    Layout {
        ring_bytes: 136,
        count_bits: 24,
        descs: 0,
        infos: 32,
        head_id: 48,
        tail_id: 8,
        size_bits: 64,
        data: 80,
        desc_bytes: 40,
        state_var: 24,
        begin: 0,
        next: 16,
        info_bytes: 120,
        seq: 16,
        ts_nsec: 0,
        text_len: 26,
        caller_id: 32,
        dict: vec![("SUBSYSTEM", 40, 16), ("DEVICE", 64, 40)],
    }
}

fn fill(kernel: &mut Kernel, records: usize) {
    for n in 0..records {
        kernel.log(&format!("record {n} {}", "x".repeat(n * 7 % 40)), 2);
    }
}

#[test]
fn a_ring_is_read_as_the_note_describes_it() {
    for direct in [false, true] {
        for layout in [odd_layout(), Layout::usual(40, 88), Layout::usual(48, 88)] {
            let mut kernel = Kernel::new(layout, direct).with_note();
            kernel.log("first", 2);
            let log = kernel.check(Method::Vmcoreinfo);
            let record = &log.records[0];
            assert_eq!((record.facility, record.level, record.caller), (1, 6, Some(Caller(77))));
            assert_eq!(record.dict, [b"SUBSYSTEM=subsystem".to_vec(), b"DEVICE=device".to_vec()]);
            assert_eq!(log.left_out, LeftOut::default());
            fill(&mut kernel, 9);
            let log = kernel.check(Method::Vmcoreinfo);
            assert_eq!(log.records.last().unwrap().ts_ns, (kernel.next_seq - 1) * 1001);
        }
    }
}

#[test]
fn a_ring_that_has_wrapped_many_times_says_how_many_records_are_gone() {
    let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
    fill(&mut kernel, 100);
    let log = kernel.check(Method::Vmcoreinfo);
    assert!((5..16).contains(&log.records.len()), "texts wrap before descriptors do: {}", log.records.len());
    assert_eq!(log.left_out, LeftOut { before: kernel.expected[0].0, ..LeftOut::default() });
    let kmsg = String::from_utf8(log.to_kmsg()).unwrap();
    let first = format!("# how: vmcoreinfo: note at {:#x} of Linux 6.1.0-test, moved by 0x1e400000; ", NOTE + 24);
    assert!(kmsg.starts_with(&first), "{kmsg}");
    assert!(kmsg.contains(&format!("# how: {} more overwritten before this was read\n", log.left_out.before)));
}

#[test]
fn short_texts_wrap_the_descriptors_first() {
    let mut kernel = Kernel::new(Layout::usual(48, 88), false).with_note();
    for n in 0..50 {
        kernel.log(&format!("{n}"), 1);
    }
    assert_eq!(kernel.check(Method::Vmcoreinfo).records.len(), 16);
}

#[test]
fn a_text_that_ends_with_the_ring_is_read_by_both_conventions() {
    // 464 bytes leave room for a block of 48. A newer kernel places it at the end, an older one at the start.
    let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
    kernel.log(&"a".repeat(456), 2);
    kernel.log(&"b".repeat(40), 2);
    kernel.check(Method::Vmcoreinfo);
    let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
    kernel.log(&"a".repeat(456), 2);
    let id = kernel.log("b", 2);
    let (begin, text) = (SIZE.wrapping_neg() + 464, "c".repeat(40));
    kernel.put_desc(id, 2, (begin, begin.wrapping_add(48)));
    kernel.image.put(DATA + 472, text.as_bytes());
    kernel.next_seq = 1;
    kernel.put_info(id, 40);
    kernel.expected[1].1 = text;
    kernel.check(Method::Vmcoreinfo);
}

#[test]
fn records_in_other_states_are_left_out_and_counted() {
    let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
    let ids: Vec<u64> = (0..8).map(|n| kernel.log(&format!("r{n}"), 1 + n % 2)).collect();
    kernel.put_state(ids[1], 0);
    kernel.put_state(ids[3], 3);
    kernel.put_desc(ids[4], 2, (1, 1));
    kernel.put_desc(ids[5], 2, (3, 3));
    let (begin, next) = kernel.text_of(ids[6]).unwrap();
    kernel.put_desc(ids[6], 2, (begin, next - 8));
    kernel.image.put_u64(DATA + kernel.text_of(ids[7]).unwrap().0 % SIZE, 12345);
    let log = kernel_log(&kernel.image).unwrap();
    let texts: Vec<_> = log.records.iter().map(|record| String::from_utf8_lossy(&record.text)).collect();
    assert_eq!(texts, ["r0", "r2", ""], "the empty one is whole");
    let left_out = LeftOut { unfinished: 1, overwritten: 1, without_text: 1, damaged: 2, ..LeftOut::default() };
    assert_eq!(log.left_out, left_out);
    kernel.put_state(ids[0], 3);
    kernel.put_state(ids[2], 0);
    let log = kernel_log(&kernel.image).unwrap();
    let left_out = LeftOut { unfinished: 2, overwritten: 0, ..left_out };
    assert_eq!((log.records.len(), log.left_out), (1, LeftOut { before: 5 - 3, ..left_out }), "r0 and r3 are gone");
    assert!(String::from_utf8(log.to_kmsg()).unwrap().contains("# how: 2 more being written, left out\n"));
}

#[test]
fn a_head_whose_descriptor_is_not_taken_yet_is_unfinished() {
    for records in [3, 40] {
        let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
        for n in 0..records {
            kernel.log(&format!("{n}"), 2);
        }
        if records > 16 {
            kernel.forget_oldest();
        }
        kernel.head_id += 1;
        kernel.put_header();
        assert_eq!(kernel.check(Method::Vmcoreinfo).left_out.unfinished, 1, "after {records}");
        let probe = LogProbe::find(&kernel.image).unwrap();
        assert_eq!(probe.newest_seq(&kernel.image).unwrap(), Some(records - 1));
    }
}

#[test]
fn without_a_note_the_ring_is_found_by_its_shape() {
    for (direct, data_ring, info_bytes) in [(false, 40, 88), (true, 48, 88), (false, 48, 112)] {
        for records in [1, 2, 5, 60] {
            let mut kernel = Kernel::new(Layout::usual(data_ring, info_bytes), direct);
            assert!(matches!(kernel_log(&kernel.image), Err(LogError::NotFound { .. })), "nothing logged yet");
            fill(&mut kernel, records);
            let log = kernel.check(Method::Scan);
            assert!(log.to_kmsg().starts_with(b"# how: scan: what looks like printk's ring buffer, at 0x400580; "));
        }
    }
}

#[test]
fn an_unusable_note_is_named_and_the_ring_is_found_by_shape() {
    let mut kernel = Kernel::new(Layout::usual(48, 88), false).with_note();
    fill(&mut kernel, 5);
    kernel.image.put_u64(RING_VARIABLE, image_virt(NOTE));
    let log = kernel.check(Method::Scan);
    assert!(log.detail.contains("VMCOREINFO note at 0x410018 is of no use: what it calls a ring buffer is none"));
    kernel.image.bytes_mut()[..0x8000].fill(0);
    let error = kernel_log(&kernel.image).unwrap_err().to_string();
    assert!(error.contains("no kernel log in 1 MB") && error.contains("of no use"), "{error}");
}

#[test]
fn the_note_whose_log_exists_is_used() {
    let mut kernel = Kernel::new(Layout::usual(48, 88), false).with_note();
    put_note(&mut kernel.image, NOTE + 0x4000, "OSRELEASE=5.0-stale\nSYMBOL(prb)=ffffffff81234560\n");
    put_note(&mut kernel.image, NOTE - 0x2000, "OSRELEASE=4.0-stale\n");
    fill(&mut kernel, 5);
    assert!(kernel.check(Method::Vmcoreinfo).detail.contains("6.1.0-test"));
}

#[test]
fn the_probe_sees_every_record_and_a_log_that_is_gone() {
    let mut kernel = Kernel::new(Layout::usual(40, 88), true).with_note();
    kernel.log("0", 2);
    let probe = LogProbe::find(&kernel.image).unwrap();
    for n in 1..70 {
        kernel.log("more", 2);
        assert_eq!(probe.newest_seq(&kernel.image).unwrap(), Some(n));
    }
    kernel.image.bytes_mut().fill(0);
    let gone = probe.newest_seq(&kernel.image).unwrap_err().to_string();
    assert!(gone.contains("no longer where it was found"), "{gone}");
    assert!(matches!(probe.read(&kernel.image), Err(LogError::Gone(_))));
}

#[test]
fn last_words_are_the_panic_and_the_newest_record() {
    let mut kernel = Kernel::new(Layout::usual(40, 88), false).with_note();
    kernel.log("about to say Kernel panic - not syncing: quoted", 2);
    assert!(kernel.check(Method::Vmcoreinfo).last_words().panic.is_none());
    kernel.log("Kernel panic - not syncing: VFS", 2);
    kernel.log("---[ end Kernel panic - not syncing: VFS ]---", 2);
    let log = kernel.check(Method::Vmcoreinfo);
    let words = log.last_words();
    assert_eq!((words.panic.unwrap().seq, words.newest.unwrap().seq), (1, 2));
}

mod older {
    use super::super::log_buf::tests::stored;
    use super::*;

    const LOG: u64 = BASE + 0x4000;

    fn log_of(records: &[Vec<u8>]) -> Image {
        let mut image = Image::new(BASE, IMAGE_BYTES);
        image.put(LOG, &records.concat());
        image
    }

    fn boot() -> Vec<Vec<u8>> {
        let banner = stored(0, 5, "Linux version 4.9.0 (x) #1 SMP", "");
        vec![banner, stored(0, 6, "Command line: quiet", ""), stored(1_234_567, 6, "PCI: ok", "SUBSYSTEM=pci")]
    }

    #[test]
    fn a_log_buffer_is_read_by_its_note() {
        let mut image = log_of(&boot());
        let bytes: usize = boot().iter().map(Vec::len).sum();
        image.put_u64(BASE, image_virt(LOG));
        image.put(BASE + 8, &4096u32.to_le_bytes());
        image.put(BASE + 16, &(bytes as u32).to_le_bytes());
        let text = format!(
            "OSRELEASE=4.9.0\nNUMBER(phys_base)={PHYS_BASE}\nSYMBOL(swapper_pg_dir)={:x}\nSYMBOL(log_buf)={:x}\n\
             SYMBOL(log_buf_len)={:x}\nSYMBOL(log_first_idx)={:x}\nSYMBOL(log_next_idx)={:x}\nSIZE(printk_log)=16\n\
             OFFSET(printk_log.ts_nsec)=0\nOFFSET(printk_log.len)=8\nOFFSET(printk_log.text_len)=10\n\
             OFFSET(printk_log.dict_len)=12\n",
            image_virt(TABLES),
            image_virt(BASE),
            image_virt(BASE + 8),
            image_virt(BASE + 12),
            image_virt(BASE + 16)
        );
        put_note(&mut image, NOTE, &text);
        let probe = LogProbe::find(&image).unwrap();
        let log = probe.read(&image).unwrap();
        assert_eq!((log.method, log.records.len()), (Method::Vmcoreinfo, 3));
        assert_eq!(probe.newest_seq(&image).unwrap(), Some(bytes as u64));
        assert!(log.to_kmsg().ends_with(b"6,2,1234.567,-;PCI: ok\n SUBSYSTEM=pci\n"));
        image.put(BASE + 16, &9999u32.to_le_bytes());
        assert!(matches!(probe.read(&image), Err(LogError::Gone(_))), "an index past the end");
    }

    #[test]
    fn without_a_note_it_is_found_by_its_banner() {
        let mut image = log_of(&boot());
        image.put(NOTE, b"\0\0\0\0\0\0\0\0\x10\0\x10\0Linux version 4.9.0, in some other text");
        let probe = LogProbe::find(&image).unwrap();
        let log = probe.read(&image).unwrap();
        assert_eq!((log.method, log.records.len()), (Method::Scan, 3));
        assert_eq!(log.records[2].text, b"PCI: ok");
        assert_eq!(probe.newest_seq(&image).unwrap(), Some(2));
    }
}

/// Words that a hostile or broken guest may have anywhere.
fn word() -> impl Strategy<Value = u64> {
    let pointer = prop_oneof![Just(IMAGE_START), Just(DIRECT_MAP), Just(image_virt(DATA)), Just(u64::MAX - 15)];
    prop_oneof![any::<u64>(), 0u64..64, pointer, Just(u64::MAX), Just(1 << 62), Just(ID_MASK)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_log_is_read_back(lengths in prop::collection::vec(0usize..200, 1..60), note: bool) {
        let mut kernel = Kernel::new(Layout::usual(48, 88), false);
        if note {
            kernel = kernel.with_note();
        }
        for (n, length) in lengths.iter().enumerate() {
            kernel.log(&format!("{n:-<length$}"), 2);
        }
        kernel.check(if note { Method::Vmcoreinfo } else { Method::Scan });
    }

    #[test]
    fn corrupted_memory_gives_bounded_answers_or_errors(
        writes in prop::collection::vec((0usize..0xc00, word()), 1..40),
        spots in prop::collection::vec((0usize..IMAGE_BYTES, any::<u8>()), 0..40),
        ring_writes in prop::collection::vec((0u64..11, word()), 0..3),
        note: bool,
    ) {
        let mut kernel = Kernel::new(Layout::usual(40, 88), true).with_note();
        fill(&mut kernel, 30);
        // Descriptors, infos, tables and the note, word by word; then the ring; then any byte.
        for (at, value) in writes {
            let places = [DESCS + at as u64 / 8, INFOS + at as u64, TABLES + at as u64, NOTE + at as u64 / 2];
            kernel.image.put_u64(places[at % 4] & !7, value);
        }
        for (at, value) in ring_writes {
            kernel.image.put_u64(RING + at * 8, value);
        }
        for (at, byte) in spots {
            kernel.image.bytes_mut()[at] = byte;
        }
        if !note {
            kernel.image.put(NOTE, &[0; 64]);
        }
        if let Ok(probe) = LogProbe::find(&kernel.image) {
            let _ = probe.newest_seq(&kernel.image);
            if let Ok(log) = probe.read(&kernel.image) {
                prop_assert!(log.records.len() <= 1 << 18);
                prop_assert!(log.to_kmsg().len() < 1 << 28);
            }
        }
    }

    #[test]
    fn noise_is_no_kernel_log(words in prop::collection::vec(word(), 0..2000)) {
        let mut image = Image::new(BASE, IMAGE_BYTES);
        words.iter().enumerate().for_each(|(n, word)| image.put_u64(BASE + n as u64 * 8, *word));
        if let Ok(probe) = LogProbe::find(&image) {
            let _ = probe.read(&image);
        }
    }
}
