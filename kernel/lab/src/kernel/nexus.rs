//! The root of the device tree. It adds the buses that are behind no other bus.

use crate::device::{self, Device, Failure, Fit, Location, driver};

driver!(nexus, on root, probe, attach);

fn probe(_: &Device) -> Option<Fit> {
    Some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    for bus in ["isa", "pcib", "chatty", "cam", "usbus", "ata", "ena"] {
        device::add("nexus", Location::Fixed(bus));
    }
    Ok(())
}
