//! Reads trace text: the output of `/sys/kernel/tracing/trace`, `trace_pipe` or `trace-cmd report`.
//!
//! ```text
//! # tracer: nop
//! # entries-in-buffer/entries-written: 6244/6244   #P:1
//! #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
//!           <idle>-0       [000] d..2.     0.742428: sched_switch: prev_comm=swapper/0 prev_pid=0 …
//!             init-1       [000] .....     0.851386: initcall_start: func=acpi_init+0x0/0x4c2
//! CPU:2 [LOST 45 EVENTS]
//! ```
//! A command's name may contain spaces, dashes and brackets. The columns for the thread group and the flags are
//! optional. Stamps are seconds (`local`, `global`, `mono`, `boot`) or bare counts (`x86-tsc`, `counter`, `uptime`);
//! the text does not name the clock.
//!
//! [`Trace::read`] goes through the text once and keeps only facts about the whole: counts, lost events, sync points.
//! The records stay text, and [`Trace::records`] reads them again, which costs less than storing them. This module does
//! not decide what time a stamp is: the caller passes a clock.

pub(crate) mod boots;
mod build;
mod event;
mod line;
mod processes;
mod sched;
mod services;
mod sockets;

pub use build::Built;
pub use event::{Event, Task};
pub use line::{Context, Record};
pub(crate) use sockets::PortEvent;
pub(crate) use sockets::SocketChange;

use crate::NotThisFormat;
use crate::input::records_max;
use crate::input::text::{Line, Lines, number, skip_spaces, whole_number};
use line::Entry;
use timeline::{Clock, DiagnosticKind, Diagnostics, Ticks, Timeline};

/// The unit of a trace's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// Nanoseconds of some clock of the kernel's.
    Nanoseconds,
    /// Ticks of some counter.
    Counter,
}

/// The numbers of lines of each kind. They sum to the number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Events that are switches from one thread to another.
    pub switches: u64,
    /// Events that are not used.
    pub(crate) other_events: u64,
    /// Headings and blank lines.
    pub headings: u64,
    /// Lines of stack traces.
    pub stacks: u64,
    /// Notes about lost events.
    pub lost_notes: u64,
    /// Lines that cannot be read.
    pub unreadable: u64,
}

/// A `bootscope-sync <seq>` line in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub seq: u64,
    /// Its stamp in the trace.
    pub ticks: Ticks,
}

/// A message that printk passed to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Console<'a> {
    /// The message. Some kernels put the printk stamp before it.
    pub text: &'a [u8],
    /// Its stamp in the trace: a little later than its printk stamp.
    pub ticks: Ticks,
}

/// The bytes of memory that an event takes on the timeline, and those of the start of a program with a new name.
const EVENT_COST: usize = 400;
const EXECUTION_COST: usize = 500;

/// A trace that was read once.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    file: &'a str,
    bytes: &'a [u8],
    /// The unit of its stamps.
    pub stamps: Stamps,
    /// The numbers of lines of each kind.
    pub counts: Counts,
    /// Events that the kernel reports as lost because the buffer was full.
    pub lost: u64,
    /// The first record's stamp.
    pub first: Ticks,
    /// The latest stamp.
    pub last: Ticks,
    markers: Vec<Marker>,
    console: Vec<Console<'a>>,
    /// The number of events that the heading declares; `None` without such a heading.
    declared: Option<u64>,
    /// The number of those that a note at the end reports as left out.
    left_out: u64,
}

impl<'a> Trace<'a> {
    /// Reads a trace. Counts lost events, cut lines and lines that cannot be read.
    ///
    /// # Errors
    /// If no line is an event of a trace.
    pub fn read(file: &'a str, bytes: &'a [u8], diagnostics: &mut Diagnostics) -> Result<Trace<'a>, NotThisFormat> {
        let first = entries(bytes).find_map(|(_, entry)| match entry {
            Entry::Event(record) => Some(record),
            _ => None,
        });
        let Some(first) = first else {
            let found = if bytes.is_empty() { "the file is empty" } else { "no line of it is an event of a trace" };
            return Err(NotThisFormat { file: file.to_owned(), expected: "a kernel trace", found: found.to_owned() });
        };
        let mut trace = Trace {
            file,
            bytes,
            stamps: first.stamps,
            counts: Counts::default(),
            lost: 0,
            first: first.ticks,
            last: first.ticks,
            markers: Vec::new(),
            console: Vec::new(),
            declared: None,
            left_out: 0,
        };
        let (mut room, mut beyond) = (records_max(bytes.len(), 1), 0);
        for (line, entry) in entries(bytes) {
            if let Entry::Event(record) = &entry {
                let cost = if matches!(record.event, Event::Exec { .. }) { EXECUTION_COST } else { EVENT_COST };
                if beyond > 0 || room < cost {
                    if beyond == 0 {
                        trace.bytes = &bytes[..line.offset];
                    }
                    beyond += 1;
                    continue;
                }
                room -= cost;
            }
            trace.look(line, entry, diagnostics);
        }
        diagnostics.add(DiagnosticKind::EntriesBeyondBound, file, beyond, None, || file.to_owned());
        Ok(trace)
    }

    fn look(&mut self, line: Line<'a>, entry: Entry<'a>, diagnostics: &mut Diagnostics) {
        let place = || format!("{}:{}", self.file, line.number);
        let mut unreadable = |problem: DiagnosticKind, counts: &mut Counts| {
            diagnostics.note(problem, place);
            counts.unreadable += 1;
        };
        match entry {
            Entry::Event(record) if record.stamps != self.stamps => {
                unreadable(DiagnosticKind::TraceLineOfAnotherClock, &mut self.counts);
            }
            Entry::Event(record) => {
                self.counts.events += 1;
                self.last = self.last.max(record.ticks);
                match record.event {
                    Event::Switch { .. } => self.counts.switches += 1,
                    Event::Console(text) => self.console.push(Console { text, ticks: record.ticks }),
                    Event::Marker(text) => {
                        let seq = text.trim_ascii().strip_prefix(b"bootscope-sync ").and_then(whole_number);
                        self.markers.extend(seq.map(|seq| Marker { seq, ticks: record.ticks }));
                    }
                    Event::Other(_) => self.counts.other_events += 1,
                    Event::Damaged(_) => diagnostics.note(DiagnosticKind::TraceEventDamaged, place),
                    _ => {}
                }
            }
            Entry::Heading => {
                self.counts.headings += 1;
                self.left_out = self.left_out.saturating_add(left_out(line.bytes).unwrap_or(0));
                if let Some((in_buffer, written)) = entries_written(line.bytes) {
                    let overwritten = written.saturating_sub(in_buffer);
                    self.lost += overwritten;
                    self.declared = Some(self.declared.unwrap_or(0).saturating_add(in_buffer));
                    diagnostics.note_many(DiagnosticKind::TraceEventsOverwritten, overwritten, place);
                }
            }
            Entry::Lost { events, .. } => {
                self.counts.lost_notes += 1;
                self.lost += events.unwrap_or(1);
                diagnostics.note_many(DiagnosticKind::TraceEventsLost, events.unwrap_or(1), place);
            }
            Entry::Stack => self.counts.stacks += 1,
            Entry::Unreadable if !line.whole => unreadable(DiagnosticKind::TraceCut, &mut self.counts),
            Entry::Unreadable => unreadable(DiagnosticKind::TraceLineUnreadable, &mut self.counts),
        }
    }

    pub(crate) fn file(&self) -> &str {
        self.file
    }

    /// All events, in the order of the text.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let stamps = self.stamps;
        entries(self.bytes).filter_map(move |(_, entry)| match entry {
            Entry::Event(record) if record.stamps == stamps => Some(record),
            _ => None,
        })
    }

    /// True if the trace has all events that its heading declares: none was cut off.
    pub(crate) fn is_whole(&self) -> bool {
        self.declared.is_some_and(|declared| self.counts.events.saturating_add(self.left_out) >= declared)
    }

    /// The sync points that process 1 wrote into the trace.
    pub fn markers(&self) -> &[Marker] {
        &self.markers
    }

    /// The messages that printk passed to the trace. The kernel log has each of them too, with the log's own stamp.
    pub fn console(&self) -> &[Console<'a>] {
        &self.console
    }

    /// Places the trace on the timeline: a track per thread, running times, waits, initcalls and their levels, modules,
    /// work items, interrupts, processes. `clock` converts stamps to time.
    pub fn build(&self, clock: &Clock, timeline: &mut Timeline) -> Built {
        build::build(self, clock, timeline)
    }

    fn entries(&self) -> impl Iterator<Item = (Line<'a>, Entry<'a>)> + use<'a> {
        entries(self.bytes)
    }
}

fn entries<'a>(bytes: &'a [u8]) -> impl Iterator<Item = (Line<'a>, Entry<'a>)> + use<'a> {
    Lines::new(bytes).map(|line| (line, line::entry(line)))
}

/// True if a line is an event of a trace.
pub(crate) fn is_event(line: Line<'_>) -> bool {
    matches!(line::entry(line), Entry::Event(_))
}

/// Parses `# entries-in-buffer/entries-written: 6244/6244   #P:1`.
fn entries_written(line: &[u8]) -> Option<(u64, u64)> {
    let rest = skip_spaces(line.strip_prefix(b"#")?).strip_prefix(b"entries-in-buffer/entries-written:")?;
    let (in_buffer, rest) = number(skip_spaces(rest))?;
    let (written, _) = number(rest.strip_prefix(b"/")?)?;
    Some((in_buffer, written))
}

/// Parses `# 3 records of kinds that are not known`, which bootscope writes at the end of a trace from a guest's
/// memory.
fn left_out(line: &[u8]) -> Option<u64> {
    let (records, rest) = number(skip_spaces(line.strip_prefix(b"#")?))?;
    (rest == b" records of kinds that are not known").then_some(records)
}
