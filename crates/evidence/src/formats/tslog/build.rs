//! Builds a timeline from a log: its clock, a track for each thread, and the spans on them.

use super::Log;
use super::boot::{self, Boot, Chain, Kind};
use super::console::Message;
use super::cpu_count;
use super::events::{Builder, PathEnd};
use super::labels::Role;
use super::line::What;
use super::occupancy;
use super::order::{Known, Life, Order, drop_out_of_range, order};
use super::processes::Processes;
use super::user_part;
use crate::input::text::lossy;
use timeline::{
    Clock, Delay, DiagnosticKind, Ns, Os, RateSource, SyncPoint, Ticks, Timeline, TrackId, TrackKind, Unit, Warning,
};

/// The caller's knowledge about the log's counter.
#[derive(Clone, Debug)]
pub enum Counter {
    /// A clock that counts the same ticks.
    Clock(Clock),
    /// The counter's rate, and where it comes from.
    Rate(f64, RateSource),
    /// Nothing is known: the evidence decides.
    Unknown,
}

/// The main tracks of a log, and its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    pub loader: Option<TrackId>,
    /// The kernel's first thread.
    pub main: Option<TrackId>,
    /// Process 1.
    pub init: Option<TrackId>,
    /// The time of the log's first record, on whichever track.
    pub begins: Option<Ns>,
}

/// Builds a log's timeline. Time zero is the log's first record, unless `counter` is a clock. Linear but for some
/// sorting.
pub fn build(mut log: Log, counter: Counter, timeline: &mut Timeline) -> Built {
    let order = order(&mut log, &mut timeline.diagnostics);
    let first = order.known.first.map(|(ticks, _)| ticks);
    drop_out_of_range(&mut log, first, &mut timeline.diagnostics);
    shift_processes(&mut log, order.kernel_shift);
    // If the log's first record defines time zero, its place has no error.
    let error = if let Counter::Clock(clock) = &counter { clock.residual } else { Ns::ZERO };
    let clock = clock(&log, &order, counter, timeline);
    log.records = Vec::new(); // `order` has them
    timeline.os = os(&log, &order.known);
    let tracks: Vec<TrackId> = add_tracks(&log, &order, timeline);
    for (life, &track) in order.lives.iter().zip(&tracks) {
        let created = life.created.map(|(ticks, by)| (clock.to_ns(Ticks(ticks)), tracks[by as usize]));
        timeline.tracks.get_mut(track).created = created;
    }
    let track = |life: Option<u32>| life.map(|life| tracks[life as usize]);
    let known = &order.known;
    let chain = Chain { loader: track(known.loader()), main: track(known.main()), init: track(known.init()) };
    let begins = known.first.map(|(ticks, _)| clock.to_ns(Ticks(ticks)));
    let ending = boot::ending(&log, &order);
    let last = known.last.map_or(Ns::ZERO, |(ticks, _)| clock.to_ns(Ticks(ticks)));
    let processes = Processes::new(&log, &order.lives, &clock, last, timeline);
    if order.records.is_empty() {
        if !log.users.is_empty() {
            user_part::build(&log, processes, error, timeline);
        }
        if timeline.unit != Unit::Ticks {
            timeline.clocks.push(clock);
        }
        return Built::default();
    }
    let left_kernel = ending.as_ref().filter(|e| e.kind != Kind::Unknown).map(|e| clock.to_ns(Ticks(e.ticks)));
    let process_1 = chain.init.zip(left_kernel).and_then(|(init, at)| processes.process_1(init, at));

    let init_begins = known.init().map(|life| order.records[order.lives[life as usize].begin].ticks);
    let log_ends = known.last.map_or(0, |(ticks, _)| ticks);
    let path = PathEnd { chain, ending: ending.as_ref(), init_begins, log_ends };
    let mut builder = Builder::new(&log, &order, &clock, process_1, path, timeline);
    for (life, &track) in order.lives.iter().zip(&tracks) {
        builder.life(life, track);
    }
    let left_open = builder.finish();
    let ends = ending.as_ref().map_or(log_ends, |ending| ending.ticks.min(log_ends));
    timeline.occupancy = occupancy::occupancy(&log, &order, &clock, (&tracks, ends), timeline.cpu_count);
    cpu_count::note(&log, &order, &clock, (&tracks, ends), timeline);
    processes.build(process_1.map(|p| p.track), timeline);
    let mut boot = Boot { log: &log, order: &order, clock: &clock, error, chain, timeline };
    boot.cut();
    boot.link();
    boot.phases(left_open.unknown_from);
    left_open.silent.into_iter().for_each(|silent| boot.silent(silent));
    ending.into_iter().for_each(|ending| boot.end(&ending, &left_open.names));
    // A clock in ticks converts nothing, so it is not listed.
    if timeline.unit != Unit::Ticks {
        timeline.clocks.push(clock);
    }
    Built { loader: chain.loader, main: chain.main, init: chain.init, begins }
}

/// Shifts the times of the process table, which are in the kernel's ticks. 0 means that there is no time.
fn shift_processes(log: &mut Log, shift: u64) {
    for ticks in log.users.iter_mut().flat_map(|user| [&mut user.forked, &mut user.exited]).filter(|ticks| **ticks > 0)
    {
        *ticks = ticks.saturating_add(shift);
    }
}

const NAME: &str = "TSLOG";

fn clock(log: &Log, order: &Order, counter: Counter, timeline: &mut Timeline) -> Clock {
    let zero = order.known.first.map(|(ticks, _)| ticks).or_else(|| user_part::begins(log)).unwrap_or(0);
    let linear = |hz: f64, from: RateSource| Clock::linear(NAME, hz, Ticks(zero), Ns::ZERO, from);
    if let Some(rate) = log.noted_rate().filter(|rate| !Clock::can_run_at(rate.hz)) {
        timeline.diagnostics.note(DiagnosticKind::CounterRateImplausible, || {
            format!("{}: {} Hz", log.place(rate.file, rate.line), rate.hz)
        });
    }
    match counter {
        Counter::Clock(clock) => return clock.renamed(NAME),
        Counter::Rate(hz, from) => {
            timeline.warnings.extend(contradiction(hz, log.own_rate()));
            return linear(hz, from);
        }
        Counter::Unknown => {}
    }
    if let Some((hz, from)) = log.own_rate() {
        return linear(hz, from);
    }
    if let Some(clock) = matched(log, order, zero).filter(|clock| Clock::can_run_at(clock.hz)) {
        return clock;
    }
    timeline.unit = Unit::Ticks;
    timeline.warnings.push(Warning::LogInTicks);
    linear(1e9, RateSource::Unknown)
}

/// Warns if the given rate differs from the evidence's own by more than 0.1 %. A CPU's line has six digits of the rate.
fn contradiction(given_hz: f64, own: Option<(f64, RateSource)>) -> Option<Warning> {
    let (found_hz, found_in) = own.filter(|(hz, _)| (hz / given_hz - 1.0).abs() > 1e-3)?;
    Some(Warning::LogRateContradicted { given_hz, found_hz, found_in })
}

/// Fits the clock to messages that both the log and a stamped console have. A line appears later than its SYSINIT
/// begins.
fn matched(log: &Log, order: &Order, zero: u64) -> Option<Clock> {
    let main = order.lives.get(order.known.main()? as usize)?;
    let records = &order.records[main.begin..main.end];
    let mut points: Vec<SyncPoint> = Vec::new();
    let mut names = Vec::new();
    for message in &log.said {
        let Message::Sysinit(name) = message.message;
        let text = format!("SYSINIT {name}");
        let entered = |r: &&super::Record| r.what == What::Enter && log.labels.text(r.label) == text.as_bytes();
        if let Some(record) = records.iter().find(entered).filter(|_| !names.contains(&text)) {
            points.push(SyncPoint { ticks: Ticks(record.ticks), at: message.at });
            names.push(text);
        }
    }
    let fitted = Clock::fit(NAME, &points, Delay::Late)?;
    let from = RateSource::ConsoleLines { steps: names };
    let mut clock = Clock::linear(NAME, fitted.hz, Ticks(zero), Ns::ZERO, from);
    clock.residual = fitted.residual;
    Some(clock)
}

/// The first function of many kernels is called `main`; NetBSD's banner or the form of its process table identifies
/// NetBSD.
fn os(log: &Log, known: &Known) -> Os {
    match &log.facts.os {
        Some(os) => os.clone(),
        None if known.enter(Role::MiStartup).or(known.enter(Role::MachineDependent)).is_some() => Os::FreeBsd,
        None if known.enter(Role::Main).is_some() && log.users.iter().any(|user| user.wide) => Os::NetBsd,
        None => Os::Unknown,
    }
}

fn add_tracks(log: &Log, order: &Order, timeline: &mut Timeline) -> Vec<TrackId> {
    let known = &order.known;
    let (loader, main, init) = (known.loader(), known.main(), known.init());
    let netbsd = timeline.os == Os::NetBsd;
    let name = |number: u32, life: &Life| match number {
        n if Some(n) == loader => "loader".to_owned(),
        n if Some(n) == init && Some(n) != main => "init".to_owned(),
        n if Some(n) == main && life.name.is_none() => if netbsd { "lwp0" } else { "thread0" }.to_owned(),
        _ => match life.name {
            Some(label) => lossy(log.labels.text(label)).into_owned(),
            None => format!("{:#x}", life.thread),
        },
    };
    let lives = (0u32..).zip(&order.lives);
    let add = |(number, life): (u32, &Life)| {
        let name = timeline.names.intern(&name(number, life));
        let kind = if Some(number) == loader { TrackKind::Firmware } else { TrackKind::Thread };
        timeline.tracks.add(name, kind, life.thread)
    };
    lives.map(add).collect()
}
