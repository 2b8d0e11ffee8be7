//! A scripted USB bus: it finds nothing, and takes as long about it as the command line says.
//!
//! Real buses take seconds until the last device has answered (`delay.thread.usbus0=9000`). Its attach holds up mounting
//! root, because root could be on a stick; a thread explores the bus and lets go.

use crate::boot;
use crate::device::{Device, Failure, Fit, driver};
use crate::hold::ROOT_MOUNT;
use crate::thread;
use lab::switches::Usb;

driver!(usbus, on nexus, probe, attach);

fn probe(_: &Device) -> Option<Fit> {
    (boot::switches().usb == Usb::Yes).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    ROOT_MOUNT.hold();
    thread::create(device.name, explore, 0);
    Ok(())
}

fn explore(_: usize) {
    ROOT_MOUNT.release();
}
