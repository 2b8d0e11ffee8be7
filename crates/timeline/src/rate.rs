//! The source of a clock's rate. The `report` crate has the words.

/// The evidence for a clock's rate, or for how it was joined to other clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The host measured it.
    Host,
    /// The same, and the counter was 0 when the virtual CPUs were started.
    HostFromStart,
    /// The counter has a register with its rate.
    CounterRegister,
    /// A deterministic boot: one instruction is one nanosecond.
    Instructions,
    /// The user specified it.
    User,
    /// The rate is unknown: a tick stands for itself.
    Unknown,
    /// The kernel counts nanoseconds.
    Kernel,
    /// Times are from printk's clock.
    Printk,
    /// Fitted to sync points.
    SyncPoints,
    /// Fitted through events that both clocks stamped.
    CommonEvents,
    /// Fitted to lines that process 1 wrote, late in the boot. It misses ticks that the kernel lost earlier.
    NearProcess1,
    /// The kernel's own stamps alone, from its first instruction on. It misses ticks that the kernel lost.
    FirstInstruction,
    /// The arrival times of its lines.
    Arrival,
    /// Fitted through messages whose functions were seen to run.
    FirstExecutions {
        /// The number of messages.
        messages: usize,
        /// True if the start of process 1 is a sync point too.
        process_1: bool,
    },
    /// The kernel's log has the result of its refined calibration.
    RefinedCalibration,
    /// The kernel's log has the rate of the processor that it detected.
    DetectedProcessor,
    /// A line of the evidence gives it.
    Line {
        /// The kind of line.
        line: RateLine,
        /// The line's place, such as `0.log:4`.
        place: String,
    },
    /// Messages that a kernel's event log and a stamped console both have.
    ConsoleLines {
        /// The steps of the log that wrote them, such as `SYSINIT announce`.
        steps: Vec<String>,
    },
}

/// A line with the rate of the counter that stamps a kernel's event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLine {
    /// The log's own last line.
    LogItself,
    /// `machdep.tsc_freq`.
    Sysctl,
    /// The frequency of a timecounter that is the counter itself.
    Timecounter,
    /// The same for `TSC-low`, which is the counter shifted right.
    ShiftedTimecounter {
        /// The number of bits.
        shift: u8,
        /// True if the CPU's line shows the shift; else it is the usual shift.
        by_cpu: bool,
    },
    /// The CPU's line, which is rounded.
    Cpu,
}
