//! PCI: configuration space by ports 0xcf8 and 0xcfc, and a scan of all buses that bridges lead to.
//!
//! With `pci=parallel` the scan only lists the functions. A thread for each function then probes and attaches it, and the bus is
//! attached when all threads are done. Attach methods run at the same time, on the CPUs that run by then (`smp=early`). With
//! `driver_lock=giant` all threads share one lock, which a thread holds while it attaches and sleeps. So they run one after the
//! other.

use crate::console::verbose;
use crate::cpu::{inl, outl};
use crate::device::{self, Device, Failure, Fit, Location, driver};
use crate::hold::{GIANT, PCI_PROBE};
use crate::lock::SpinLock;
use crate::{boot, thread};
use alloc::boxed::Box;
use lab::switches::{DriverLock, Pci};
use pci_types::{
    Bar, CommandRegister, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader, PciPciBridgeHeader,
};

driver!(pcib, on nexus, probe_host, attach_host);
driver!(pci_pci, on pci, probe_bridge, attach_bridge);

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
const NO_VENDOR: u16 = 0xffff;
const CLASS_BRIDGE: u8 = 6;
const SUBCLASS_PCI: u8 = 4;

/// A function of a device, with its vendor, device and class.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub address: PciAddress,
    pub vendor: u16,
    pub device: u16,
    pub class: u8,
    pub subclass: u8,
}

/// The lock of the two ports, which are used together.
static PORTS: SpinLock<()> = SpinLock::new(());

/// Access to configuration space.
#[derive(Clone, Copy)]
pub struct Configuration;

fn select(address: PciAddress, offset: u16) {
    let (bus, device, function) = (address.bus(), address.device(), address.function());
    let place = u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8;
    outl(ADDRESS, ENABLE | place | u32::from(offset) & 0xfc);
}

impl ConfigRegionAccess for Configuration {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        let _ports = PORTS.lock();
        select(address, offset);
        inl(DATA)
    }

    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        let _ports = PORTS.lock();
        select(address, offset);
        outl(DATA, value);
    }
}

fn probe_host(_: &Device) -> Option<Fit> {
    let _ports = PORTS.lock();
    outl(ADDRESS, ENABLE);
    // Without PCI (microvm) the port reads as all ones.
    (inl(ADDRESS) == ENABLE).then_some(Fit::Exact)
}

fn attach_host(_: &Device) -> Result<(), Failure> {
    scan(0);
    // A bridge's thread adds the functions behind it before it releases its hold.
    PCI_PROBE.wait();
    Ok(())
}

fn probe_bridge(device: &Device) -> Option<Fit> {
    let Location::Pci(function) = device.location else { return None };
    ((function.class, function.subclass) == (CLASS_BRIDGE, SUBCLASS_PCI)).then_some(Fit::Class)
}

fn attach_bridge(device: &Device) -> Result<(), Failure> {
    let Location::Pci(function) = device.location else { return Err(Failure("not on PCI")) };
    let header = PciPciBridgeHeader::from_header(PciHeader::new(function.address), Configuration);
    match header.map(|bridge| bridge.secondary_bus_number(Configuration)) {
        // A firmware that does not number buses (qboot) leaves 0.
        Some(bus) if bus > function.address.bus() => scan(bus),
        _ => verbose!("{}: no bus behind it", device.name),
    }
    Ok(())
}

/// Adds every function on a bus, and through bridges all functions behind it.
fn scan(bus: u8) {
    for device in 0..32 {
        let first = PciAddress::new(0, bus, device, 0);
        if PciHeader::new(first).id(Configuration).0 == NO_VENDOR {
            continue;
        }
        let functions = if PciHeader::new(first).has_multiple_functions(Configuration) { 8 } else { 1 };
        for function in 0..functions {
            add(PciAddress::new(0, bus, device, function));
        }
    }
}

fn add(address: PciAddress) {
    let header = PciHeader::new(address);
    let (vendor, device) = header.id(Configuration);
    if vendor == NO_VENDOR || matches!(header.header_type(Configuration), HeaderType::Unknown(_)) {
        return;
    }
    let (_, class, subclass, _) = header.revision_and_class(Configuration);
    verbose!("pci {address}: {vendor:04x}:{device:04x}, class {class:02x}{subclass:02x}");
    let function = Function { address, vendor, device, class, subclass };
    match boot::switches().pci {
        Pci::Serial => {
            device::add("pci", Location::Pci(function));
        }
        Pci::Parallel => {
            PCI_PROBE.hold();
            let function: &'static Function = Box::leak(Box::new(function));
            thread::create("pci_probe", probe_and_attach, core::ptr::from_ref(function).expose_provenance());
        }
    }
}

/// The thread of a function.
fn probe_and_attach(function: usize) {
    // SAFETY: `add` leaked the function for this thread.
    let function = unsafe { &*core::ptr::with_exposed_provenance::<Function>(function) };
    let giant = (boot::switches().driver_lock == DriverLock::Giant).then(|| GIANT.lock());
    device::add("pci", Location::Pci(*function));
    drop(giant);
    PCI_PROBE.release();
}

/// Address of a function's first memory range. Also lets the function answer there, and access memory itself.
///
/// Returns `None` if the function has no such range, if the firmware gave it no address (qboot does not), or if the range is
/// above 4 GiB, where devices are not mapped.
pub fn memory_of(function: &Function) -> Option<u64> {
    let mut endpoint = EndpointHeader::from_header(PciHeader::new(function.address), Configuration)?;
    let from = match endpoint.bar(0, Configuration)? {
        Bar::Memory32 { address, .. } => u64::from(address),
        Bar::Memory64 { address, .. } => address,
        Bar::Io { .. } => return None,
    };
    endpoint.update_command(Configuration, |command| {
        command | CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE
    });
    (1..1 << 32).contains(&from).then_some(from)
}
