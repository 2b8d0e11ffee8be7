//! The ISA bus: devices at fixed ports, unchanged since 1984.

use crate::device::{self, Device, Failure, Fit, Location, driver};
use crate::uart;

driver!(isa, on nexus, probe, attach);
driver!(uart, on isa, probe_uart, attach_uart);

fn probe(_: &Device) -> Option<Fit> {
    Some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    for place in ["uart", "atkbdc"] {
        device::add("isa", Location::Fixed(place));
    }
    Ok(())
}

fn probe_uart(_: &Device) -> Option<Fit> {
    uart::is_present().then_some(Fit::Exact)
}

fn attach_uart(_: &Device) -> Result<(), Failure> {
    Ok(())
}
