//! The event log that a kernel kept with `kernel/tslog`, read out of its memory from outside.
//!
//! The machine may hang, be dead, or have no option that prints the log. The log is found by its magic number and a consistent header; its
//! names lie in the header's ranges. Memory can contain several headers (an older boot's, a copy): the one with the most complete records
//! is used.

use tslog::layout::HEADER_BYTES;
use tslog::{Head, Heads, Image, find, write_image_text};

use super::sweep::sweep;
use super::{PhysicalMemory, host_size};

/// The unit of reading; a page that cannot be read ends the log.
const PAGE_BYTES: u64 = 4096;

/// Upper bound for the part of a log that is read: thirteen million records. The log counts the rest as missing.
const MAX_BYTES: u64 = 512 << 20;

/// A log that was read from memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLog {
    /// The log in the form of FreeBSD's `debug.tslog`.
    pub text: String,
    /// Its place and the parts that could not be read, as text for the user.
    pub detail: String,
}

/// Searches for a log in all touched memory. Reads at most the memory that exists, and at most [`MAX_BYTES`], whatever a header claims.
pub fn event_log(memory: &dyn PhysicalMemory) -> Option<EventLog> {
    let (phys, head) = fullest(memory)?;
    let region = region(memory, phys, &head);
    let image = Image::new(&region).ok()?;
    let mut text = String::new();
    let mut read_phys = |phys: u64, buffer: &mut [u8]| memory.read_at(phys, buffer).is_ok();
    let dump = write_image_text(&image, &mut text, &mut read_phys).ok()?;
    let detail = format!(
        "read out of guest memory by the host, at {phys:#x}: {} records, {} dropped because it was full, {} names not found",
        head.reserved(),
        head.dropped(),
        dump.unresolved
    );
    Some(EventLog { text, detail })
}

/// Place of a log in a running machine: its number of records tells a quiet boot from a hang.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventLogPlace(u64);

impl EventLogPlace {
    /// Searches for the log as [`event_log`] does.
    pub(crate) fn find(memory: &dyn PhysicalMemory) -> Option<EventLogPlace> {
        fullest(memory).map(|(phys, _)| EventLogPlace(phys))
    }

    /// The number of records, in one read. A full log does not grow.
    pub(crate) fn records(self, memory: &dyn PhysicalMemory) -> Option<u64> {
        let mut header = [0; HEADER_BYTES];
        memory.read_at(self.0, &mut header).ok()?;
        Head::parse(&header).ok().map(|head| head.reserved())
    }
}

/// The header with the most complete records.
fn fullest(memory: &dyn PhysicalMemory) -> Option<(u64, Head)> {
    let mut heads = Heads::default();
    sweep(memory, HEADER_BYTES as u64, |phys, bytes| {
        for at in find(bytes) {
            if let Some(head) = bytes.get(at..).and_then(|bytes| Head::parse(bytes).ok()) {
                heads.add(phys + at as u64, head);
            }
        }
        true
    });
    let whole = |phys, head: &Head| Image::new(&region(memory, phys, head)).map_or(0, |image| image.counts().whole);
    heads.fullest(whole)
}

fn region(memory: &dyn PhysicalMemory, phys: u64, head: &Head) -> Vec<u8> {
    read_on(memory, phys, head.region_bytes().min(MAX_BYTES))
}

/// The bytes from `phys` on, up to the first page that is not RAM.
fn read_on(memory: &dyn PhysicalMemory, phys: u64, bytes: u64) -> Vec<u8> {
    let mut read = Vec::new();
    let end = phys.saturating_add(bytes);
    let mut at = phys;
    while at < end {
        let next = (at + 1).next_multiple_of(PAGE_BYTES).min(end);
        let from = read.len();
        read.resize(from + host_size(next - at), 0);
        if memory.read_at(at, &mut read[from..]).is_err() {
            read.truncate(from);
            break;
        }
        at = next;
    }
    read
}

#[cfg(test)]
#[allow(unsafe_code, reason = "a log is written, and its memory is read")]
mod tests {
    use super::super::image::Image as Memory;
    use super::*;
    use tslog::layout::{RECORD_BYTES, TicksSource};
    use tslog::{Entry, Kind, Log, Name, Region};

    const BASE: u64 = 0x10_0000;

    /// The bytes of a log with this number of events, whose name lies at `BASE`.
    fn logged<const RECORDS: usize>(region: &'static Region<RECORDS, 0>, events: u64) -> Vec<u8> {
        let log = Log::start(region, TicksSource::Tsc);
        let name = "configure";
        assert!(log.add_range(Name::from(name).address(), BASE, name.len() as u64));
        for n in 0..events {
            let entry =
                Entry { ticks: 1000 + n, thread: 16, kind: Kind::Enter, name: Name::from(name), detail: Name::NONE };
            // SAFETY: the name is a literal.
            unsafe { log.write(entry.to_words()) };
        }
        // SAFETY: the log has this length and is initialised, and no other code writes to it any more.
        unsafe { std::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) }.to_vec()
    }

    #[test]
    fn memory_without_a_log_gives_none() {
        assert_eq!(event_log(&Memory::new(BASE, 1 << 20)), None);
    }

    #[test]
    fn the_log_with_the_most_records_is_read_with_its_names() {
        static OLD: Region<4, 0> = Region::new();
        static LOG: Region<8, 0> = Region::new();
        let mut memory = Memory::new(BASE, 3 << 20);
        memory.put(BASE, b"configure");
        memory.put(BASE + 0x1000, &logged(&OLD, 2));
        // Across the boundary of two pieces of the search.
        let at = BASE + (1 << 20) - 64;
        memory.put(at, &logged(&LOG, 3));
        let log = event_log(&memory).expect("a log");
        assert!(log.detail.contains(&format!("at {at:#x}: 3 records, 0 dropped")), "{}", log.detail);
        assert!(log.text.starts_with("0x10 1000 ENTER configure\n"), "{}", log.text);
        assert_eq!(log.text.matches("ENTER configure").count(), 3);
    }

    #[test]
    fn a_log_that_is_written_is_seen_to_grow() {
        static LOG: Region<8, 0> = Region::new();
        let mut memory = Memory::new(BASE, 1 << 20);
        assert!(EventLogPlace::find(&memory).is_none());
        let bytes = logged(&LOG, 3);
        memory.put(BASE + 0x3000, &bytes);
        let place = EventLogPlace::find(&memory).expect("a log");
        assert_eq!(place.records(&memory), Some(3));
        static LATER: Region<8, 0> = Region::new();
        memory.put(BASE + 0x3000, &logged(&LATER, 11));
        assert_eq!(place.records(&memory), Some(8));
    }

    #[test]
    fn a_header_whose_records_were_cleared_does_not_win() {
        static OLD: Region<100, 0> = Region::new();
        static LOG: Region<8, 0> = Region::new();
        let mut memory = Memory::new(BASE, 3 << 20);
        memory.put(BASE + 0x1000, &logged(&OLD, 50)[..HEADER_BYTES]);
        memory.put(BASE + 0x10000, &logged(&LOG, 3));
        let log = event_log(&memory).expect("a log");
        assert!(log.detail.contains("3 records, 0 dropped"), "{}", log.detail);
    }

    #[test]
    fn a_log_that_goes_on_past_the_end_of_memory_is_read_up_to_there() {
        static LOG: Region<8, 0> = Region::new();
        let bytes = logged(&LOG, 11);
        let mut memory = Memory::new(BASE, 1 << 20);
        let there = HEADER_BYTES + 2 * RECORD_BYTES;
        memory.put(BASE + (1 << 20) - there as u64, &bytes[..there]);
        let log = event_log(&memory).expect("a log");
        assert!(log.detail.contains("8 records, 3 dropped"), "{}", log.detail);
        assert_eq!(log.text.matches("ENTER").count(), 2);
        assert!(log.text.contains("EVENT TSLOG missing 6"), "{}", log.text);
    }
}
