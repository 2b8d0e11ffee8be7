//! The cycle counter of each architecture: raw, and read as cheaply as it can be.
//!
//! There is no fence before the read. A fence would move the stamp by the few nanoseconds that the processor may run
//! ahead, and cost more than that: what is measured here is functions, not instructions. So it is on aarch64, where RDTSC's
//! LFENCE would be an ISB, or the self-synchronised CNTVCTSS_EL0 of later processors.

#[cfg(target_arch = "x86_64")]
mod this {
    #[cfg(feature = "on")]
    use crate::layout::TicksSource;

    #[cfg(feature = "on")]
    pub const SOURCE: TicksSource = TicksSource::Tsc;

    /// The time stamp counter: of constant rate on every processor of the last fifteen years, also while halted.
    #[inline(always)]
    pub fn ticks() -> u64 {
        // SAFETY: every x86-64 processor has it, and at the privilege of a kernel nothing can forbid it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// CPUID says it on few machines and calibration takes time: the kernel says it when it knows.
    #[cfg(feature = "on")]
    pub fn hz() -> u64 {
        0
    }
}

#[cfg(target_arch = "aarch64")]
mod this {
    #[cfg(feature = "on")]
    use crate::layout::TicksSource;
    use core::arch::asm;

    #[cfg(feature = "on")]
    pub const SOURCE: TicksSource = TicksSource::Cntvct;

    /// The generic timer's virtual count: of constant rate, the same on all CPUs, and readable at EL1 and EL2 from reset.
    /// The cycle counter proper (PMCCNTR) has to be set up first, stops in WFI and differs by CPU. It is the physical count minus
    /// CNTVOFF_EL2: a kernel that is entered at EL2 sets that on each CPU, before the CPU's first event.
    #[inline(always)]
    pub fn ticks() -> u64 {
        let ticks;
        // SAFETY: reads a counter register and nothing else.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// What the firmware wrote there; 0 if it did not.
    #[cfg(feature = "on")]
    pub fn hz() -> u64 {
        let hz: u64;
        // SAFETY: reads a register and nothing else.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
        hz & 0xffff_ffff
    }
}

#[cfg(target_arch = "riscv64")]
mod this {
    #[cfg(feature = "on")]
    use crate::layout::TicksSource;
    use core::arch::asm;

    #[cfg(feature = "on")]
    pub const SOURCE: TicksSource = TicksSource::RiscvTime;

    /// `time`, not `cycle`: of constant rate, the same on all harts, and firmware lets supervisors read it. `cycle` stops
    /// in WFI, follows the clock of its hart, and traps where firmware keeps the counters to itself.
    #[inline(always)]
    pub fn ticks() -> u64 {
        let ticks;
        // SAFETY: reads a counter and nothing else.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// Only the device tree knows (`timebase-frequency`).
    #[cfg(feature = "on")]
    pub fn hz() -> u64 {
        0
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod this {
    #[cfg(feature = "on")]
    use crate::layout::TicksSource;

    #[cfg(feature = "on")]
    pub const SOURCE: TicksSource = TicksSource::Unknown;

    /// None is known for this architecture: [`Kernel::COUNTER`](crate::Kernel::COUNTER) is read in its place.
    #[inline(always)]
    pub fn ticks() -> u64 {
        0
    }

    #[cfg(feature = "on")]
    pub fn hz() -> u64 {
        0
    }
}

pub use this::ticks;

#[cfg(feature = "on")]
pub(crate) use this::{SOURCE, hz};
