//! Finds which thread had a CPU when: from the context switches that a kernel logs, else, with one CPU, from other
//! records.
//!
//! ```text
//! 0xa 46902900 EVENT RUN 0              CPU 0 now runs this thread
//! 0xa 46910000 EVENT IDLE 0             CPU 0 now runs nothing
//! 0xb 46905000 EVENT READY              this thread can run from now on; the thread that runs woke it
//! 0xb 46905000 EVENT READY timer        the same, but an interrupt woke it: this one
//! 0xb 46905000 EVENT TIMEOUT 250us      this thread sleeps, for at most this time (also ms, s)
//! ```
//! Without `RUN`, the thread that logs has the one CPU. The time between two neighbouring records belongs to the thread
//! of the first. If that thread went to sleep or ended, the time belongs to the thread of the second, whose switch was
//! not logged. If the second wakes from its own sleep, the CPU was idle except for the length of a switch. A `THREAD`
//! record is logged by the creator, which it does not name, so it is ignored here. A thread that does not sleep while
//! another has the CPU was preempted: it is ready.

use super::line::What;
use super::order::{Life, Order};
use super::{Log, Record};
use crate::input::text::word;
use hashbrown::HashMap;
use timeline::{Clock, Ns, Occupancy, OffCpu, Running, Ticks, TrackId};

/// A thread that wakes logs its return from sleep within this time after it gets the CPU.
const SWITCH_MAX: Ns = Ns(50_000);

/// True if an event comes from the scheduler.
pub(super) fn is_scheduler_event(text: &[u8]) -> bool {
    event(text).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Run(u32),
    Idle(u32),
    Ready { by_thread: bool },
    Timeout(Ns),
}

fn event(text: &[u8]) -> Option<Event> {
    let (name, detail) = word(text);
    let detail = || std::str::from_utf8(detail).ok();
    let cpu = || detail().and_then(|detail| detail.strip_prefix("cpu").unwrap_or(detail).parse().ok());
    match name {
        b"RUN" => cpu().map(Event::Run),
        b"IDLE" => cpu().map(Event::Idle),
        b"READY" => detail().map(|detail| Event::Ready { by_thread: detail.is_empty() }),
        b"TIMEOUT" => length(detail()?).map(Event::Timeout),
        _ => None,
    }
}

fn length(text: &str) -> Option<Ns> {
    const UNITS: [(&str, i64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (digits, unit) = UNITS.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns)))?;
    digits.parse::<i64>().ok()?.checked_mul(unit).filter(|ns| *ns >= 0).map(Ns)
}

/// A record that its own thread logged while it ran.
#[derive(Clone, Copy)]
struct Point {
    at: Ns,
    piece: u16,
    life: u32,
    /// True if the thread then sleeps, or has ended.
    leaves: bool,
    /// True if the thread slept until then.
    wakes: bool,
    /// True if the thread then waits for a topic.
    waits: bool,
}

/// A stretch in which a thread slept.
#[derive(Clone, Copy)]
struct Sleep {
    from: Ns,
    to: Ns,
    /// The latest end that the thread asked for.
    timeout: Option<Ns>,
}

impl Sleep {
    /// The time at which the sleep timed out, unless the thread was woken before. The `TIMEOUT` record may be logged a
    /// little late, so the timeout may seem to end up to [`SWITCH_MAX`] after the sleep.
    fn over(&self, until: Ns) -> Option<Ns> {
        self.timeout.filter(|&at| at <= until + SWITCH_MAX).map(|at| at.min(until))
    }
}

/// An event that the scheduler logged.
#[derive(Clone, Copy)]
struct SchedulerEvent {
    at: Ns,
    life: u32,
    event: Event,
}

/// The log's records and scheduler events, in order of time.
#[derive(Default)]
struct LogActivity {
    points: Vec<Point>,
    /// For each life: the time of its first record.
    first: Vec<Option<Ns>>,
    /// For each life: its sleeps.
    sleeps: Vec<Vec<Sleep>>,
    events: Vec<SchedulerEvent>,
}

/// Returns which thread had which CPU until the tick `ends`. `O(n log n)`. Empty if the log does not show it.
pub(super) fn occupancy(
    log: &Log,
    order: &Order,
    clock: &Clock,
    (tracks, ends): (&[TrackId], u64),
    cpu_count: u32,
) -> Occupancy {
    let switches = log.labels.iter().any(|text| matches!(event(text), Some(Event::Run(_))));
    let counts = [cpu_count, log.facts.cpus.unwrap_or(0)];
    let is_alone = counts.contains(&1) && counts.iter().all(|&count| count < 2);
    if !switches && !is_alone {
        return Occupancy::default();
    }
    let activity = LogActivity::new(log, order, clock, ends);
    let turns = if switches { logged(&activity, order, clock, ends) } else { inferred(&activity) };
    let has_timeouts = activity.sleeps.iter().flatten().any(|sleep| sleep.timeout.is_some());
    let off = off(&activity, &turns, order, clock, switches);
    let mut occupancy = Occupancy { off, turns, is_logged: switches, has_timeouts };
    occupancy.turns.iter_mut().for_each(|turn| turn.track = tracks[turn.track.0 as usize]);
    for off in &mut occupancy.off {
        off.track = tracks[off.track.0 as usize];
        off.by = off.by.map(|by| tracks[by.0 as usize]);
    }
    occupancy.sort();
    occupancy
}

impl LogActivity {
    fn new(log: &Log, order: &Order, clock: &Clock, ends: u64) -> LogActivity {
        let meanings: Vec<(bool, Option<Event>)> =
            log.labels.iter().map(|text| (text.split(|&b| b == b' ').next() == Some(b"_sleep"), event(text))).collect();
        let mut activity = LogActivity::default();
        let mut keyed: Vec<((u64, u16, u32), Point)> = Vec::new();
        for (number, life) in (0..).zip(&order.lives) {
            let mut stack = Stack::default();
            let mut sleeps: Vec<Sleep> = Vec::new();
            let before = keyed.len();
            let records = &order.records[life.begin..life.end];
            for record in records.iter().filter(|record| record.ticks <= ends) {
                let at = clock.to_ns(Ticks(record.ticks));
                let (is_sleep, event) = meanings[record.label as usize];
                match event.filter(|_| record.what == What::Event) {
                    Some(Event::Timeout(length)) if stack.asleep => {
                        sleeps.iter_mut().rev().take(1).for_each(|sleep| sleep.timeout = Some(at + length));
                        continue;
                    }
                    Some(event) => {
                        activity.events.push(SchedulerEvent { at, life: number, event });
                        continue;
                    }
                    None if record.what == What::Thread => continue,
                    None => {}
                }
                let slept = stack.asleep;
                stack.take(record, is_sleep, log.labels.text(record.label));
                if stack.asleep && !slept {
                    sleeps.push(Sleep { from: at, to: Ns::MAX, timeout: None });
                }
                let wakes = slept && !stack.asleep;
                if wakes {
                    sleeps.iter_mut().rev().take(1).for_each(|sleep| sleep.to = at);
                }
                let waits = !stack.waits.is_empty();
                let point = Point { at, piece: record.piece, life: number, leaves: stack.asleep, wakes, waits };
                keyed.push(((record.ticks, record.piece, record.line), point));
            }
            // A thread that is in no function, holds nothing, and logs nothing more has ended.
            let ended = |last: &Record| last.ticks <= ends && !log.labels.text(last.label).starts_with(b"HOLD ");
            let has_ended = records.last().is_some_and(ended);
            if let Some((_, point)) = keyed.last_mut().filter(|(_, p)| p.life == number && has_ended) {
                point.leaves |= stack.open.is_empty();
            }
            activity.first.push(keyed.get(before).map(|(_, point)| point.at));
            activity.sleeps.push(sleeps);
        }
        keyed.sort_by_key(|(key, _)| *key);
        activity.points = keyed.into_iter().map(|(_, point)| point).collect();
        activity.events.sort_by_key(|event| event.at);
        activity
    }
}

/// The functions and waits that a thread is in.
#[derive(Default)]
struct Stack {
    /// Labels; `true` for a sleep.
    open: Vec<(u32, bool)>,
    counts: HashMap<u32, u32>,
    /// True if the innermost function is a sleep.
    asleep: bool,
    /// For each open wait for a topic: the number of functions that were open when it began.
    waits: Vec<usize>,
}

impl Stack {
    fn take(&mut self, record: &Record, is_sleep: bool, text: &[u8]) {
        match record.what {
            What::Enter => {
                self.open.push((record.label, is_sleep));
                *self.counts.entry(record.label).or_default() += 1;
            }
            // An exit closes the innermost entry of its name, and all inside that one.
            What::Exit if self.counts.get(&record.label).is_some_and(|&count| count > 0) => {
                while let Some((label, _)) = self.open.pop() {
                    self.counts.entry(label).and_modify(|count| *count -= 1);
                    if label == record.label {
                        break;
                    }
                }
                // A wait without `UNWAIT` ends at the latest when its thread leaves the function in which it began.
                let depth = self.open.len();
                self.waits.truncate(self.waits.partition_point(|&open| open <= depth));
            }
            What::Event if text.starts_with(b"WAIT ") => self.waits.push(self.open.len()),
            What::Event if text.starts_with(b"UNWAIT ") => drop(self.waits.pop()),
            _ => {}
        }
        self.asleep = self.open.last().is_some_and(|&(_, is_sleep)| is_sleep);
    }
}

/// Infers the turns on the one CPU. Each turn's track is the number of a life.
fn inferred(activity: &LogActivity) -> Vec<Running> {
    let mut turns: Vec<Running> = Vec::new();
    for pair in activity.points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.piece != b.piece || a.at >= b.at {
            continue;
        }
        let owner = match (a.leaves, b.wakes) {
            (false, _) => Some(a.life),
            (true, true) if b.at - a.at > SWITCH_MAX => None,
            (true, _) => Some(b.life),
        };
        if let Some(life) = owner {
            turn(&mut turns, Running { track: TrackId(life), cpu: 0, from: a.at, to: b.at });
        }
    }
    turns
}

fn turn(turns: &mut Vec<Running>, next: Running) {
    match turns.last_mut().filter(|last| last.track == next.track && last.cpu == next.cpu && last.to == next.from) {
        Some(last) => last.to = next.to,
        None if next.from < next.to => turns.push(next),
        None => {}
    }
}

/// Reads the turns from the scheduler's events. Before the first, the kernel's first thread runs on the first CPU.
fn logged(activity: &LogActivity, order: &Order, clock: &Clock, ends: u64) -> Vec<Running> {
    let mut turns = Vec::new();
    let mut now: HashMap<u32, (Option<u32>, Ns)> = HashMap::new();
    let switches = activity.events.iter().filter_map(|scheduled| match scheduled.event {
        Event::Run(cpu) => Some((scheduled.at, cpu, Some(scheduled.life))),
        Event::Idle(cpu) => Some((scheduled.at, cpu, None)),
        _ => None,
    });
    let switches: Vec<(Ns, u32, Option<u32>)> = switches.collect();
    let boot_cpu = switches.iter().map(|switch| switch.1).min().unwrap_or(0);
    if let Some((ticks, life)) = order.known.kernel {
        now.insert(boot_cpu, (Some(life), clock.to_ns(Ticks(ticks))));
    }
    for (at, cpu, life) in switches {
        if let Some((Some(ran), from)) = now.insert(cpu, (life, at)) {
            turn(&mut turns, Running { track: TrackId(ran), cpu, from, to: at });
        }
    }
    let ends = clock.to_ns(Ticks(ends));
    for (cpu, (life, from)) in now {
        if let Some(life) = life {
            turn(&mut turns, Running { track: TrackId(life), cpu, from, to: ends });
        }
    }
    turns.sort_by_key(|turn| (turn.cpu, turn.from));
    turns
}

/// Returns when threads had no CPU, and since when they could have used one.
fn off(activity: &LogActivity, turns: &[Running], order: &Order, clock: &Clock, is_logged: bool) -> Vec<OffCpu> {
    let mut by_life: Vec<Vec<Running>> = vec![Vec::new(); order.lives.len()];
    turns.iter().for_each(|turn| by_life[turn.track.0 as usize].push(*turn));
    by_life.iter_mut().for_each(|turns| turns.sort_by_key(|turn| turn.from));
    let mut woken: Vec<Vec<(Ns, bool)>> = vec![Vec::new(); order.lives.len()];
    for scheduled in &activity.events {
        if let Event::Ready { by_thread } = scheduled.event {
            woken[scheduled.life as usize].push((scheduled.at, by_thread));
        }
    }
    let one_cpu = turns.windows(2).all(|pair| pair[0].cpu == pair[1].cpu);
    let had_it = |at: Ns| {
        let before = turns.partition_point(|turn| turn.from < at).checked_sub(1);
        before.map(|i| turns[i]).filter(|turn| one_cpu && turn.to >= at).map(|turn| turn.track)
    };
    let mut off_cpu = Vec::new();
    for (number, life) in (0u32..).zip(&order.lives) {
        let (turns, sleeps) = (&by_life[number as usize], &activity.sleeps[number as usize]);
        let woken = &woken[number as usize];
        let track = TrackId(number);
        let ready = |from: Ns, until: Ns| {
            let first = woken.partition_point(|&(at, _)| at < from);
            woken.get(first).filter(|&&(at, _)| at <= until).copied()
        };
        // A thread whose first record is a sleep may have no turn before that.
        let logged = activity.first[number as usize].filter(|_| !is_logged).unwrap_or(Ns::MAX);
        let begun = turns.first().map(|turn| turn.from.min(logged));
        if let Some((from, begun)) = created(life, clock).zip(begun).filter(|(from, begun)| from < begun) {
            let (at, by_thread) = ready(from, begun).unwrap_or((from, true));
            let by = had_it(at).filter(|_| by_thread);
            off_cpu.push(OffCpu { track, from, ready: Some(at), until: begun, by });
        }
        if is_logged {
            for pair in turns.windows(2).filter(|pair| pair[0].to < pair[1].from) {
                let (from, until) = (pair[0].to, pair[1].from);
                let asleep = sleeps[..sleeps.partition_point(|s| s.from <= from)].last().filter(|s| s.to > from);
                let (ready, by) = match (ready(from, until), asleep) {
                    (Some((at, by_thread)), _) => (Some(at), had_it(at).filter(|_| by_thread)),
                    (None, Some(sleep)) => (sleep.over(until), None),
                    (None, None) => (Some(from), None),
                };
                off_cpu.push(OffCpu { track, from, ready, until, by });
            }
            continue;
        }
        for sleep in sleeps.iter().filter(|sleep| sleep.to < Ns::MAX) {
            let back = turns[..turns.partition_point(|turn| turn.from <= sleep.to)].last();
            let until = back.map(|turn| turn.from).filter(|&at| at > sleep.from).unwrap_or(sleep.to);
            let ready = sleep.over(until);
            if sleep.from < until {
                off_cpu.push(OffCpu { track, from: sleep.from, ready, until, by: None });
            }
        }
    }
    if !is_logged {
        off_cpu.extend(preempted(&activity.points, order.lives.len()));
    }
    off_cpu
}

/// Returns the stretches in which others logged while a thread did not sleep. The thread was ready then, unless it
/// waited for a topic without a sleep. There is at most one such stretch between two records of a thread.
fn preempted(points: &[Point], lives: usize) -> Vec<OffCpu> {
    let mut off_cpu = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; lives];
    for (i, point) in points.iter().enumerate() {
        let Some(left) = last[point.life as usize].replace(i) else { continue };
        let before = points[left];
        // A missing part of the log hides what the thread did.
        if before.leaves || before.piece != point.piece {
            continue;
        }
        // As in `inferred`: the next thread that logs took the CPU at once, and this thread came back when the last one
        // left.
        let from = points[left + 1].at;
        let until = if points[i - 1].leaves { points[i - 1].at } else { point.at };
        if from < until {
            let ready = Some(from).filter(|_| !before.waits);
            off_cpu.push(OffCpu { track: TrackId(point.life), from, ready, until, by: None });
        }
    }
    off_cpu
}

/// The time of a thread's creation, if the log has it.
fn created(life: &Life, clock: &Clock) -> Option<Ns> {
    life.created.map(|(ticks, _)| clock.to_ns(Ticks(ticks)))
}
