//! The device tree, which is built while it is walked.
//!
//! The attach method of a bus adds the places behind it. For each place, the drivers of that kind of bus probe it, and the one
//! that fits best attaches. If that device is a bus itself, its attach method does the same. All calls go through the functions
//! generated from `device_if.m`, which log them.

use crate::console::verbose;
use crate::sysinit::{Subsystem, sysinit};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicU32, Ordering};
use lab::order::calling_order;

include!(concat!(env!("OUT_DIR"), "/device_if.rs"));

sysinit!(configure, Subsystem::Drivers, 0, configure);

/// The place of a device.
#[derive(Clone, Copy, Debug)]
pub enum Location {
    /// A place for the driver of this name only.
    Fixed(&'static str),
    /// A function on PCI.
    Pci(crate::pci::Function),
}

/// The degree to which a driver fits a device. The greatest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The driver is for every device of this class.
    Class,
    /// The driver is for this device.
    Exact,
}

/// The reason why a device could not be attached.
#[derive(Debug)]
pub struct Failure(pub &'static str);

pub struct Driver {
    pub name: &'static str,
    /// The kind of bus that its devices lie on.
    pub bus: &'static str,
    pub methods: DeviceMethods,
    pub units: AtomicU32,
}

pub struct Device {
    /// Driver and unit, such as `psm0`. While a driver probes, the driver's name.
    pub name: &'static str,
    pub driver: &'static Driver,
    pub location: Location,
}

const _: () = assert!(size_of::<&Driver>() == 8, "the section is read as an array of references");

const MAX_DRIVERS: usize = 32;

/// Declares a driver: `driver!(psm, on atkbdc, probe, attach)`.
macro_rules! driver {
    ($name:ident, on $bus:ident, $probe:path, $attach:path) => {
        const _: () = {
            static DRIVER: $crate::device::Driver = $crate::device::Driver {
                name: stringify!($name),
                bus: stringify!($bus),
                methods: $crate::device::DeviceMethods { probe: $probe, attach: $attach },
                units: core::sync::atomic::AtomicU32::new(0),
            };
            #[used]
            #[unsafe(link_section = "set_driver")]
            static ENTRY: &$crate::device::Driver = &DRIVER;
        };
    };
}
pub(crate) use driver;

unsafe extern "C" {
    static driver_start: u8;
    static driver_end: u8;
}

fn drivers() -> &'static [&'static Driver] {
    let (from, to) = (&raw const driver_start, &raw const driver_end);
    // SAFETY: the linker put whole references between the two symbols, and no code writes them.
    unsafe { core::slice::from_raw_parts(from.cast(), (to.addr() - from.addr()) / size_of::<&Driver>()) }
}

/// SYSINIT configure: builds the whole tree from its root.
fn configure() {
    add("root", Location::Fixed("nexus"));
}

/// Finds a driver for a place on a bus of that kind, and attaches it. Returns the device, if one was attached.
pub fn add(bus: &'static str, location: Location) -> Option<&'static Device> {
    let drivers = drivers();
    let mut places = [0; MAX_DRIVERS];
    let order = calling_order(drivers.len(), |i| drivers[i].name, &mut places);
    let order = order.unwrap_or_else(|| panic!("device::add: {} drivers, room for {MAX_DRIVERS}", drivers.len()));
    let mut best: Option<(Fit, &'static Driver)> = None;
    let could_be = |driver: &&Driver| match location {
        Location::Fixed(name) => driver.bus == bus && driver.name == name,
        Location::Pci(_) => driver.bus == bus,
    };
    for driver in order.iter().map(|&place| drivers[place]).filter(could_be) {
        // A probe gets a device that does not belong to the driver yet.
        let candidate = Device { name: driver.name, driver, location };
        if let Some(fit) = device_probe(&driver.methods, &candidate) {
            if best.as_ref().is_none_or(|(other, _)| fit > *other) {
                best = Some((fit, driver));
            }
        }
    }
    match best {
        Some((_, driver)) => attach(driver, location),
        None => {
            verbose!("{bus}: no driver for {location:?}");
            None
        }
    }
}

fn attach(driver: &'static Driver, location: Location) -> Option<&'static Device> {
    let unit = driver.units.fetch_add(1, Ordering::Relaxed);
    // Devices are never removed, and neither are their names, which the log points at.
    let name: &'static str = String::leak(format!("{}{unit}", driver.name));
    let device: &'static Device = Box::leak(Box::new(Device { name, driver, location }));
    match device_attach(&driver.methods, device) {
        Ok(()) => {
            verbose!("{name}: at {location:?}");
            Some(device)
        }
        Err(Failure(why)) => {
            crate::console::kprintln!("{name}: not attached: {why}");
            None
        }
    }
}
