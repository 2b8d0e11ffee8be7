//! One CPU with more runnable threads: random scripts of sleeping and busy threads in the reference kernel, and a model
//! of its scheduler that uses only the script. Every row of the boot path must match the model within 10 µs or 0.1 %,
//! and no other row may change. A boot without a piece of work must bring the saving that was foretold for it, within
//! 10 %.
//!
//! The model simulates the kernel's threads: one CPU, first come, first served, and the running thread keeps the CPU.
//! Then it finds for each instant the thread that the boot waited for. A ready thread without a CPU passes the time on
//! to the running thread. The log may lack the intended length of a sleep (`sched_log=no`) or the thread that ended it.
//! Then the sleep lasts until its thread runs again.
//!
//! The model's other input is the kernel's own work: between its waits, to create a thread, to sleep and to wake. That
//! is a microsecond here and 35 there, but it decides the order of two close timers, and adds up. The seed of each
//! script is printed. `BOOTSCOPE_TRUTH_SCRIPTS=500` runs more than the default fifty, `BOOTSCOPE_TRUTH_SEED` sets the
//! first seed, and `BOOTSCOPE_TRUTH_SAVINGS=1` tries a saving of each script, not of every fifth.

use crate::support::boots::{Scratch, evidence, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::scripts::{Random, at_ns_of, ns_between, number, seeds};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;

/// Threads of the kernel, in the order of creation. The boot's own are `main`, then `init`.
const THREADS: [&str; 7] = ["vm_rest", "g_event", "usbus0", "xpt_thrd", "chain1", "chain2", "chain3"];
const MODES: [&str; 3] = ["no", "timeouts", "yes"];
/// Steps of the boot's own threads that a script extends.
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
const EXAMPLE_SLEEP_US: u64 = 10_000;
const EXAMPLE_BUSY_US: u64 = 1_000;
/// The interval of scripts for which a saving is tried.
const SAVING_INTERVAL: u64 = 5;

/// The microseconds by place.
#[derive(Clone, Default)]
struct Script {
    sleeps: BTreeMap<&'static str, u64>,
    busy: BTreeMap<&'static str, u64>,
    steps: BTreeMap<&'static str, u64>,
}

impl Script {
    fn random(seed: u64) -> Script {
        let mut random = Random::of(seed);
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

    /// The command line has the same length for any times, since another length gives another layout.
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

/// The kernel's own work, from the logs of two boots. One has no script, and no thread is waited for long. In the other
/// a thread sleeps and is busy. Each piece ends with a record, and begins with the previous record of the thread that
/// ran then. So it includes the switch of threads.
struct Work {
    vm_rest: u64,
    g_event: u64,
    usbus0: u64,
    xpt_thrd: u64,
    taste: u64,
    events_to_events: u64,
    events_to_chain: u64,
    create: [u64; 3],
    created_to_chain: u64,
    chain1: u64,
    chain2: u64,
    chain3: u64,
    chain2_goes_on: u64,
    chain1_goes_on: u64,
    chain_to_init: u64,
    init_to_root: u64,
    root_to_end: u64,
    /// The work of `vm_rest`.
    pages: u64,
    /// The work to fall asleep; the next ones are to wake up, and to begin and end being busy.
    sleep: u64,
    wake: u64,
    busy: u64,
}

impl Work {
    /// The script of the second boot.
    fn example() -> Script {
        let mut script = Script::default();
        script.sleeps.insert("g_event", EXAMPLE_SLEEP_US);
        script.busy.insert("g_event", EXAMPLE_BUSY_US);
        script
    }

    fn of(plain: &Shown, example: &Shown) -> Work {
        let between = |events| ns_between(&plain.log, events);
        let asleep = at_ns_of(&plain.log, "g_event", "ENTER _sleep");
        let first = |event| between("EVENT WAIT config hooks"..event);
        let asleep_after = asleep - at_ns_of(&plain.log, "vm_rest", "EXIT vm_rest");
        let usbus0 = |shown: &Shown| {
            at_ns_of(&shown.log, "usbus0", "RELEASE root mount") - at_ns_of(&shown.log, "g_event", "ENTER _sleep")
        };
        let [enter, exit, busy] =
            ["ENTER _sleep", "EXIT _sleep", "EXIT DELAY"].map(|event| at_ns_of(&example.log, "g_event", event));
        Work {
            vm_rest: first("EXIT vm_rest"),
            g_event: asleep_after,
            usbus0: usbus0(plain),
            xpt_thrd: between("RELEASE root mount".."RELEASE config hooks"),
            taste: between("RELEASE config hooks".."RELEASE events"),
            events_to_events: between("RELEASE events".."WAIT events"),
            events_to_chain: between("UNWAIT events".."ENTER SYSINIT chain"),
            create: [
                between("ENTER SYSINIT chain".."THREAD chain1"),
                between("THREAD chain1".."THREAD chain2"),
                between("THREAD chain2".."THREAD chain3"),
            ],
            created_to_chain: between("THREAD chain3".."EVENT WAIT chain 1"),
            chain1: between("EVENT WAIT chain 1".."EVENT WAIT chain 2"),
            chain2: between("EVENT WAIT chain 2".."EVENT WAIT chain 3"),
            chain3: between("EVENT WAIT chain 3".."RELEASE chain 3"),
            chain2_goes_on: between("RELEASE chain 3".."RELEASE chain 2"),
            chain1_goes_on: between("RELEASE chain 2".."RELEASE chain 1"),
            chain_to_init: between("RELEASE chain 1".."THREAD init"),
            init_to_root: between("ENTER start_init".."EVENT WAIT root mount"),
            root_to_end: between("UNWAIT root mount".."EXIT start_init"),
            pages: between("ENTER vm_rest".."EXIT vm_rest"),
            sleep: usbus0(example) - usbus0(plain),
            wake: exit - enter - EXAMPLE_SLEEP_US * 1000,
            busy: busy - exit - EXAMPLE_BUSY_US * 1000,
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    /// Runs for this time, charged to a row.
    Run(u64, &'static str),
    /// Sleeps for the second time, after it ran for the first time to fall asleep.
    Sleep(u64, u64),
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
    /// The states of each thread, in order of time.
    history: BTreeMap<&'static str, Vec<(Range<u64>, State)>>,
    since: BTreeMap<&'static str, (u64, State)>,
    queue: VecDeque<&'static str>,
    sleepers: Vec<(u64, &'static str)>,
    released: BTreeSet<&'static str>,
    now: u64,
    end: u64,
}

/// The thread that releases a topic.
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
            let (sleep, busy) = (us(&script.sleeps, thread), us(&script.busy, thread));
            let (to_sleep, awake) = if sleep > 0 { (work.sleep, work.wake) } else { (0, 0) };
            let begun = if busy > 0 { work.busy } else { 0 };
            let begin = [Step::Sleep(sleep, to_sleep), Step::Run(awake, ""), Step::Run(busy + begun, row)];
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
            Run(work.events_to_events, ""),
            step("sysinit.g_waitidle"),
            Wait("events"),
            Run(work.events_to_chain, ""),
            step("sysinit.chain"),
            Run(work.create[0], ""),
            Create("chain1"),
            Run(work.create[1], ""),
            Create("chain2"),
            Run(work.create[2], ""),
            Create("chain3"),
            Run(work.created_to_chain, ""),
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
                own("g_event", "", &[Run(work.g_event, ""), Wait("posted"), Run(work.taste, ""), Release("events")]),
                own("usbus0", "", &[Run(work.usbus0, ""), Release("root")]),
                own("xpt_thrd", "", &[Run(work.xpt_thrd, ""), Release("posted"), Release("hooks")]),
                own(
                    "chain1",
                    "",
                    &[Run(work.chain1, ""), Wait("chain2"), Run(work.chain1_goes_on, ""), Release("chain1")],
                ),
                own(
                    "chain2",
                    "",
                    &[Run(work.chain2, ""), Wait("chain3"), Run(work.chain2_goes_on, ""), Release("chain2")],
                ),
                own("chain3", "", &[Run(work.chain3, ""), Release("chain3")]),
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

    /// Fires timers while other threads run. Woken threads are queued in the order of their times.
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

    /// Runs the thread until it waits.
    fn run(&mut self, thread: &'static str) {
        self.becomes(thread, State::Runs(""), self.now);
        while let Some(step) = self.programs.get_mut(thread).expect("it has one").pop_front() {
            match step {
                Step::Run(length, row) => {
                    self.becomes(thread, State::Runs(row), self.now);
                    self.now += length;
                    self.becomes(thread, State::Runs(""), self.now);
                    // Threads that woke meanwhile are queued before the thread that this one wakes next.
                    self.wake_sleepers();
                }
                Step::Sleep(0, _) => {}
                Step::Sleep(length, work) => {
                    self.sleepers.push((self.now + length, thread));
                    self.becomes(thread, State::Sleeps, self.now);
                    self.now += work;
                    return self.wake_sleepers();
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

    /// The rows of the boot path. For rows that slept, also the time in which other threads had the CPU.
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
    /// True if the log has the intended length of sleeps.
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

    /// Charges the threads that had the CPU in place of this one.
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

/// A boot as shown by bootscope.
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
            // All kinds of time of one name are one row, except the run queue.
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

    /// The range of the saving foretold for the removal of a row.
    fn without(&self, row: &str) -> Range<i64> {
        let mut command = bootscope("what-if");
        let ledger: Value = run(command.arg("--json").arg(&self.folder).args(["--save", row])).exits(0).json();
        let step = &ledger["steps"][0];
        let saved = |at: &str| step[at].as_i64().unwrap_or_else(|| ns(&step["saved_ns"]));
        saved("saved_at_worst_ns")..saved("saved_at_best_ns")
    }
}

/// The savings that were tried.
#[derive(Default)]
struct Tried {
    all: usize,
    /// The widths of foretold ranges, in per cent of the actual saving.
    widths: Vec<i64>,
    /// The number of ranges that contain the saving without any margin.
    inside: usize,
}

#[test]
fn a_thread_without_a_cpu_is_not_charged_for_the_running_one() {
    if !built() {
        return;
    }
    let (seeds, every) = (seeds(), number("BOOTSCOPE_TRUTH_SAVINGS", SAVING_INTERVAL));
    let scripts = seeds.end - seeds.start;
    let scratch = Scratch::new();
    let boots =
        |script: &Script| -> Vec<Shown> { MODES.iter().map(|mode| Shown::of(script, mode, &scratch, mode)).collect() };
    let (plain, example) = (boots(&Script::default()), boots(&Work::example()));
    let (mut worst_ns, mut queued, mut tried) = (0, 0, Tried::default());
    for seed in seeds {
        let kind = (seed % MODES.len() as u64) as usize;
        let (mode, plain) = (MODES[kind], &plain[kind]);
        let script = Script::random(seed);
        let work = Work::of(plain, &example[kind]);
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
        if seed % every == 0 {
            foretold(seed, &script, mode, (&slow, &work), &scratch, &mut tried);
        }
    }
    println!("{scripts} scripts, no row more than {worst_ns} ns off; {queued} rows of the run queue");
    tried.widths.sort_unstable();
    println!(
        "{} savings tried; {} foretold as a range, {} of these with the saving inside, half no wider than {} % of it",
        tried.all,
        tried.widths.len(),
        tried.inside,
        tried.widths.get(tried.widths.len() / 2).unwrap_or(&0)
    );
    assert!(tried.all < 10 || tried.widths.len() * 2 < tried.all, "a range is the exception: {:?}", tried.widths);
    assert!(scripts < 20 || queued > scripts as usize / 4, "hardly anybody waited for the CPU");
}

/// Checks that the boot without a thread's work is shorter by the result of `what-if`, within a tenth. The result is a
/// figure, or a range if the log does not have the times at which threads became runnable.
fn foretold(
    seed: u64,
    script: &Script,
    mode: &str,
    (slow, work): (&Shown, &Work),
    scratch: &Scratch,
    tried: &mut Tried,
) {
    let busy: Vec<&'static str> = THREADS.into_iter().filter(|thread| script.busy.contains_key(thread)).collect();
    let Some(thread) = busy.get(seed as usize / 5 % busy.len().max(1)) else { return };
    let without = Shown::of(&script.without(thread), mode, scratch, "without").total_ns;
    let foretold = slow.without(&format!("THREAD {thread}*"));
    let saved = slow.total_ns as i64 - without as i64;
    println!("seed {seed}, {mode}: without {thread} {saved} ns of {} saved, foretold {foretold:?}", slow.total_ns);
    // The work of `vm_rest` beside its script stays.
    let stays = if *thread == "vm_rest" { work.pages as i64 } else { 0 };
    let margin = |bound: i64| (bound.abs() / 10).max(20_000) + stays;
    assert!(
        foretold.start - margin(foretold.start) <= saved && saved <= foretold.end + margin(foretold.end),
        "seed {seed}: without {thread} {saved} ns saved, foretold {foretold:?}\n{}",
        script.command_line(mode)
    );
    tried.all += 1;
    let width = foretold.end - foretold.start;
    assert!(mode == "no" || width == 0, "seed {seed}: nothing is unknown");
    if width > margin(saved) {
        tried.widths.push(100 * width / saved.abs().max(1));
        tried.inside += usize::from((foretold.start - 20_000..=foretold.end + 20_000).contains(&(saved + stays)));
    }
}
