//! Reads the output of `initcall_debug`: the duration of each initcall, asynchronous call and probe.
//!
//! ```text
//! calling  acpi_init+0x0/0x4c2 @ 1
//! initcall acpi_init+0x0/0x4c2 returned 0 after 9765 usecs
//! calling  3_async_port_probe+0x0/0x60 @ 12
//! initcall 3_async_port_probe+0x0/0x60 returned after 19531 usecs      (older: returned 0 after)
//! probe of 00:03 returned 0 after 4297 usecs                           (newer: probe of X with driver Y)
//! async_continuing @ 1 after 12 usec                                   a thread waited for all asynchronous calls
//! entering initcall level: subsys                                      (6.15 and later)
//! platform 1d84000.ufshc: deferred probe pending: wait for supplier …
//! ```
//! **The unit.** "usecs" of initcalls and asynchronous calls are nanoseconds >> 10 up to 5.17, and microseconds from
//! 5.18 on (init/main.c, "init: Use ktime_us_delta() to make initcall_debug log more precise", February 2022). Those of
//! probes were always microseconds. Vendors move such patches between versions. So figures that are whole timer ticks
//! in only one of the units have priority over the version ([`unit`]).
//!
//! **The span** of a call ends at the stamp of its `returned` line and has the kernel's length. The stamp of `calling`
//! is too early, by the time that printing that line took. Until the kernel has a fine clock, it measures in whole
//! ticks (0, 9765, 19531); there the two stamps are more exact. Without a `calling` line, such a call begins no earlier
//! than the previous message, unless that message is the call's own: a call of two ticks took more than one tick.

mod drivers;
mod parse;
mod unit;

pub use unit::Unit;

use crate::formats::kernel_log::{Caller, KernelLog, Line};
use hashbrown::HashMap;
use parse::Message;
use timeline::{DiagnosticKind, Diagnostics, NameId, Ns, SpanKind, SpanRow, Timeline, TrackId, TrackKind};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An initcall of the kernel or of a module.
    Initcall,
    /// A call that was scheduled to run asynchronously.
    Async,
    /// A driver's probe of a device.
    Probe,
    /// A deferred probe that was tried again.
    DeferredProbe,
    /// A thread waited until all asynchronous calls were done.
    AsyncWait,
}

/// One call, from a `returned` line and the `calling` line before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub kind: Kind,
    /// The function, with its module, or the device that was probed.
    pub name: String,
    /// The driver that probed, if the log names it; else empty.
    pub driver: String,
    pub start: Ns,
    pub end: Ns,
    /// Its length as the kernel measured it.
    pub took: Option<Ns>,
    /// Largest error of `start`. It is not 0 if the kernel's measure is in whole ticks of a coarse clock and there is
    /// no `calling` line.
    pub start_error: Ns,
    /// Its return value. Newer kernels do not print it for asynchronous calls.
    pub returned: Option<i64>,
    /// The thread that ran it, if the log shows it.
    pub thread: Option<u32>,
    /// The number of its `returned` line.
    pub line: u32,
}

/// A level of initcalls.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    pub name: String,
    /// The beginning of the level.
    pub start: Ns,
    /// The time at which its last initcall returned.
    pub end: Ns,
}

/// All messages of `initcall_debug` in a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Initcalls {
    /// The calls, in the order in which they returned.
    pub calls: Vec<Call>,
    /// The levels, in order.
    pub levels: Vec<Level>,
    /// The unit of "usecs" for initcalls, and the evidence for it.
    pub unit: Unit,
}

/// Two lines of `initcall_debug` take at most this long on a console of 115,200 baud.
const PRINTED_MAX: Ns = Ns::from_ms(20);

/// A kernel with all its modules prints about ten thousand of these messages.
const MESSAGES_MAX: usize = 1 << 16;

/// Reads the initcalls of a log. `place` returns the time of a line on the result's clock. Lines without such a time
/// are counted and left out. If no line has a time, the calls are placed end to end from zero, which is counted too.
pub fn read(
    file: &str,
    log: &KernelLog,
    place: impl Fn(&Line) -> Option<Ns>,
    diagnostics: &mut Diagnostics,
) -> Initcalls {
    let lines = log.lines.iter().enumerate();
    let mut all = lines.filter_map(|(i, line)| Some((i, line, parse::message(log.text(line))?)));
    let messages: Vec<(usize, &Line, Message<'_>)> = all.by_ref().take(MESSAGES_MAX).collect();
    let beyond = all.count() as u64;
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, "the list of initcalls", beyond, None, || file.to_owned());
    let unit = unit::decide(log, messages.iter().map(|(.., message)| message));
    let end_to_end = messages.iter().all(|(_, line, _)| place(line).is_none());
    let mut reader = Reader {
        file,
        diagnostics,
        place,
        end_to_end: end_to_end.then_some(Ns::ZERO),
        found: Initcalls { unit, ..Initcalls::default() },
        open: HashMap::new(),
        clock_runs: false,
        last_end: HashMap::new(),
        latest_message: HashMap::new(),
    };
    let mut noted_until = 0;
    for (i, (at, line, message)) in messages.iter().enumerate() {
        let coarse = i < reader.found.unit.coarse_until;
        if coarse {
            log.lines[noted_until..*at].iter().for_each(|line| reader.note_latest(line));
            noted_until = *at;
        }
        reader.message(line, *message, coarse);
    }
    let (mut found, place) = reader.finish();
    drivers::name(&mut found.calls, log, &place);
    found
}

/// A `calling` line whose `returned` line has not been read yet.
struct Begun {
    at: Ns,
    thread: Option<u32>,
    caller: Option<Caller>,
}

struct Reader<'d, 'a, P> {
    file: &'d str,
    diagnostics: &'d mut Diagnostics,
    place: P,
    /// In a log without any times: the sum of the lengths so far.
    end_to_end: Option<Ns>,
    found: Initcalls,
    /// True after a figure above 0: the clock that the kernel measures with runs.
    clock_runs: bool,
    /// The time at which each thread's last initcall returned: its next one cannot have begun before that.
    last_end: HashMap<u32, Ns>,
    /// The time of each thread's latest message, while the kernel measures in whole ticks. The key is `None` if the log
    /// does not show the thread.
    latest_message: HashMap<Option<u32>, Ns>,
    /// By symbol as printed: two threads can be in functions of the same name.
    open: HashMap<&'a str, Vec<Begun>>,
}

impl<'a, P: Fn(&Line) -> Option<Ns>> Reader<'_, 'a, P> {
    fn message(&mut self, line: &Line, message: Message<'a>, coarse: bool) {
        let Some(at) = self.time_of(line, message) else { return };
        match message {
            Message::Calling { symbol, thread } => {
                self.open.entry(symbol).or_default().push(Begun { at, thread, caller: line.caller });
            }
            Message::Returned { symbol, returned, figure } => {
                let took = figure.map(|figure| self.found.unit.length(figure));
                self.clock_runs |= figure.is_some_and(|figure| figure > 0);
                self.returned(line, symbol, returned, took, at, coarse);
            }
            Message::Probe { device, driver, returned, us, again } => {
                let kind = if again { Kind::DeferredProbe } else { Kind::Probe };
                let call = self.measured(kind, device, Ns::from_us(us), at, line);
                self.found.calls.push(Call { returned, driver: driver.unwrap_or_default().to_owned(), ..call });
            }
            Message::Waited { thread, figure } => {
                let took = self.found.unit.length(figure);
                let call = self.measured(Kind::AsyncWait, "async_synchronize", took, at, line);
                self.found.calls.push(Call { thread: thread.or(call.thread), ..call });
            }
            Message::Level(name) => self.found.levels.push(Level { name: name.to_owned(), start: at, end: at }),
        }
    }

    fn note_latest(&mut self, line: &Line) {
        if let Some(at) = (self.place)(line) {
            self.latest_message.insert(thread_of(line.caller), at);
        }
    }

    /// The time of a message. Messages without a time are counted.
    fn time_of(&mut self, line: &Line, message: Message<'a>) -> Option<Ns> {
        let place = || format!("{}:{}", self.file, line.number);
        let Some(now) = self.end_to_end else {
            let at = (self.place)(line);
            if at.is_none() {
                self.diagnostics.note(DiagnosticKind::InitcallLineWithoutTime, place);
            }
            return at;
        };
        self.diagnostics.note(DiagnosticKind::InitcallsEndToEnd, place);
        let end = match message {
            Message::Returned { symbol, figure: Some(figure), .. } => {
                let begun = self.open.get(symbol).and_then(|begun| begun.last()).map_or(now, |begun| begun.at);
                begun + self.found.unit.length(figure)
            }
            Message::Probe { us, .. } => now + Ns::from_us(us),
            _ => now,
        };
        // An initcall's length includes the probes in it.
        self.end_to_end = Some(end.max(now));
        self.end_to_end
    }

    /// A call that is known by its end and its length.
    fn measured(&self, kind: Kind, name: &str, took: Ns, end: Ns, line: &Line) -> Call {
        let (name, thread) = (name.to_owned(), thread_of(line.caller));
        Call {
            kind,
            name,
            driver: String::new(),
            start: end - took,
            end,
            took: Some(took),
            start_error: Ns::ZERO,
            returned: None,
            thread,
            line: line.number,
        }
    }

    fn returned(
        &mut self,
        line: &Line,
        symbol: &'a str,
        returned: Option<i64>,
        took: Option<Ns>,
        end: Ns,
        coarse: bool,
    ) {
        let begun = self.take_begun(symbol, line.caller);
        let called = begun.as_ref().map(|begun| begun.at.min(end));
        // Before its clock runs, the kernel measures 0. Then the stamps of the two lines give the length, if it exceeds
        // the time that printing them takes.
        let took = took.filter(|_| self.clock_runs || called.is_none_or(|called| end - called < PRINTED_MAX));
        let thread = begun.and_then(|begun| begun.thread).or(thread_of(line.caller));
        let (kind, name) = parse::kind_and_name(symbol);
        // If no line shows the thread, an initcall belongs to process 1.
        let runner = thread.or((kind == Kind::Initcall).then_some(1));
        let earliest = called.or(runner.and_then(|runner| self.last_end.get(&runner).copied()));
        let in_ticks = coarse && called.is_none() && kind == Kind::Initcall;
        let tick = if in_ticks { self.found.unit.tick } else { Ns::ZERO };
        let start = match (called, took) {
            (Some(called), None) => called,
            (Some(called), Some(_)) if coarse => called,
            (_, Some(took)) if in_ticks => {
                // A figure of n ticks means that the call took more than n − 1 ticks: a message later than that is the
                // call's own.
                let latest = end - (took - tick).max(Ns::ZERO);
                let before = self.latest_message.get(&thread_of(line.caller)).filter(|at| **at <= latest);
                let start = end - took;
                start.max(before.copied().unwrap_or(start)).max(earliest.unwrap_or(start))
            }
            (_, Some(took)) => (end - took).max(earliest.unwrap_or(end - took)),
            (None, None) => {
                let place = || format!("{}:{}", self.file, line.number);
                return self.diagnostics.note(DiagnosticKind::InitcallWithoutLength, place);
            }
        };
        if let Some(level) = self.found.levels.last_mut().filter(|_| kind == Kind::Initcall && !symbol.ends_with(']')) {
            level.end = end;
        }
        self.last_end.extend(runner.map(|runner| (runner, end)));
        let start = start.min(end);
        let (driver, start_error, line) = (String::new(), tick, line.number);
        self.found.calls.push(Call { kind, name, driver, start, end, took, start_error, returned, thread, line });
    }

    /// Takes the `calling` line of a `returned` line: the same thread's if it is known, else the latest.
    fn take_begun(&mut self, symbol: &str, caller: Option<Caller>) -> Option<Begun> {
        let begun = self.open.get_mut(symbol)?;
        let same = begun.iter().rposition(|b| caller.is_some() && b.caller == caller);
        let at = same.or(begun.len().checked_sub(1))?;
        Some(begun.remove(at))
    }

    fn finish(mut self) -> (Initcalls, P) {
        let without_end: u64 = self.open.values().map(|begun| begun.len() as u64).sum();
        // Either the boot ended inside them or their lines are missing; both are worth knowing.
        let place = || self.file.to_owned();
        self.diagnostics.note_many(DiagnosticKind::InitcallWithoutReturn, without_end, place);
        self.say_ticks();
        (self.found, self.place)
    }
}

impl<P> Reader<'_, '_, P> {
    /// Adds a diagnostic if the lengths shown are not the kernel's figures.
    fn say_ticks(&mut self) {
        let in_ticks = || self.found.calls.iter().filter(|call| call.start_error > Ns::ZERO);
        let Some(first) = in_ticks().map(|call| call.line).next() else { return };
        let sum: Ns = in_ticks().filter_map(|call| call.took).fold(Ns::ZERO, |sum, took| sum + took);
        let (tick, count) = (self.found.unit.tick.to_string(), in_ticks().count() as u64);
        let place = || format!("{}:{first}", self.file);
        self.diagnostics.add(DiagnosticKind::InitcallsInTicks, &tick, count, Some(sum), place);
    }
}

fn thread_of(caller: Option<Caller>) -> Option<u32> {
    match caller {
        Some(Caller::Thread(id)) => Some(id),
        _ => None,
    }
}

impl Initcalls {
    /// True if the log has no message of `initcall_debug`.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.levels.is_empty()
    }

    /// Adds spans for the calls and levels, on the tracks of the threads that ran them.
    /// Process 1's track is used if the log does not show the thread.
    pub fn build(&self, timeline: &mut Timeline) {
        let mut tracks = Tracks { known: HashMap::new() };
        let init = tracks.of(1, timeline);
        for level in &self.levels {
            let (name, detail) = (timeline.names.intern("initcall level"), timeline.names.intern(&level.name));
            let (start, end) = (level.start, level.end);
            timeline.spans.push(SpanRow { name, detail, start, end, track: init, kind: SpanKind::Level }, None);
        }
        for call in &self.calls {
            let (word, kind) = match call.kind {
                Kind::Initcall => ("initcall", SpanKind::Initcall),
                Kind::Async => ("async", SpanKind::Work),
                Kind::Probe => ("probe", SpanKind::Probe),
                Kind::DeferredProbe => ("deferred probe", SpanKind::Probe),
                Kind::AsyncWait => ("wait", SpanKind::Call),
            };
            let track = match (call.thread, call.kind) {
                (Some(thread), _) => tracks.of(thread, timeline),
                // An asynchronous call runs on a worker thread, never on process 1.
                (None, Kind::Async | Kind::DeferredProbe) => worker(timeline),
                (None, _) => init,
            };
            let detail = match call.driver.as_str() {
                "" => timeline.names.intern(&call.name),
                driver => timeline.names.intern(&format!("{} ({driver})", call.name)),
            };
            let name = timeline.names.intern(word);
            timeline.spans.push(SpanRow { name, detail, start: call.start, end: call.end, track, kind }, None);
        }
    }
}

fn worker(timeline: &mut Timeline) -> TrackId {
    let name = timeline.names.intern("worker, not known which");
    timeline.tracks.named(name, TrackKind::Thread)
}

/// Tracks by thread number. A trace may have added some already.
struct Tracks {
    known: HashMap<u32, TrackId>,
}

impl Tracks {
    fn of(&mut self, thread: u32, timeline: &mut Timeline) -> TrackId {
        *self.known.entry(thread).or_insert_with(|| {
            let known = timeline.tracks.find(TrackKind::Thread, u64::from(thread));
            known.unwrap_or_else(|| {
                let name: NameId = match thread {
                    0 => timeline.names.intern("start_kernel"),
                    1 => timeline.names.intern("kernel_init"),
                    other => timeline.names.intern(&format!("thread {other}")),
                };
                timeline.tracks.add(name, TrackKind::Thread, u64::from(thread))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_log(text: &str) -> (Initcalls, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        (read("a.log", &log, |line| line.stamp, &mut diagnostics), diagnostics)
    }

    fn us(call: &Call) -> (&str, i64, i64, Option<u32>) {
        (&call.name, call.start.0 / 1000, call.end.0 / 1000, call.thread)
    }

    #[test]
    fn interleaved_threads_and_functions_of_one_name() {
        let (found, diagnostics) = read_log(
            "[    0.000000] Linux version 6.1.0\n\
             [    1.000000][    T1] calling  init+0x0/0x10 [a] @ 1\n\
             [    1.000100][    T9] calling  init+0x0/0x10 [a] @ 9\n\
             [    1.000150][    T9] calling  7_work+0x0/0x10 @ 9\n\
             [    1.000300][    T1] initcall init+0x0/0x10 [a] returned -19 after 250 usecs\n\
             [    1.000350][    T9] initcall 7_work+0x0/0x10 returned after 150 usecs\n\
             [    1.000400][    T9] initcall init+0x0/0x10 [a] returned 0 with preemption imbalance after 280 usecs\n",
        );
        let calls: Vec<_> = found.calls.iter().map(us).collect();
        let expected = [
            ("init [a]", 1_000_050, 1_000_300, Some(1)),
            ("work", 1_000_200, 1_000_350, Some(9)),
            ("init [a]", 1_000_120, 1_000_400, Some(9)),
        ];
        assert_eq!(calls, expected);
        let returned: Vec<_> = found.calls.iter().map(|c| (c.kind, c.returned)).collect();
        assert_eq!(returned, [(Kind::Initcall, Some(-19)), (Kind::Async, None), (Kind::Initcall, Some(0))]);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
    }

    #[test]
    fn probes_and_deferred_probes() {
        let (found, _) = read_log(
            "[    1.000000] probe of 00:03 returned 1 after 40 usecs\n\
             [    1.100000] probe of a600000.usb with driver dwc3-qcom returned -517 after 2 usecs\n\
             [    1.200000] probe of fa20000.mmc returned 517 after 17380 usecs\n\
             [    1.300000] deferred probe fa20000.mmc @ 12\n\
             [    1.310000] deferred probe fa20000.mmc returned after 9000 usecs\n\
",
        );
        let calls: Vec<_> = found.calls.iter().map(us).collect();
        let expected = [
            ("00:03", 999_960, 1_000_000, None),
            ("a600000.usb", 1_099_998, 1_100_000, None),
            ("fa20000.mmc", 1_182_620, 1_200_000, None),
            ("fa20000.mmc", 1_301_000, 1_310_000, None),
        ];
        assert_eq!(calls, expected);
        assert_eq!(found.calls[3].kind, Kind::DeferredProbe);
    }

    #[test]
    fn a_quirk_of_a_device_is_not_an_initcall() {
        let (found, diagnostics) = read_log(
            "[    1.000100] calling  pci_apply_final_quirks+0x0/0x128 @ 1\n\
             [    1.000200] pci 0000:00:00.0: calling  quirk_natoma+0x0/0x20 @ 1\n\
             [    1.000300] pci 0000:00:00.0: quirk_natoma+0x0/0x20 took 0 usecs\n\
             [    1.000400] initcall pci_apply_final_quirks+0x0/0x128 returned 0 after 300 usecs\n",
        );
        assert_eq!(found.calls.len(), 1);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::InitcallWithoutReturn), 0);
    }

    #[test]
    fn levels_last_to_their_last_initcall() {
        let (found, diagnostics) = read_log(
            "[    1.000000] entering initcall level: pure\n\
             [    1.000100] calling  a+0x0/0x1 @ 1\n\
             [    1.000200] initcall a+0x0/0x1 returned 0 after 90 usecs\n\
             [    1.000900] entering initcall level: core\n\
             [    1.001000] calling  b+0x0/0x1 @ 1\n",
        );
        let levels: Vec<_> = found.levels.iter().map(|l| (l.name.as_str(), l.start.0 / 1000, l.end.0 / 1000)).collect();
        assert_eq!(levels, [("pure", 1_000_000, 1_000_200), ("core", 1_000_900, 1_000_900)]);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::InitcallWithoutReturn), 1);
    }

    #[test]
    fn figures_are_ignored_before_the_clock_runs() {
        let (found, _) = read_log(
            "[    0.190491] calling  univ8250_console_init+0x0/0x2b @ 0\n\
             [    1.488645] printk: console [ttyS0] enabled\n\
             [    1.492945] initcall univ8250_console_init+0x0/0x2b returned 0 after 0 usecs\n\
             [    1.500000] calling  quick+0x0/0x1 @ 1\n\
             [    1.505000] initcall quick+0x0/0x1 returned 0 after 0 usecs\n\
             [    2.000000] calling  a+0x0/0x1 @ 1\n\
             [    2.050000] initcall a+0x0/0x1 returned 0 after 12 usecs\n\
             [    3.000000] calling  b+0x0/0x1 @ 1\n\
             [    3.500000] initcall b+0x0/0x1 returned 0 after 0 usecs\n",
        );
        let lengths: Vec<i64> = found.calls.iter().map(|call| (call.end - call.start).0 / 1000).collect();
        // `quick` prints two lines and does nothing. From `a` on the clock runs, and its figures are right.
        assert_eq!(lengths, [1_302_454, 0, 12, 0]);
    }
}
