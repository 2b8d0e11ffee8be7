//! Generated logs, and a slow and simple model of their meaning. For each interval between two ticks, the model works
//! out from scratch which thread ran, what each waited for, and which functions were on each stack.

pub mod styles;

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A record of a generated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub thread: u64,
    pub ticks: u64,
    pub what: &'static str,
    pub text: String,
}

/// Features of a generated log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Records of a boot loader that has another counter.
    pub loader: bool,
    /// Waits for topics without a holder; threads that wait themselves, hold twice, release without a hold, or never
    /// release.
    pub wild: bool,
    /// Equal ticks.
    pub ties: bool,
}

pub const MAIN: u64 = 0xffff_ffff_8251_db00;
pub const INIT: u64 = 0xffff_f800_0200_0000;
const LOADER: u64 = 0;
const FIRST_WORKER: u64 = 0xffff_f800_0300_0000;

/// No name is the beginning of another: FreeBSD's scripts take `EXIT foo` for the end of `foobar` too.
const FUNCTIONS: [&str; 8] = [
    "_vprintf",
    "DELAY",
    "SYSINIT cpu",
    "DEVICE_PROBE psm",
    "DEVICE_ATTACH ena",
    "VFS_MOUNT zfs",
    "getblk",
    "uma_zalloc",
];
const TOPICS: [&str; 3] = ["root mount", "GEOM events", "config hooks"];

/// Pseudo-random numbers, the same in each run (xorshift64*, Vigna 2016).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

struct Thread {
    id: u64,
    stack: Vec<&'static str>,
    holds: Vec<&'static str>,
    waits: Option<&'static str>,
}

struct Maker {
    dice: Dice,
    shape: Shape,
    ticks: u64,
    records: Vec<Record>,
    threads: Vec<Thread>,
}

/// Generates a log that a kernel could have written, of about `length` records.
pub fn log(seed: u64, shape: Shape, length: usize) -> Vec<Record> {
    let mut maker = Maker { dice: Dice::new(seed), shape, ticks: 1_000_000, records: Vec::new(), threads: Vec::new() };
    maker.make(length);
    maker.records
}

/// Formats the log as the kernel prints it.
pub fn text(records: &[Record]) -> String {
    let mut text = String::new();
    for r in records {
        writeln!(text, "{:#x} {} {} {}", r.thread, r.ticks, r.what, r.text).unwrap();
    }
    text
}

impl Maker {
    fn log(&mut self, thread: u64, what: &'static str, text: &str) {
        let still = self.shape.ties && self.dice.chance(20);
        self.ticks += if still { 0 } else { 2 + self.dice.below(5_000) };
        self.records.push(Record { thread, ticks: self.ticks, what, text: text.to_owned() });
    }

    fn make(&mut self, length: usize) {
        if self.shape.loader {
            self.log(LOADER, "ENTER", "loader");
            self.log(LOADER, "ENTER", "elf64_loadfile");
            self.log(LOADER, "EXIT", "elf64_loadfile");
            self.log(LOADER, "EXIT", "loader");
            self.ticks = 400_000;
        }
        self.log(MAIN, "ENTER", "hammer_time");
        self.log(MAIN, "EXIT", "hammer_time");
        self.begin(MAIN);
        self.log(MAIN, "ENTER", "mi_startup");
        for worker in 0..1 + self.dice.below(4) {
            self.log(FIRST_WORKER + worker * 0x740, "THREAD", &format!("worker{worker}"));
            self.begin(FIRST_WORKER + worker * 0x740);
        }
        self.run(MAIN, length / 2);
        self.log(MAIN, "EXIT", "mi_startup");
        self.threads.retain(|t| t.id != MAIN);
        self.log(INIT, "ENTER", "start_init");
        self.begin(INIT);
        self.run(INIT, length / 2);
        self.log(INIT, "EXIT", "start_init");
        self.log(FIRST_WORKER, "ENTER", "after_the_end");
    }

    fn begin(&mut self, id: u64) {
        self.threads.push(Thread { id, stack: Vec::new(), holds: Vec::new(), waits: None });
    }

    /// Lets threads take turns. At the end, `leader` has left all its functions and does not wait.
    fn run(&mut self, leader: u64, records: usize) {
        let until = self.records.len() + records;
        while self.records.len() < until {
            let i = self.dice.below(self.threads.len() as u64) as usize;
            self.turn(i, leader);
        }
        let Some(leader) = self.threads.iter().position(|t| t.id == leader) else { return };
        while self.threads[leader].waits.is_some() {
            self.give_way(leader);
        }
        while let Some(function) = self.threads[leader].stack.pop() {
            let id = self.threads[leader].id;
            self.log(id, "EXIT", function);
        }
    }

    fn turn(&mut self, i: usize, leader: u64) {
        let id = self.threads[i].id;
        if self.threads[i].waits.is_some() {
            return self.give_way(i);
        }
        let may_wait = id == leader || self.shape.wild;
        match self.dice.below(10) {
            0..4 if self.threads[i].stack.len() < 6 => {
                let function = self.dice.of(&FUNCTIONS);
                self.threads[i].stack.push(function);
                self.log(id, "ENTER", function);
            }
            0..8 => {
                if let Some(function) = self.threads[i].stack.pop() {
                    self.log(id, "EXIT", function);
                }
            }
            8 if may_wait && self.dice.chance(50) => {
                let topic = self.dice.of(&TOPICS);
                let held = (0..self.threads.len()).any(|j| j != i && self.threads[j].holds.contains(&topic));
                if held || self.shape.wild {
                    self.threads[i].waits = Some(topic);
                    self.log(id, "EVENT", &format!("WAIT {topic}"));
                }
            }
            _ if id != leader || self.shape.wild => self.hold_or_release(i),
            _ => {}
        }
    }

    fn hold_or_release(&mut self, i: usize) {
        let (id, topic) = (self.threads[i].id, self.dice.of(&TOPICS));
        let held = self.threads[i].holds.iter().position(|held| *held == topic);
        match held {
            Some(at) if !self.shape.wild || self.dice.chance(70) => {
                self.threads[i].holds.remove(at);
                self.log(id, "EVENT", &format!("RELEASE {topic}"));
            }
            None if self.shape.wild && self.dice.chance(10) => self.log(id, "EVENT", &format!("RELEASE {topic}")),
            _ => {
                self.threads[i].holds.push(topic);
                self.log(id, "EVENT", &format!("HOLD {topic}"));
            }
        }
    }

    /// Lets a waiting thread go on if its topic has no holder. Else a holder releases the topic, perhaps after some
    /// work.
    fn give_way(&mut self, i: usize) {
        let (id, Some(topic)) = (self.threads[i].id, self.threads[i].waits) else { return };
        let holder = (0..self.threads.len()).find(|&j| j != i && self.threads[j].holds.contains(&topic));
        let impatient = self.shape.wild && self.dice.chance(5);
        match holder.filter(|&j| !impatient && self.threads[j].waits.is_none()) {
            Some(j) => {
                if self.dice.chance(50) {
                    let function = self.dice.of(&FUNCTIONS);
                    let other = self.threads[j].id;
                    self.log(other, "ENTER", function);
                    self.log(other, "EXIT", function);
                }
                let at = self.threads[j].holds.iter().position(|held| *held == topic).expect("it holds it");
                self.threads[j].holds.remove(at);
                let other = self.threads[j].id;
                self.log(other, "EVENT", &format!("RELEASE {topic}"));
            }
            None => {
                self.threads[i].waits = None;
                self.log(id, "EVENT", &format!("UNWAIT {topic}"));
            }
        }
    }
}

/// The rules that the model follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// bootscope's: a holder is to blame while it holds.
    Ours,
    /// FreeBSD's scripts': a blamed stack stays until another thread's stack replaces it or the wait ends. Its first
    /// tick is the waiter's. A thread that holds twice has two holds, and each release ends the older one.
    Scripts,
}

/// The ticks that the boot spent on each stack, from the first record to `EXIT start_init`.
pub fn stacks(records: &[Record], rules: Rules) -> BTreeMap<String, u64> {
    let mut records = records.to_vec();
    follow_the_loader(&mut records);
    let end = records.iter().find(|r| (r.what, r.text.as_str()) == ("EXIT", "start_init")).unwrap().ticks;
    let mut edges: Vec<u64> = records.iter().map(|r| r.ticks).filter(|&t| t <= end).collect();
    if rules == Rules::Scripts {
        // A blamed stack begins one tick late.
        let late: Vec<u64> = edges.iter().map(|t| t + 1).filter(|&t| t <= end).collect();
        edges.extend(late);
    }
    edges.sort_unstable();
    edges.dedup();
    let mut stacks = BTreeMap::new();
    for pair in edges.windows(2) {
        let stack = Model { records: &records, rules }.at(pair[0]);
        *stacks.entry(stack).or_default() += pair[1] - pair[0];
    }
    stacks
}

/// If the kernel's counter is behind the loader's, the kernel follows one tick later.
fn follow_the_loader(records: &mut [Record]) {
    let last = records.iter().take_while(|r| r.thread == LOADER).map(|r| r.ticks).max();
    let kernel = records.iter_mut().skip_while(|r| r.thread == LOADER);
    let mut shift = None;
    for r in kernel {
        let shift = *shift.get_or_insert(match last {
            Some(last) if r.ticks < last => last + 1 - r.ticks,
            _ => 0,
        });
        r.ticks += shift;
    }
}

struct Model<'a> {
    records: &'a [Record],
    rules: Rules,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    thread: u64,
    from: u64,
    to: u64,
    /// True if this thread took it itself.
    taken: bool,
}

/// The end of a hold that is never released.
const NEVER: u64 = u64::MAX;

impl Model<'_> {
    /// Returns the stack that the boot was on from `t` on.
    fn at(&self, t: u64) -> String {
        let begun = |thread: u64| self.records.iter().any(|r| r.thread == thread && r.ticks <= t);
        let thread = [INIT, MAIN, LOADER].into_iter().find(|&thread| begun(thread)).expect("somebody has begun");
        self.waiting(thread, t, &mut Vec::new())
    }

    /// Returns a thread's stack, and on top of it the stack of the thread that it waits for.
    fn waiting(&self, thread: u64, t: u64, waiters: &mut Vec<u64>) -> String {
        let own_stack = self.stack(thread, t);
        let Some((topic, from, until)) = self.wait(thread, t) else { return own_stack };
        let mut holds = self.holds(&topic);
        if self.rules == Rules::Ours {
            hand_over(&mut holds);
            // A thread does not wait for the threads that wait for it.
            holds.retain(|hold| !waiters.contains(&hold.thread));
        } else {
            holds.retain(|hold| hold.to < NEVER);
        }
        holds.retain(|hold| hold.thread != thread);
        let blamed = match self.rules {
            Rules::Ours => {
                let until = self.last_turn(thread, &topic, from).unwrap_or(until);
                ours(&holds, t, (from, until)).map(|hold| (hold.thread, t))
            }
            Rules::Scripts => scripts(&holds, t, from, until),
        };
        match blamed.filter(|(holder, _)| *holder != thread && !waiters.contains(holder)) {
            Some((holder, when)) => {
                waiters.push(thread);
                let theirs = self.waiting(holder, when, waiters);
                waiters.pop();
                format!("{own_stack};{theirs}")
            }
            None => own_stack,
        }
    }

    /// Returns the topic that a thread waits for at `t`, and the wait's start and end. A wait that starts and ends at
    /// one tick does not count; one without an end lasts forever.
    fn wait(&self, thread: u64, t: u64) -> Option<(String, u64, u64)> {
        let mut open: Option<(String, u64)> = None;
        for r in self.records.iter().filter(|r| r.thread == thread) {
            if let Some(topic) = r.text.strip_prefix("WAIT ").filter(|_| r.what == "EVENT" && r.ticks <= t) {
                open = Some((topic.to_owned(), r.ticks));
            }
            if let Some(topic) = r.text.strip_prefix("UNWAIT ").filter(|_| r.what == "EVENT") {
                match open.take() {
                    Some((waited, from)) if waited == topic && t < r.ticks => return Some((waited, from, r.ticks)),
                    _ => {}
                }
            }
        }
        open.filter(|_| self.rules == Rules::Ours).map(|(topic, from)| (topic, from, NEVER))
    }

    /// A thread may wait for a topic several times in one function. Returns the end of the last such wait, for the
    /// function in which the wait at `from` began.
    fn last_turn(&self, thread: u64, topic: &str, from: u64) -> Option<u64> {
        let function = self.entered(thread, from).last().copied()?;
        let begins = self.records.iter().filter(|r| (r.thread, r.what) == (thread, "EVENT") && r.ticks >= from);
        let begins = begins.filter(|r| r.text.strip_prefix("WAIT ") == Some(topic)).map(|r| r.ticks);
        let turns = begins.filter(|&at| self.entered(thread, at).last() == Some(&function));
        turns.filter_map(|at| self.wait(thread, at)).map(|(_, _, until)| until).max()
    }

    /// Returns the records that entered the thread's open functions, after the last record at or before `t`.
    fn entered(&self, thread: u64, t: u64) -> Vec<usize> {
        let mut open: Vec<usize> = Vec::new();
        for (i, r) in self.records.iter().enumerate().filter(|(_, r)| r.thread == thread && r.ticks <= t) {
            match r.what {
                "ENTER" => open.push(i),
                "EXIT" => {
                    if let Some(at) = open.iter().rposition(|&begun| self.records[begun].text == r.text) {
                        open.truncate(at);
                    }
                }
                _ => {}
            }
        }
        open
    }

    /// Returns all holds of a topic. None begins before its thread is created.
    fn holds(&self, topic: &str) -> Vec<Hold> {
        let mut holds = Vec::new();
        let mut threads: Vec<u64> = self.records.iter().map(|r| r.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in threads {
            let mut open: Vec<u64> = Vec::new();
            let first = self.records.iter().find(|r| r.thread == thread).map_or(0, |r| r.ticks);
            // Process 1 exists at its first record.
            let mut created = if thread == INIT { first } else { 0 };
            for r in self.records.iter().filter(|r| r.thread == thread) {
                match (r.what, r.text.strip_suffix(topic).map(str::trim_end)) {
                    ("THREAD", _) => created = r.ticks,
                    ("EVENT", Some("HOLD")) => open.push(r.ticks),
                    ("EVENT", Some("RELEASE")) => {
                        let pair = if self.rules == Rules::Ours { open.pop() } else { oldest(&mut open) };
                        let from = pair.unwrap_or(created).max(created);
                        holds.push(Hold { thread, from, to: r.ticks, taken: pair.is_some() });
                    }
                    _ => {}
                }
            }
            let open = open.iter().map(|&from| Hold { thread, from: from.max(created), to: NEVER, taken: true });
            holds.extend(open);
        }
        holds
    }

    /// Returns the thread's open functions after the last record at or before `t`.
    fn stack(&self, thread: u64, t: u64) -> String {
        let mut stack = vec![if thread == LOADER { String::new() } else { "kernel".to_owned() }];
        for r in self.records.iter().filter(|r| r.thread == thread && r.ticks <= t) {
            match r.what {
                "ENTER" => stack.push(r.text.clone()),
                "EXIT" => {
                    if let Some(at) = stack.iter().rposition(|name| *name == r.text) {
                        stack.truncate(at);
                    }
                }
                "THREAD" => stack = vec![format!("THREAD {}", r.text)],
                _ => {}
            }
        }
        match stack.as_slice() {
            // The scripts remove `kernel;` from the loader's stacks, so `kernel` stays if there is nothing else.
            [none] if none.is_empty() => "kernel".to_owned(),
            [none, rest @ ..] if none.is_empty() => rest.join(";"),
            all => all.join(";"),
        }
    }
}

fn oldest(open: &mut Vec<u64>) -> Option<u64> {
    if open.is_empty() { None } else { Some(open.remove(0)) }
}

/// Passes holds on to other threads. A hold that is never released, and a release by a thread that did not take the
/// topic, make one hold of the releasing thread, from the take on. The first take goes with the first release.
fn hand_over(holds: &mut Vec<Hold>) {
    let mut releases: Vec<usize> = (0..holds.len()).filter(|&i| !holds[i].taken).collect();
    releases.sort_by_key(|&i| holds[i].to);
    let mut over = Vec::new();
    for i in releases {
        let open =
            (0..holds.len()).filter(|j| holds[*j].to == NEVER && !over.contains(j)).min_by_key(|&j| holds[j].from);
        if let Some(j) = open.filter(|&j| holds[j].from < holds[i].to && holds[j].thread != holds[i].thread) {
            holds[i].from = holds[i].from.max(holds[j].from);
            holds[i].taken = true;
            over.push(j);
        }
    }
    let mut at = 0..;
    holds.retain(|_| !over.contains(&at.next().expect("endless")));
}

/// Returns the holder at `t` that is to blame. It is the one that releases last inside the wait; of two such, the one
/// that held longer. A holder that releases first after the wait's end comes before it, if no holder releases inside,
/// or if that release is nearer to the end than the last one inside; of two such, the one that took it later.
fn ours(holds: &[Hold], t: u64, (from, until): (u64, u64)) -> Option<Hold> {
    let inside = holds.iter().filter(|h| h.from < h.to && from < h.to && h.to <= until).map(|h| h.to).max();
    let later = holds.iter().filter(|h| h.from < until && h.to > until && h.taken).map(|h| h.to).min();
    let later = later.filter(|&later| later < NEVER);
    let counts = inside.is_none_or(|inside| later.is_some_and(|later| later - until < until - inside));
    let holding = || holds.iter().filter(|h| h.from <= t && t < h.to);
    let still = holding().filter(|h| counts && h.to > until && h.taken);
    let still = still.min_by_key(|h| (h.to, std::cmp::Reverse(h.from)));
    let ended = holding().filter(|h| h.to <= until).max_by_key(|h| (h.to, std::cmp::Reverse(h.from)));
    still.or(ended).copied()
}

/// Returns the thread whose stack the scripts show at `t`, and the stack's time. The scripts walk back from the end of
/// the wait and take holds by the order of their releases. Each lasts from its start to its release, or to the start of
/// the hold that was blamed before it.
fn scripts(holds: &[Hold], t: u64, from: u64, until: u64) -> Option<(u64, u64)> {
    let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
    let mut waiting = until;
    let mut left: Vec<Hold> = holds.iter().copied().filter(|h| h.to <= until && h.to > from).collect();
    left.sort_by_key(|h| h.to);
    while let Some(last) = left.pop() {
        let begin = last.from.max(from);
        if begin < waiting {
            pieces.push((begin, waiting.min(last.to), last.thread));
            waiting = begin;
        }
        left.retain(|h| h.from < waiting);
    }
    // The last piece that has begun, one tick after its start, is seen; after its end its stack stays.
    let seen = pieces.iter().filter(|p| p.0 < t).max_by_key(|p| p.0)?;
    Some((seen.2, t.min(seen.1 - 1)))
}
