//! The screen: a linear framebuffer on QEMU's standard VGA, with a text console on it.
//!
//! It has 400 columns and 112 rows of 8x8 characters, as on a laptop's high-resolution screen, drawn pixel by pixel.
//! `lab::cells` decides which cells are drawn when it scrolls.

use crate::boot;
use crate::console::{add_framebuffer, verbose};
use crate::cpu::{inw, outw};
use crate::device::{Device, Failure, Fit, Location, driver};
use crate::pci::Configuration;
use alloc::vec;
use font8x8::legacy::BASIC_LEGACY;
use lab::cells::Cells;
use pci_types::{Bar, EndpointHeader, PciHeader};

driver!(vgapci, on pci, probe, attach);

const COLUMNS: usize = 400;
const ROWS: usize = 112;
const CELL: usize = 8;
const WIDTH: usize = COLUMNS * CELL;
const HEIGHT: usize = ROWS * CELL;
const QEMU_VGA: (u16, u16) = (0x1234, 0x1111);
const INK: u32 = 0x00c0_c0c0;
const PAPER: u32 = 0;

/// Bochs' display interface: an index port, a data port.
const DISPI_INDEX: u16 = 0x1ce;
const DISPI_DATA: u16 = 0x1cf;
const DISPI_ID: u16 = 0;
const DISPI_WIDTH: u16 = 1;
const DISPI_HEIGHT: u16 = 2;
const DISPI_BITS: u16 = 3;
const DISPI_ENABLE: u16 = 4;
const ENABLED_LINEAR: u16 = 0x41;
const ID_MASK: u16 = 0xfff0;
const ID: u16 = 0xb0c0;

pub struct Framebuffer {
    pixels: *mut u32,
    cells: Cells<'static>,
}

// SAFETY: the console's lock lets only one CPU use it at a time.
unsafe impl Send for Framebuffer {}

impl Framebuffer {
    pub fn put(&mut self, byte: u8) {
        let pixels = self.pixels;
        self.cells.put(byte, |row, column, byte| draw(pixels, row, column, byte));
    }
}

fn draw(pixels: *mut u32, row: usize, column: usize, byte: u8) {
    let glyph = BASIC_LEGACY[usize::from(byte & 0x7f)];
    for (line, bits) in glyph.iter().enumerate() {
        let at = (row * CELL + line) * WIDTH + column * CELL;
        for dot in 0..CELL {
            let colour = if bits >> dot & 1 == 1 { INK } else { PAPER };
            // SAFETY: the cell is on the screen, and the screen is mapped.
            unsafe { pixels.add(at + dot).write_volatile(colour) };
        }
    }
}

fn probe(device: &Device) -> Option<Fit> {
    let Location::Pci(function) = device.location else { return None };
    ((function.vendor, function.device) == QEMU_VGA).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    let Location::Pci(function) = device.location else { return Err(Failure("not on PCI")) };
    let header = EndpointHeader::from_header(PciHeader::new(function.address), Configuration);
    let (address, bytes) = match header.and_then(|header| header.bar(0, Configuration)) {
        Some(Bar::Memory32 { address, size, .. }) => (u64::from(address), u64::from(size)),
        _ => return Err(Failure("no framebuffer")),
    };
    if address == 0 || bytes < (WIDTH * HEIGHT * 4) as u64 {
        return Err(Failure("the firmware has given it no memory, or not enough"));
    }
    if !set_mode() {
        return Err(Failure("no display interface"));
    }
    let shadow = vec![0; COLUMNS * ROWS].leak();
    let cells = Cells::new(shadow, COLUMNS, boot::switches().console).ok_or(Failure("no cells"))?;
    add_framebuffer(Framebuffer { pixels: address as *mut u32, cells });
    verbose!("{}: {COLUMNS} x {ROWS} characters", device.name);
    Ok(())
}

fn set_mode() -> bool {
    let write = |index, value| {
        outw(DISPI_INDEX, index);
        outw(DISPI_DATA, value);
    };
    outw(DISPI_INDEX, DISPI_ID);
    if inw(DISPI_DATA) & ID_MASK != ID {
        return false;
    }
    write(DISPI_ENABLE, 0);
    write(DISPI_WIDTH, WIDTH as u16);
    write(DISPI_HEIGHT, HEIGHT as u16);
    write(DISPI_BITS, 32);
    write(DISPI_ENABLE, ENABLED_LINEAR);
    true
}
