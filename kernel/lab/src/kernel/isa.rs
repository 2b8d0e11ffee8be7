//! The ISA bus: devices at ports that have been the same since 1984.

use crate::device::{self, Device, Failure, Fit, Location, driver};
use crate::uart;

driver!(isa, on nexus, probe, attach);
driver!(uart, on isa, probe_uart, attach_uart);

/// Whether a device is at the place that its bus knows by that name.
pub fn is_at(device: &Device, place: &str) -> bool {
    matches!(device.location, Location::Named(name) if name == place)
}

fn probe(device: &Device) -> Option<Fit> {
    is_at(device, "isa").then_some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    for place in ["uart", "atkbdc"] {
        device::add("isa", Location::Named(place));
    }
    Ok(())
}

fn probe_uart(device: &Device) -> Option<Fit> {
    (is_at(device, "uart") && uart::is_present()).then_some(Fit::Exact)
}

fn attach_uart(_: &Device) -> Result<(), Failure> {
    Ok(())
}
