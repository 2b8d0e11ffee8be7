//! Kernel threads and the scheduler: one table, one run queue, cooperative.
//!
//! Each CPU has a scheduler with a separate stack. A thread that waits switches to its CPU's scheduler. The scheduler takes the
//! next thread from the run queue and switches to it, or halts. The lock of the table is held across each switch. The code after
//! the switch releases it, as in xv6.
//!
//! A slot of the table is used once: ids are never reused, so that a log is not ambiguous.

mod waiting;

pub use waiting::{
    block, block_or_killed, schedule_hrtimeout, sleep_ns, sleep_or_killed, sleep_until, sleep_us, wake, wake_sleepers,
    yield_now,
};

use crate::lock::{Guard, SpinLock};
use crate::{apic, boot, cpu, memory, paging, script, trap, vmem};
use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use lab::queue::{IdleCpus, RunQueue, SleepQueue, take};
use lab::switches::{Kind, SchedLog, Signal};

pub const THREADS_MAX: usize = 64;
/// The slot of no thread, while the scheduler runs.
pub const NO_THREAD: u16 = u16::MAX;
const STACK_BYTES: u64 = 32 * 1024;
/// Size of a stack with the unmapped addresses below it.
const STACK_SPACING_BYTES: u64 = 2 * STACK_BYTES;
const IDLE_IDS_FROM: u64 = 0x1000;
const CPU_NAMES: [&str; cpu::CPUS_MAX] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];
const IDLE_NAMES: [&str; cpu::CPUS_MAX] = [
    "idle:cpu0",
    "idle:cpu1",
    "idle:cpu2",
    "idle:cpu3",
    "idle:cpu4",
    "idle:cpu5",
    "idle:cpu6",
    "idle:cpu7",
    "idle:cpu8",
    "idle:cpu9",
    "idle:cpu10",
    "idle:cpu11",
    "idle:cpu12",
    "idle:cpu13",
    "idle:cpu14",
    "idle:cpu15",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    /// The thread is on the run queue.
    Runnable,
    Running,
    /// The thread waits for a wake-up on a channel.
    Blocked(usize),
    /// The thread waits for an instant.
    Sleeping,
    Finished,
}

/// Priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Runs in the order of the run queue.
    Normal,
    /// Runs while no thread of normal priority can run. The thread has to check itself whether one can.
    Idle,
}

#[derive(Clone, Copy)]
struct Thread {
    state: State,
    priority: Priority,
    rsp: u64,
    /// The only CPU that may run it.
    bound_to: Option<u32>,
    /// True if the thread must end at its next check.
    is_killed: bool,
    /// True if killing the thread ends its present wait.
    wakes_if_killed: bool,
    /// The thread's stops for a tracer.
    stops: u8,
    name: &'static str,
    entry: fn(usize),
    argument: usize,
}

struct Table {
    threads: [Thread; THREADS_MAX],
    used: usize,
    run: RunQueue<THREADS_MAX>,
    /// The run queue of threads of idle priority.
    run_idle: RunQueue<THREADS_MAX>,
    sleepers: SleepQueue<THREADS_MAX>,
    idle: IdleCpus,
}

const UNUSED: Thread = Thread {
    state: State::Unused,
    priority: Priority::Normal,
    rsp: 0,
    bound_to: None,
    is_killed: false,
    wakes_if_killed: false,
    stops: 0,
    name: "",
    entry: |_| unreachable!(),
    argument: 0,
};

static TABLE: SpinLock<Table> = SpinLock::new(Table {
    threads: [UNUSED; THREADS_MAX],
    used: 0,
    run: RunQueue::new(),
    run_idle: RunQueue::new(),
    sleepers: SleepQueue::new(),
    idle: IdleCpus::NONE,
});

/// End of each thread's stack, for code that cannot wait for the table. 0 for thread0, which never enters user mode.
static STACK_TOPS: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; THREADS_MAX];

/// Makes the running code thread0, and gives the first CPU a scheduler.
pub fn start() {
    let mut table = TABLE.lock();
    table.threads[0] = Thread { state: State::Running, bound_to: Some(0), name: "thread0", ..UNUSED };
    table.used = 1;
    let cpu = cpu::this();
    let stack = memory::take_early(STACK_BYTES);
    cpu.scheduler_stack.set((stack, STACK_BYTES));
    cpu.scheduler_rsp.set(prepare_stack(stack + STACK_BYTES, scheduler_entry));
    cpu.current.set(0);
    tslog::thread!(idle_id(0), IDLE_NAMES[0]);
}

/// Id of a thread in the log.
pub fn id_of(slot: u16) -> u64 {
    u64::from(slot) + 1
}

/// Id of a CPU's scheduler in the log.
pub fn idle_id(cpu: u32) -> u64 {
    IDLE_IDS_FROM + u64::from(cpu)
}

pub fn idle_name(cpu: u32) -> &'static str {
    IDLE_NAMES[cpu as usize]
}

fn stack_top(slot: u16) -> u64 {
    STACK_TOPS[slot as usize].load(Ordering::Relaxed)
}

/// Addresses of a thread's stack. For thread0 use `entry::boot_stack_range`.
pub fn stack(slot: u16) -> Range<u64> {
    let top = stack_top(slot);
    top.saturating_sub(STACK_BYTES)..top
}

/// The name of a thread, or of a CPU's scheduler, by its id.
pub fn name_of(id: u64) -> &'static str {
    match id.checked_sub(IDLE_IDS_FROM) {
        Some(cpu) => IDLE_NAMES.get(cpu as usize).copied().unwrap_or("?"),
        None => TABLE.lock().threads.get(id as usize - 1).map_or("?", |thread| thread.name),
    }
}

/// Prepares a stack on which `switch` returns to `entry`. Returns its stack pointer.
fn prepare_stack(top: u64, entry: extern "sysv64" fn() -> !) -> u64 {
    // Six saved registers, the return address, and one word so that the stack is aligned as after a call.
    let words = [0, 0, 0, 0, 0, 0, entry as usize as u64, 0];
    let rsp = top - size_of_val(&words) as u64;
    // SAFETY: the stack is mapped and not used yet.
    unsafe { (rsp as *mut [u64; 8]).write(words) };
    rsp
}

/// Creates a thread that runs `entry(argument)`. Returns its slot.
pub fn create(name: &'static str, entry: fn(usize), argument: usize) -> u16 {
    create_with(Priority::Normal, name, entry, argument)
}

/// Creates a thread that only this CPU runs. Returns its slot.
pub fn create_on(cpu: u32, name: &'static str, entry: fn(usize), argument: usize) -> u16 {
    add(Thread { bound_to: Some(cpu), name, entry, argument, ..UNUSED })
}

/// Creates a thread of that priority. Returns its slot.
pub fn create_with(priority: Priority, name: &'static str, entry: fn(usize), argument: usize) -> u16 {
    add(Thread { priority, name, entry, argument, ..UNUSED })
}

/// Gives a new thread a slot in the table and a stack, and makes it runnable.
fn add(thread: Thread) -> u16 {
    let name = thread.name;
    let slot = {
        let mut table = TABLE.lock();
        assert!(table.used < THREADS_MAX, "thread::create: {name} is one more than {THREADS_MAX}");
        table.used += 1;
        (table.used - 1) as u16
    };
    let top = vmem::allocate(STACK_SPACING_BYTES) + STACK_SPACING_BYTES;
    STACK_TOPS[slot as usize].store(top, Ordering::Relaxed);
    for page in (top - STACK_BYTES..top).step_by(FRAME_BYTES as usize) {
        paging::map(page, memory::allocate_frame(), paging::DATA);
    }
    tslog::thread!(id_of(slot), name);
    let rsp = prepare_stack(top, thread_entry);
    let mut table = TABLE.lock();
    table.threads[slot as usize] = Thread { state: State::Blocked(0), rsp, ..thread };
    make_runnable(&mut table, slot, None);
    slot
}

/// The first function of a new thread, after its first switch.
extern "sysv64" fn thread_entry() -> ! {
    // SAFETY: the scheduler took the lock before it switched here.
    unsafe { TABLE.release_forgotten() };
    x86_64::instructions::interrupts::enable();
    let (name, entry, argument) = {
        let table = TABLE.lock();
        let thread = &table.threads[cpu::this().current.get() as usize];
        (thread.name, thread.entry, thread.argument)
    };
    script::at(Kind::Thread, name);
    entry(argument);
    exit()
}

/// Ends the running thread at once. It releases nothing, so a thread that holds anything must return instead.
fn exit() -> ! {
    let mut table = TABLE.lock();
    let slot = cpu::this().current.get();
    table.threads[slot as usize].state = State::Finished;
    switch_away(table);
    unreachable!("thread {} runs after its end", name_of(id_of(slot)))
}

/// The error of a killed thread. A function that gets it releases all it holds and returns the error to its caller. So a killed
/// thread returns from its outermost function without holding anything.
#[derive(Clone, Copy, Debug)]
pub struct Killed;

/// Kills a thread. It ends at its next check. If its present wait can be ended by a kill, the wait is over.
pub fn kill(slot: u16) {
    let mut table = TABLE.lock();
    let thread = &mut table.threads[slot as usize];
    thread.is_killed = true;
    if !thread.wakes_if_killed {
        return;
    }
    match thread.state {
        State::Sleeping => assert!(table.sleepers.remove(slot), "thread::kill: {slot} sleeps in no queue"),
        State::Blocked(_) => {}
        _ => return,
    }
    make_runnable(&mut table, slot, None);
}

/// Checks whether the running thread was killed. A thread does this in its waits, and regularly during long work.
pub fn check_killed() -> Result<(), Killed> {
    let is_killed = TABLE.lock().threads[cpu::this().current.get() as usize].is_killed;
    match boot::switches().signal {
        _ if !is_killed => Ok(()),
        Signal::Unwind => Err(Killed),
        Signal::Drop => exit(),
    }
}

/// True if a thread has ended.
pub fn has_ended(slot: u16) -> bool {
    TABLE.lock().threads[slot as usize].state == State::Finished
}

extern "sysv64" fn scheduler_entry() -> ! {
    // SAFETY: the thread that switched here took the lock.
    unsafe { TABLE.release_forgotten() };
    schedule_for_ever()
}

/// The scheduler of a CPU. Each CPU calls it once.
pub fn schedule_for_ever() -> ! {
    x86_64::instructions::interrupts::disable();
    let cpu = cpu::this();
    let here = cpu.index.get();
    let mut idles = false;
    loop {
        cpu.current.set(NO_THREAD);
        cpu.thread_id.set(idle_id(here));
        let mut table = TABLE.lock();
        let Table { threads, run: queue, run_idle, idle, .. } = &mut *table;
        idle.looks(here);
        let bound_to = |slot: u16| threads[slot as usize].bound_to;
        let next = take(queue, idle, here, bound_to).or_else(|| take(run_idle, idle, here, bound_to));
        match next {
            Some((slot, called)) => {
                if let Some(index) = called {
                    interrupt(index);
                }
                idles = false;
                run(table, slot);
            }
            None => {
                if logs_switches() && !idles {
                    tslog::idle!(CPU_NAMES[here as usize]);
                }
                idles = true;
                table.idle.halts(here);
                drop(table);
                // A wake-up between the check and the halt is an interrupt, which stays pending.
                x86_64::instructions::interrupts::enable_and_hlt();
                x86_64::instructions::interrupts::disable();
            }
        }
    }
}

/// Switches to a thread. Returns when the thread waits.
fn run(mut table: Guard<'_, Table>, slot: u16) {
    let cpu = cpu::this();
    table.threads[slot as usize].state = State::Running;
    let rsp = table.threads[slot as usize].rsp;
    cpu.current.set(slot);
    cpu.thread_id.set(id_of(slot));
    cpu.kernel_rsp.set(stack_top(slot));
    cpu.stops.set(table.threads[slot as usize].stops);
    if logs_switches() {
        tslog::run!(id_of(slot), CPU_NAMES[cpu.index.get() as usize]);
    }
    core::mem::forget(table);
    // SAFETY: `switch` or `prepare_stack` left the thread's stack, and no other CPU runs the thread, because it was on the run
    // queue once.
    unsafe { switch(cpu.scheduler_rsp.as_ptr(), rsp) };
    // The flag belongs to the thread. The scheduler keeps interrupts off, or one could come between its check and its halt.
    cpu.interrupts_were_on.set(false);
    // SAFETY: the thread that switched here took the lock and forgot its guard.
    unsafe { TABLE.release_forgotten() };
}

/// Switches to the scheduler. The running thread's state must already have what it waits for.
fn switch_away(mut table: Guard<'_, Table>) {
    let cpu = cpu::this();
    assert!(cpu.locks_held.get() == 1, "thread::switch_away: {} locks held", cpu.locks_held.get());
    let save: *mut u64 = &raw mut table.threads[cpu.current.get() as usize].rsp;
    let interrupts_were_on = cpu.interrupts_were_on.get();
    let scheduler_rsp = cpu.scheduler_rsp.get();
    core::mem::forget(table);
    // SAFETY: this CPU's scheduler waits in `run`, or has not begun yet.
    unsafe { switch(save, scheduler_rsp) };
    // The thread may be on another CPU now. That CPU holds the lock.
    cpu::this().interrupts_were_on.set(interrupts_were_on);
    // SAFETY: the scheduler took the lock before it switched here.
    unsafe { TABLE.release_forgotten() };
}

global_asm!(
    r#"
    .section .text.switch, "ax"
    .global switch
    switch:
        push rbp
        push rbx
        push r12
        push r13
        push r14
        push r15
        mov [rdi], rsp
        mov rsp, rsi
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbx
        pop rbp
        ret
    "#
);

unsafe extern "sysv64" {
    /// Saves this stack pointer at `save`, and continues at the stack pointer `rsp`, which `switch` or `prepare_stack` left.
    fn switch(save: *mut u64, rsp: u64);
}

/// True if the log records the thread that each CPU runs.
fn logs_switches() -> bool {
    boot::switches().sched_log == SchedLog::Yes
}

/// Makes a thread runnable. `interrupt` is the name of the interrupt that does this, or `None` for the running thread.
fn make_runnable(table: &mut Table, slot: u16, interrupt: Option<&'static str>) {
    if logs_switches() {
        match interrupt {
            Some(name) => tslog::ready!(id_of(slot), name),
            None => tslog::ready!(id_of(slot)),
        }
    }
    let thread = &mut table.threads[slot as usize];
    thread.state = State::Runnable;
    let bound_to = thread.bound_to;
    let queue = match thread.priority {
        Priority::Normal => &mut table.run,
        Priority::Idle => &mut table.run_idle,
    };
    assert!(queue.push(slot), "thread::make_runnable: {slot} is queued twice");
    interrupt_an_idle_cpu(table, bound_to);
}

/// Interrupts another CPU that halts and may run the thread, so that it looks for a thread.
fn interrupt_an_idle_cpu(table: &mut Table, bound_to: Option<u32>) {
    if let Some(index) = table.idle.call(cpu::this().index.get(), bound_to) {
        interrupt(index);
    }
}

fn interrupt(index: u32) {
    apic::interrupt(cpu::apic_id_of(index), trap::RESCHEDULE);
}

/// True if a thread of normal priority could run here.
pub fn others_can_run() -> bool {
    let table = TABLE.lock();
    let here = cpu::this().index.get();
    table.run.any(|slot| table.threads[slot as usize].bound_to.is_none_or(|only| only == here))
}

/// True if a thread runs or is on the run queue.
pub fn is_on_run_queue(slot: u16) -> bool {
    matches!(TABLE.lock().threads[slot as usize].state, State::Runnable | State::Running)
}

/// Sets the running thread's stops for a tracer.
pub fn set_stops(stops: u8) {
    let mut table = TABLE.lock();
    let cpu = cpu::this();
    table.threads[cpu.current.get() as usize].stops = stops;
    cpu.stops.set(stops);
}

/// Binds a thread to a CPU. From now on only that CPU runs it.
pub fn bind(slot: u16, cpu: u32) {
    let mut table = TABLE.lock();
    table.threads[slot as usize].bound_to = Some(cpu);
    // If the thread is on the run queue, another CPU may have been interrupted for it, which may not run it now.
    if table.threads[slot as usize].state == State::Runnable {
        interrupt_an_idle_cpu(&mut table, Some(cpu));
    }
}

/// Ends thread0 when the boot no longer needs it.
pub fn idle_for_ever() -> ! {
    let mut table = TABLE.lock();
    table.threads[0].state = State::Finished;
    switch_away(table);
    unreachable!("thread0 runs after its end")
}
