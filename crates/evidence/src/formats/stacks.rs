//! Sampled stacks with their counts: folded, as flame graphs take them, and as DTrace prints them.
//!
//! ```text
//! java;start_thread;GCTaskThread::run 8        outermost first, and how many samples had this stack
//!
//!   0  64091                        :tick-60s  DTrace's heading
//!               genunix`vn_free+0x9a           innermost first
//!               unix`sys_syscall+0x17a
//!                 3                            ends the stack
//! ```
//! (Brendan Gregg, FlameGraph; dtrace(8), `stack()` and `ustack()`.) A line above DTrace's stack that is no frame, such as `execname`, is its
//! outermost frame. Neither form has a time, a CPU or a thread.

use crate::input::records_max;
use crate::input::text::{Lines, lossy, whole_number};
use std::sync::Arc;
use timeline::{DiagnosticKind, Diagnostics, Names, Sample, Sampled, SampledFrame, SampledThread};

/// The format's name in diagnostics.
const NAME: &str = "stacks";
/// Stacks are read to this depth.
const FRAMES_MAX: usize = 1024;
/// The bytes of memory that a stack takes, here and on the timeline, and those of a further sample of it.
const STACK_COST: usize = 600;
const SAMPLE_COST: usize = 150;
/// At most one of ten lines of folded stacks is of another form.
const OTHERS_PART: usize = 10;
const STACKS_MIN: usize = 2;
/// For each whole stack, at most this number of them may be cut.
const CUT_PARTS: usize = 2;

/// A stack, outermost function first, and how many samples had it.
type Stack<'a> = (Vec<&'a [u8]>, u64);

/// Parses `frame;frame 12`. perf's own tool may print a fraction.
fn folded(line: &[u8]) -> Option<Stack<'_>> {
    let line = line.trim_ascii_end();
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    let count = line[space + 1..].split(|byte| *byte == b'.').next()?;
    let (stack, count) = (&line[..space], whole_number(count)?);
    let is_folded = stack.contains(&b';') && !stack.starts_with(b" ") && !stack.ends_with(b" ");
    let frames: Vec<&[u8]> = stack.split(|byte| *byte == b';').take(FRAMES_MAX).collect();
    (is_folded && frames.iter().all(|frame| !frame.is_empty())).then_some((frames, count))
}

/// True for a folded stack whose end is missing, as where a line was cut at a column.
fn is_cut(line: &[u8]) -> bool {
    const FRAMES_MIN: usize = 4;
    let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
    !is_indented && line.split(|byte| *byte == b';').filter(|frame| !frame.is_empty()).count() >= FRAMES_MIN
}

/// Parses a frame of DTrace's: a module, a backtick, a function and an offset; or an address alone.
fn dtrace_frame(line: &[u8]) -> Option<&[u8]> {
    let frame = line.trim_ascii();
    let is_address =
        frame.strip_prefix(b"0x").is_some_and(|hex| !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit));
    let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
    let tick = memchr::memchr(b'`', frame).is_some_and(|at| at > 0 && at + 1 < frame.len());
    (is_indented && (is_address || tick)).then(|| {
        let plus = memchr::memmem::rfind(frame, b"+0x").filter(|at| *at > 0);
        plus.map_or(frame, |at| &frame[..at])
    })
}

/// The kind of a text of stacks; `None` for another text.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    let lines = || Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty());
    let (mut all, mut found, mut cut) = (0, 0, 0);
    for line in lines().filter(|line| !line.bytes.starts_with(b"#")) {
        let is_found = folded(line.bytes).is_some();
        (all, found) = (all + 1, found + usize::from(is_found));
        cut += usize::from(!is_found && is_cut(line.bytes));
    }
    if found >= STACKS_MIN && (all - found - cut) * OTHERS_PART <= all && cut <= CUT_PARTS * found {
        return Some("folded stacks");
    }
    let (mut stacks, mut is_in_stack) = (0, false);
    for line in lines() {
        let ends = is_in_stack && whole_number(line.bytes.trim_ascii()).is_some();
        stacks += usize::from(ends);
        is_in_stack = dtrace_frame(line.bytes).is_some();
    }
    (stacks >= STACKS_MIN).then_some("stacks (DTrace)")
}

/// The stacks of a text.
#[derive(Default)]
pub(crate) struct Stacks<'a> {
    stacks: Vec<Stack<'a>>,
    most_samples: u64,
}

impl<'a> Stacks<'a> {
    /// Reads a text. Other lines are counted.
    pub(crate) fn read(file: &str, bytes: &'a [u8], diagnostics: &mut Diagnostics) -> Stacks<'a> {
        let most = records_max(bytes.len(), STACK_COST);
        let most_samples = records_max(bytes.len(), SAMPLE_COST) as u64;
        let mut read = Stacks { stacks: Vec::new(), most_samples };
        let is_folded = recognise(bytes) == Some("folded stacks");
        // The frames of DTrace's current stack, and the line above them.
        let (mut frames, mut key): (Vec<&[u8]>, Option<&[u8]>) = (Vec::new(), None);
        for line in Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty()) {
            let text = line.bytes.trim_ascii();
            let count = whole_number(text).filter(|_| !frames.is_empty());
            let stack = match (is_folded, count) {
                (true, _) => folded(line.bytes),
                (false, Some(count)) => {
                    frames.extend(key.take());
                    frames.reverse();
                    Some((std::mem::take(&mut frames), count))
                }
                (false, None) => {
                    match dtrace_frame(line.bytes) {
                        Some(frame) if frames.len() < FRAMES_MAX => frames.push(frame),
                        Some(_) => {}
                        None => (frames, key) = (Vec::new(), Some(text)),
                    }
                    continue;
                }
            };
            let place = || format!("{file}:{}", line.number);
            match stack {
                Some(_) if read.stacks.len() == most => {
                    diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place)
                }
                Some(stack) => read.stacks.push(stack),
                None if line.bytes.starts_with(b"#") => {}
                None => diagnostics.note(DiagnosticKind::SampleUnreadable, place),
            }
        }
        read
    }

    /// The number of all samples.
    fn samples(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Converts the stacks for the timeline. If their samples are too many to be kept one by one, each stack is one of its weight.
    pub(crate) fn sampled(&self, names: &mut Names) -> Sampled {
        let mut sampled = Sampled::default();
        let is_each = self.samples() <= self.most_samples;
        let (thread, event) = (SampledThread { name: names.intern("?"), tid: 0 }, names.intern("samples"));
        for (frames, count) in self.stacks.iter().filter(|(_, count)| *count > 0) {
            let frame = |frame: &&[u8]| {
                let name = lossy(frame);
                SampledFrame { address: 0, name: names.intern(&name), is_named: !name.starts_with("0x") }
            };
            let stack: Arc<[SampledFrame]> = frames.iter().map(frame).collect();
            let period = Some(*count).filter(|_| !is_each);
            for _ in 0..if is_each { *count } else { 1 } {
                let stack = stack.clone();
                sampled.add(Sample { at: None, cpu: None, thread, event, is_user: None, period, stack });
            }
        }
        sampled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(String, u64)>, u64) {
        let mut diagnostics = Diagnostics::default();
        let read = Stacks::read("s", text.as_bytes(), &mut diagnostics);
        let name = |stack: &Stack| stack.0.iter().map(|frame| lossy(frame)).collect::<Vec<_>>().join(";");
        (read.stacks.iter().map(|stack| (name(stack), stack.1)).collect(), diagnostics.iter().map(|d| d.count).sum())
    }

    #[test]
    fn both_forms_are_read() {
        let expected = |all: &[(&str, u64)]| all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
        let folded = "a;b c;d 3\na;b 2.5\n# comment\n";
        assert_eq!(read(folded), (expected(&[("a;b c;d", 3), ("a;b", 2)]), 0));
        let dtrace = "CPU     ID   FUNCTION:NAME\n  0  64091    :tick-60s\n\n\n    genunix`a+0x1\n    unix`b+0x2\n      3\n\n  \
                      sh\n    libc.so.1`c+0x9\n    0x8051234\n     12\n";
        let stacks = expected(&[("0  64091    :tick-60s;unix`b;genunix`a", 3), ("sh;0x8051234;libc.so.1`c", 12)]);
        assert_eq!(read(dtrace).0[1], stacks[1]);
        assert_eq!(
            (recognise(folded.as_bytes()), recognise(dtrace.as_bytes())),
            (Some("folded stacks"), Some("stacks (DTrace)"))
        );
        for other in ["a;b\nc;d\n", "x = 1; y 2\n", "int a; int b; 3\nmore text\nand more\n", "  see `this`\n 3\n"] {
            assert_eq!(recognise(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn counts_of_billions_take_no_memory() {
        let mut names = Names::default();
        let sampled =
            Stacks::read("s", b"a;b 4000000000\na;c 1000000000\n", &mut Diagnostics::default()).sampled(&mut names);
        assert_eq!(sampled.samples().len(), 2);
        let event = &sampled.events()[0];
        assert_eq!((event.has_periods, event.all.weight), (true, 5_000_000_000));
    }
}
