//! Three threads that wait for each other (`chain=yes`), like a boot that waits for a driver that waits for a bus that waits
//! for a hub.
//!
//! The boot holds each thread's topic for it. A thread does its part (`delay.thread.chain1=20`), waits for the next thread's
//! topic, and then releases its own. The boot waits for the first thread. The thread that takes longest is to blame, at any
//! depth.

use crate::hold::Topic;
use crate::sysinit::{Subsystem, sysinit};
use crate::{boot, thread};
use lab::switches::Chain;

sysinit!(chain, Subsystem::Chain, 0, wait_for_first);

static TOPICS: [Topic; 3] = [Topic::new("chain 1"), Topic::new("chain 2"), Topic::new("chain 3")];
const NAMES: [&str; 3] = ["chain1", "chain2", "chain3"];

fn wait_for_first() {
    if boot::switches().chain == Chain::No {
        return;
    }
    TOPICS.iter().for_each(Topic::hold);
    for (link, name) in NAMES.into_iter().enumerate() {
        thread::create(name, run_link, link);
    }
    TOPICS[0].wait();
}

fn run_link(link: usize) {
    if let Some(next) = TOPICS.get(link + 1) {
        next.wait();
    }
    TOPICS[link].release();
}
