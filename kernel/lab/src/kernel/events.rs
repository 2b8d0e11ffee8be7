//! The event queue: work that drivers hand to a thread of its own, `g_event`, and that the boot waits for.
//!
//! FreeBSD's GEOM has one like it: whatever a new disk sets off is done there, and root is not looked for before it is
//! idle.

use crate::sysinit::{Subsystem, sysinit};
use crate::thread;
use crate::wait::Shared;

sysinit!(g_init, Subsystem::Events, 0, start);
sysinit!(g_waitidle, Subsystem::WaitIdle, 0, wait_idle);

const TOPIC: &str = "events";
const EVENTS_MAX: usize = 32;

type Event = fn();

struct Queue {
    waiting: [Option<Event>; EVENTS_MAX],
    /// Posted and not yet done.
    pending: usize,
    next: usize,
}

static QUEUE: Shared<Queue> = Shared::new(Queue { waiting: [None; EVENTS_MAX], pending: 0, next: 0 });

fn start() {
    thread::create("g_event", run_events, 0);
}

/// Has `event` run by `g_event`, after those before it.
pub fn post(event: Event) {
    tslog::hold!(TOPIC);
    QUEUE.change(|queue| {
        assert!(queue.pending < EVENTS_MAX, "events::post: {EVENTS_MAX} are pending");
        queue.waiting[(queue.next + queue.pending) % EVENTS_MAX] = Some(event);
        queue.pending += 1;
    });
}

fn run_events(_: usize) {
    loop {
        let event = QUEUE.wait_for(|queue| queue.waiting[queue.next].take());
        event();
        tslog::release!(TOPIC);
        QUEUE.change(|queue| {
            queue.next = (queue.next + 1) % EVENTS_MAX;
            queue.pending -= 1;
        });
    }
}

/// SYSINIT g_waitidle: nothing pending any more.
fn wait_idle() {
    tslog::wait!(TOPIC);
    QUEUE.wait_for(|queue| (queue.pending == 0).then_some(()));
    tslog::unwait!(TOPIC);
}
