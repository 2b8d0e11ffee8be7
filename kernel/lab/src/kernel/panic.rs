//! The panic handler: prints the message and the place, reports the panic to the host, and stops. The log stays in memory.

use crate::console::last_words;
use crate::{apic, cpu, exit, sampling};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

const NOBODY: u32 = u32::MAX;
/// The index of the CPU that panicked.
static PANICKED: AtomicU32 = AtomicU32::new(NOBODY);

/// True if another CPU than this one has panicked. The panicking CPU stops the others by an NMI. It must not stop itself when a
/// sampling NMI comes while it prints its last line.
pub fn stops_cpu(index: u32) -> bool {
    let panicked = PANICKED.load(Ordering::Acquire);
    panicked != NOBODY && panicked != index
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    x86_64::instructions::interrupts::disable();
    let index = cpu::this().index.get();
    if PANICKED.compare_exchange(NOBODY, index, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // Another CPU's panic, or a panic in this handler, has the console.
        cpu::stop();
    }
    sampling::stop();
    tslog::event!("panic");
    if cpu::running() > 1 {
        apic::stop_others();
    }
    last_words(format_args!("panic: cpu {index} thread {:#x}: {info}", cpu::thread_id()));
    exit::panicked()
}

// Precompiled `core` and `alloc` refer to both. With `panic = "abort"` neither is called.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    cpu::stop()
}
