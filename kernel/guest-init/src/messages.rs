//! The messages that process 1 sends to the host, one per line, on port 0xe9 or its substitute. The host stamps the
//! arrival of each line's first byte.
//!
//! ```text
//! I <tsc>                                         process 1 runs; the tick was read just before the `I` was sent
//! F <hz>                                          the rate of the counter in Hz, from its own register
//! T <tsc>                                         sync point, likewise
//! S trace <tsc> <tsc> <seq>                       between the two ticks, `bootscope-sync <seq>` was written to trace_marker
//! S kmsg <tsc> <tsc> <seq>                        … to /dev/kmsg
//! S clock <tsc> <tsc> <monotonic ns> <boottime ns>  between the two ticks, both clocks were read
//! L <what> <why>                                  something is lacking
//! H <hex>                                         a round is ready in memory, with its header at this physical address
//! P <name> <offset> <bytes> <sum> <more|last>   this number of bytes of the file follows, then a newline
//! E <outcome>                                     done: `poweroff`, or `exec <path>`
//! ```
//!
//! Numbers are decimal, addresses and checksums hexadecimal. Any other line does no harm: it is reported as malformed
//! and skipped.

use crate::files;
use crate::round::{CHUNK_BYTES_MAX, Chunk};
use std::fmt;

/// The port. A read of it returns [`PORT_PRESENT`] if there is a host.
pub const PORT: u16 = 0xe9;
/// The value that a read of [`PORT`] returns on QEMU and Bochs.
pub const PORT_PRESENT: u8 = 0xe9;
/// The registers of the virtio console that replaces the port, on arm64 guests and on 32-bit ARM guests on `virt`. It
/// is the first of the virtio device slots of QEMU's machine `virt`.
pub const ARM64_REGISTERS: u64 = 0x0a00_0000;
/// The same for riscv64 guests.
pub const RISCV64_REGISTERS: u64 = 0x1000_1000;

/// The console's registers (Virtio 1.2, 4.2.2 and 5.3.4): their offsets from the first one, and their values.
pub mod registers {
    /// The size of all registers of one device.
    pub const BYTES: usize = 0x200;
    /// Identifies a virtio device.
    pub const MAGIC: usize = 0;
    /// The value of [`MAGIC`].
    pub const IS_VIRTIO: u32 = 0x7472_6976;
    /// The kind of device; 0 for an empty slot.
    pub const DEVICE: usize = 8;
    /// The value of [`DEVICE`] for a console.
    pub const IS_CONSOLE: u32 = 3;
    /// Prints the lowest byte of a written word, without a driver: `emerg_wr` in the console's configuration.
    pub const EMERGENCY: usize = 0x100 + 8;
    /// Makes a word for a byte that is not 0, because 0 prints nothing.
    pub const NOT_ZERO: u32 = 0x100;
}
/// The text in trace_marker and kmsg, before a space and the sequence number.
pub const SYNC_TEXT: &str = "bootscope-sync";
/// The longest line that either side makes or accepts, without the newline.
pub const LINE_BYTES_MAX: usize = 1024;

/// The log of a sync line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPlace {
    /// trace_marker; the line is then in the trace.
    Trace,
    /// /dev/kmsg; the line is then in the kernel log.
    Kmsg,
}

/// One message. Every `tsc` is in ticks of the guest's counter: x86's time stamp counter, or arm64's system counter. On
/// a 32-bit ARM CPU without a counter, it is CLOCK_MONOTONIC in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Process 1 runs.
    Init {
        /// The tick just before the line's first byte was sent.
        tsc: u64,
    },
    /// The rate of the guest's counter, if its own register has it.
    Rate {
        /// Ticks per second.
        hz: u64,
    },
    /// Sync point between the guest's ticks and the host's clock.
    Tick {
        /// The tick just before the line's first byte was sent.
        tsc: u64,
    },
    /// Sync point between ticks and a log's own clock.
    Sync {
        place: SyncPlace,
        /// The tick before the write.
        before: u64,
        /// The tick after the write.
        after: u64,
        /// The sequence number in the written line.
        seq: u32,
    },
    /// Sync point between ticks and the kernel's clocks.
    Clock {
        /// The tick before the clocks were read.
        before: u64,
        /// The tick after the clocks were read.
        after: u64,
        /// CLOCK_MONOTONIC in ns.
        monotonic_ns: u64,
        /// CLOCK_BOOTTIME in ns.
        boottime_ns: u64,
    },
    /// Something is lacking.
    Lack {
        /// The thing that is lacking.
        what: Lacked,
        /// The reason, in the kernel's words if it gives one.
        why: String,
    },
    /// A round is ready in memory.
    Round {
        /// The guest-physical address of its header.
        header_phys: u64,
    },
    /// A piece of a file follows on the port.
    Chunk(Chunk),
    /// The guest is done.
    End {
        /// Its next action.
        outcome: String,
    },
}

/// Things that process 1 can lack. The host ends a boot for the first two, and counts the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacked {
    /// The requested root file system.
    Root,
    /// The requested workload, or its success.
    Workload,
    /// Anything else, in one word: a file of evidence, a mount, a step of process 1.
    Other(String),
}

impl Lacked {
    /// The word in the message.
    pub fn word(&self) -> &str {
        match self {
            Lacked::Root => "root",
            Lacked::Workload => "workload",
            Lacked::Other(word) => word,
        }
    }
}

impl From<&str> for Lacked {
    fn from(word: &str) -> Lacked {
        match word {
            "root" => Lacked::Root,
            "workload" => Lacked::Workload,
            other => Lacked::Other(other.to_string()),
        }
    }
}

impl fmt::Display for Message {
    /// The line, without its newline. Control characters in free text become `?`; text that is too long is cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Init { tsc } => write!(f, "I {tsc}"),
            Message::Rate { hz } => write!(f, "F {hz}"),
            Message::Tick { tsc } => write!(f, "T {tsc}"),
            Message::Sync { place, before, after, seq } => {
                let place = if *place == SyncPlace::Trace { "trace" } else { "kmsg" };
                write!(f, "S {place} {before} {after} {seq}")
            }
            Message::Clock { before, after, monotonic_ns, boottime_ns } => {
                write!(f, "S clock {before} {after} {monotonic_ns} {boottime_ns}")
            }
            Message::Lack { what, why } => {
                write!(f, "L {} {}", one_line(what.word(), 64), one_line(why, LINE_BYTES_MAX - 100))
            }
            Message::Round { header_phys } => write!(f, "H {header_phys:x}"),
            Message::Chunk(c) => {
                let end = if c.last { "last" } else { "more" };
                write!(f, "P {} {} {} {:08x} {end}", c.name, c.offset, c.bytes, c.sum)
            }
            Message::End { outcome } => write!(f, "E {}", one_line(outcome, LINE_BYTES_MAX - 100)),
        }
    }
}

/// Free text for one line: at most `bytes_max` bytes, without control characters.
fn one_line(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for c in text.chars().map(|c| if c.is_control() { '?' } else { c }) {
        if out.len() + c.len_utf8() > bytes_max {
            break;
        }
        out.push(c);
    }
    out
}

impl Message {
    /// Reads a line (without its newline); `None` if it is not a message of this protocol.
    pub fn parse(line: &str) -> Option<Message> {
        let (letter, rest) = line.split_once(' ')?;
        match letter {
            "I" => Some(Message::Init { tsc: number(rest)? }),
            "F" => Some(Message::Rate { hz: number(rest)? }),
            "T" => Some(Message::Tick { tsc: number(rest)? }),
            "S" => sync(rest),
            "L" => {
                let (what, why) = rest.split_once(' ').unwrap_or((rest, ""));
                Some(Message::Lack { what: what.into(), why: why.to_string() })
            }
            "H" => Some(Message::Round { header_phys: u64::from_str_radix(rest, 16).ok()? }),
            "P" => chunk(rest).map(Message::Chunk),
            "E" => Some(Message::End { outcome: rest.to_string() }),
            _ => None,
        }
    }
}

/// A whole number with only digits: `parse` alone would also accept a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn fields<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split(' ').collect::<Vec<_>>().try_into().ok()
}

fn sync(rest: &str) -> Option<Message> {
    if let Some(clocks) = rest.strip_prefix("clock ") {
        let [before, after, monotonic, boottime] = fields(clocks)?;
        return Some(Message::Clock {
            before: number(before)?,
            after: number(after)?,
            monotonic_ns: number(monotonic)?,
            boottime_ns: number(boottime)?,
        });
    }
    let [place, before, after, seq] = fields(rest)?;
    let place = match place {
        "trace" => SyncPlace::Trace,
        "kmsg" => SyncPlace::Kmsg,
        _ => return None,
    };
    Some(Message::Sync { place, before: number(before)?, after: number(after)?, seq: number(seq)?.try_into().ok()? })
}

fn chunk(rest: &str) -> Option<Chunk> {
    let [name, offset, bytes, sum, end] = fields(rest)?;
    let last = match end {
        "last" => true,
        "more" => false,
        _ => return None,
    };
    Some(Chunk {
        name: files::find(name)?.name,
        offset: number(offset)?,
        bytes: number(bytes)?.try_into().ok().filter(|&bytes| bytes <= CHUNK_BYTES_MAX)?,
        sum: u32::from_str_radix(sum, 16).ok()?,
        last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_messages_are_read_back() {
        let chunk = Chunk { name: "kmsg.log", offset: 1 << 33, bytes: CHUNK_BYTES_MAX, sum: 0xab, last: true };
        let messages = [
            (Message::Init { tsc: u64::MAX }, "I 18446744073709551615"),
            (Message::Rate { hz: 62_500_000 }, "F 62500000"),
            (Message::Tick { tsc: 0 }, "T 0"),
            (Message::Sync { place: SyncPlace::Trace, before: 1, after: 2, seq: 3 }, "S trace 1 2 3"),
            (Message::Sync { place: SyncPlace::Kmsg, before: 1, after: 2, seq: 3 }, "S kmsg 1 2 3"),
            (Message::Clock { before: 1, after: 2, monotonic_ns: 3, boottime_ns: 4 }, "S clock 1 2 3 4"),
            (Message::Lack { what: "trace".into(), why: "no such device".into() }, "L trace no such device"),
            (Message::Lack { what: Lacked::Root, why: "no such disk".into() }, "L root no such disk"),
            (Message::Lack { what: Lacked::Workload, why: "exit status: 1".into() }, "L workload exit status: 1"),
            (Message::Round { header_phys: 0x1f000 }, "H 1f000"),
            (Message::Chunk(chunk), "P kmsg.log 8589934592 67108864 000000ab last"),
            (Message::End { outcome: "exec /sbin/init".into() }, "E exec /sbin/init"),
        ];
        for (message, line) in messages {
            assert_eq!(message.to_string(), line);
            assert_eq!(Message::parse(line), Some(message));
        }
    }

    #[test]
    fn other_lines_are_not_messages() {
        for line in [
            "",
            "I",
            "I ",
            "I x",
            "I -1",
            "I +1",
            "I 99999999999999999999",
            "Q 1",
            "S trace 1 2",
            "S dmesg 1 2 3",
            "S clock 1 2 3",
            "H",
            "H xyz",
            "P kmsg.log 0 1 0",
            "P ../etc 0 1 0 last",
            "P kmsg.log 0 67108865 0 last",
            "P kmsg.log 0 1 0 next",
            "S kmsg 1 2 4294967296",
        ] {
            assert_eq!(Message::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn free_text_stays_on_its_line() {
        let message = Message::Lack { what: "a\nb".into(), why: format!("{}\r\n", "é".repeat(4000)) };
        let line = message.to_string();
        assert!(line.starts_with("L a?b éé") && !line.contains(['\r', '\n']));
        assert!(line.len() <= LINE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_panic(line in "\\PC{0,80}") {
            // A line that is a message has the same meaning when it is written and read again.
            if let Some(message) = Message::parse(&line) {
                prop_assert_eq!(Message::parse(&message.to_string()), Some(message));
            }
        }
    }
}
