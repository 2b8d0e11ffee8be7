//! The port and the time stamp counter: the machine instructions that process 1 needs besides its entry.

use guest_init::messages::PORT;

/// Sends bytes unchanged. If this process may not use ports, the CPU faults and the process ends.
pub fn put(bytes: &[u8]) {
    // SAFETY: rsi and rcx span `bytes`, which are only read.
    unsafe {
        std::arch::asm!(
            "rep outsb",
            inout("rsi") bytes.as_ptr() => _,
            inout("rcx") bytes.len() => _,
            in("dx") PORT,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// The time stamp counter, read after everything that precedes this call is done.
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 CPU has both instructions, and this program never forbids user space to read the counter.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

/// Gives up or takes back the right to use ports; the next init must not inherit it.
pub fn allow_ports(allow: bool) {
    let level = if allow { 3u64 } else { 0 };
    // SAFETY: iopl changes only this process' right to use ports, no memory. A failure changes nothing.
    unsafe {
        std::arch::asm!(
            "syscall",
            inout("rax") 172u64 => _,
            in("rdi") level,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
}
