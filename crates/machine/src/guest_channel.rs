//! The guest's channel, which carries guest-init's messages to the host.
//!
//! A channel names the device that the guest writes to, and splits the device's output into messages. The VMM makes the device. A
//! channel does not interpret the messages.

use std::fmt;

use guest_init::port::PortEvent;

/// A carrier of the guest's messages.
pub(crate) trait GuestChannel: fmt::Debug {
    /// The device that the guest writes to.
    fn wire(&self) -> Wire;

    /// The origin of the messages, in the words of the recording.
    fn origin(&self) -> &'static str;

    /// Parses bytes that arrived, which may be cut anywhere, and passes each complete event to `hear`.
    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>));
}

/// A device that a guest can write bytes to without a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// An I/O port: each write is one byte.
    IoPort(u16),
    /// The emergency register of a virtio console. The number is its place among the machine's places for virtio devices.
    VirtioConsole(u8),
    /// A serial port without a driver: its place among the machine's serial ports, and the physical address of its registers, which
    /// the guest receives.
    SerialPort { place: u8, registers: u64 },
}
