//! Kernel threads as Linux makes them, and four initcalls that pay a timer tick for each.
//!
//! `kthreadd` makes every thread. A new thread says that it is there and goes to sleep; whoever asked for it then binds
//! it to a CPU, for which it must be off the run queue. If waking the asker makes it run at once, the new thread still
//! is on the queue, and the asker sleeps for one tick from now, which nobody needs. Its timer expires at the first tick
//! after that. So a call takes one to two ticks, by where between two ticks it begins: on an i.MX6 booting Linux 3.5 at
//! `hz=100` the four took 1, 1, 2 and 2. Here all four begin just after a tick and take two.

use crate::sysinit::{Subsystem, sysinit};
use crate::wait::Shared;
use crate::{boot, thread};
use lab::switches::{Bind, Preempt};

sysinit!(kthreadd, Subsystem::Kthreads, 0, start_kthreadd);
sysinit!(spawn_ksoftirqd, Subsystem::Kthreads, 1, spawn_ksoftirqd);
sysinit!(init_workqueues, Subsystem::Kthreads, 2, init_workqueues);
sysinit!(cpu_stop_init, Subsystem::Kthreads, 3, cpu_stop_init);
sysinit!(rcu_spawn_kthreads, Subsystem::Kthreads, 4, rcu_spawn_kthreads);
sysinit!(late_kthread, Subsystem::Hrtimers, 1, late_kthread);

/// What `bind=hrtimer` sleeps for.
const HRTIMEOUT_NS: u64 = 1_000_000;

/// What is asked of kthreadd, and what came of it. One at a time.
struct Request {
    name: Option<&'static str>,
    made: Option<u16>,
}

static REQUEST: Shared<Request> = Shared::new(Request { name: None, made: None });
/// Bound threads may go on.
static BOUND: Shared<u32> = Shared::new(0);

fn start_kthreadd() {
    thread::create("kthreadd", kthreadd, 0);
}

fn kthreadd(_: usize) {
    loop {
        let name = REQUEST.wait_for(|request| request.name.take());
        thread::create(name, kthread, 0);
    }
}

/// A new thread: says that it is there, and waits to be bound.
fn kthread(_: usize) {
    let slot = crate::cpu::this().current.get();
    let ((), woken) = REQUEST.change(|request| request.made = Some(slot));
    if woken && boot::switches().preempt == Preempt::Full {
        thread::yield_now();
    }
    BOUND.wait_for(|_| None::<()>);
}

/// Has kthreadd make a thread, and binds it to the first CPU.
#[inline(never)]
fn create_bound(name: &'static str) {
    let _scope = tslog::scope!("kthread_create");
    REQUEST.change(|request| request.name = Some(name));
    let slot = REQUEST.wait_for(|request| request.made.take());
    bind(slot);
}

#[inline(never)]
fn bind(slot: u16) {
    let _scope = tslog::scope!("kthread_bind");
    let how = boot::switches().bind;
    while how != Bind::Skip && thread::is_on_run_queue(slot) {
        match how {
            Bind::Tick => thread::schedule_hrtimeout(1_000_000_000 / u64::from(boot::switches().hz)),
            Bind::Hrtimer => thread::schedule_hrtimeout(HRTIMEOUT_NS),
            Bind::Yield | Bind::Skip => thread::yield_now(),
        }
    }
    thread::bind(slot, 0);
}

fn spawn_ksoftirqd() {
    create_bound("ksoftirqd/0");
}

fn init_workqueues() {
    create_bound("kworker/0:0");
}

fn cpu_stop_init() {
    create_bound("migration/0");
}

fn rcu_spawn_kthreads() {
    create_bound("rcu_kthread");
}

/// The same once timers are exact, to show that `bind=hrtimer` helps from here on and not before.
fn late_kthread() {
    if boot::switches().bind == Bind::Hrtimer {
        create_bound("late/0");
    }
}
