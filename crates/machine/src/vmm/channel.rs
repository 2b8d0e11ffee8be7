//! The guest's channel: the way that guest-init's messages take to the host.
//!
//! A channel names the device that the guest writes to, which the VMM makes, and takes apart what comes out of it. What
//! the messages mean is not its matter.

use std::fmt;

use guest_init::port::PortEvent;

/// A way for the guest's messages.
pub(crate) trait GuestChannel: fmt::Debug {
    /// What the guest writes to.
    fn wire(&self) -> Wire;

    /// What the recording says of where the messages come from.
    fn origin(&self) -> &'static str;

    /// Takes what just arrived, in whatever pieces, and hands on what it is.
    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>));
}

/// A device that a guest can write bytes to without a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// An I/O port: one byte, one write.
    IoPort(u16),
    /// The emergency register of a virtio console, in this place among those that a machine has for virtio devices.
    VirtioConsole(u8),
    /// A serial port without a driver, in this place among those of a machine; its registers' physical address, which the guest is told.
    SerialPort { place: u8, registers: u64 },
}
