//! Standard output for programs whose result is their output: it must not be lost without an error.
//!
//! If a program is started with standard output closed, Rust opens `/dev/null` before `main`. Then all output is lost,
//! and nothing fails. So this module checks before Rust does.

#![allow(unsafe_code, reason = "a place in the list of functions that run before main")]

use std::io::{self, StdoutLock};
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls the functions in this section once, before main; they need no initialised state. `look`
// makes one system call and stores one byte, and cannot panic.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Standard output, for writing.
///
/// # Errors
/// If the program was started with standard output closed.
pub fn standard_output() -> io::Result<StdoutLock<'static>> {
    if WAS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other(
            "it is closed: start the program without `>&-`; >/dev/null discards what it prints",
        ));
    }
    Ok(io::stdout().lock())
}
