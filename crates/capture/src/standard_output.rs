//! Standard output, for programs whose work is what they print: it must not be lost without an error.
//!
//! Rust opens `/dev/null` where the program was started with standard output closed, before `main`. Then all that is printed is gone,
//! and nothing fails. So this looks before Rust does.

#![allow(unsafe_code, reason = "a place in the list of functions that run before main")]

use std::io::{self, StdoutLock};
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls what is in this section once, before main, as functions that need nothing. `look` makes one system call
// and stores one byte, and cannot panic.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Standard output, to write to.
///
/// # Errors
/// If the program was started with it closed.
pub fn standard_output() -> io::Result<StdoutLock<'static>> {
    if WAS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other(
            "it is closed: start the program without `>&-`; >/dev/null discards what it prints",
        ));
    }
    Ok(io::stdout().lock())
}
