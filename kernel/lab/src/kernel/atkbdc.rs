//! The i8042 keyboard controller, with a keyboard and a mouse behind it.
//!
//! After each reset, of the controller or of a device behind it, the driver waits 200 ms for the voltage to settle before it
//! reads an answer. Drivers do this several times at boot, even if the keyboard in use is not a PS/2 keyboard. `ps2=skip`
//! leaves the controller alone.

use crate::boot;
use crate::clock::delay_us;
use crate::console::verbose;
use crate::cpu::{inb, outb};
use crate::device::{self, Device, Failure, Fit, Location, driver};
use lab::switches::Ps2;

driver!(atkbdc, on isa, probe_controller, attach_controller);
driver!(atkbd, on atkbdc, probe_keyboard, attach_keyboard);
driver!(psm, on atkbdc, probe_mouse, attach_mouse);

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const COMMAND: u16 = 0x64;
const OUTPUT_FULL: u8 = 1;
const INPUT_FULL: u8 = 2;

const SELF_TEST: u8 = 0xaa;
const SELF_TEST_PASSED: u8 = 0x55;
const ENABLE_MOUSE_PORT: u8 = 0xa8;
const TO_MOUSE: u8 = 0xd4;
const RESET: u8 = 0xff;
const ACKNOWLEDGE: u8 = 0xfa;
const BASIC_ASSURANCE_PASSED: u8 = 0xaa;

const SETTLE_US: u64 = 200_000;
const MAX_POLLS: u32 = 10_000;
/// Number of resets by each driver, a fifth of a second each. The published times are 640 ms early, 430 ms for the keyboard
/// and 1570 ms for the mouse (Percival 2018).
const EARLY_RESETS: u32 = 3;
const KEYBOARD_RESETS: u32 = 2;
const MOUSE_RESETS: u32 = 8;

fn is_present() -> bool {
    // Without a controller the bus floats.
    inb(STATUS) != 0xff
}

fn is_wanted() -> bool {
    boot::switches().ps2 == Ps2::Probe && is_present()
}

/// Stage keyboard: makes the keyboard usable for a debugger.
pub fn reset_early() {
    if is_wanted() {
        for _ in 0..EARLY_RESETS {
            test_controller();
        }
    }
}

fn send(port: u16, byte: u8) {
    if (0..MAX_POLLS).any(|_| inb(STATUS) & INPUT_FULL == 0) {
        outb(port, byte);
    }
}

fn receive() -> Option<u8> {
    (0..MAX_POLLS).any(|_| inb(STATUS) & OUTPUT_FULL != 0).then(|| inb(DATA))
}

fn drain() {
    while inb(STATUS) & OUTPUT_FULL != 0 {
        inb(DATA);
    }
}

fn test_controller() -> bool {
    drain();
    send(COMMAND, SELF_TEST);
    delay_us(SETTLE_US);
    receive() == Some(SELF_TEST_PASSED)
}

/// Resets the device behind one of the two ports. Returns true if it answered correctly.
fn reset(select: impl Fn()) -> bool {
    drain();
    select();
    send(DATA, RESET);
    delay_us(SETTLE_US);
    receive() == Some(ACKNOWLEDGE) && receive() == Some(BASIC_ASSURANCE_PASSED)
}

fn probe_controller(_: &Device) -> Option<Fit> {
    is_present().then_some(Fit::Exact)
}

fn attach_controller(_: &Device) -> Result<(), Failure> {
    for place in ["atkbd", "psm"] {
        device::add("atkbdc", Location::Fixed(place));
    }
    Ok(())
}

fn probe_keyboard(_: &Device) -> Option<Fit> {
    is_wanted().then_some(Fit::Exact)
}

fn attach_keyboard(device: &Device) -> Result<(), Failure> {
    let answered = (0..KEYBOARD_RESETS).filter(|_| reset(|| {})).count();
    verbose!("{}: answered {answered} of {KEYBOARD_RESETS} resets", device.name);
    if answered > 0 { Ok(()) } else { Err(Failure("the keyboard does not answer")) }
}

fn probe_mouse(_: &Device) -> Option<Fit> {
    if !is_wanted() {
        return None;
    }
    send(COMMAND, ENABLE_MOUSE_PORT);
    let answered = (0..MOUSE_RESETS).filter(|_| reset(|| send(COMMAND, TO_MOUSE))).count();
    (answered > 0).then_some(Fit::Exact)
}

fn attach_mouse(_: &Device) -> Result<(), Failure> {
    Ok(())
}
