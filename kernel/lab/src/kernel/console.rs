//! Prints on the serial port, and on the framebuffer once there is one.
//!
//! All output goes through `_vprintf`, which is also its name in a boot's log. Lines of several CPUs do not mix.

use crate::framebuffer::Framebuffer;
use crate::lock::SpinLock;
use crate::uart;
use core::fmt::{self, Write};

/// Prints a line on the console.
macro_rules! kprintln {
    ($($part:tt)*) => { $crate::console::_vprintf(format_args!($($part)*)) };
}
/// Prints a line in a verbose boot only.
macro_rules! verbose {
    ($($part:tt)*) => {
        if $crate::boot::switches().verbose == lab::switches::Verbose::Yes { $crate::console::kprintln!($($part)*) }
    };
}
pub(crate) use {kprintln, verbose};

pub struct Console {
    framebuffer: Option<Framebuffer>,
}

static CONSOLE: SpinLock<Console> = SpinLock::new(Console { framebuffer: None });

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                uart::put(b'\r');
            }
            uart::put(byte);
            if let Some(framebuffer) = &mut self.framebuffer {
                framebuffer.put(byte);
            }
        }
        Ok(())
    }
}

/// Prints a line.
#[inline(never)]
pub fn _vprintf(line: fmt::Arguments) {
    let _scope = tslog::scope!("_vprintf");
    let mut console = CONSOLE.lock();
    // A console never fails.
    let _ = writeln!(console, "{line}");
}

/// Prints the last line of a panic, even if another CPU holds the console. It uses the serial port alone, because the screen's
/// cells may be half changed.
pub fn last_words(line: fmt::Arguments) {
    let _ = writeln!(Serial, "\n{line}");
}

/// Makes the console print on a framebuffer too.
pub fn add_framebuffer(framebuffer: Framebuffer) {
    CONSOLE.lock().framebuffer = Some(framebuffer);
}

/// The serial port alone, without an event in the log.
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(uart::put);
        Ok(())
    }
}
