//! Prints the first lines of every boot.

use crate::console::kprintln;
use crate::sysinit::{Subsystem, sysinit};
use crate::{boot, memory};

sysinit!(announce, Subsystem::Copyright, 0, announce);

fn announce() {
    kprintln!("lab {}: the reference kernel of bootscope", env!("CARGO_PKG_VERSION"));
    kprintln!("memory: {} MiB, initrd: {} bytes", memory::end() >> 20, boot::initrd().end - boot::initrd().start);
}
