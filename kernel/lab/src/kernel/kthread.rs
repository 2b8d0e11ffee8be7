//! Kernel threads as Linux creates them, and four initcalls that wait a timer tick for each.
//!
//! `kthreadd` creates every thread. A new thread reports that it exists and goes to sleep. The requester then binds it to a
//! CPU, for which it must be off the run queue. If the report makes the requester run at once, the new thread is still on the
//! queue. Then the requester sleeps for one tick from now, although it need not. Its timer expires at the first tick after that
//! time. So a call takes one to two ticks, depending on its beginning between two ticks. On an i.MX6 booting Linux 3.5 at
//! `hz=100` the four calls took 1, 1, 2 and 2 ticks. Here all four begin just after a tick and take two.

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

/// Length of the sleep of `bind=hrtimer`.
const HRTIMEOUT_NS: u64 = 1_000_000;

/// A request to kthreadd, and its result. There is one request at a time.
struct Request {
    name: Option<&'static str>,
    /// Slot of the new thread.
    made: Option<u16>,
}

static REQUEST: Shared<Request> = Shared::new(Request { name: None, made: None });
/// The value that bound threads wait for, for ever.
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

/// A new thread: reports that it exists, and waits.
fn kthread(_: usize) {
    let slot = crate::cpu::this().current.get();
    let ((), woken) = REQUEST.change(|request| request.made = Some(slot));
    if woken && boot::switches().preempt == Preempt::Full {
        thread::yield_now();
    }
    BOUND.wait_for(|_| None::<()>);
}

/// Requests a thread from kthreadd, and binds it to the first CPU.
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

/// Creates a thread once timers are exact, to show that `bind=hrtimer` helps from here on and not earlier.
fn late_kthread() {
    if boot::switches().bind == Bind::Hrtimer {
        create_bound("late/0");
    }
}
