//! A scripted USB bus with four empty ports. Each port settles after the time on the command line.
//!
//! Real buses take seconds until the last port has settled (`delay.port3=8700`). Attach takes a hold on the root mount, because
//! root could be on a USB stick. A thread explores the bus port by port. It powers each port, polls every 25 ms until the port
//! has settled, and releases the hold after the last port.

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
