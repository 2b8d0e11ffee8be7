//! The end of a boot, as the host sees it: that the kernel has handed over, the log if it is to be printed, power-off.
//!
//! The words on port 0xe9 are those of guest-init: `I <tsc>` when the kernel hands over, `E <outcome>` when it switches off.

use crate::console::{Serial, kprintln};
use crate::cpu::{self, inb, outb, outl};
use crate::{acpi_tables, boot, clock, sampling, trap};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use lab::switches::Log;

const HOST_PORT: u16 = 0xe9;
/// What a read of it gives where somebody listens.
const HOST_LISTENS: u8 = 0xe9;
/// QEMU's isa-debug-exit: it ends with twice the value, plus one.
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

/// A file for the host's recording, on the port: a line that says how many bytes follow, and a checksum, for each piece.
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

    /// All of it was written.
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

/// The kernel has done its part.
pub fn handed_over() {
    // The host port never fails.
    let _ = writeln!(Host, "I {}", cpu::rdtsc());
}

/// Hands samples over, prints the log if asked to, and switches the machine off by the first way that works.
pub fn power_off() -> ! {
    sampling::deliver();
    if boot::switches().log == Log::Text {
        print_log();
    }
    let _ = writeln!(Host, "E poweroff");
    outl(DEBUG_EXIT, DEBUG_EXIT_DONE);
    if acpi_tables::sleep_for_ever() {
        // The machine goes on until its monitor hears of it, which must not hear of a reset first.
        cpu::stop()
    }
    // A machine that cannot be switched off is reset, by the third way at the latest; QEMU ends under -no-reboot.
    kprintln!("{}", lab::RESETS_INSTEAD);
    outb(RESET_CONTROL, RESET);
    outb(KEYBOARD_COMMAND, PULSE_RESET);
    trap::unload();
    cpu::invalid_instruction()
}

/// Tells the host of a panic, and stops.
pub fn panicked() -> ! {
    outb(PVPANIC, 1);
    outl(DEBUG_EXIT, DEBUG_EXIT_PANIC);
    cpu::stop()
}

/// As FreeBSD's two sysctls would.
fn print_log() {
    let mut serial = Serial;
    let _ = writeln!(serial, "machdep.tsc_freq: {}", clock::tsc_hz());
    let _ = serial.write_str("tslog: begin\n");
    let _ = tslog::write_text(&mut serial);
    let _ = serial.write_str("tslog: end\n");
}
