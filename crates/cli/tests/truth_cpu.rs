//! One CPU and more threads that can run: random scripts of sleeping and busy threads in the reference kernel, and a model
//! of its scheduler, from the script alone. Every row of the boot path has to be what the model says, within 10 µs or
//! 0.1 %, and no other row may move; what a saving is foretold to bring, a boot without that work has to bring within 10 %.
//!
//! The model plays the kernel's threads: one CPU, first come, first served, and whoever has it keeps it. Then it asks at each
//! instant whom the boot waited for. A thread that was ready and had no CPU passes the time on to whoever had it. Where the
//! log does not say how long a sleep was to last (`sched_log=no`), or who ended it, it lasts until its thread runs again.
//!
//! All else that the model needs is how long a plain boot works between its waits. The seed of each script is printed;
//! `BOOTSCOPE_TRUTH_SCRIPTS=500` runs more than the usual fifty, `BOOTSCOPE_TRUTH_SEED` begins elsewhere.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::env;
use std::ops::Range;
use std::path::PathBuf;
use support::boots::{Scratch, evidence, recorded};
use support::lab::{built, record_lab};
use support::{bootscope, list, ns, run, shown, text};

/// Threads of the kernel, in the order in which they are created. The boot's own are `main`, then `init`.
const THREADS: [&str; 7] = ["vm_rest", "g_event", "usbus0", "xpt_thrd", "chain1", "chain2", "chain3"];
const MODES: [&str; 3] = ["no", "timeouts", "yes"];
/// Steps of the boot's own threads that a script makes longer.
const STEPS: [(&str, &str); 5] = [
    ("sysinit.announce", "SYSINIT announce"),
    ("sysinit.g_waitidle", "SYSINIT g_waitidle"),
    ("sysinit.chain", "SYSINIT chain"),
    ("sysinit.start_aps", "SYSINIT start_aps"),
    ("mount.devfs", "VFS_MOUNT devfs"),
];
const SLEEP_US: u64 = 60_000;
const BUSY_US: u64 = 40_000;
const STEP_US: u64 = 20_000;
/// Every so many scripts, a saving is tried.
const TRIED: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

struct Random(u64);

impl Random {
    /// xorshift64*.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// Microseconds by place.
#[derive(Clone, Default)]
struct Script {
    sleeps: BTreeMap<&'static str, u64>,
    busy: BTreeMap<&'static str, u64>,
    steps: BTreeMap<&'static str, u64>,
}

impl Script {
    fn random(seed: u64) -> Script {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut script = Script::default();
        for thread in THREADS.into_iter().chain(["init"]) {
            if random.below(2) == 0 {
                script.sleeps.insert(thread, 1 + random.below(SLEEP_US));
            }
            if random.below(4) != 0 {
                script.busy.insert(thread, 1 + random.below(BUSY_US));
            }
        }
        for (place, _) in STEPS {
            if random.below(3) == 0 {
                script.steps.insert(place, 1 + random.below(STEP_US));
            }
        }
        script
    }

    /// Of the same length whatever the times are: another length is another layout.
    fn command_line(&self, mode: &str) -> String {
        let of = |map: &BTreeMap<&str, u64>, place: &str| map.get(place).copied().unwrap_or(0);
        let mut line = format!("usb=yes chain=yes root_wait=all vm_page=eager-thread preempt=none sched_log={mode}");
        for thread in THREADS.into_iter().chain(["init"]) {
            let (sleep, busy) = (of(&self.sleeps, thread), of(&self.busy, thread));
            line += &format!(" delay.thread.{thread}={sleep:06}us busy.thread.{thread}={busy:06}us");
        }
        for (place, _) in STEPS {
            line += &format!(" delay.{place}={:06}us", of(&self.steps, place));
        }
        line
    }

    fn without(&self, thread: &str) -> Script {
        let mut script = self.clone();
        script.sleeps.remove(thread);
        script.busy.remove(thread);
        script
    }
}

/// What a plain boot does between its waits, where nobody is waited for long: all of it is work.
struct Work {
    hooks_to_events: u64,
    events_to_chain: u64,
    chain_to_init: u64,
    init_to_root: u64,
    root_to_end: u64,
    vm_rest: u64,
}

#[derive(Clone, Copy)]
enum Step {
    /// Has the CPU for so long, for the good of a row.
    Run(u64, &'static str),
    Sleep(u64),
    Wait(&'static str),
    Release(&'static str),
    Create(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Runs(&'static str),
    Ready,
    Sleeps,
    Waits(&'static str),
}

/// The kernel's threads on one CPU.
struct Model {
    programs: BTreeMap<&'static str, VecDeque<Step>>,
    /// What each thread did when, in order of time.
    history: BTreeMap<&'static str, Vec<(Range<u64>, State)>>,
    since: BTreeMap<&'static str, (u64, State)>,
    queue: VecDeque<&'static str>,
    sleepers: Vec<(u64, &'static str)>,
    released: BTreeSet<&'static str>,
    now: u64,
    end: u64,
}

/// Who releases a topic.
fn holder(topic: &str) -> &'static str {
    match topic {
        "hooks" => "xpt_thrd",
        "events" => "g_event",
        "root" => "usbus0",
        "chain1" => "chain1",
        "chain2" => "chain2",
        "chain3" => "chain3",
        _ => panic!("{topic}"),
    }
}

impl Model {
    fn played(script: &Script, work: &Work) -> Model {
        let us = |map: &BTreeMap<&str, u64>, place: &str| map.get(place).copied().unwrap_or(0) * 1000;
        let step = |place: &str| {
            let (place, row) = STEPS.into_iter().find(|(known, _)| *known == place).expect("it is in the list");
            Step::Run(us(&script.steps, place), row)
        };
        let own = |thread: &'static str, row: &'static str, rest: &[Step]| {
            let begin = [Step::Sleep(us(&script.sleeps, thread)), Step::Run(us(&script.busy, thread), row)];
            (thread, VecDeque::from_iter(begin.into_iter().chain(rest.iter().copied())))
        };
        use Step::{Create, Release, Run, Wait};
        let main = [
            step("sysinit.announce"),
            Create("vm_rest"),
            Create("g_event"),
            Create("usbus0"),
            Create("xpt_thrd"),
            Wait("hooks"),
            Run(work.hooks_to_events, ""),
            step("sysinit.g_waitidle"),
            Wait("events"),
            Run(work.events_to_chain, ""),
            step("sysinit.chain"),
            Create("chain1"),
            Create("chain2"),
            Create("chain3"),
            Wait("chain1"),
            Run(work.chain_to_init, ""),
            step("sysinit.start_aps"),
            Create("init"),
        ];
        let init = [Run(work.init_to_root, ""), step("mount.devfs"), Wait("root"), Run(work.root_to_end, "")];
        let mut model = Model {
            programs: BTreeMap::from_iter([
                ("main", VecDeque::from_iter(main)),
                own("vm_rest", "", &[Run(work.vm_rest, "")]),
                own("g_event", "", &[Wait("posted"), Release("events")]),
                own("usbus0", "", &[Release("root")]),
                own("xpt_thrd", "", &[Release("posted"), Release("hooks")]),
                own("chain1", "", &[Wait("chain2"), Release("chain1")]),
                own("chain2", "", &[Wait("chain3"), Release("chain2")]),
                own("chain3", "", &[Release("chain3")]),
                own("init", "DELAY", &init),
            ]),
            history: BTreeMap::new(),
            since: BTreeMap::new(),
            queue: VecDeque::from(["main"]),
            sleepers: Vec::new(),
            released: BTreeSet::new(),
            now: 0,
            end: 0,
        };
        model.since.insert("main", (0, State::Ready));
        model.play();
        model
    }

    fn play(&mut self) {
        loop {
            self.wake_sleepers();
            let Some(thread) = self.queue.pop_front() else {
                let Some(next) = self.sleepers.iter().map(|sleeper| sleeper.0).min() else { break };
                self.now = next;
                continue;
            };
            self.run(thread);
        }
    }

    /// Timers go off while others run; who wakes is queued in the order of its time.
    fn wake_sleepers(&mut self) {
        self.sleepers.sort();
        while let Some(&(at, thread)) = self.sleepers.first().filter(|sleeper| sleeper.0 <= self.now) {
            self.sleepers.remove(0);
            self.becomes(thread, State::Ready, at);
            self.queue.push_back(thread);
        }
    }

    fn becomes(&mut self, thread: &'static str, state: State, at: u64) {
        if let Some((since, before)) = self.since.insert(thread, (at, state)) {
            self.history.entry(thread).or_default().push((since..at, before));
        }
    }

    /// Until the thread waits.
    fn run(&mut self, thread: &'static str) {
        self.becomes(thread, State::Runs(""), self.now);
        while let Some(step) = self.programs.get_mut(thread).expect("it has one").pop_front() {
            match step {
                Step::Run(length, row) => {
                    self.becomes(thread, State::Runs(row), self.now);
                    self.now += length;
                    self.becomes(thread, State::Runs(""), self.now);
                    // Who woke meanwhile is in the queue before whom this thread wakes next.
                    self.wake_sleepers();
                }
                Step::Sleep(0) => {}
                Step::Sleep(length) => {
                    self.sleepers.push((self.now + length, thread));
                    return self.becomes(thread, State::Sleeps, self.now);
                }
                Step::Wait(topic) if self.released.contains(topic) => {}
                Step::Wait(topic) => return self.becomes(thread, State::Waits(topic), self.now),
                Step::Release(topic) => {
                    self.released.insert(topic);
                    let waiting: Vec<&'static str> =
                        self.since.iter().filter(|(_, s)| s.1 == State::Waits(topic)).map(|(name, _)| *name).collect();
                    for waiter in waiting {
                        self.becomes(waiter, State::Ready, self.now);
                        self.queue.push_back(waiter);
                    }
                }
                Step::Create(new) => {
                    self.since.insert(new, (self.now, State::Ready));
                    self.queue.push_back(new);
                }
            }
        }
        self.end = if thread == "init" { self.now } else { self.end };
        self.becomes(thread, State::Waits(""), self.now);
    }

    /// The rows of the boot path, and of rows that slept, how long others had the CPU meanwhile.
    fn rows(&self, mode: &str) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let (sleeps_known, wakes_known) = (mode != "no", mode == "yes");
        let mut charged =
            Charged { model: self, sleeps_known, wakes_known, rows: BTreeMap::new(), held: BTreeMap::new() };
        let born = self.history["init"][0].0.start;
        charged.charge("main", 0..born, false);
        charged.charge("init", born..self.end, false);
        (charged.rows, charged.held)
    }
}

struct Charged<'a> {
    model: &'a Model,
    /// Whether the log says how long a sleep was to last, and who woke whom.
    sleeps_known: bool,
    wakes_known: bool,
    rows: BTreeMap<String, u64>,
    held: BTreeMap<String, u64>,
}

impl Charged<'_> {
    fn charge(&mut self, thread: &'static str, when: Range<u64>, blamed: bool) {
        let mut slept = false;
        for (span, state) in &self.model.history[thread] {
            let within = span.start.max(when.start)..span.end.min(when.end);
            let row = |own: &str| if blamed { format!("THREAD {thread}") } else { own.to_owned() };
            let length = within.end.saturating_sub(within.start);
            match state {
                State::Runs(own) => *self.rows.entry(row(own)).or_default() += length,
                State::Sleeps => *self.rows.entry(row("_sleep")).or_default() += length,
                State::Ready if slept => {
                    *self.rows.entry(row("_sleep")).or_default() += length;
                }
                State::Ready if length > 0 => self.queued(thread, within.clone()),
                State::Waits("posted") => assert_eq!(length, 0, "{thread} is blamed before it has work"),
                State::Waits(topic) if length > 0 => self.charge(holder(topic), within.clone(), true),
                _ => {}
            }
            let sleeps = *state == State::Sleeps && !self.sleeps_known;
            if (sleeps || slept && *state == State::Ready) && length > 0 {
                let others: u64 = self.others(thread, within).into_iter().map(|(_, had)| had).sum();
                *self.held.entry(row("_sleep")).or_default() += others;
            }
            slept = sleeps || *state == State::Waits("posted") && !self.wakes_known;
        }
    }

    /// Who had the CPU instead.
    fn queued(&mut self, thread: &str, when: Range<u64>) {
        for (other, had) in self.others(thread, when) {
            let other = if other == "main" { "thread0" } else { other };
            *self.rows.entry(format!("THREAD {other} · runqueue")).or_default() += had;
        }
    }

    fn others(&self, thread: &str, when: Range<u64>) -> Vec<(&'static str, u64)> {
        let mut others = Vec::new();
        for (other, history) in self.model.history.iter().filter(|(other, _)| **other != thread) {
            for (span, _) in history.iter().filter(|(_, state)| matches!(state, State::Runs(_))) {
                let had = span.end.min(when.end).saturating_sub(span.start.max(when.start));
                others.push((*other, had));
            }
        }
        others
    }
}

/// A boot as bootscope shows it.
struct Shown {
    total_ns: u64,
    rows: BTreeMap<String, u64>,
    held: BTreeMap<String, u64>,
    log: String,
    folder: PathBuf,
}

impl Shown {
    fn of(script: &Script, mode: &str, scratch: &Scratch, name: &str) -> Shown {
        let into = scratch.path(name);
        let mut command = record_lab(&into);
        command.args(["--force", "--memory", "128M", "--no-first-run", "--no-firmware-log", "--deterministic"]);
        recorded(command.args(["--append", &script.command_line(mode)]), &into, "reached");
        let document = shown(&into);
        let (mut rows, mut held) = (BTreeMap::new(), BTreeMap::new());
        for row in list(&document["where"]) {
            let name = text(&row["name"]);
            // However it let time pass, but for the run queue, it is one row.
            let name = name.split(" · ").next().filter(|_| !name.ends_with(" · runqueue")).unwrap_or(name);
            *rows.entry(name.to_owned()).or_default() += ns(&row["self_ns"]) as u64;
            let others: i64 = list(&row["cpu_held"]).iter().map(|held| ns(&held["ns"])).sum();
            *held.entry(name.to_owned()).or_default() += others as u64;
        }
        let total_ns = ns(&document["total_ns"]) as u64;
        Shown { total_ns, rows, held, log: evidence(&into, "tslog.txt"), folder: into }
    }

    fn row(&self, name: &str) -> u64 {
        self.rows.get(name).copied().unwrap_or(0)
    }

    /// Between the first lines of the log that end so.
    fn ns_between(&self, events: Range<&str>) -> u64 {
        let at = |event: &str| -> u64 {
            let line = self.log.lines().find(|line| line.ends_with(event));
            line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("no {event:?}"))
        };
        at(events.end) - at(events.start)
    }

    fn work(&self) -> Work {
        Work {
            hooks_to_events: self.ns_between("UNWAIT config hooks".."EVENT WAIT events"),
            events_to_chain: self.ns_between("UNWAIT events".."EVENT WAIT chain 1"),
            chain_to_init: self.ns_between("UNWAIT chain 1".."THREAD init"),
            init_to_root: self.ns_between("ENTER start_init".."EVENT WAIT root mount"),
            root_to_end: self.ns_between("UNWAIT root mount".."EXIT start_init"),
            vm_rest: self.ns_between("ENTER vm_rest".."EXIT vm_rest"),
        }
    }

    /// What it is foretold to take without a row: as it is known, and at best.
    fn without(&self, row: &str) -> (u64, u64) {
        let mut command = bootscope("what-if");
        let ledger: Value = run(command.arg("--json").arg(&self.folder).args(["--save", row])).exits(0).json();
        let step = &ledger["steps"][0];
        let total = ns(&step["total_ns"]) as u64;
        let best = step["saved_at_best_ns"].as_i64().map_or(total, |saved| self.total_ns - saved as u64);
        (total, best)
    }
}

#[test]
fn who_has_no_cpu_is_not_charged_for_who_has_it() {
    if !built() {
        return;
    }
    let (scripts, first) = (number("BOOTSCOPE_TRUTH_SCRIPTS", 50), number("BOOTSCOPE_TRUTH_SEED", 1));
    let scratch = Scratch::new();
    let plain: Vec<Shown> = MODES.iter().map(|mode| Shown::of(&Script::default(), mode, &scratch, mode)).collect();
    let (mut worst_ns, mut queued, mut tried) = (0, 0, 0);
    for seed in first..first + scripts {
        let kind = (seed % MODES.len() as u64) as usize;
        let (mode, plain) = (MODES[kind], &plain[kind]);
        let script = Script::random(seed);
        let work = plain.work();
        let model = Model::played(&script, &work);
        let nothing = Model::played(&Script::default(), &work);
        let slow = Shown::of(&script, mode, &scratch, "slow");
        let (rows, held) = model.rows(mode);
        let (plain_rows, plain_held) = nothing.rows(mode);
        let mut check = |what: &str, measured: u64, base: i64, modelled: u64| {
            let expected = base + modelled as i64;
            let off_ns = (measured as i64 - expected).unsigned_abs();
            assert!(
                off_ns <= 10_000.max(modelled / 1000),
                "seed {seed}: {what}: {measured} ns, expected {expected} ns\n{}\n{rows:#?}\n{:#?}",
                script.command_line(mode),
                slow.rows,
            );
            worst_ns = worst_ns.max(off_ns);
        };
        let of = |rows: &BTreeMap<String, u64>, row: &str| rows.get(row).copied().unwrap_or(0);
        check("the whole boot", slow.total_ns, plain.total_ns as i64 - nothing.end as i64, model.end);
        let names: BTreeSet<&String> = slow.rows.keys().chain(plain.rows.keys()).chain(rows.keys()).collect();
        for row in names.into_iter().filter(|row| !row.is_empty()) {
            check(row, slow.row(row), plain.row(row) as i64 - of(&plain_rows, row) as i64, of(&rows, row));
            let base = of(&plain.held, row) as i64 - of(&plain_held, row) as i64;
            check(&format!("CPU held in {row}"), of(&slow.held, row), base, of(&held, row));
        }
        queued += rows.iter().filter(|(row, ns)| row.ends_with("· runqueue") && **ns > 1_000_000).count();
        if seed % TRIED == 0 {
            tried += 1;
            foretold(seed, &script, mode, (&slow, &work), &scratch);
        }
    }
    println!(
        "{scripts} scripts, no row more than {worst_ns} ns off; {queued} rows of the run queue, {tried} savings tried"
    );
    assert!(scripts < 20 || queued > scripts as usize / 4, "hardly anybody waited for the CPU");
}

/// The boot without a thread's part takes as long as `what-if` says, within a tenth of what that saves.
fn foretold(seed: u64, script: &Script, mode: &str, (slow, work): (&Shown, &Work), scratch: &Scratch) {
    let busy: Vec<&'static str> = THREADS.into_iter().filter(|thread| script.busy.contains_key(thread)).collect();
    let Some(thread) = busy.get(seed as usize / 5 % busy.len().max(1)) else { return };
    let without = Shown::of(&script.without(thread), mode, scratch, "without").total_ns;
    let (total, best) = slow.without(&format!("THREAD {thread}*"));
    let saved = slow.total_ns as i64 - without as i64;
    println!("seed {seed}, {mode}: without {thread} {without} ns of {}, foretold {best} to {total}", slow.total_ns);
    // What `vm_rest` does beside its script stays.
    let stays = if *thread == "vm_rest" { work.vm_rest } else { 0 };
    let margin = (saved.unsigned_abs() / 10).max(20_000) + stays;
    assert!(
        (best.saturating_sub(margin)..=total + margin).contains(&without),
        "seed {seed}: without {thread} {without} ns, foretold {best} to {total}\n{}",
        script.command_line(mode)
    );
    assert!(mode == "no" || best == total, "seed {seed}: nothing is unknown");
}
