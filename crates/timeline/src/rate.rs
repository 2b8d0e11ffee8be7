//! Where a clock's rate is known from.

use std::fmt;

/// What shows how fast a clock runs, or how it was joined to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The host measured it.
    Host,
    /// The same, and the counter was 0 when the virtual CPUs were started.
    HostFromStart,
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
    FirstRuns {
        /// How many.
        messages: usize,
        /// Whether process 1 set its end.
        process_1: bool,
    },
    /// What the evidence says, with the place where it does.
    Other(String),
}

impl From<&str> for RateSource {
    fn from(text: &str) -> RateSource {
        RateSource::Other(text.to_owned())
    }
}

impl From<String> for RateSource {
    fn from(text: String) -> RateSource {
        RateSource::Other(text)
    }
}

/// In words, as views and JSON have it.
impl fmt::Display for RateSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RateSource::Host => "measured on the host",
            RateSource::HostFromStart => "measured on the host, 0 at the start of the vCPUs",
            RateSource::Instructions => "one tick is one instruction is 1 ns",
            RateSource::User => "given by the user",
            RateSource::Unknown => "unknown: a tick is shown as a tick",
            RateSource::Kernel => "the kernel's own",
            RateSource::Printk => "printk's clock is time",
            RateSource::SyncPoints => "fitted to sync points",
            RateSource::CommonEvents => "through events seen on both clocks",
            RateSource::NearProcess1 => {
                "set by sync lines of process 1; ticks that the kernel lost earlier are not seen"
            }
            RateSource::FirstInstruction => {
                "from the kernel's first instruction on; ticks that the kernel lost are not seen"
            }
            RateSource::Arrival => "set by the arrival of its lines",
            RateSource::FirstRuns { messages, process_1 } => {
                let and = if *process_1 { ", and process 1's" } else { "" };
                return write!(out, "through messages whose functions were seen to run ({messages} messages{and})");
            }
            RateSource::Other(text) => text,
        })
    }
}
