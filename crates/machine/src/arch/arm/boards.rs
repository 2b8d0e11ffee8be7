//! Boards whose devices differ from those of `virt`.

use super::super::Board;
use super::super::serial_port::SerialPort;

pub(super) static ALL: [Board; 1] = [
    // The i.MX6's five UARTs are QEMU's serial ports in the order of their numbers (hw/arm/fsl-imx6.c). The board's console is the second
    // (`stdout-path` in its device tree). The third has no driver, because the device tree leaves it switched off.
    Board {
        name: "sabrelite",
        console: "ttymxc1",
        console_place: 1,
        channel: || SerialPort { place: 2, registers: 0x021e_c000 }.open(),
    },
];
