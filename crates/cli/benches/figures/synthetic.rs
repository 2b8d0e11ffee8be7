//! A reproducible trace of any size: process 1 runs initcalls, and waits in every possible way.
//!
//! The events are those of a possible machine. A CPU runs one thread at a time, another thread wakes each waiting one,
//! and interrupts nest in the running thread. There are four CPUs. Process 1 is on the first. It sleeps, is preempted,
//! and waits for workers on the other three, which also have other work.

use std::fmt::Arguments;

const CPUS: usize = 4;
const WORKERS: usize = 8;
const LEVELS: [&str; 8] = ["early", "core", "postcore", "arch", "subsys", "fs", "device", "late"];

#[derive(Clone, Debug)]
struct Task {
    /// The name in the trace's own column.
    column: String,
    /// The name in events.
    comm: String,
    pid: usize,
}

/// `count` events, or a few more, in the format of `/sys/kernel/tracing/trace`.
pub fn trace(count: usize) -> String {
    let mut machine = Machine::new();
    let (mut level, mut initcall) = (0, 0);
    while machine.lines.len() < count {
        while level < LEVELS.len() && machine.lines.len() * LEVELS.len() >= level * count {
            machine.event(0, INIT, ".....", format_args!("initcall_level: level={}", LEVELS[level]));
            level += 1;
        }
        machine.initcall(initcall);
        initcall += 1;
    }
    machine.text()
}

struct Machine {
    tasks: Vec<Task>,
    /// The time of each CPU's last event, in microseconds.
    at: [u64; CPUS],
    lines: Vec<(u64, String)>,
    random: u64,
}

const INIT: usize = 0;

fn idle(cpu: usize) -> usize {
    1 + cpu
}

impl Machine {
    fn new() -> Machine {
        let task = |column: String, comm: String, pid| Task { column, comm, pid };
        let mut tasks = vec![task("init".to_owned(), "swapper/0".to_owned(), 1)];
        tasks.extend((0..CPUS).map(|cpu| task("<idle>".to_owned(), format!("swapper/{cpu}"), 0)));
        for cpu in 0..CPUS {
            for no in 0..WORKERS {
                let name = format!("kworker/{cpu}:{no}");
                tasks.push(task(name.clone(), name, 20 + cpu * WORKERS + no));
            }
        }
        Machine { tasks, at: [1_000; CPUS], lines: Vec::new(), random: 1 }
    }

    /// Knuth's MMIX generator: its high bits are random enough for a benchmark.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn worker(&mut self, cpu: usize) -> usize {
        1 + CPUS + cpu * WORKERS + self.below(WORKERS as u64) as usize
    }

    /// Adds an event on a CPU, some microseconds after the last one there.
    fn event(&mut self, cpu: usize, task: usize, flags: &str, what: Arguments<'_>) {
        self.at[cpu] += 1 + self.below(20);
        let (at, Task { column, pid, .. }) = (self.at[cpu], &self.tasks[task]);
        let (s, us) = (at / 1_000_000, at % 1_000_000);
        let line = format!("{column:>16}-{pid:<7} [{cpu:03}] {flags} {s:5}.{us:06}: {what}\n");
        self.lines.push((at, line));
    }

    fn switch(&mut self, cpu: usize, from: usize, state: &str, to: usize) {
        let (prev, next) = (self.tasks[from].clone(), self.tasks[to].clone());
        let who =
            |side: &str, task: &Task| format!("{side}_comm={} {side}_pid={} {side}_prio=120", task.comm, task.pid);
        let (prev, next) = (who("prev", &prev), who("next", &next));
        self.event(cpu, from, "d..2.", format_args!("sched_switch: {prev} prev_state={state} ==> {next}"));
    }

    fn waking(&mut self, cpu: usize, by: usize, flags: &str, task: usize, target: usize) {
        let Task { comm, pid, .. } = self.tasks[task].clone();
        self.event(cpu, by, flags, format_args!("sched_waking: comm={comm} pid={pid} prio=120 target_cpu={target:03}"));
    }

    /// A timer interrupts the running thread, and may wake another one.
    fn timer(&mut self, cpu: usize, task: usize, wakes: Option<usize>) {
        self.event(cpu, task, "d.h1.", format_args!("local_timer_entry: vector=236"));
        let timer = "hrtimer=(____ptrval____)";
        self.event(cpu, task, "d.h2.", format_args!("hrtimer_expire_entry: {timer} function=hrtimer_wakeup now=1"));
        if let Some(woken) = wakes {
            self.waking(cpu, task, "d.h3.", woken, cpu);
        }
        self.event(cpu, task, "d.h2.", format_args!("hrtimer_expire_exit: {timer}"));
        self.event(cpu, task, "d.h1.", format_args!("local_timer_exit: vector=236"));
    }

    fn work(&mut self, cpu: usize, worker: usize) {
        let item = format!("work struct (____ptrval____): function work_{}_fn", self.below(500));
        self.event(cpu, worker, ".....", format_args!("workqueue_execute_start: {item}"));
        if self.below(4) == 0 {
            self.timer(cpu, worker, None);
        }
        self.event(cpu, worker, ".....", format_args!("workqueue_execute_end: {item}"));
    }

    /// A worker on another CPU does work for process 1, and wakes it.
    fn wait_for_worker(&mut self) {
        let cpu = 1 + self.below(CPUS as u64 - 1) as usize;
        let worker = self.worker(cpu);
        self.waking(0, INIT, "d..2.", worker, cpu);
        self.at[cpu] = self.at[cpu].max(self.at[0]);
        self.switch(0, INIT, "D", idle(0));
        self.switch(cpu, idle(cpu), "R", worker);
        self.work(cpu, worker);
        self.waking(cpu, worker, "d..3.", INIT, 0);
        self.at[0] = self.at[0].max(self.at[cpu]);
        self.switch(cpu, worker, "I", idle(cpu));
        self.switch(0, idle(0), "R", INIT);
    }

    fn sleep(&mut self) {
        self.switch(0, INIT, "S", idle(0));
        self.timer(0, idle(0), Some(INIT));
        self.switch(0, idle(0), "R", INIT);
    }

    fn be_preempted(&mut self) {
        let worker = self.worker(0);
        self.waking(0, INIT, "dN.2.", worker, 0);
        self.switch(0, INIT, "R+", worker);
        self.work(0, worker);
        self.switch(0, worker, "I", INIT);
    }

    /// A CPU does work without process 1.
    fn background(&mut self, cpu: usize) {
        let worker = self.worker(cpu);
        self.timer(cpu, idle(cpu), Some(worker));
        self.switch(cpu, idle(cpu), "R", worker);
        for _ in 0..=self.below(3) {
            self.work(cpu, worker);
        }
        self.switch(cpu, worker, "I", idle(cpu));
        self.at[cpu] += self.below(100);
    }

    fn initcall(&mut self, no: usize) {
        self.event(0, INIT, ".....", format_args!("initcall_start: func=driver_{no}_init+0x0/0x4c2"));
        for _ in 0..=self.below(6) {
            match self.below(4) {
                0 => self.wait_for_worker(),
                1 => self.sleep(),
                2 => self.be_preempted(),
                _ => self.timer(0, INIT, None),
            }
            for cpu in 1..CPUS {
                if self.at[cpu] < self.at[0] {
                    self.background(cpu);
                }
            }
        }
        self.event(0, INIT, ".....", format_args!("initcall_finish: func=driver_{no}_init+0x0/0x4c2 ret=0"));
    }

    fn text(mut self) -> String {
        // The sort is stable: events of one CPU stay in order.
        self.lines.sort_by_key(|line| line.0);
        let count = self.lines.len();
        let mut text = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {count}/{count}   #P:{CPUS}\n");
        text.extend(self.lines.into_iter().map(|(_, line)| line));
        text
    }
}
