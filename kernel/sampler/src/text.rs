//! Samples as text, in the form of `perf script`, which flame graph tools and `bootscope import` read.
//!
//! ```text
//! # clock: tsc 2000000000
//! init     7/7     [000]    0.051234567:     999847 nmi:k:
//!               2012ab lab::memory::logged+0x1b ([kernel])
//!               20aa10 [unknown] ([kernel])
//!
//! ```
//! Each line of a function begins with a tab. A user-mode sample has the event `nmi:u`, and one line for the interrupted instruction.

use crate::ring::Sample;
use crate::walk::End;
use core::fmt::{self, Write};

/// The data that all samples of a text share.
#[derive(Clone, Copy, Debug)]
pub struct Heading {
    /// Rate of the samples' counter, in ticks per second.
    pub ticks_hz: u64,
    /// Ticks between two samples of a CPU.
    pub period_ticks: u64,
    /// Value of the counter when sampling began. There are no samples from before.
    pub began_ticks: u64,
    /// Number of lost samples, on all CPUs.
    pub lost: u64,
}

/// Writes the first lines of the text. Readers of `perf script` skip them, `bootscope` reads them.
pub fn write_heading(out: &mut impl Write, heading: &Heading) -> fmt::Result {
    let Heading { ticks_hz, period_ticks, began_ticks, lost } = *heading;
    writeln!(out, "# clock: tsc {ticks_hz}")?;
    write!(out, "# sampled from: ")?;
    write_seconds(out, began_ticks, ticks_hz)?;
    writeln!(out)?;
    writeln!(out, "# period: {} ns", nanoseconds(period_ticks, ticks_hz))?;
    writeln!(out, "# lost: {lost}\n")
}

/// Writes a sample. `comm` is the thread's name. `symbol` returns the function that contains an address, and the offset in
/// it.
pub fn write_sample<'n>(
    out: &mut impl Write,
    heading: &Heading,
    cpu: u32,
    comm: &str,
    sample: &Sample,
    mut symbol: impl FnMut(u64) -> Option<(&'n str, u64)>,
) -> fmt::Result {
    let thread = sample.thread;
    write!(out, "{comm:<8} {thread}/{thread} [{cpu:03}] ")?;
    write_seconds(out, sample.ticks, heading.ticks_hz)?;
    let (mode, module) = if sample.end == End::User { ('u', "[user]") } else { ('k', "[kernel]") };
    writeln!(out, ": {:>10} nmi:{mode}:", nanoseconds(heading.period_ticks, heading.ticks_hz))?;
    for &address in sample.frames {
        match symbol(address) {
            Some((name, offset)) => writeln!(out, "\t{address:16x} {name}+{offset:#x} ({module})")?,
            None => writeln!(out, "\t{address:16x} [unknown] ({module})")?,
        }
    }
    writeln!(out)
}

fn nanoseconds(ticks: u64, hz: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1))) as u64
}

fn write_seconds(out: &mut impl Write, ticks: u64, hz: u64) -> fmt::Result {
    let ns = nanoseconds(ticks, hz);
    write!(out, "{:>5}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
