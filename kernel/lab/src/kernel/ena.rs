//! A scripted network card, like Amazon's ENA: commands reset it and set it up, and the driver polls for each answer.
//!
//! The card answers each of the eight commands after `delay.answer.ena0`; the published time is 100 ms. With `reset=wait` the
//! attach method polls for all answers, so that it can fail. With `reset=async` a thread does that, asleep in between, and the
//! boot does not wait for it.

use crate::answer::Answer;
use crate::device::{Device, Failure, Fit, driver};
use crate::{boot, clock, thread};
use lab::switches::{Nic, Reset};

driver!(ena, on nexus, probe, attach);

/// Number of commands: reset begun and ended, attributes, event queue, host's description, completion queue, submission queue,
/// link.
const COMMANDS: usize = 8;
const POLL_US: u64 = 5_000;

fn probe(_: &Device) -> Option<Fit> {
    (boot::switches().nic == Nic::Yes).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    match boot::switches().reset {
        Reset::Wait => send_all(device.name, clock::delay_us),
        Reset::Async => {
            thread::create(device.name, |_| send_all("ena0", thread::sleep_us), 0);
        }
    }
    Ok(())
}

fn send_all(name: &'static str, pause_us: impl Fn(u64)) {
    for _ in 0..COMMANDS {
        Answer::ask(name).poll(&pause_us, POLL_US);
    }
}
