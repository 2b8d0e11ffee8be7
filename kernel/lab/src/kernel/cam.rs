//! A scripted storage layer. A thread scans its buses, and finds no disk, or two encrypted disks (`geli.rs`).
//!
//! The scan begins in a configuration hook, because a real scan needs interrupts. The boot waits until the thread takes the
//! hook back (`delay.thread.xpt_thrd=400`). A new disk posts an event (`delay.thread.g_event=2600`).

use crate::device::{Device, Failure, Fit, driver};
use crate::{events, geli, intrhook, thread};

driver!(cam, on nexus, probe, attach);

fn probe(_: &Device) -> Option<Fit> {
    Some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    intrhook::establish(|| {
        thread::create("xpt_thrd", scan, 0);
    });
    Ok(())
}

fn scan(_: usize) {
    events::post(taste);
    geli::found();
    intrhook::take_back();
}

/// Stands for reading a new disk's first blocks. There is no disk.
fn taste() {
    let _scope = tslog::scope!("taste");
}
