//! Reads text of Linux's tracer `function_graph`: nested calls, each with its length.
//!
//! ```text
//! # tracer: function_graph
//! #     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
//!     0.512345 |   0)   swapper/0-1     |               |  acpi_init() {          a call with calls inside
//!     0.512347 |   0)   swapper/0-1     |   1.250 us    |    acpi_disabled();     a call without
//!     0.512400 |   0)   swapper/0-1     | + 55.100 us   |  }                      the innermost one ends
//! ```
//! (Linux, kernel/trace/trace_functions_graph.c.) Without the option `funcgraph-abstime` lines have no time: they
//! cannot be placed, and are counted. Without `funcgraph-proc` lines have no thread, and the calls stand on their CPU.
//! The stamps are assumed to be the kernel's own clock.

use crate::input::records_max;
use crate::input::text::{Lines, number, seconds, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns, TrackKind};

/// The format's name in diagnostics.
const NAME: &str = "function_graph";
pub(crate) const HEADING: &[u8] = b"# tracer: function_graph";
/// The bytes of memory that a line takes, here and on the timeline.
const LINE_COST: usize = 350;

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call<'a> {
    /// A function begins that calls others.
    Begins(&'a [u8]),
    /// A function without calls, and its length.
    Leaf(&'a [u8], Ns),
    /// The innermost function ends.
    Ends,
}

/// The thread that ran, or only its CPU if the thread is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Runner<'a> {
    Thread(&'a [u8], u64),
    Cpu(u64),
}

impl Runner<'_> {
    /// A unique key: thread numbers are far smaller than the keys of CPUs.
    pub(crate) fn key(self) -> u64 {
        match self {
            Runner::Thread(_, tid) => tid,
            Runner::Cpu(cpu) => u64::MAX - cpu,
        }
    }

    /// The kind and the number of the track.
    pub(crate) fn track(self) -> (TrackKind, u64) {
        match self {
            Runner::Thread(_, tid) => (TrackKind::Thread, tid),
            Runner::Cpu(cpu) => (TrackKind::Cpu, cpu),
        }
    }
}

/// A line with a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry<'a> {
    pub at: Ns,
    pub runner: Runner<'a>,
    pub call: Call<'a>,
}

/// Parses a line that has a time; other lines give `None`.
pub(crate) fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let mut columns = line.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii);
    let at = columns.next().and_then(time)?;
    let (cpu, rest) = number(columns.next()?)?;
    let (behind, third) = (rest.strip_prefix(b")")?.trim_ascii(), columns.next()?);
    // The thread has its own column only with the option `funcgraph-proc`.
    let (task, duration, call) = match columns.next() {
        Some(call) => (behind, third, call),
        None => (&b""[..], behind, third),
    };
    let runner = thread(task).map_or(Runner::Cpu(cpu), |(name, tid)| Runner::Thread(name, tid));
    if call.starts_with(b"}") {
        return Some(Entry { at, runner, call: Call::Ends });
    }
    let name = &call[..memchr::memchr(b'(', call)?];
    let behind = &call[name.len()..];
    let call = match behind {
        b"() {" => Call::Begins(name),
        _ if behind.starts_with(b"();") => Call::Leaf(name, length(duration)?),
        _ => return None,
    };
    (!name.is_empty()).then_some(Entry { at, runner, call })
}

/// Parses `0.512345` without anything behind it.
fn time(text: &[u8]) -> Option<Ns> {
    let (ns, _, rest) = seconds(text)?;
    rest.is_empty().then(|| i64::try_from(ns).ok().map(Ns)).flatten()
}

/// Parses `swapper/0-1`.
fn thread(text: &[u8]) -> Option<(&[u8], u64)> {
    let dash = memchr::memrchr(b'-', text)?;
    Some((&text[..dash], whole_number(&text[dash + 1..])?))
}

/// Parses `+ 55.100 us`; the sign marks long calls.
pub(crate) fn length(text: &[u8]) -> Option<Ns> {
    let digits = text.iter().position(u8::is_ascii_digit)?;
    let (thousandths, _, rest) = seconds(&text[digits..])?;
    let us = rest.trim_ascii() == b"us";
    us.then(|| i64::try_from(thousandths / 1_000_000).ok().map(Ns)).flatten()
}

/// True for lines that are not about calls: headings, switches of threads, marks of interrupts, comments.
fn says_nothing(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.is_empty()
        || text.starts_with(b"#")
        || text.starts_with(b"---")
        || [&b" => "[..], b"==========>", b"<==========", b"/*"]
            .iter()
            .any(|mark| memchr::memmem::find(text, mark).is_some())
}

/// Returns the time of each call in a text. Counts lines that cannot be placed.
pub fn stamps(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Ns> {
    entries(file, bytes, diagnostics).into_iter().map(|entry| entry.at).collect()
}

pub(crate) fn entries<'a>(file: &str, bytes: &'a [u8], diagnostics: &mut Diagnostics) -> Vec<Entry<'a>> {
    // A kernel's lines have at least 45 bytes, so this bound keeps all of them.
    let (mut entries, most) = (Vec::new(), records_max(3 * bytes.len() / 2, LINE_COST));
    for line in Lines::new(bytes) {
        match entry(line.bytes) {
            Some(_) if entries.len() == most => {
                let place = || format!("{file}:{}", line.number);
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            }
            Some(entry) => entries.push(entry),
            None if says_nothing(line.bytes) => {}
            None => {
                diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, || format!("{file}:{}", line.number));
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_all_variants_of_columns() {
        let read = |line: &'static str| entry(line.as_bytes());
        let entry_of = |at, runner, call| Some(Entry { at: Ns(at), runner, call });
        let init = Runner::Thread(b"swapper/0", 1);
        for (line, expected) in [
            (
                "    3.934843 |   0)   swapper/0-1    |               |  acpi_init() {",
                entry_of(3_934_843_000, init, Call::Begins(b"acpi_init")),
            ),
            (
                "    3.935107 |   0)   swapper/0-1    | + 28.801 us   |    f();",
                entry_of(3_935_107_000, init, Call::Leaf(b"f", Ns(28_801))),
            ),
            (
                "    3.935227 |   0)   swapper/0-1    | ! 122.064 us  |  } /* f */",
                entry_of(3_935_227_000, init, Call::Ends),
            ),
            (
                "    3.935227 |   1)   1.443 us    |  f();",
                entry_of(3_935_227_000, Runner::Cpu(1), Call::Leaf(b"f", Ns(1443))),
            ),
            ("    3.935227 |   1)               |  f() {", entry_of(3_935_227_000, Runner::Cpu(1), Call::Begins(b"f"))),
            (" 1)   8.623 us    |  local_touch_nmi();", None),
            ("    3.9 |   1)   0.1 us    |  /* a comment */", None),
            ("    3.9 |   1)   ... us    |  f();", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9.|(){};us /a-z-]|    1\\.5 \\|   0\\)   a-1  \\|   1\\.0 us \\| f\\(\\);\n|\n){0,60}") {
            let mut diagnostics = Diagnostics::default();
            proptest::prop_assert!(stamps("f", text.as_bytes(), &mut diagnostics).len() <= text.lines().count());
        }
    }
}
