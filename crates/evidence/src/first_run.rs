//! `first-run.bin`: when each block of guest code ran for the first time, from the QEMU plugin.
//!
//! # Format, version 1
//! All fixed numbers little-endian. Header, 40 bytes:
//! ```text
//!  0  8  "BSFIRST\n"
//!  8  2  version of the format
//! 10  1  clock of the records: 0 host CLOCK_MONOTONIC, 1 the guest's virtual clock
//! 11  1  version of the plugin interface that QEMU implements
//! 12  4  vCPUs
//! 16  8  host CLOCK_MONOTONIC, ns, at time zero; 0: the plugin was not told
//! 24  8  host CLOCK_MONOTONIC, ns, when QEMU loaded the plugin
//! 32  8  guest architecture, NUL padded
//! ```
//! Then records: a tag byte whose low three bits say what it is, and numbers as LEB128; those marked ± zigzag, those
//! marked Δ nanoseconds since the last record that had a time (the first: since the plugin was loaded, or since 0 of
//! the virtual clock).
//! ```text
//! 1 block    tag bits 4-7: how it ends (Ending); bit 3: has a target
//!            Δ time, ± address less the end of the block before, bytes, instructions, [± target less this block's end]
//! 2 thread   thread: the blocks that follow ran in this thread of QEMU's
//! 3 runs     thread, vCPU: this thread runs that vCPU
//! 4 vCPU     Δ time, vCPU: it came into being
//! 5 counts   blocks translated, of these again, of these not noted for want of room
//! 6 exit     Δ time: QEMU ended in order
//! ```
//! The file has no index and no end mark of its own: of a QEMU that was killed, what was written is there.
//!
//! Reading is one pass over columns that grow with the input only; a record that makes no sense ends it, because
//! everything after is relative to it. What the blocks mean is in the submodules: [`regions`] (firmware, loader,
//! decompressor, kernel), [`calls`] (first calls of call sites) and [`symbols`] (names).

pub mod aliases;
pub mod calls;
mod demangle;
pub(crate) mod lists;
pub(crate) mod printed;
mod reader;
pub mod regions;
pub mod symbols;

pub(crate) use reader::Files;

use timeline::{DiagnosticKind, Diagnostics, Ns};

const MAGIC: &[u8] = b"BSFIRST\n";
const VERSION: u16 = 1;
const HEADER: usize = 40;
/// A block's record is this long on average; most are shorter than ten.
const BLOCK_BYTES: usize = 8;

/// How a block ends, by the numbers of the file format. The writer's counterpart is in `qemu-plugin/src/ending.rs`: an
/// object of its own under another licence, with which this shares the format and no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// None of the others: cut at a page's end or its greatest length, or not x86.
    Other = 0,
    /// Call of a fixed address.
    Call = 1,
    /// Call through a register or memory, or to another segment.
    CallIndirect = 2,
    /// Near or far return.
    Return = 3,
    /// Jump to a fixed address.
    Jump = 4,
    /// Conditional jump.
    Branch = 5,
    /// Jump through a register or memory, or to another segment.
    JumpIndirect = 6,
    /// Return from an interrupt or a system call.
    InterruptReturn = 7,
    /// Stops until an interrupt.
    Halt = 8,
    /// System call, software interrupt, breakpoint, invalid on purpose.
    Trap = 9,
}

impl Ending {
    fn from_tag(bits: u8) -> Option<Ending> {
        use Ending::*;
        [Other, Call, CallIndirect, Return, Jump, Branch, JumpIndirect, InterruptReturn, Halt, Trap]
            .get(bits as usize)
            .copied()
    }
}

/// A block that ran for the first time, by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// When it began to run.
    pub at: Ns,
    /// Address of its first byte.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// How it ends.
    pub ending: Ending,
    /// Where that leads, if that is fixed.
    pub target: Option<u64>,
    /// The thread of QEMU's that it ran in.
    pub thread: u16,
}

impl Block {
    /// Address of the first byte after it: where a call at its end returns to.
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(self.size.into())
    }
}

/// All first runs, in order of time, one column per property.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    at: Vec<Ns>,
    address: Vec<u64>,
    size: Vec<u32>,
    ending: Vec<Ending>,
    /// Relative to the block's end. 0 stands for none: a call of the next instruction is a way to read the program
    /// counter, no call.
    displacement: Vec<i64>,
    thread: Vec<u16>,
}

impl Blocks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    fn reserve(&mut self, more: usize) {
        self.at.reserve(more);
        self.address.reserve(more);
        self.size.reserve(more);
        self.ending.reserve(more);
        self.displacement.reserve(more);
        self.thread.reserve(more);
    }

    /// One block.
    pub fn get(&self, i: usize) -> Block {
        let (address, size) = (self.address[i], self.size[i]);
        let target = match self.displacement[i] {
            0 => None,
            d => Some(address.wrapping_add(size.into()).wrapping_add(d as u64)),
        };
        Block { at: self.at[i], address, size, ending: self.ending[i], target, thread: self.thread[i] }
    }

    /// All blocks in order of time.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// The clock of the blocks' times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunClock {
    /// The host's monotonic clock, from time zero.
    #[default]
    Host,
    /// The guest's virtual clock, from its own zero.
    Virtual,
}

/// How many blocks QEMU translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In all.
    pub translated: u64,
    /// Of these, once more: the code cache was flushed, or the code was patched.
    pub again: u64,
    /// Of these, for the first time, but the plugin's table was full.
    pub full: u64,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstRun {
    /// What the blocks' times are.
    pub clock: RunClock,
    /// Version of QEMU's plugin interface.
    pub api: u8,
    /// vCPUs of the machine.
    pub vcpus: u32,
    /// The guest's architecture.
    pub target: String,
    /// When QEMU loaded the plugin, on the host's clock: it was linked, and parsed its options.
    pub installed: Ns,
    /// When each vCPU came into being.
    pub vcpu_init: Vec<(u32, Ns)>,
    /// Which vCPU each thread runs; none for a thread that runs several.
    pub vcpu_of_thread: Vec<(u16, u32)>,
    /// The first runs.
    pub blocks: Blocks,
    /// Totals, if QEMU ended in order.
    pub counts: Option<Counts>,
    /// When QEMU ended, if it ended in order.
    pub exit: Option<Ns>,
}

impl FirstRun {
    /// The vCPU that a thread of QEMU's runs, if that is known: of a machine with one, it is that one.
    pub fn vcpu(&self, thread: u16) -> Option<u32> {
        let noted = self.vcpu_of_thread.iter().find(|(t, _)| *t == thread).map(|(_, vcpu)| *vcpu);
        noted.or((self.vcpus == 1).then_some(0))
    }

    /// The addresses that were called by name, each once.
    pub(crate) fn called(&self) -> impl Iterator<Item = u64> + use<> {
        let calls = self.blocks.iter().filter(|block| block.ending == Ending::Call);
        calls.filter_map(|block| block.target).collect::<hashbrown::HashSet<u64>>().into_iter()
    }
}

/// Whether this looks like a file of the plugin's.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the file. What is cut off or makes no sense is counted in `diagnostics`, and what comes before it is
/// returned; `place` names the file. A header that is not one gives an empty result.
pub fn read(place: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> FirstRun {
    let mut run = FirstRun::default();
    let Some((zero, mut records)) = header(bytes, place, &mut run, diagnostics) else { return run };
    run.blocks.reserve(bytes.len() / BLOCK_BYTES);
    while records.at < bytes.len() {
        let start = records.at;
        if let Err(kind) = record(&mut records, zero, &mut run) {
            diagnostics.note(kind, || format!("{place}: byte {start}"));
            break;
        }
    }
    if let Some(counts) = run.counts {
        diagnostics.note_many(DiagnosticKind::FirstExecutionTableFull, counts.full, || place.to_owned());
    }
    run
}

/// The header's fields into `run`. Returns host time zero and where records begin.
fn header<'a>(
    bytes: &'a [u8],
    place: &str,
    run: &mut FirstRun,
    diagnostics: &mut Diagnostics,
) -> Option<(u64, Records<'a>)> {
    let Some(head) = bytes.first_chunk::<HEADER>().filter(|_| recognise(bytes)) else {
        if !bytes.is_empty() {
            diagnostics.note(DiagnosticKind::FirstExecutionWithoutHeader, || place.to_owned());
        }
        return None;
    };
    let u64_at = |i: usize| u64::from_le_bytes(head[i..i + 8].try_into().expect("eight bytes"));
    let version = u16::from_le_bytes([head[8], head[9]]);
    if version != VERSION || head[10] > 1 {
        diagnostics.note(DiagnosticKind::FirstExecutionVersionUnknown, || {
            format!("{place}: version {version}, clock {}", head[10])
        });
        return None;
    }
    run.clock = if head[10] == 0 { RunClock::Host } else { RunClock::Virtual };
    run.api = head[11];
    run.vcpus = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    run.target = String::from_utf8_lossy(&head[32..40]).trim_end_matches('\0').to_owned();
    let installed = u64_at(24);
    let zero = match u64_at(16) {
        0 => installed,
        zero => zero,
    };
    run.installed = since(zero, installed);
    let (now, zero) = match run.clock {
        RunClock::Host => (installed, zero),
        RunClock::Virtual => (0, 0),
    };
    Some((zero, Records { bytes, at: HEADER, now, last_end: 0, thread: 0 }))
}

/// Where reading stands, and what the next record is relative to.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    now: u64,
    last_end: u64,
    thread: u16,
}

fn record(r: &mut Records, zero: u64, run: &mut FirstRun) -> Result<(), DiagnosticKind> {
    let tag = r.bytes[r.at];
    r.at += 1;
    match tag & 7 {
        1 => {
            let ending = Ending::from_tag(tag >> 4).ok_or(DiagnosticKind::FirstExecutionMalformed)?;
            let at = since(zero, r.time()?);
            let address = r.last_end.wrapping_add(r.signed()? as u64);
            let size = u32::try_from(r.varint()?).map_err(|_| DiagnosticKind::FirstExecutionMalformed)?;
            let _insns = r.varint()?;
            let displacement = if tag & 8 != 0 { r.signed()? } else { 0 };
            r.last_end = address.wrapping_add(size.into());
            let b = &mut run.blocks;
            b.at.push(at);
            b.address.push(address);
            b.size.push(size);
            b.ending.push(ending);
            b.displacement.push(displacement);
            b.thread.push(r.thread);
        }
        2 => r.thread = r.small()?,
        3 => {
            let pair = (r.small()?, u32::from(r.small()?));
            run.vcpu_of_thread.push(pair);
        }
        4 => {
            let at = since(zero, r.time()?);
            run.vcpu_init.push((u32::from(r.small()?), at));
        }
        5 => run.counts = Some(Counts { translated: r.varint()?, again: r.varint()?, full: r.varint()? }),
        6 => run.exit = Some(since(zero, r.time()?)),
        _ => return Err(DiagnosticKind::FirstExecutionMalformed),
    }
    Ok(())
}

fn since(zero: u64, at: u64) -> Ns {
    let since = i128::from(at) - i128::from(zero);
    // Clamped, not wrapped: times in the file never go back, and must not here.
    Ns(since.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

impl Records<'_> {
    fn time(&mut self) -> Result<u64, DiagnosticKind> {
        self.now = self.now.saturating_add(self.varint()?);
        Ok(self.now)
    }

    fn signed(&mut self) -> Result<i64, DiagnosticKind> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A number of a thread or a vCPU.
    fn small(&mut self) -> Result<u16, DiagnosticKind> {
        u16::try_from(self.varint()?).map_err(|_| DiagnosticKind::FirstExecutionMalformed)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DiagnosticKind> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(DiagnosticKind::FirstExecutionCut)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DiagnosticKind::FirstExecutionMalformed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The bytes that the plugin's encoder is tested to write.
    fn sample() -> Vec<u8> {
        let parts: [&[u8]; 12] = [
            b"BSFIRST\n",
            &[1, 0, 0, 1, 2, 0, 0, 0],
            &[0x58, 2, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0, 0, 0, 0, 0],
            b"x86_64\0\0",
            &[4, 0xc8, 1, 0],
            &[2, 1],
            &[3, 1, 0],
            &[0x61, 0xac, 2, 0xe0, 0xff, 0xff, 0xff, 0x1f, 5, 1],
            &[0x19, 0, 0xb3, 0xfe, 0x80, 0xff, 0x1f, 5, 2, 5],
            &[5, 0xac, 2, 0xaa, 2, 0],
            &[6, 1],
        ];
        parts.concat()
    }

    /// Blocks made by hand: time in µs, address, bytes, ending, target (0: none), thread.
    pub(crate) fn blocks(rows: &[(i64, u64, u32, Ending, u64, u16)]) -> FirstRun {
        let mut run = FirstRun { vcpus: 1, target: "x86_64".into(), ..FirstRun::default() };
        for &(us, address, size, ending, target, thread) in rows {
            let b = &mut run.blocks;
            b.at.push(Ns::from_us(us));
            b.address.push(address);
            b.size.push(size);
            b.ending.push(ending);
            let end = address.wrapping_add(size.into());
            b.displacement.push(if target == 0 { 0 } else { target.wrapping_sub(end) as i64 });
            b.thread.push(thread);
        }
        run
    }

    /// Found by fuzzing: a zero far from the times made them wrap, and calls end before they began.
    #[test]
    fn times_never_go_back() {
        let times = [0, 1, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
        for zero in times {
            assert!(times.is_sorted_by_key(|&at| since(zero, at)), "{zero}");
        }
    }

    #[test]
    fn what_the_plugin_writes() {
        let mut diagnostics = Diagnostics::default();
        let run = read("first-run.bin", &sample(), &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert_eq!((run.clock, run.api, run.vcpus, run.target.as_str()), (RunClock::Host, 1, 2, "x86_64"));
        assert_eq!(run.installed, Ns(400));
        assert_eq!(run.vcpu_init, [(0, Ns(600))]);
        assert_eq!(run.vcpu(1), Some(0));
        let [first, second] = [run.blocks.get(0), run.blocks.get(1)];
        let reset =
            Block { at: Ns(900), address: 0xffff_fff0, size: 5, ending: Ending::JumpIndirect, target: None, thread: 1 };
        assert_eq!(first, reset);
        assert_eq!(second.address, 0xf_e05b);
        assert_eq!((second.at, second.ending, second.target), (Ns(900), Ending::Call, Some(0xf_e060 - 3)));
        assert_eq!(run.counts, Some(Counts { translated: 300, again: 298, full: 0 }));
        assert_eq!(run.exit, Some(Ns(901)));
    }

    #[test]
    fn cut_anywhere_it_gives_what_came_before() {
        let whole = sample();
        let mut seen = 0;
        for len in 0..whole.len() {
            let mut diagnostics = Diagnostics::default();
            let run = read("f", &whole[..len], &mut diagnostics);
            assert!(run.blocks.len() >= seen, "more input never gives less");
            seen = run.blocks.len();
            assert!(run.exit.is_none());
        }
        assert_eq!(seen, 2);
    }

    #[test]
    fn any_byte_changed_is_no_harm() {
        let whole = sample();
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0xff, whole[at] ^ 0x10] {
                let mut broken = whole.clone();
                broken[at] = value;
                read("f", &broken, &mut Diagnostics::default());
            }
        }
    }

    #[test]
    fn troubles_are_counted_with_their_place() {
        let check = |bytes: &[u8], problem: DiagnosticKind, first: &str| {
            let mut diagnostics = Diagnostics::default();
            read("f", bytes, &mut diagnostics);
            let d = diagnostics.iter().next().expect("a diagnostic");
            assert_eq!((d.kind, d.first.as_str()), (problem, first));
        };
        let s = sample();
        check(b"hello", DiagnosticKind::FirstExecutionWithoutHeader, "f");
        check(&s[..HEADER + 2], DiagnosticKind::FirstExecutionCut, "f: byte 40");
        check(&[&s[..HEADER], &[7]].concat(), DiagnosticKind::FirstExecutionMalformed, "f: byte 40");
        check(&[&s[..HEADER], &[0xa1, 0, 0, 0, 0]].concat(), DiagnosticKind::FirstExecutionMalformed, "f: byte 40");
        check(
            &[&s[..8], &[2], &s[9..]].concat(),
            DiagnosticKind::FirstExecutionVersionUnknown,
            "f: version 2, clock 0",
        );
        let full = [&s[..HEADER], &[5, 9, 1, 3]].concat();
        check(&full, DiagnosticKind::FirstExecutionTableFull, "f");
    }
}
