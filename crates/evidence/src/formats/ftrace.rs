//! Trace text: what `/sys/kernel/tracing/trace` (or `trace_pipe`, or `trace-cmd report`) prints.
//!
//! ```text
//! # tracer: nop
//! # entries-in-buffer/entries-written: 6244/6244   #P:1
//! #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
//!           <idle>-0       [000] d..2.     0.742428: sched_switch: prev_comm=swapper/0 prev_pid=0 …
//!             init-1       [000] .....     0.851386: initcall_start: func=acpi_init+0x0/0x4c2
//! CPU:2 [LOST 45 EVENTS]
//! ```
//! A command's name may hold spaces, dashes and brackets. A column with the thread group and the
//! flags may be there or not. Stamps are seconds (`local`, `global`, `mono`, `boot`) or bare
//! counts (`x86-tsc`, `counter`, `uptime`); which clock it was, the text does not say.
//!
//! [`Trace::read`] looks through the text once and keeps only what concerns the whole (counts, lost
//! events, sync points); the records themselves stay text and are read again by [`Trace::records`],
//! which costs less than storing them would. Nothing here decides what time a stamp is: that is the
//! caller's clock.

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
pub use sockets::SocketChange;

use crate::NotThisFormat;
use crate::input::text::{Line, Lines, number, skip_spaces, whole_number};
use line::Entry;
use timeline::{Clock, DiagnosticKind, Diagnostics, Ticks, Timeline};

/// What stamps count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// Nanoseconds of some clock of the kernel's.
    Nanoseconds,
    /// Ticks of some counter.
    Counter,
}

/// How many lines were what. They sum to the number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Of these, switches from one thread to another.
    pub switches: u64,
    /// Of these, events that nothing is made of.
    pub other_events: u64,
    /// Headings and blank lines.
    pub headings: u64,
    /// Lines of stack traces.
    pub stacks: u64,
    /// Notes that events were lost.
    pub lost_notes: u64,
    /// Lines that are none of these.
    pub unreadable: u64,
}

/// A `bootscope-sync <seq>` line in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Its number.
    pub seq: u64,
    /// When the trace has it.
    pub ticks: Ticks,
}

/// A message that printk gave to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Console<'a> {
    /// The message; some kernels put the printk stamp before it.
    pub text: &'a [u8],
    /// When the trace has it: a little after its printk stamp.
    pub ticks: Ticks,
}

/// A trace, looked through once.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    file: &'a str,
    bytes: &'a [u8],
    /// What its stamps count.
    pub stamps: Stamps,
    /// How many lines were what.
    pub counts: Counts,
    /// Events that the kernel says it lost (the buffer was full).
    pub lost: u64,
    /// The first record's stamp.
    pub first: Ticks,
    /// The latest stamp.
    pub last: Ticks,
    markers: Vec<Marker>,
    console: Vec<Console<'a>>,
    /// How many events its heading says that there are; none without such a heading.
    declared: Option<u64>,
    /// How many of them a note at its end says were left out.
    left_out: u64,
}

impl<'a> Trace<'a> {
    /// Looks through a trace. What was lost, cut or not readable is counted.
    ///
    /// # Errors
    /// If no line is a trace's event.
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
        for (line, entry) in entries(bytes) {
            trace.look(line, entry, diagnostics);
        }
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

    /// The file's name.
    pub fn file(&self) -> &str {
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

    /// Whether all events are here that its heading says there were as it was written: nothing was cut off.
    pub(crate) fn is_whole(&self) -> bool {
        self.declared.is_some_and(|declared| self.counts.events.saturating_add(self.left_out) >= declared)
    }

    /// The sync points that process 1 wrote into the trace.
    pub fn markers(&self) -> &[Marker] {
        &self.markers
    }

    /// What printk gave to the trace: each message also stands in the kernel log, with that one's stamp.
    pub fn console(&self) -> &[Console<'a>] {
        &self.console
    }

    /// Adds to the timeline: a track per thread, who ran where, who waited for whom, initcalls,
    /// their levels, modules, work items, interrupts, processes. `clock` says what time a stamp is.
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

/// Whether a line is an event of a trace.
pub(crate) fn is_event(line: Line<'_>) -> bool {
    matches!(line::entry(line), Entry::Event(_))
}

/// `# entries-in-buffer/entries-written: 6244/6244   #P:1`
fn entries_written(line: &[u8]) -> Option<(u64, u64)> {
    let rest = skip_spaces(line.strip_prefix(b"#")?).strip_prefix(b"entries-in-buffer/entries-written:")?;
    let (in_buffer, rest) = number(skip_spaces(rest))?;
    let (written, _) = number(rest.strip_prefix(b"/")?)?;
    Some((in_buffer, written))
}

/// `# 3 records of kinds that are not known`, as bootscope ends a trace out of a guest's memory.
fn left_out(line: &[u8]) -> Option<u64> {
    let (records, rest) = number(skip_spaces(line.strip_prefix(b"#")?))?;
    (rest == b" records of kinds that are not known").then_some(records)
}
