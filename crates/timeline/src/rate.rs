//! Where a clock's rate is known from. Its words are in `report`.

/// What shows how fast a clock runs, or how it was joined to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The host measured it.
    Host,
    /// The same, and the counter was 0 when the virtual CPUs were started.
    HostFromStart,
    /// The counter has a register that says it.
    CounterRegister,
    /// A deterministic boot: one instruction is one nanosecond.
    Instructions,
    /// The user gave it.
    User,
    /// Nothing says: a tick stands for itself.
    Unknown,
    /// The kernel counts nanoseconds.
    Kernel,
    /// Times are by printk's clock.
    Printk,
    /// Fitted to sync points.
    SyncPoints,
    /// Through events that both clocks stamped.
    CommonEvents,
    /// By lines that process 1 wrote, late in the boot. Ticks that the kernel lost earlier are not seen.
    NearProcess1,
    /// By the kernel's own stamps alone, from its first instruction on. Ticks that it lost are not seen.
    FirstInstruction,
    /// By when its lines arrived.
    Arrival,
    /// Through messages whose functions were seen to run.
    FirstExecutions {
        /// How many.
        messages: usize,
        /// Whether process 1 set its end.
        process_1: bool,
    },
    /// The kernel's log has the result of its refined calibration.
    RefinedCalibration,
    /// The kernel's log has the rate of the processor that it detected.
    DetectedProcessor,
    /// A line of the evidence gives it.
    Line {
        /// What that line is.
        line: RateLine,
        /// Where it is: `0.log:4`.
        place: String,
    },
    /// Messages that a kernel's event log and a stamped console both have.
    ConsoleLines {
        /// The steps of the log that wrote them: `SYSINIT announce`.
        steps: Vec<String>,
    },
}

/// A line that gives the rate of the counter that a kernel's event log is stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLine {
    /// The log's own last words.
    LogItself,
    /// `machdep.tsc_freq`.
    Sysctl,
    /// The frequency of a timecounter that is the counter itself.
    Timecounter,
    /// The same of `TSC-low`, which is the counter shifted right.
    ShiftedTimecounter {
        /// By so many bits.
        shift: u8,
        /// Whether the CPU's line shows how many; else it is what is usual.
        by_cpu: bool,
    },
    /// The CPU's line, which is rounded.
    Cpu,
}
