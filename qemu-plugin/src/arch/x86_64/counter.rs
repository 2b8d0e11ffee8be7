//! The time stamp counter of the host's CPU.

#![allow(unsafe_code, reason = "the counter")]

/// What it shows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, it touches no memory, and QEMU asks Linux for no fault at it (PR_SET_TSC).
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether it runs evenly and in all sleep states: the bit "invariant TSC" of CPUID's leaf 0x80000007.
#[cfg(target_arch = "x86_64")]
pub fn is_even() -> bool {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 CPU has CPUID and this leaf, which tells the highest one of its kind. Newer Rust knows that.
    #[allow(unused_unsafe, reason = "the function is unsafe up to Rust 1.88")]
    let (highest, power) = unsafe { (__cpuid(0x8000_0000).eax, __cpuid(0x8000_0007).edx) };
    highest >= 0x8000_0007 && power & 1 << 8 != 0
}

/// Of a host of another kind it is not known how to read it.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    unreachable!("is_even is false")
}

/// So its clock is the system's.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_even() -> bool {
    false
}
