//! `first-run.bin`: when each block of guest code ran for the first time, from the QEMU plugin.
//!
//! The format is [`plugin_formats::first_executions`], which the plugin writes with.
//!
//! Reading is one pass over columns that grow with the input only; a record that makes no sense ends it, because
//! everything after is relative to it. What the blocks mean is in the submodules: [`regions`] (firmware, loader,
//! decompressor, kernel), [`calls`] (first calls of call sites) and [`symbols`] (names).

use crate::formats::plugin_header;
use crate::formats::plugin_header::since;
use crate::input::records_max;
use plugin_formats::first_executions::{HEADER_BYTES, MAGIC, Record, Stream, read_header};
use plugin_formats::{Broken, Bytes};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// What a record takes in memory, with what is made of it.
const RECORD_COST: usize = 56;
/// A block's record is this long on average; most are shorter than ten.
const BLOCK_BYTES: usize = 8;

pub use plugin_formats::Clock as PluginClock;
pub use plugin_formats::first_executions::{Counts, Ending};

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

/// All first executions, in order of time, one column per property.
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

    /// The address of each block, in order of time. Who looks for some of many blocks reads this column alone.
    pub fn addresses(&self) -> &[u64] {
        &self.address
    }

    /// How each block ends.
    pub(crate) fn endings(&self) -> &[Ending] {
        &self.ending
    }

    /// Where a call at the end of a block returns to.
    pub(crate) fn end(&self, i: usize) -> u64 {
        self.address[i].wrapping_add(self.size[i].into())
    }

    /// One block.
    pub fn get(&self, i: usize) -> Block {
        let (address, size) = (self.address[i], self.size[i]);
        let target = match self.displacement[i] {
            0 => None,
            d => Some(address.wrapping_add(size.into()).wrapping_add_signed(d)),
        };
        Block { at: self.at[i], address, size, ending: self.ending[i], target, thread: self.thread[i] }
    }

    /// All blocks in order of time.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstExecutions {
    /// What the blocks' times are.
    pub clock: PluginClock,
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
    /// The first executions.
    pub blocks: Blocks,
    /// Totals, if QEMU ended in order.
    pub counts: Option<Counts>,
    /// When QEMU ended, if it ended in order.
    pub exit: Option<Ns>,
    /// From when on no block was noted, as was asked for.
    pub stopped: Option<Ns>,
}

impl FirstExecutions {
    /// The vCPU that a thread of QEMU's runs, if that is known: of a machine with one, it is that one.
    pub fn vcpu(&self, thread: u16) -> Option<u32> {
        let noted = self.vcpu_of_thread.iter().find(|(t, _)| *t == thread).map(|(_, vcpu)| *vcpu);
        noted.or((self.vcpus == 1).then_some(0))
    }

    /// The addresses that were called by name, each once, in order: who looks them up finds them near each other.
    pub(crate) fn called(&self) -> impl Iterator<Item = u64> + use<> {
        let calls = self.blocks.iter().filter(|block| block.ending == Ending::Call);
        let mut called: Vec<u64> = calls.filter_map(|block| block.target).collect();
        called.sort_unstable();
        called.dedup();
        called.into_iter()
    }
}

/// Whether this looks like a file of the plugin's.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the file. What is cut off or makes no sense is counted in `diagnostics`, and what comes before it is
/// returned; `place` names the file. A header that is not one gives an empty result.
pub fn read(place: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> FirstExecutions {
    let mut run = FirstExecutions::default();
    let Some((zero, mut stream)) = header(bytes, place, &mut run, diagnostics) else { return run };
    let most = records_max(bytes.len(), RECORD_COST);
    run.blocks.reserve((bytes.len() / BLOCK_BYTES).min(most));
    let mut left = most;
    let mut records = Bytes::new(&bytes[HEADER_BYTES..]);
    let mut thread = 0;
    while !records.is_at_end() {
        let start = HEADER_BYTES + records.at();
        if left == 0 {
            let (about, beyond) = (format!("bytes of {place}"), (bytes.len() - start) as u64);
            diagnostics.add(DiagnosticKind::EntriesBeyondBound, &about, beyond, None, || place.to_owned());
            break;
        }
        left -= 1;
        let added = stream.read(&mut records).and_then(|record| add(record, zero, &mut thread, &mut run));
        if let Err(broken) = added {
            let kind = match broken {
                Broken::Cut => DiagnosticKind::FirstExecutionCut,
                Broken::Malformed => DiagnosticKind::FirstExecutionMalformed,
            };
            diagnostics.note(kind, || format!("{place}: byte {start}"));
            break;
        }
    }
    if let Some(counts) = run.counts {
        diagnostics.note_many(DiagnosticKind::FirstExecutionTableFull, counts.full, || place.to_owned());
    }
    if let Some(at) = run.stopped {
        diagnostics.note(DiagnosticKind::FirstExecutionsStop, || at.to_string());
    }
    run
}

/// The header's fields into `run`. Returns time zero on the clock of the records, and how these are read.
fn header(
    bytes: &[u8],
    place: &str,
    run: &mut FirstExecutions,
    diagnostics: &mut Diagnostics,
) -> Option<(u64, Stream)> {
    let kinds = [DiagnosticKind::FirstExecutionWithoutHeader, DiagnosticKind::FirstExecutionVersionUnknown];
    let start = plugin_header::known(read_header(bytes), (place, bytes), kinds, diagnostics)?;
    (run.clock, run.api, run.vcpus) = (start.clock, start.api, start.vcpus);
    run.target = plugin_header::target(&start.target);
    let zero = start.zero_ns();
    run.installed = since(zero, start.install_host_ns);
    let zero = if run.clock == PluginClock::Host { zero } else { 0 };
    Some((zero, Stream::new(&start)))
}

/// Adds a record to what the file says; `thread` is the one of the blocks that follow.
fn add(record: Record, zero: u64, thread: &mut u16, run: &mut FirstExecutions) -> Result<(), Broken> {
    fn small<N: TryFrom<u64>>(n: u64) -> Result<N, Broken> {
        N::try_from(n).map_err(|_| Broken::Malformed)
    }
    match record {
        Record::Block(at, block) => {
            let size = small(block.size)?;
            let b = &mut run.blocks;
            b.at.push(since(zero, at));
            b.address.push(block.vaddr);
            b.size.push(size);
            b.ending.push(block.ending);
            b.displacement.push(block.displacement.unwrap_or(0));
            b.thread.push(*thread);
        }
        Record::Thread(number) => *thread = small(number)?,
        Record::Runs(thread, vcpu) => run.vcpu_of_thread.push((small(thread)?, small::<u16>(vcpu)?.into())),
        Record::Vcpu(at, vcpu) => run.vcpu_init.push((small::<u16>(vcpu)?.into(), since(zero, at))),
        Record::Counts(counts) => run.counts = Some(counts),
        Record::Exit(at) => run.exit = Some(since(zero, at)),
        Record::Stop(at) => run.stopped = Some(since(zero, at)),
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file of the format's own test.
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
    pub(crate) fn blocks(rows: &[(i64, u64, u32, Ending, u64, u16)]) -> FirstExecutions {
        let mut run = FirstExecutions { vcpus: 1, target: "x86_64".into(), ..FirstExecutions::default() };
        for &(us, address, size, ending, target, thread) in rows {
            let b = &mut run.blocks;
            b.at.push(Ns::from_us(us));
            b.address.push(address);
            b.size.push(size);
            b.ending.push(ending);
            let end = address.wrapping_add(size.into());
            #[expect(clippy::cast_possible_wrap, reason = "a target before the end is a negative displacement")]
            let displacement = target.wrapping_sub(end) as i64;
            b.displacement.push(if target == 0 { 0 } else { displacement });
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
        assert_eq!((run.clock, run.api, run.vcpus, run.target.as_str()), (PluginClock::Host, 1, 2, "x86_64"));
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
        check(&s[..HEADER_BYTES + 2], DiagnosticKind::FirstExecutionCut, "f: byte 40");
        check(&[&s[..HEADER_BYTES], &[0]].concat(), DiagnosticKind::FirstExecutionMalformed, "f: byte 40");
        check(
            &[&s[..HEADER_BYTES], &[0xa1, 0, 0, 0, 0]].concat(),
            DiagnosticKind::FirstExecutionMalformed,
            "f: byte 40",
        );
        check(
            &[&s[..8], &[2], &s[9..]].concat(),
            DiagnosticKind::FirstExecutionVersionUnknown,
            "f: version 2, clock 0",
        );
        let full = [&s[..HEADER_BYTES], &[5, 9, 1, 3]].concat();
        check(&full, DiagnosticKind::FirstExecutionTableFull, "f");
        let stopped = [&s[..HEADER_BYTES], &[7, 100]].concat();
        check(&stopped, DiagnosticKind::FirstExecutionsStop, "500 ns");
    }
}
