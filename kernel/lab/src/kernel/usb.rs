//! A scripted USB bus of four ports: nothing is plugged in, and each port settles after as long as the command line says.
//!
//! Real buses take seconds until the last port has settled (`delay.port3=8700`). Attach holds up mounting root, because
//! root could be on a stick. A thread explores the bus port by port: it powers each, looks every 25 ms whether that has
//! settled, and lets go after the last.

use crate::answer::Answer;
use crate::device::{Device, Failure, Fit, driver};
use crate::hold::ROOT_MOUNT;
use crate::{boot, thread};
use lab::switches::Usb;

driver!(usbus, on nexus, probe, attach);

const PORTS: [&str; 4] = ["port1", "port2", "port3", "port4"];
const POLL_US: u64 = 25_000;

fn probe(_: &Device) -> Option<Fit> {
    (boot::switches().usb == Usb::Yes).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    ROOT_MOUNT.hold();
    thread::create(device.name, explore, 0);
    Ok(())
}

fn explore(_: usize) {
    for port in PORTS {
        let _scope = tslog::scope!("usb_port_settle", port);
        Answer::ask(port).poll(thread::sleep_us, POLL_US);
    }
    ROOT_MOUNT.release();
}
