//! A driver that prints lines: `messages=` of them, as real boots print hundreds, and `details=` more in a verbose boot.
//!
//! The console determines the cost of a line. On the serial port it waits for each character. On a screen each line past the
//! last row moves all the others.

use crate::boot;
use crate::console::{kprintln, verbose};
use crate::device::{Device, Failure, Fit, driver};

driver!(chatty, on nexus, probe, attach);

fn probe(_: &Device) -> Option<Fit> {
    (boot::switches().messages > 0 || boot::switches().details > 0).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    for number in 1..=boot::switches().messages {
        kprintln!("{}: message {number} of {}", device.name, boot::switches().messages);
    }
    for number in 0..boot::switches().details {
        // The line is as long as one of a memory map.
        let from = u64::from(number) << 20;
        verbose!("{}: detail {number}: mem {from:#018x}-{:#018x} usable", device.name, from + 0xf_ffff);
    }
    Ok(())
}
