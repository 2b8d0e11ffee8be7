//! The end of a boot for the host: the hand-over, the printed log if it is requested, and power-off.
//!
//! The messages on port 0xe9 are those of guest-init: `I <tsc>` at the hand-over, `E <outcome>` before power-off.

use crate::console::{Serial, kprintln};
use crate::cpu::{self, inb, outb, outl};
use crate::{acpi_tables, boot, clock, sampling, trap};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use lab::switches::Log;

const HOST_PORT: u16 = 0xe9;
/// Value that a read of the port returns if the host listens.
const HOST_LISTENS: u8 = 0xe9;
/// QEMU's isa-debug-exit: QEMU exits with twice the value, plus one.
const DEBUG_EXIT: u16 = 0xf4;
const DEBUG_EXIT_DONE: u32 = 0;
const DEBUG_EXIT_PANIC: u32 = 1;
/// QEMU's pvpanic, bit 0: the guest has panicked.
const PVPANIC: u16 = 0x505;
const RESET_CONTROL: u16 = 0xcf9;
const RESET: u8 = 0x06;
const KEYBOARD_COMMAND: u16 = 0x64;
const PULSE_RESET: u8 = 0xfe;

struct Host;

impl Write for Host {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if inb(HOST_PORT) == HOST_LISTENS {
            text.bytes().for_each(|byte| outb(HOST_PORT, byte));
        }
        Ok(())
    }
}

/// A file for the host's recording, sent on the port in pieces. Each piece begins with a line that has its length and a
/// checksum.
pub struct HostFile {
    name: &'static str,
    offset: u64,
    piece: Vec<u8>,
}

const PIECE_BYTES: usize = 16 << 10;

impl HostFile {
    pub fn new(name: &'static str) -> HostFile {
        HostFile { name, offset: 0, piece: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Sends the last piece.
    pub fn end(mut self) {
        self.send("last");
    }

    fn send(&mut self, more: &str) {
        let sum = twox_hash::XxHash64::oneshot(0, &self.piece) as u32;
        let _ = writeln!(Host, "P {} {} {} {sum:08x} {more}", self.name, self.offset, self.piece.len());
        if inb(HOST_PORT) == HOST_LISTENS {
            self.piece.iter().for_each(|&byte| outb(HOST_PORT, byte));
        }
        let _ = writeln!(Host);
        self.offset += self.piece.len() as u64;
        self.piece.clear();
    }
}

impl Write for HostFile {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.piece.len() + text.len() > PIECE_BYTES {
            self.send("more");
        }
        self.piece.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Reports the hand-over to the host.
pub fn handed_over() {
    // The host port never fails.
    let _ = writeln!(Host, "I {}", cpu::rdtsc());
}

/// Sends the samples to the host, prints the log if requested, and switches the machine off by the first way that works.
pub fn power_off() -> ! {
    sampling::deliver();
    if boot::switches().log == Log::Text {
        print_log();
    }
    let _ = writeln!(Host, "E poweroff");
    outl(DEBUG_EXIT, DEBUG_EXIT_DONE);
    if acpi_tables::sleep_for_ever() {
        // The machine runs on until its monitor has noticed the power-off. The monitor must not see a reset first.
        cpu::stop()
    }
    // A machine that cannot be switched off is reset, by one of three ways. With -no-reboot, QEMU then exits.
    kprintln!("{}", lab::RESETS_INSTEAD);
    outb(RESET_CONTROL, RESET);
    outb(KEYBOARD_COMMAND, PULSE_RESET);
    trap::unload();
    cpu::invalid_instruction()
}

/// Reports a panic to the host, and stops.
pub fn panicked() -> ! {
    outb(PVPANIC, 1);
    outl(DEBUG_EXIT, DEBUG_EXIT_PANIC);
    cpu::stop()
}

/// Prints the counter's rate and the log, like FreeBSD's two sysctls.
fn print_log() {
    let mut serial = Serial;
    let _ = writeln!(serial, "machdep.tsc_freq: {}", clock::tsc_hz());
    let _ = serial.write_str("tslog: begin\n");
    let _ = tslog::write_text(&mut serial);
    let _ = serial.write_str("tslog: end\n");
}
