//! The cycle counter of each architecture: the raw value, read as cheaply as possible.
//!
//! There is no fence before the read. A fence would move the stamp by the few nanoseconds that the processor may run
//! ahead, and would cost more than that. The log measures functions, not instructions. The same holds on aarch64: the
//! counterpart of an LFENCE before RDTSC would be an ISB, or CNTVCTSS_EL0, which later processors synchronise themselves.

#[cfg(target_arch = "x86_64")]
mod this {
    #[cfg(feature = "on")]
    use crate::layout::TicksSource;

    #[cfg(feature = "on")]
    pub const SOURCE: TicksSource = TicksSource::Tsc;

    /// The time stamp counter. Its rate is constant on every processor of the last fifteen years, also while halted.
    #[inline(always)]
    pub fn ticks() -> u64 {
        // SAFETY: every x86-64 processor has RDTSC, and nothing can forbid it at the privilege of a kernel.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// Always 0 (not known): few machines report the rate in CPUID, and calibration takes time. The kernel sets the rate
    /// once it has measured it.
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

    /// The generic timer's virtual count. Its rate is constant and the same on all CPUs. It can be read at EL1 and EL2
    /// from reset on. The cycle counter proper (PMCCNTR) needs setup first, stops in WFI and differs between CPUs.
    ///
    /// The virtual count is the physical count minus CNTVOFF_EL2. A kernel that is entered at EL2 sets CNTVOFF_EL2 on each
    /// CPU, before the CPU's first event.
    #[inline(always)]
    pub fn ticks() -> u64 {
        let ticks;
        // SAFETY: only reads a counter register.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// The rate that the firmware wrote into CNTFRQ_EL0; 0 if it wrote none.
    #[cfg(feature = "on")]
    pub fn hz() -> u64 {
        let hz: u64;
        // SAFETY: only reads a register.
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

    /// The `time` counter, not `cycle`. The rate of `time` is constant and the same on all harts, and firmware lets
    /// supervisors read it. `cycle` stops in WFI, follows the clock of its hart, and traps if the firmware reserves the
    /// counters.
    #[inline(always)]
    pub fn ticks() -> u64 {
        let ticks;
        // SAFETY: only reads a counter.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// Always 0 (not known): only the device tree has the rate (`timebase-frequency`).
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

    /// Never called: tslog has no counter for this architecture. The recorder reads
    /// [`Kernel::COUNTER`](crate::Kernel::COUNTER) instead.
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
