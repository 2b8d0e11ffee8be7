//! Joins a recording's clocks: the guest's counter, the trace's clock and printk's, each to time.
//!
//! The guest's counter is fitted to the host's clock: process 1 read it just before it sent a byte
//! that the host stamped on arrival. A host with more to do than CPUs stamps all of them late; but the counter is 0 when the
//! machine starts, so it is never fitted above that. In a deterministic boot the counter *is* time. The trace is
//! stamped with that counter, or with a clock of the kernel's that process 1 wrote sync lines for.
//! printk's clock is joined to the trace's by the messages that both have; else by process 1's sync
//! lines; else by the arrival of its lines on the console, or in a deterministic boot, of which the host's clock says
//! nothing, from the kernel's first instruction on. Where nothing joins them, printk's clock is time.
//! A trace taken elsewhere and stamped with the counter needs its rate; alone and without
//! one, its ticks are shown as ticks.

use crate::ftrace::{Stamps, Trace};
use crate::guest_messages::Received;
use crate::index::Index;
use crate::kernel_log::KernelLog;
use crate::tslog;
use guest_init::messages::{Message, SyncPlace};
use hashbrown::HashMap;
use recording::{Manifest, TimeBase};
use timeline::{Clock, Delay, DiagnosticKind, Diagnostics, Ns, SyncPoint, Ticks};

/// Where printk's clock was only compared with another one.
pub const NEAR_PROCESS_1: &str = "set by sync lines of process 1; ticks that the kernel lost earlier are not seen";

/// Where nothing but its own stamps says when messages of a deterministic boot were printed.
pub const FROM_FIRST_INSTRUCTION: &str =
    "from the kernel's first instruction on; ticks that the kernel lost are not seen";

/// What the trace's clock is called.
const TRACE: &str = "trace";
/// What the guest's time stamp counter is called.
pub const COUNTER: &str = "guest TSC";
/// What printk's clock is called.
const PRINTK: &str = "printk";

/// A kernel finds its counter's rate to a hundredth, and the host's stamps do over a boot: rates further apart are of different
/// seconds.
const OTHER_SECOND: f64 = 0.1;

/// A busy host's stamps are late by this at most.
const LATE_MAX: Ns = Ns::from_ms(100);
/// Of what the host saw, so many in a row have to agree to [`EDGE`], and one in so many of all.
const AGREE_MIN: usize = 4;
const AGREE_SHARE: usize = 50;
const EDGE: Ns = Ns::from_us(100);

/// The clocks of a recording, as far as it has them.
#[derive(Default)]
pub struct Clocks {
    /// The guest's time stamp counter.
    pub counter: Option<Clock>,
    /// The trace's stamps.
    pub trace: Option<Clock>,
    /// printk's stamps; its ticks are nanoseconds.
    pub printk: Option<Clock>,
    /// Nothing says how long the trace's ticks are, and there is nothing else: they stand for themselves.
    pub only_ticks: bool,
}

/// What evidence offers to find the clocks from.
pub struct Offers<'a> {
    pub manifest: &'a Manifest,
    pub words: &'a [Received],
    pub trace: Option<&'a Trace<'a>>,
    /// The kernel's own log.
    pub log: Option<&'a KernelLog>,
    /// The console, with the arrival of its lines.
    pub console: Option<(&'a KernelLog, &'a Index)>,
    /// When the machine's first instruction ran, by the host's clock, or the host heard that the virtual CPUs were started.
    pub started: Option<Ns>,
    /// Moments of the counter that the host saw a little later: functions that the trace says were about to run.
    pub seen: Vec<SyncPoint>,
    /// When the kernel's clock was 0, if evidence taken elsewhere is stamped with it: what came before it took so long.
    pub kernel_clock_from: Option<Ns>,
}

impl<'a> Offers<'a> {
    /// What the recording itself says of its clocks.
    pub fn new(manifest: &'a Manifest) -> Offers<'a> {
        Offers {
            manifest,
            words: &[],
            trace: None,
            log: None,
            console: None,
            started: None,
            seen: Vec::new(),
            kernel_clock_from: None,
        }
    }

    /// Whether times are on the host's clock.
    pub fn is_hosted(&self) -> bool {
        self.manifest.time_base == TimeBase::Host
    }
}

/// Finds the clocks; what could not be joined is said in `diagnostics`.
pub fn join(evidence: &Offers<'_>, diagnostics: &mut Diagnostics) -> Clocks {
    let counter = believed(counter(evidence), diagnostics);
    // The host's clock says nothing of a deterministic boot's time.
    let hosted = evidence.manifest.time_base != TimeBase::GuestVirtual;
    let by_arrival = || if hosted { printk_from_console(evidence) } else { None };
    let mut printk = printk_from_words(evidence, counter.as_ref()).or_else(by_arrival);
    let stamped = evidence.log.is_some() || evidence.trace.is_some_and(|trace| trace.stamps == Stamps::Nanoseconds);
    // A clock that shows 0.000000 throughout says nothing of time.
    let ticked = evidence.log.is_none_or(|log| log.lines.iter().any(|line| line.stamp.is_some()));
    let ticked = ticked || evidence.trace.is_some();
    let from = evidence.kernel_clock_from;
    if evidence.manifest.time_base == TimeBase::Evidence && (stamped && ticked || from.is_some()) {
        let from = from.unwrap_or(Ns::ZERO);
        printk = printk.or_else(|| Some(Clock::linear(PRINTK, 1e9, Ticks(0), from, "printk's clock is time")));
    }
    // A recording whose manifest is lost still has what process 1 said of the counter, and when it arrived.
    let recorded = evidence.manifest.time_base != TimeBase::Evidence || counter.is_some();
    let mut trace = evidence.trace.and_then(|trace| trace_clock(evidence, trace, counter.as_ref(), printk.as_ref()));
    trace = believed(trace, diagnostics);
    let only_ticks = trace.is_none() && !stamped && evidence.manifest.time_base == TimeBase::Evidence;
    let only_ticks = only_ticks && evidence.trace.is_some();
    if let (Some(text), None) = (evidence.trace, &trace) {
        if only_ticks {
            trace = Some(from_first_event(text, 1e9, "unknown: a tick is shown as a tick"));
        } else {
            let kind = if recorded { DiagnosticKind::TraceClockUnknown } else { DiagnosticKind::TraceRateUnknown };
            diagnostics.note(kind, || text.file().to_owned());
        }
    }
    if recorded {
        if let (Some(text), Some(clock)) = (evidence.trace, &trace) {
            printk = printk_from_trace(evidence, text, clock).or(printk);
        }
    }
    Clocks { counter, trace, printk, only_ticks }
}

/// A clock at a rate that a counter can have.
fn believed(clock: Option<Clock>, diagnostics: &mut Diagnostics) -> Option<Clock> {
    if let Some(clock) = clock.as_ref().filter(|clock| !tslog::plausible(clock.hz)) {
        diagnostics.note(DiagnosticKind::CounterRateImplausible, || {
            format!("{}: {} Hz, {}", clock.name, clock.hz, clock.rate_from)
        });
    }
    clock.filter(|clock| tslog::plausible(clock.hz))
}

fn counter(evidence: &Offers<'_>) -> Option<Clock> {
    const NAME: &str = COUNTER;
    if evidence.manifest.time_base == TimeBase::GuestVirtual {
        return Some(Clock::linear(NAME, 1e9, Ticks(0), Ns::ZERO, "one tick is one instruction is 1 ns"));
    }
    // Once process 1 has handed over, anybody may write to its port. It says that it runs once, and first.
    let own = evidence.words.iter().take_while(|said| !matches!(said.message, Message::End { .. }));
    let points: Vec<SyncPoint> = own
        .enumerate()
        .filter(|(i, said)| *i == 0 || !matches!(said.message, Message::Init { .. }))
        .filter_map(|(_, said)| match said.message {
            Message::Init { tsc } | Message::Tick { tsc } => Some(SyncPoint { ticks: Ticks(tsc), at: said.arrival? }),
            _ => None,
        })
        .collect();
    match evidence.manifest.host.tsc_hz {
        // The guest's counter runs at the host's rate, which was measured over the whole boot.
        Some(hz) if hz > 0.0 => {
            let fit = |points: &[SyncPoint]| Clock::fit_offset(NAME, hz, points, Delay::Late, "measured on the host");
            let by_words = fit(&points)?;
            let late = |point: &SyncPoint| point.at - by_words.to_ns(point.ticks);
            let start = evidence.started.map(|at| SyncPoint { ticks: Ticks(0), at });
            // Further off than a host stamps late, the guest has set its counter.
            let start = start.filter(|start| late(start).abs() < LATE_MAX);
            let seen = edge(&evidence.seen, late);
            fit(&points.into_iter().chain(start).chain(seen).collect::<Vec<_>>())
        }
        _ => {
            let fitted = Clock::fit(NAME, &points, Delay::Late)?;
            // A deterministic boot whose manifest is lost: what its kernel calls a second is another one than the host's.
            let measured = evidence.log.and_then(tsc_hz).filter(|_| evidence.manifest.time_base == TimeBase::Evidence);
            let other = measured.filter(|(hz, _)| (fitted.hz / hz - 1.0).abs() > OTHER_SECOND);
            Some(other.map_or(fitted, |(hz, from)| Clock::linear(NAME, hz, Ticks(0), Ns::ZERO, from)))
        }
    }
}

/// The least late point of many. A function that had run before the trace says so looks early: such points stand alone.
fn edge(seen: &[SyncPoint], late: impl Fn(&SyncPoint) -> Ns) -> Option<SyncPoint> {
    let mut seen: Vec<SyncPoint> = seen.iter().copied().filter(|point| late(point).abs() < LATE_MAX).collect();
    seen.sort_by_key(&late);
    let agree = AGREE_MIN.max(seen.len() / AGREE_SHARE);
    seen.windows(agree).find(|near| late(&near[agree - 1]) - late(&near[0]) < EDGE).map(|near| near[0])
}

fn trace_clock(
    evidence: &Offers<'_>,
    trace: &Trace<'_>,
    counter: Option<&Clock>,
    printk: Option<&Clock>,
) -> Option<Clock> {
    let hosted = evidence.manifest.time_base != TimeBase::Evidence || counter.is_some();
    match trace.stamps {
        Stamps::Counter if hosted => counter.map(|c| c.renamed(TRACE)),
        Stamps::Counter => match evidence.log {
            Some(log) => {
                let at = |stamp: Ns| Some(printk?.to_ns(log_ticks(stamp)));
                let common = common_messages(log, trace).into_iter();
                let points: Vec<SyncPoint> =
                    common.filter_map(|(stamp, ticks)| Some(SyncPoint { ticks, at: at(stamp)? })).collect();
                // Before the kernel had this counter, its own clock lost ticks: what it measured is the better rate.
                let measured =
                    tsc_hz(log).and_then(|(hz, from)| Clock::fit_offset(TRACE, hz, &points, Delay::Even, from));
                measured.or_else(|| Clock::fit(TRACE, &points, Delay::Even))
            }
            None => Some(from_first_event(trace, evidence.manifest.ticks_hz?, "given by the user")),
        },
        Stamps::Nanoseconds if hosted => {
            let markers: HashMap<u64, Ticks> = trace.markers().iter().map(|m| (m.seq, m.ticks)).collect();
            let points: Vec<SyncPoint> = evidence
                .words
                .iter()
                .filter_map(|said| match said.message {
                    Message::Sync { place: SyncPlace::Trace, before, after, seq } => {
                        Some(SyncPoint { ticks: *markers.get(&u64::from(seq))?, at: between(counter?, before, after) })
                    }
                    _ => None,
                })
                .collect();
            Clock::fit_offset(TRACE, 1e9, &points, Delay::Even, "the kernel's own").or_else(|| {
                // Nothing joins them, but the usual trace clocks are printk's clock.
                printk.map(|p| p.renamed(TRACE))
            })
        }
        Stamps::Nanoseconds => printk.map(|p| p.renamed(TRACE)),
    }
}

/// How fast the kernel found its time stamp counter to be, the better figure first; and from what.
///
/// `tsc: Refined TSC clocksource calibration: 2445.406 MHz`, `tsc: Detected 2594.879 MHz processor`
fn tsc_hz(log: &KernelLog) -> Option<(f64, &'static str)> {
    let said = |begins: &str| {
        let number = |line| Some(log.text(line).strip_prefix(begins)?.trim_start().split(' ').next()?.parse::<f64>());
        log.lines.iter().find_map(number)?.ok().map(|mhz| mhz * 1e6).filter(|hz| tslog::plausible(*hz))
    };
    let refined = said("tsc: Refined TSC clocksource calibration:").map(|hz| (hz, "kernel log: refined calibration"));
    refined.or_else(|| said("tsc: Detected").map(|hz| (hz, "kernel log: the processor detected")))
}

/// A trace's clock of which only the rate is known: its first event is time zero.
fn from_first_event(trace: &Trace<'_>, hz: f64, rate_from: &str) -> Clock {
    let first = trace.records().map(|record| record.ticks).min().unwrap_or(Ticks(0));
    Clock::linear(TRACE, hz, first, Ns::ZERO, rate_from)
}

fn between(clock: &Clock, before: u64, after: u64) -> Ns {
    let (before, after) = (clock.to_ns(Ticks(before)), clock.to_ns(Ticks(after)));
    before + Ns((after - before).0 / 2)
}

/// printk's stamps as ticks: they are nanoseconds and never negative.
pub fn log_ticks(stamp: Ns) -> Ticks {
    Ticks(u64::try_from(stamp.0).unwrap_or(0))
}

/// printk's clock, from messages that are also in the trace.
fn printk_from_trace(evidence: &Offers<'_>, trace: &Trace<'_>, clock: &Clock) -> Option<Clock> {
    let points: Vec<SyncPoint> = common_messages(evidence.log?, trace)
        .into_iter()
        .map(|(stamp, event)| SyncPoint { ticks: log_ticks(stamp), at: clock.to_ns(event) })
        .collect();
    Clock::through(PRINTK, &points)
}

/// The messages that log and trace both have: the log's stamp, the trace's.
fn common_messages(log: &KernelLog, trace: &Trace<'_>) -> Vec<(Ns, Ticks)> {
    /// A message is looked for this far ahead: the trace may lack some, but never many in a row.
    const AHEAD: usize = 512;
    let mut common = Vec::new();
    let mut next = 0;
    for message in trace.console() {
        let text = first_line(message.text);
        let ahead = &log.lines[next..log.lines.len().min(next + AHEAD)];
        let Some(skipped) = ahead.iter().position(|line| first_line(log.text(line).as_bytes()) == text) else {
            continue;
        };
        next += skipped + 1;
        if let Some(stamp) = ahead[skipped].stamp {
            common.push((stamp, message.ticks));
        }
    }
    common
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|&b| b == b'\n').next().unwrap_or(text).trim_ascii()
}

/// printk's clock, from the lines that process 1 wrote into the log.
fn printk_from_words(evidence: &Offers<'_>, counter: Option<&Clock>) -> Option<Clock> {
    let log = evidence.log?;
    let stamp = |seq: u32| {
        let text = format!("bootscope-sync {seq}");
        log.lines.iter().rev().find(|line| log.text(line).trim() == text)?.stamp
    };
    let points: Vec<SyncPoint> = evidence
        .words
        .iter()
        .filter_map(|said| match said.message {
            Message::Sync { place: SyncPlace::Kmsg, before, after, seq } => {
                Some(SyncPoint { ticks: log_ticks(stamp(seq)?), at: between(counter?, before, after) })
            }
            _ => None,
        })
        .collect();
    Clock::fit_offset(PRINTK, 1e9, &points, Delay::Even, NEAR_PROCESS_1)
}

/// printk's clock of a deterministic boot that process 1 said nothing of: at its own rate from `start` on.
pub fn printk_alone(start: Ns) -> Clock {
    Clock::linear(PRINTK, 1e9, Ticks(0), start, FROM_FIRST_INSTRUCTION)
}

/// printk's clock, from the arrival of stamped lines: by our own index, or as a serial logger stamped them.
fn printk_from_console(evidence: &Offers<'_>) -> Option<Clock> {
    let arrivals = |log: &KernelLog, index: Option<&Index>| -> Vec<SyncPoint> {
        let lines = log.lines.iter();
        lines
            .filter_map(|line| {
                let at = match index {
                    Some(index) => index.arrival(line.offset),
                    None => line.host_stamp,
                };
                Some(SyncPoint { ticks: log_ticks(line.stamp?), at: at? })
            })
            .collect()
    };
    let points = match evidence.console {
        Some((console, index)) => arrivals(console, Some(index)),
        None => arrivals(evidence.log?, None),
    };
    let mut clock = Clock::through(PRINTK, &least_late(points.clone()))
        .or_else(|| Clock::fit_offset(PRINTK, 1e9, &points, Delay::Late, ""))?;
    clock.rate_from = "set by the arrival of its lines".to_owned();
    Some(clock)
}

/// Of each 20 ms of stamps the line that was least late: printk's clock bends while it has no good clocksource, so the
/// points are followed, but not those that were held up.
fn least_late(mut points: Vec<SyncPoint>) -> Vec<SyncPoint> {
    const WINDOW: u64 = 20_000_000;
    let lateness = |p: &SyncPoint| p.at.0 as i128 - i128::from(p.ticks.0);
    points.sort_by_key(|p| (p.ticks.0 / WINDOW, lateness(p)));
    points.dedup_by_key(|p| p.ticks.0 / WINDOW);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with too much to do stamps process 1's words 2.3 ms late. What it saw run says so, but for a function that had
    /// run before.
    #[test]
    fn words_that_all_arrived_late() {
        let manifest = Manifest {
            time_base: TimeBase::Host,
            host: recording::Host { tsc_hz: Some(1e9), ..recording::Host::default() },
            ..Manifest::default()
        };
        let at = |us: i64, late_us: i64| SyncPoint {
            ticks: Ticks(us as u64 * 1000),
            at: Ns::from_us(1_000_000 + us + late_us),
        };
        let word = |us: i64| {
            let said = at(us, 2_300 + us % 7);
            Received { message: Message::Tick { tsc: said.ticks.0 }, arrival: Some(said.at), line: 1 }
        };
        let words = [word(9_000_000), word(9_000_100)];
        let offset = |started: Option<Ns>, seen: Vec<SyncPoint>| {
            let (trace, log, console) = (None, None, None);
            let evidence = Offers {
                manifest: &manifest,
                words: &words,
                trace,
                log,
                console,
                started,
                seen,
                kernel_clock_from: None,
            };
            counter(&evidence).map(|clock| clock.to_ns(Ticks(0)) - Ns::from_us(1_000_000))
        };
        assert_eq!(offset(None, Vec::new()), Some(Ns::from_us(2_302)));
        assert_eq!(offset(Some(Ns::from_us(1_000_060)), Vec::new()), Some(Ns::from_us(60)));
        let seen: Vec<SyncPoint> =
            (1..200).map(|i| at(i * 10_000, if i == 50 { -9_000 } else { 3 + i % 40 })).collect();
        assert_eq!(offset(Some(Ns::from_us(1_000_060)), seen), Some(Ns::from_us(3)));
        // A guest that set its counter.
        assert_eq!(offset(Some(Ns::from_us(500_000)), Vec::new()), Some(Ns::from_us(2_302)));
    }
}
