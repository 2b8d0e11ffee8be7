//! A driver that prints: as many lines as `messages=` says, as real boots do by the hundred, and in a verbose boot as many
//! more as `details=` says.
//!
//! What a line costs is the console's business. On the serial port each character is waited for; on a screen each line
//! past the last row moves all the others.

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
        // As long as a line of a memory map.
        let from = u64::from(number) << 20;
        verbose!("{}: detail {number}: mem {from:#018x}-{:#018x} usable", device.name, from + 0xf_ffff);
    }
    Ok(())
}
