//! The event queue: work that drivers hand to the thread `g_event`, and that the boot waits for.
//!
//! FreeBSD's GEOM has such a queue: it does the work that a new disk causes, and the kernel looks for root only when the queue
//! is idle.

use crate::sysinit::{Subsystem, sysinit};
use crate::thread;
use crate::wait::Shared;

sysinit!(g_init, Subsystem::Events, 0, start);
sysinit!(g_waitidle, Subsystem::WaitIdle, 0, wait_idle);

const TOPIC: &str = "events";
const MAX_EVENTS: usize = 32;

type Event = fn();

struct Queue {
    waiting: [Option<Event>; MAX_EVENTS],
    /// Number of events posted and not yet done.
    pending: usize,
    next: usize,
}

static QUEUE: Shared<Queue> = Shared::new(Queue { waiting: [None; MAX_EVENTS], pending: 0, next: 0 });

fn start() {
    thread::create("g_event", run_events, 0);
}

/// Queues an event, which `g_event` runs after those before it.
pub fn post(event: Event) {
    tslog::hold!(TOPIC);
    QUEUE.change(|queue| {
        assert!(queue.pending < MAX_EVENTS, "events::post: {MAX_EVENTS} are pending");
        queue.waiting[(queue.next + queue.pending) % MAX_EVENTS] = Some(event);
        queue.pending += 1;
    });
}

fn run_events(_: usize) {
    loop {
        let event = QUEUE.wait_for(|queue| queue.waiting[queue.next].take());
        event();
        tslog::release!(TOPIC);
        QUEUE.change(|queue| {
            queue.next = (queue.next + 1) % MAX_EVENTS;
            queue.pending -= 1;
        });
    }
}

/// SYSINIT g_waitidle: waits until no event is pending.
fn wait_idle() {
    tslog::wait!(TOPIC);
    QUEUE.wait_for(|queue| (queue.pending == 0).then_some(()));
    tslog::unwait!(TOPIC);
}
