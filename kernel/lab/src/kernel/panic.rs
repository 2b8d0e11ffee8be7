//! Panic: says what and where, tells the host, stops. The log stays in memory.

use crate::console::last_words;
use crate::{apic, cpu, exit};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

static PANICKED: AtomicBool = AtomicBool::new(false);

/// Whether some CPU has panicked: it stops the others by an interrupt.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::Acquire)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    x86_64::instructions::interrupts::disable();
    if PANICKED.swap(true, Ordering::AcqRel) {
        // Another CPU's panic, or one in here, has the console; or this is that panic's interrupt.
        cpu::stop();
    }
    tslog::event!("panic");
    if cpu::running() > 1 {
        apic::stop_others();
    }
    last_words(format_args!("panic: cpu {} thread {:#x}: {info}", cpu::this().index.get(), cpu::thread_id()));
    exit::panicked()
}

// Precompiled `core` and `alloc` refer to both; with `panic = "abort"` nobody calls either.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    cpu::stop()
}
