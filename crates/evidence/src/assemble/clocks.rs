//! Joins a recording's clocks: the guest's counter, the trace's clock and printk's, each to time.
//!
//! The guest's counter runs as fast as its own register says, else, where the architecture's is the host's counter under TCG, as
//! that one does. It is fitted to the host's clock: process 1 read it just before it sent a byte
//! that the host stamped on arrival. A host with more to do than CPUs stamps all of them late; but the counter is 0 when the
//! machine starts, so it is never fitted above that. In a deterministic boot the counter *is* time. A clock of the kernel's that stands
//! for a counter begins later: there it is joined where process 1 read it first. The trace is
//! stamped with that counter, or with a clock of the kernel's that process 1 wrote sync lines for.
//! printk's clock is joined to the trace's by the messages that both have; else by process 1's sync
//! lines; else by the arrival of its lines on the console, or in a deterministic boot, of which the host's clock says
//! nothing, from the kernel's first instruction on. Where nothing joins them, printk's clock is time.
//! A trace taken elsewhere and stamped with the counter needs its rate; alone and without
//! one, its ticks are shown as ticks.

use crate::boot::arch;
use crate::boot::clocks::{COUNTER, Clocks, PRINTK};
use crate::boot::offers::{Compared, Marked, Offers, Stamped, StampedText};
use crate::formats::ftrace::Stamps;
use recording::TimeBase;
use timeline::{Clock, Delay, DiagnosticKind, Diagnostics, Ns, RateSource, SyncPoint, Ticks};

/// The name of the trace's clock.
const TRACE: &str = "trace";
/// The name of another counter.
const OWN_COUNTER: &str = "guest counter";
/// A kernel finds its counter's rate to a hundredth, and the host's stamps do over a boot: rates further apart are of different
/// seconds.
const OTHER_SECOND: f64 = 0.1;

/// From this length on, stamps that are some ms late give a rate as good as a kernel's own calibration (500 ppm).
const HEARD_FOR_LONG: Ns = Ns::from_ms(10_000);

/// A busy host's stamps are late by this at most.
const LATE_MAX: Ns = Ns::from_ms(100);
/// A kernel's own measurement of its counter's rate is believed if half of the messages that the trace has too lie nearer than this.
const MEASURED_OFF: Ns = Ns::from_ms(5);
/// Process 1 has read the kernel's clock at most this long after its first instruction: a system call later.
const READ_WITHIN: Ns = Ns::from_us(10);
/// At least this many of the points that the host saw have to agree to [`EDGE`] in a row, and one in `AGREE_SHARE` of all.
const AGREE_MIN: usize = 4;
const AGREE_SHARE: usize = 50;
const EDGE: Ns = Ns::from_us(100);

/// Writing one numbered line takes this many times as long as writing another only if it was disturbed.
const DISTURBED: u64 = 4;

/// Finds the clocks; `diagnostics` counts those that could not be joined.
pub(crate) fn join(evidence: &Offers<'_>, diagnostics: &mut Diagnostics) -> Clocks {
    let counter = believed(counter(evidence), diagnostics);
    // The host's clock says nothing of a deterministic boot's time.
    let hosted = evidence.manifest.time_base != TimeBase::GuestVirtual;
    let by_arrival = || if hosted { printk_from_console(evidence) } else { None };
    let mut printk = printk_from_words(evidence, counter.as_ref()).or_else(by_arrival);
    let trace_text = evidence.trace.map(|(_, text)| text);
    let stamped = evidence.printk.is_some() || trace_text.is_some_and(|trace| trace.stamps() == Stamps::Nanoseconds);
    // A clock that shows 0.000000 throughout says nothing of time.
    let ticked = evidence.printk.is_none_or(|log| log.messages().any(|message| message.ticks.is_some()));
    let ticked = ticked || evidence.trace.is_some();
    let from = evidence.kernel_clock_from;
    if evidence.manifest.time_base == TimeBase::Evidence && (stamped && ticked || from.is_some()) {
        let from = from.unwrap_or(Ns::ZERO);
        printk = printk.or_else(|| Some(Clock::linear(PRINTK, 1e9, Ticks(0), from, RateSource::Printk)));
    }
    // A recording whose manifest is lost still has what process 1 said of the counter, and when it arrived.
    let recorded = evidence.manifest.time_base != TimeBase::Evidence || counter.is_some();
    let mut trace = trace_text.and_then(|trace| trace_clock(evidence, trace, counter.as_ref(), printk.as_ref()));
    trace = believed(trace, diagnostics);
    let only_ticks = trace.is_none() && !stamped && evidence.manifest.time_base == TimeBase::Evidence;
    let only_ticks = only_ticks && evidence.trace.is_some();
    if let (Some((file, text)), None) = (evidence.trace, &trace) {
        if only_ticks {
            trace = Some(from_first_event(text, 1e9, RateSource::Unknown));
        } else {
            let kind = if recorded { DiagnosticKind::TraceClockUnknown } else { DiagnosticKind::TraceRateUnknown };
            diagnostics.note(kind, || file.to_owned());
        }
    }
    if recorded {
        if let (Some(text), Some(clock)) = (trace_text, &trace) {
            printk = printk_from_trace(evidence, text, clock).or(printk);
        }
    }
    Clocks { counter, trace, printk, only_ticks }
}

/// A clock at a rate that a counter can have.
fn believed(clock: Option<Clock>, diagnostics: &mut Diagnostics) -> Option<Clock> {
    if let Some(clock) = clock.as_ref().filter(|clock| !Clock::can_run_at(clock.hz)) {
        diagnostics.note(DiagnosticKind::CounterRateImplausible, || format!("{}: {} Hz", clock.name, clock.hz));
    }
    clock.filter(|clock| Clock::can_run_at(clock.hz))
}

fn counter(evidence: &Offers<'_>) -> Option<Clock> {
    let own = evidence.counter_hz;
    let hosts = arch::counts_as_the_host(evidence.manifest);
    let name = if own.is_some() { OWN_COUNTER } else { COUNTER };
    let said = if evidence.counter_is_kernels { RateSource::Kernel } else { RateSource::CounterRegister };
    if evidence.manifest.time_base == TimeBase::GuestVirtual {
        let counted = hosts.then_some((1e9, RateSource::Instructions));
        let (hz, from) = own.map(|hz| (hz, said)).or(counted)?;
        // The kernel's clock was read by the first instructions of process 1.
        let read = evidence.process_1_read.zip(evidence.process_1_ran).filter(|_| evidence.counter_is_kernels);
        let (ticks, at) = read.unwrap_or((Ticks(0), Ns::ZERO));
        let mut clock = Clock::linear(name, hz, ticks, at, from);
        if read.is_some() {
            clock.residual = READ_WITHIN;
        }
        return Some(clock);
    }
    let points = &evidence.counter_heard;
    // The host's rate was measured over the whole boot.
    let known = own.map(|hz| (hz, said));
    let host_hz = evidence.manifest.host.tsc_hz.filter(|_| hosts);
    match known.or_else(|| Some((host_hz?, RateSource::Host))) {
        Some((hz, from)) if hz > 0.0 => {
            let fit = |points: &[SyncPoint]| Clock::fit_offset(name, hz, points, Delay::Late, from.clone());
            let start = evidence.started.filter(|_| !evidence.counter_is_kernels);
            let start = start.map(|at| SyncPoint { ticks: Ticks(0), at });
            // A guest with its own process 1 sends no words, and its trace is stamped with this counter.
            let is_traced = evidence.trace.is_some_and(|(_, trace)| trace.stamps() == Stamps::Counter);
            let by_start = || fit(&[start.filter(|_| is_traced)?]);
            let by_messages = fit(points).or_else(by_start)?;
            let late = |point: &SyncPoint| point.at - by_messages.to_ns(point.ticks);
            // Further off than a host stamps late, the guest has set its counter.
            let start = start.filter(|start| late(start).abs() < LATE_MAX);
            let seen = edge(&evidence.counter_seen, late);
            let is_seen = seen.is_some();
            let mut clock = fit(&points.iter().copied().chain(start).chain(seen).collect::<Vec<_>>())?;
            if points.is_empty() && !is_seen {
                // The monitor says when the machine starts, and nothing confirms that its counter began then.
                clock.residual = clock.residual.max(LATE_MAX);
            }
            Some(clock)
        }
        _ => without_rate(evidence, name),
    }
}

/// The clock of a counter whose rate nothing measured: it is fitted to the host's stamps, or has the rate that the kernel measured.
fn without_rate(evidence: &Offers<'_>, name: &str) -> Option<Clock> {
    let points = &evidence.counter_heard;
    let fitted = Clock::fit(name, points, Delay::Late);
    // Process 1's words are often heard within some tens of ms, and a busy host stamps each of them ms late. Where the
    // manifest is lost, the kernel's own rate is the better one then.
    let measured =
        evidence.printk.and_then(StampedText::counter_hz).filter(|_| evidence.manifest.time_base == TimeBase::Evidence);
    let (Some((hz, from)), Some(heard)) = (measured, &fitted) else { return fitted };
    // A deterministic boot: what its kernel calls a second is another one than the host's.
    if (heard.hz / hz - 1.0).abs() > OTHER_SECOND {
        return Some(Clock::linear(name, hz, Ticks(0), Ns::ZERO, from));
    }
    let (first, last) = (points.iter().map(|p| p.at).min()?, points.iter().map(|p| p.at).max()?);
    if last - first >= HEARD_FOR_LONG {
        return fitted;
    }
    Clock::fit_offset(name, hz, points, Delay::Late, from)
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
    trace: &dyn StampedText,
    counter: Option<&Clock>,
    printk: Option<&Clock>,
) -> Option<Clock> {
    let hosted = evidence.manifest.time_base != TimeBase::Evidence || counter.is_some();
    match trace.stamps() {
        Stamps::Counter if counter.is_some() && hosted => counter.map(|c| c.renamed(TRACE)),
        Stamps::Counter => match evidence.printk {
            Some(log) => {
                let common = common_messages(log, trace).into_iter();
                let points: Vec<SyncPoint> =
                    common.filter_map(|(stamp, ticks)| Some(SyncPoint { ticks, at: printk?.to_ns(stamp) })).collect();
                // Before the kernel had this counter, its own clock lost ticks: what it measured is the better rate.
                let measured =
                    log.counter_hz().and_then(|(hz, from)| Clock::fit_offset(TRACE, hz, &points, Delay::Even, from));
                match measured {
                    // A busy host spoils what a guest's kernel measures: the messages that both have then say it better.
                    Some(clock) if clock.residual > MEASURED_OFF => Clock::through(TRACE, &points),
                    Some(clock) => Some(clock),
                    None => Clock::fit(TRACE, &points, Delay::Even),
                }
            }
            None => Some(from_first_event(trace, evidence.manifest.ticks_hz?, RateSource::User)),
        },
        Stamps::Nanoseconds if hosted => {
            let points = compared(evidence, Compared::Trace, trace, counter);
            let joined = Clock::fit_offset(TRACE, 1e9, &points, Delay::Even, RateSource::Kernel);
            joined.and_then(|joined| Some(resting_on(counter?, joined))).or_else(|| {
                // Nothing joins them, but the usual trace clocks are printk's clock.
                printk.map(|p| p.renamed(TRACE))
            })
        }
        Stamps::Nanoseconds => printk.map(|p| p.renamed(TRACE)),
    }
}

/// The points at which process 1 compared a clock with the counter. Comparisons without a line in the text are left
/// out.
fn compared(evidence: &Offers<'_>, clock: Compared, text: &dyn StampedText, counter: Option<&Clock>) -> Vec<SyncPoint> {
    let markers = text.markers();
    let own = || evidence.marked.iter().filter(|marked| marked.clock == clock);
    // A line whose writing was disturbed (the first one's code is translated just then) says less than the others.
    let took = |marked: &Marked| marked.after.0.saturating_sub(marked.before.0);
    let least = own().map(took).min().unwrap_or_default();
    let own = own().filter(|marked| took(marked) <= least.saturating_mul(DISTURBED));
    let point = |marked: &Marked| {
        let ticks = (*markers.get(&marked.number)?)?;
        Some(SyncPoint { ticks, at: between(counter?, marked.before, marked.after) })
    };
    own.filter_map(point).collect()
}

/// A trace's clock of which only the rate is known: its first event is time zero.
fn from_first_event(trace: &dyn StampedText, hz: f64, rate_from: RateSource) -> Clock {
    let first = trace.earliest().unwrap_or(Ticks(0));
    Clock::linear(TRACE, hz, first, Ns::ZERO, rate_from)
}

fn between(clock: &Clock, before: Ticks, after: Ticks) -> Ns {
    let (before, after) = (clock.to_ns(before), clock.to_ns(after));
    before + Ns((after - before).0 / 2)
}

/// printk's clock, from messages that are also in the trace.
fn printk_from_trace(evidence: &Offers<'_>, trace: &dyn StampedText, clock: &Clock) -> Option<Clock> {
    let points: Vec<SyncPoint> = common_messages(evidence.printk?, trace)
        .into_iter()
        .map(|(ticks, event)| SyncPoint { ticks, at: clock.to_ns(event) })
        .collect();
    Clock::through(PRINTK, &points).map(|joined| resting_on(clock, joined))
}

/// A clock whose points are times by another one: what that one may be off moves all of them alike, so no rest shows it.
fn resting_on(base: &Clock, mut joined: Clock) -> Clock {
    joined.residual += base.residual;
    joined
}

/// The messages that log and trace both have: the log's stamp, the trace's.
fn common_messages(log: &dyn StampedText, trace: &dyn StampedText) -> Vec<(Ticks, Ticks)> {
    /// A message is looked for this far ahead: the trace may lack some, but never many in a row.
    const AHEAD: usize = 512;
    let lines: Vec<Stamped<'_>> = log.messages().collect();
    let mut common = Vec::new();
    let mut next = 0;
    for message in trace.messages() {
        let text = first_line(message.text);
        let ahead = &lines[next..lines.len().min(next + AHEAD)];
        let Some(skipped) = ahead.iter().position(|line| first_line(line.text) == text) else {
            continue;
        };
        next += skipped + 1;
        common.extend(ahead[skipped].ticks.zip(message.ticks));
    }
    common
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|&b| b == b'\n').next().unwrap_or(text).trim_ascii()
}

/// printk's clock, from the lines that process 1 wrote into the log.
fn printk_from_words(evidence: &Offers<'_>, counter: Option<&Clock>) -> Option<Clock> {
    let points = compared(evidence, Compared::Printk, evidence.printk?, counter);
    let joined = Clock::fit_offset(PRINTK, 1e9, &points, Delay::Even, RateSource::NearProcess1)?;
    counter.map(|counter| resting_on(counter, joined))
}

/// printk's clock, from the arrival of stamped lines: by our own index, or as a serial logger stamped them.
fn printk_from_console(evidence: &Offers<'_>) -> Option<Clock> {
    let heard = evidence.heard.or(evidence.printk)?;
    let point = |message: Stamped<'_>| Some(SyncPoint { ticks: message.ticks?, at: message.arrival? });
    let mut points: Vec<SyncPoint> = heard.messages().filter_map(point).collect();
    let error = evidence.manifest.arrival_error_ns.map(Ns);
    if let Some(error) = error {
        points = not_held_up(points, error);
    }
    let mut clock = Clock::through(PRINTK, &least_late(points.clone()))
        .or_else(|| Clock::fit_offset(PRINTK, 1e9, &points, Delay::Late, RateSource::Arrival))?;
    clock.rate_from = RateSource::Arrival;
    clock.residual = clock.residual.max(error.unwrap_or_default());
    Some(clock)
}

/// A crystal is off by this part at most, so that lateness may seem to shrink.
const DRIFT_PART: u64 = 10_000;

/// A kernel that took its counter for a slower one has a clock that runs ahead: then nothing tells what was held up. Less than this
/// is a console that came up late in a short boot.
const FAST_MOST: u64 = 4;

/// The messages of a board that the serial line did not hold up. When its console comes up, a kernel prints all earlier
/// messages at once, and a slow line falls behind. printk's clock may lose time but gains none. So a message was held
/// up if a message behind it is less late.
fn not_held_up(mut points: Vec<SyncPoint>, error: Ns) -> Vec<SyncPoint> {
    points.sort_by_key(|p| (p.ticks, p.at));
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return points };
    let stamped = last.ticks.0 - first.ticks.0;
    let came = (points.iter().map(|p| p.at).max(), points.iter().map(|p| p.at).min());
    let came = came.0.zip(came.1).map_or(0, |(last, first)| (last - first).0.unsigned_abs());
    if stamped > came.saturating_mul(FAST_MOST) {
        return points;
    }
    let lateness = |p: &SyncPoint| Ns(p.at.0.saturating_sub(i64::try_from(p.ticks.0).unwrap_or(i64::MAX)));
    let mut least: Option<(Ns, Ticks)> = None;
    let mut kept: Vec<SyncPoint> = Vec::with_capacity(points.len());
    for point in points.into_iter().rev() {
        let late = lateness(&point);
        let drift = |from: Ticks| Ns(i64::try_from((from.0 - point.ticks.0) / DRIFT_PART).unwrap_or(i64::MAX));
        if least.is_none_or(|(least, from)| late <= least + error + drift(from)) {
            kept.push(point);
        }
        if least.is_none_or(|(least, _)| late < least) {
            least = Some((late, point.ticks));
        }
    }
    kept.reverse();
    kept
}

/// The least late line in each 20 ms of stamps. printk's clock bends while it has no good clocksource, so the clock
/// follows these points. Lines that were held up are left out.
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
    use recording::Manifest;

    /// A board's console comes up at 300 ms and prints the earlier messages, a line each 6 ms. Then the kernel's clock
    /// has lost 40 ms.
    #[test]
    fn a_line_that_holds_messages_up_moves_none_of_them() {
        let manifest = Manifest { time_base: TimeBase::Host, arrival_error_ns: Some(1_000_000), ..Manifest::default() };
        let at = |stamp_ms: i64, came_ms: i64| SyncPoint {
            ticks: Ticks(stamp_ms.unsigned_abs() * 1_000_000),
            at: Ns::from_ms(1000 + came_ms),
        };
        let replayed = (0..60).map(|n| at(n * 5, 300 + n * 5 + n));
        let later = (0..60).map(|n| at(400 + n * 10, 440 + n * 10));
        let points: Vec<SyncPoint> = replayed.chain(later).collect();
        let heard = HeardMessages(points);
        let evidence = Offers { heard: Some(&heard), ..Offers::new(&manifest) };
        let clock = printk_from_console(&evidence).unwrap();
        let zero = clock.to_ns(Ticks(0)) - Ns::from_ms(1000);
        assert!(zero.abs() <= Ns::from_ms(41), "{zero:?}: what was held up counts");
        assert_eq!(clock.to_ns(Ticks(500_000_000)), Ns::from_ms(1540));
        assert!(clock.residual >= Ns::from_ms(1));
    }

    struct HeardMessages(Vec<SyncPoint>);

    impl StampedText for HeardMessages {
        fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
            let message = |p: &SyncPoint| Stamped { text: b"x", ticks: Some(p.ticks), arrival: Some(p.at) };
            Box::new(self.0.iter().map(message))
        }

        fn markers(&self) -> hashbrown::HashMap<u64, Option<Ticks>> {
            hashbrown::HashMap::new()
        }
    }

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
            ticks: Ticks(us.unsigned_abs() * 1000),
            at: Ns::from_us(1_000_000 + us + late_us),
        };
        let counter_heard = [9_000_000, 9_000_100].map(|us: i64| at(us, 2_300 + us % 7)).to_vec();
        let offset = |started: Option<Ns>, counter_seen: Vec<SyncPoint>| {
            let counter_heard = counter_heard.clone();
            let evidence = Offers { counter_heard, counter_seen, started, ..Offers::new(&manifest) };
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

    /// The rate in the counter's own register counts. The rate of the host's counter does not: that is another counter.
    #[test]
    fn a_counter_that_says_how_fast_it_runs() {
        let host = recording::Host { tsc_hz: Some(2.6e9), ..recording::Host::default() };
        let manifest = |time_base| Manifest { time_base, host: host.clone(), ..Manifest::default() };
        let heard = |ms: u64, late_us: i64| SyncPoint {
            ticks: Ticks(ms * 62_500),
            at: Ns::from_ms(100) + Ns::from_ms(ms.cast_signed()) + Ns::from_us(late_us),
        };
        let clock = |manifest: &Manifest| {
            let counter_heard = vec![heard(900, 70), heard(901, 3)];
            counter(&Offers { counter_hz: Some(62.5e6), counter_heard, ..Offers::new(manifest) }).unwrap()
        };
        for time_base in [TimeBase::Host, TimeBase::Evidence] {
            let clock = clock(&manifest(time_base));
            assert_eq!((clock.hz, clock.to_ns(Ticks(0))), (62.5e6, Ns::from_us(100_003)));
            assert_eq!(clock.rate_from, RateSource::CounterRegister);
        }
        let counted = clock(&manifest(TimeBase::GuestVirtual));
        assert_eq!((counted.name.as_str(), counted.to_ns(Ticks(62_500))), ("guest counter", Ns::from_ms(1)));
        // Before the guest has said so, nothing is known of it but on x86-64.
        let unsaid = |arch, time_base| {
            let manifest = Manifest { how: serde_json::json!({"arch": arch}), ..manifest(time_base) };
            counter(&Offers { started: Some(Ns::ZERO), ..Offers::new(&manifest) }).map(|clock| clock.hz)
        };
        assert_eq!(unsaid("x86_64", TimeBase::GuestVirtual), Some(1e9));
        assert_eq!(unsaid("aarch64", TimeBase::GuestVirtual), None);
        let heard_once = |arch| {
            let manifest = Manifest { how: serde_json::json!({"arch": arch}), ..manifest(TimeBase::Host) };
            counter(&Offers { counter_heard: vec![heard(900, 0)], ..Offers::new(&manifest) }).map(|clock| clock.hz)
        };
        assert_eq!((heard_once("x86_64"), heard_once("aarch64")), (Some(2.6e9), None));
    }

    #[test]
    fn a_clock_of_the_kernels_that_stands_for_a_counter_begins_where_process_1_read_it() {
        let offset = |time_base, counter_is_kernels| {
            let manifest = Manifest { time_base, ..Manifest::default() };
            let evidence = Offers {
                counter_hz: Some(1e9),
                counter_is_kernels,
                process_1_read: Some(Ticks(700)),
                process_1_ran: Some(Ns(5_000)),
                started: Some(Ns::ZERO),
                counter_heard: vec![SyncPoint { ticks: Ticks(1_000), at: Ns(5_310) }],
                ..Offers::new(&manifest)
            };
            counter(&evidence).unwrap().to_ns(Ticks(700))
        };
        assert_eq!(offset(TimeBase::GuestVirtual, true), Ns(5_000));
        assert_eq!(offset(TimeBase::GuestVirtual, false), Ns(700));
        assert_eq!(offset(TimeBase::Host, true), Ns(5_010));
        assert_eq!(offset(TimeBase::Host, false), Ns(700), "a counter begins with the machine");
    }

    #[test]
    fn a_line_whose_writing_was_disturbed_does_not_set_a_clock() {
        let manifest = Manifest { time_base: TimeBase::Host, ..Manifest::default() };
        let line = |number, before, after| Marked {
            clock: Compared::Trace,
            number,
            before: Ticks(before),
            after: Ticks(after),
        };
        let marked = vec![line(1, 0, 54_000), line(2, 60_000, 62_000), line(3, 62_000, 64_000)];
        let offers = Offers { marked, ..Offers::new(&manifest) };
        let counter = Clock::linear("counter", 1e9, Ticks(0), Ns::ZERO, RateSource::User);
        struct Numbered;
        impl StampedText for Numbered {
            fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
                Box::new(std::iter::empty())
            }
            fn markers(&self) -> hashbrown::HashMap<u64, Option<Ticks>> {
                (1..=3).map(|number| (number, Some(Ticks(number)))).collect()
            }
        }
        let points = compared(&offers, Compared::Trace, &Numbered, Some(&counter));
        assert_eq!(
            points,
            [SyncPoint { ticks: Ticks(2), at: Ns(61_000) }, SyncPoint { ticks: Ticks(3), at: Ns(63_000) }]
        );
    }

    /// A text with these messages, and what its stamps count.
    struct Heard<'a> {
        stamps: Stamps,
        said: Vec<(&'a str, u64)>,
        counter_hz: Option<f64>,
    }

    impl StampedText for Heard<'_> {
        fn stamps(&self) -> Stamps {
            self.stamps
        }
        fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
            let said = self.said.iter();
            Box::new(said.map(|&(text, ticks)| Stamped {
                text: text.as_bytes(),
                ticks: Some(Ticks(ticks)),
                arrival: None,
            }))
        }
        fn markers(&self) -> hashbrown::HashMap<u64, Option<Ticks>> {
            hashbrown::HashMap::new()
        }
        fn counter_hz(&self) -> Option<(f64, RateSource)> {
            Some((self.counter_hz?, RateSource::DetectedProcessor))
        }
    }

    /// A guest with its own process 1: nothing but its start sets its counter, which its trace is stamped with. printk's clock is
    /// joined to that trace to the microsecond, and still may be off as far as the counter.
    #[test]
    fn a_clock_is_no_better_than_the_one_that_it_is_joined_to() {
        let host = recording::Host { tsc_hz: Some(1e9), ..recording::Host::default() };
        let manifest = Manifest { time_base: TimeBase::Host, host, ..Manifest::default() };
        let second = 1_000_000_000;
        let said =
            |late: u64| ["a", "b", "c", "d"].into_iter().zip(1..).map(move |(text, n)| (text, n * second + late));
        let trace = Heard { stamps: Stamps::Counter, said: said(250_000_000).collect(), counter_hz: None };
        let log = Heard { stamps: Stamps::Nanoseconds, said: said(0).collect(), counter_hz: None };
        let clocks = |counter_seen: Vec<SyncPoint>| {
            let started = Some(Ns::from_ms(100));
            let (trace, printk) = (Some(("trace.txt", &trace as &dyn StampedText)), Some(&log as &dyn StampedText));
            let offers = Offers { started, counter_seen, trace, printk, ..Offers::new(&manifest) };
            join(&offers, &mut Diagnostics::default())
        };
        let residuals = |clocks: &Clocks| {
            [&clocks.counter, &clocks.trace, &clocks.printk].map(|clock| clock.as_ref().unwrap().residual)
        };
        let alone = clocks(Vec::new());
        assert_eq!(alone.printk.as_ref().unwrap().to_ns(Ticks(second)), Ns::from_ms(1_350));
        assert_eq!(residuals(&alone), [LATE_MAX; 3]);
        // Code that was seen to run confirms the counter.
        let seen =
            (1..10).map(|ms| SyncPoint { ticks: Ticks(ms * 1_000_000), at: Ns::from_ms(100 + ms.cast_signed()) });
        assert_eq!(residuals(&clocks(seen.collect())), [Ns::ZERO; 3]);
    }

    /// For a trace taken elsewhere, the rate that the kernel measured is used while the messages that log and trace
    /// share lie near it. If they are further off, the rate follows from these messages.
    #[test]
    fn messages_that_both_have_overrule_a_bad_measurement_of_the_counter() {
        let manifest = Manifest { time_base: TimeBase::Evidence, ..Manifest::default() };
        let names: Vec<String> = (0..=20).map(|n| format!("message {n}")).collect();
        let said = |hz: u64| names.iter().zip(0..).map(move |(text, n)| (text.as_str(), (n + 1) * hz)).collect();
        let (trace_hz, second) = (2_000_000_000, 1_000_000_000);
        let trace = Heard { stamps: Stamps::Counter, said: said(trace_hz), counter_hz: None };
        let joined = |measured: f64| {
            let log = Heard { stamps: Stamps::Nanoseconds, said: said(second), counter_hz: Some(measured) };
            let (trace, printk) = (Some(("trace.txt", &trace as &dyn StampedText)), Some(&log as &dyn StampedText));
            join(&Offers { trace, printk, ..Offers::new(&manifest) }, &mut Diagnostics::default()).trace.unwrap()
        };
        // Over 20 s, half of the messages lie further than 5 s × 500 ppm = 2.5 ms from the fit: less than 5 ms.
        let near = joined(trace_hz as f64 * 1.0005);
        assert_eq!((near.hz, near.rate_from.clone()), (trace_hz as f64 * 1.0005, RateSource::DetectedProcessor));
        assert!(near.residual > Ns::from_ms(2) && near.residual <= MEASURED_OFF, "{}", near.residual);
        // 2000 ppm are 10 ms there.
        let far = joined(trace_hz as f64 * 1.002);
        assert_eq!((far.hz, far.rate_from.clone(), far.residual), (2e9, RateSource::CommonEvents, Ns::ZERO));
        assert_eq!(far.to_ns(Ticks(trace_hz * 3)), Ns::from_ms(3_000));
    }

    /// A log in which the kernel says how fast its counter is.
    struct Said(f64);

    impl StampedText for Said {
        fn messages(&self) -> Box<dyn Iterator<Item = Stamped<'_>> + '_> {
            Box::new(std::iter::empty())
        }
        fn markers(&self) -> hashbrown::HashMap<u64, Option<Ticks>> {
            hashbrown::HashMap::new()
        }
        fn counter_hz(&self) -> Option<(f64, RateSource)> {
            Some((self.0, RateSource::DetectedProcessor))
        }
    }

    /// The host heard process 1 for 50 ms only, and what it heard first 2 ms late: a fit alone is 4 % off.
    #[test]
    fn without_a_manifest_the_kernel_knows_its_counter_better() {
        let manifest = Manifest { time_base: TimeBase::Evidence, ..Manifest::default() };
        let heard = |ms: i64, late_ms: i64| SyncPoint {
            ticks: Ticks(ms.unsigned_abs() * 1_000_000),
            at: Ns::from_ms(1_000 + ms + late_ms),
        };
        let rate = |said: Option<&Said>| {
            let counter_heard = vec![heard(9_000, 2), heard(9_050, 0)];
            let printk = said.map(|said| said as &dyn StampedText);
            let clock = counter(&Offers { counter_heard, printk, ..Offers::new(&manifest) }).unwrap();
            (clock.hz.round(), clock.to_ns(Ticks(9_050_000_000)))
        };
        let ms = |ms: i64| Ns::from_ms(ms);
        assert_eq!(rate(None), (1_041_666_667.0, ms(10_050)));
        assert_eq!(rate(Some(&Said(1e9))), (1e9, ms(10_050)));
        let heard_for = |ms: i64| {
            let counter_heard = vec![heard(0, 2), heard(ms, 0)];
            counter(&Offers { counter_heard, printk: Some(&Said(1.005e9)), ..Offers::new(&manifest) }).unwrap().hz
        };
        assert!((heard_for(9_000) - 1.005e9).abs() < 1.0 && (heard_for(30_000) / 1e9 - 1.0).abs() < 100e-6);
        // Rates of different seconds: the boot was deterministic, and its counter is its time.
        assert_eq!(rate(Some(&Said(2e9))), (2e9, ms(4_525)));
    }
}
