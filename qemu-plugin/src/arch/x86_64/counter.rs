//! The time stamp counter of the host's CPU.

#![allow(unsafe_code, reason = "the counter")]

/// The counter's current value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, it touches no memory, and QEMU does not make Linux trap it (PR_SET_TSC).
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// True if the counter has a constant rate, also in all sleep states: the bit "invariant TSC" of CPUID's leaf
/// 0x80000007.
#[cfg(target_arch = "x86_64")]
pub fn is_even() -> bool {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 CPU has CPUID and this leaf, which returns the highest leaf of its kind. Newer Rust treats
    // it as safe.
    #[allow(unused_unsafe, reason = "the function is unsafe up to Rust 1.88")]
    let (highest, power) = unsafe { (__cpuid(0x8000_0000).eax, __cpuid(0x8000_0007).edx) };
    highest >= 0x8000_0007 && power & 1 << 8 != 0
}

/// Unused: there is no code to read the counter of another kind of host.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    unreachable!("is_even is false")
}

/// Returns false, so the clock is the system's.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_even() -> bool {
    false
}
