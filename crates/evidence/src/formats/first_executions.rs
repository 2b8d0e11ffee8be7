//! Reads `first-run.bin`, the QEMU plugin's first-execution trace: when each block of guest code ran first.
//!
//! The plugin writes the format with [`plugin_formats::first_executions`].
//!
//! The reader goes through the file once and fills columns that grow only with the input. A malformed record ends it,
//! because all later records are relative to it. The submodules interpret the blocks: [`regions`] (firmware, loader,
//! decompressor, kernel), [`calls`] (first calls of call sites) and [`symbols`] (names). The file also has the guest's
//! timed waits.

use crate::formats::plugin_header::{self, since};
use crate::input::records_max;
use plugin_formats::first_executions::{HEADER_BYTES, MAGIC, Record, Stream, TimedWait, read_header};
use plugin_formats::{Broken, Bytes};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The bytes of memory for a record, including the results of reading it.
const RECORD_COST: usize = 56;
/// The average length of a block's record; most have less than ten bytes.
const BLOCK_BYTES: usize = 8;

pub use plugin_formats::Clock as PluginClock;
pub use plugin_formats::first_executions::{Counts, Ending};

/// A block that ran for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The time at which it began to run.
    pub at: Ns,
    /// Address of its first byte.
    pub address: u64,
    /// Its length in bytes.
    pub size: u32,
    pub ending: Ending,
    /// The address that its end leads to, if that is fixed.
    pub target: Option<u64>,
    /// The thread of QEMU that ran it.
    pub thread: u16,
}

impl Block {
    /// The address of the first byte behind it: a call at its end returns there.
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
    /// Relative to the block's end; 0 if there is no target. Code that calls the next instruction only reads the
    /// program counter, so this is no call.
    displacement: Vec<i64>,
    thread: Vec<u16>,
}

impl Blocks {
    pub fn len(&self) -> usize {
        self.at.len()
    }

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

    /// The address of each block, in order of time. A search through many blocks needs only this column.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.address
    }

    pub(crate) fn endings(&self) -> &[Ending] {
        &self.ending
    }

    /// The address to which a call at the end of a block returns.
    pub(crate) fn end(&self, i: usize) -> u64 {
        self.address[i].wrapping_add(self.size[i].into())
    }

    pub fn get(&self, i: usize) -> Block {
        let (address, size) = (self.address[i], self.size[i]);
        let target = match self.displacement[i] {
            0 => None,
            d => Some(address.wrapping_add(size.into()).wrapping_add_signed(d)),
        };
        Block { at: self.at[i], address, size, ending: self.ending[i], target, thread: self.thread[i] }
    }

    /// Iterates over all blocks in order of time.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstExecutions {
    /// The clock of the blocks' times.
    pub clock: PluginClock,
    /// Version of QEMU's plugin interface.
    pub api: u8,
    /// The machine's number of vCPUs.
    pub(crate) vcpus: u32,
    /// The guest's architecture.
    pub target: String,
    /// The time on the host's clock at which QEMU loaded the plugin: QEMU was linked and had parsed its options.
    pub installed: Ns,
    /// The time at which each vCPU was created.
    pub(crate) vcpu_init: Vec<(u32, Ns)>,
    /// The vCPU that each thread runs. Threads that run several are not listed.
    pub(crate) vcpu_of_thread: Vec<(u16, u32)>,
    pub blocks: Blocks,
    /// Totals, if QEMU exited normally.
    pub counts: Option<Counts>,
    /// The time at which QEMU exited, if it did so normally.
    pub exit: Option<Ns>,
    /// The guest's timed waits, by their start and end; `None` if they were not recorded.
    pub timed_waits: Option<Vec<(Ns, Ns)>>,
    /// The time at which recording of blocks stopped because the user limited it.
    pub stopped: Option<Ns>,
}

impl FirstExecutions {
    /// Returns the vCPU that a thread of QEMU runs, if that is known. If the machine has one vCPU, it is that one.
    pub(crate) fn vcpu(&self, thread: u16) -> Option<u32> {
        let noted = self.vcpu_of_thread.iter().find(|(t, _)| *t == thread).map(|(_, vcpu)| *vcpu);
        noted.or((self.vcpus == 1).then_some(0))
    }

    /// Returns the targets of direct calls, each once and sorted: neighbours are faster to look up.
    pub(crate) fn called(&self) -> impl Iterator<Item = u64> + use<> {
        let calls = self.blocks.iter().filter(|block| block.ending == Ending::Call);
        let mut called: Vec<u64> = calls.filter_map(|block| block.target).collect();
        called.sort_unstable();
        called.dedup();
        called.into_iter()
    }
}

/// True if the bytes begin like the plugin's file.
pub(crate) fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the file. Counts cut or malformed parts in `diagnostics` and returns all before them. `place` names the file.
/// Without a valid header, the result is empty.
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

/// Reads the header into `run`. Returns time zero on the records' clock, and the stream that decodes them.
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

/// Adds a record. `thread` is the thread of the blocks that follow.
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
        Record::WaitsAreKept => run.timed_waits = Some(run.timed_waits.take().unwrap_or_default()),
        Record::Wait(TimedWait { until_ns, length_ns, .. }) => {
            let waits = run.timed_waits.as_mut().ok_or(Broken::Malformed)?;
            waits.push((since(zero, until_ns.saturating_sub(length_ns)), since(zero, until_ns)));
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

    /// The file from the format's own test.
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

    /// Builds blocks from rows: time in µs, address, bytes, ending, target (0: none), thread.
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

    /// Found by fuzzing: with a zero far from the times, they wrapped, and calls ended before they began.
    #[test]
    fn times_never_go_back() {
        let times = [0, 1, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
        for zero in times {
            assert!(times.is_sorted_by_key(|&at| since(zero, at)), "{zero}");
        }
    }

    #[test]
    fn the_plugins_file_is_read() {
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
    fn a_file_cut_anywhere_gives_all_before_the_cut() {
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
    fn any_changed_byte_is_harmless() {
        let whole = sample();
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0xff, whole[at] ^ 0x10] {
                let mut broken = whole.clone();
                broken[at] = value;
                read("f", &broken, &mut Diagnostics::default());
            }
        }
    }

    /// Version 2, on the virtual clock: a halt, and a loop that read the clock.
    #[test]
    fn timed_waits_are_read() {
        let mut file = sample();
        (file[8], file[10]) = (2, 1);
        let waits = [&[0][..], &[4, 0xc8, 1, 0], &[0x10, 0x13, 20], &[0x20, 0, 3]].concat();
        file.splice(HEADER_BYTES..HEADER_BYTES, waits);
        let mut diagnostics = Diagnostics::default();
        let run = read("f", &file, &mut diagnostics);
        assert_eq!(run.timed_waits, Some(vec![(Ns(170), Ns(190)), (Ns(197), Ns(200))]));
        assert_eq!((run.blocks.len(), diagnostics.is_empty()), (2, true));
        // A wait in a file that does not keep them all, and one that ends before it begins.
        assert_eq!(read("f", &sample(), &mut diagnostics).timed_waits, None);
        file.remove(HEADER_BYTES);
        assert_eq!(read("f", &file, &mut diagnostics).timed_waits, None);
        let kinds: Vec<DiagnosticKind> = diagnostics.iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [DiagnosticKind::FirstExecutionMalformed]);
    }

    #[test]
    fn defects_are_counted_with_their_place() {
        let check = |bytes: &[u8], problem: DiagnosticKind, first: &str| {
            let mut diagnostics = Diagnostics::default();
            read("f", bytes, &mut diagnostics);
            let d = diagnostics.iter().next().expect("a diagnostic");
            assert_eq!((d.kind, d.first.as_str()), (problem, first));
        };
        let s = sample();
        check(b"hello", DiagnosticKind::FirstExecutionWithoutHeader, "f");
        check(&s[..HEADER_BYTES + 2], DiagnosticKind::FirstExecutionCut, "f: byte 40");
        check(&[&s[..HEADER_BYTES], &[8]].concat(), DiagnosticKind::FirstExecutionMalformed, "f: byte 40");
        check(
            &[&s[..HEADER_BYTES], &[0xa1, 0, 0, 0, 0]].concat(),
            DiagnosticKind::FirstExecutionMalformed,
            "f: byte 40",
        );
        check(
            &[&s[..8], &[3], &s[9..]].concat(),
            DiagnosticKind::FirstExecutionVersionUnknown,
            "f: version 3, clock 0",
        );
        let full = [&s[..HEADER_BYTES], &[5, 9, 1, 3]].concat();
        check(&full, DiagnosticKind::FirstExecutionTableFull, "f");
        let stopped = [&s[..HEADER_BYTES], &[7, 100]].concat();
        check(&stopped, DiagnosticKind::FirstExecutionsStop, "500 ns");
    }
}
