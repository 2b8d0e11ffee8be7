//! Finds out the meaning of "usecs" in a log: microseconds, or nanoseconds >> 10.
//!
//! Until the kernel has a fine clock, it measures in timer ticks, and a whole number of ticks reads differently in the
//! two units: 10 ms is 9765 or 10000, 4 ms is 3906 or 4000. Such figures decide. Without them the kernel's version
//! decides. If that is unknown too, "usecs" is taken literally.

use super::parse::Message;
use crate::formats::kernel_log::KernelLog;
use crate::input::text::number;
use timeline::Ns;

/// The unit of a log's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// True if a figure counts units of 1024 ns.
    pub shifted: bool,
    /// The evidence for it, in words.
    pub evidence: String,
    /// The number of messages at the start of the log that measure in whole timer ticks.
    pub(super) coarse_until: usize,
    /// Length of such a tick; zero if no figure is known to be in whole ticks.
    pub tick: Ns,
}

impl Unit {
    /// Converts a figure to a length of time.
    pub fn length(&self, figure: u64) -> Ns {
        let figure = i64::try_from(figure).unwrap_or(i64::MAX);
        if self.shifted { Ns(figure.saturating_mul(1024)) } else { Ns::from_us(figure) }
    }
}

/// Lengths of a timer tick, in nanoseconds: 100, 250, 300 and 1000 Hz.
const TICKS_NS: [u32; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];

/// A call of more ticks than this was not measured in ticks.
const TICKS_MAX: u64 = 100_000;

/// The first kernel that prints microseconds.
const MICROSECONDS_SINCE: (u64, u64) = (5, 18);

pub(super) fn decide<'a>(log: &KernelLog, messages: impl Iterator<Item = &'a Message<'a>> + Clone) -> Unit {
    let coarse = |shifted: bool| {
        // Reversed, so that the longest tick wins if several fit equally well: 10 ms are three of 3.33.
        let best = TICKS_NS.iter().rev().map(|&tick| ticks_seen(messages.clone(), tick, shifted));
        best.max_by_key(|seen| seen.whole).unwrap_or_default()
    };
    let (shifted, plain) = (coarse(true), coarse(false));
    let version = version(log.all_text());
    let by_version = version.map(|version| version < MICROSECONDS_SINCE);
    // One figure in a thousand is a whole tick of 1 ms by chance; two are not chance.
    if shifted.whole.max(plain.whole) >= 2 && shifted.whole != plain.whole {
        let is_shifted = shifted.whole > plain.whole;
        let seen = if is_shifted { shifted } else { plain };
        let evidence = format!(
            "{} figures are whole timer ticks of {}, but only in this unit",
            seen.whole,
            Ns(seen.tick_ns.into())
        );
        let tick = Ns(seen.tick_ns.into());
        return Unit { shifted: is_shifted, evidence, coarse_until: seen.until, tick };
    }
    match (version, by_version) {
        (Some((major, minor)), Some(shifted)) => {
            Unit { shifted, evidence: format!("the log is of Linux {major}.{minor}"), ..Unit::default() }
        }
        _ => Unit { evidence: "nothing: the word usecs is believed".to_owned(), ..Unit::default() },
    }
}

/// The number of figures that fit a tick.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tick_ns: u32,
    /// The number of figures that are a whole number of ticks, and not zero.
    whole: u64,
    /// The index of the message with the first figure that is not.
    until: usize,
}

/// Counts the figures that are whole ticks, up to the first that is not: from there on a fine clock measures.
fn ticks_seen<'a>(messages: impl Iterator<Item = &'a Message<'a>>, tick_ns: u32, shifted: bool) -> Seen {
    let mut seen = Seen { tick_ns, ..Seen::default() };
    for (i, message) in messages.enumerate() {
        if let Message::Returned { figure: Some(figure @ 1..), .. } = *message {
            if !is_whole(figure, tick_ns, shifted) {
                return Seen { until: i, ..seen };
            }
            seen.whole += 1;
        }
        seen.until = i + 1;
    }
    seen
}

/// True if a whole number of ticks would be printed as this figure.
fn is_whole(figure: u64, tick_ns: u32, shifted: bool) -> bool {
    let (unit, tick_ns) = (if shifted { 1024 } else { 1000 }, u64::from(tick_ns));
    let Some(ns) = figure.checked_mul(unit) else { return false };
    // The figure is rounded down, so the nearest number of ticks is at most one figure above.
    let ticks = ns.div_ceil(tick_ns);
    (1..TICKS_MAX).contains(&ticks) && (ticks * tick_ns) / unit == figure
}

/// `Linux version 6.1.0-47-cloud-amd64 …`
fn version(text: &str) -> Option<(u64, u64)> {
    let at = memchr::memmem::find(text.as_bytes(), b"Linux version ")?;
    let (major, rest) = number(&text.as_bytes()[at + 14..])?;
    let (minor, _) = number(rest.strip_prefix(b".")?)?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::initcalls::parse::message;
    use timeline::Diagnostics;

    #[track_caller]
    fn check(first_line: &str, figures: &[u64], shifted: bool, evidence: &str) {
        let calls = figures.iter().map(|n| format!("initcall f+0x0/0x1 returned 0 after {n} usecs\n"));
        let text: String = std::iter::once(format!("{first_line}\n")).chain(calls).collect();
        let log = KernelLog::read("a", text.as_bytes(), &mut Diagnostics::default()).unwrap();
        let messages: Vec<_> = log.lines.iter().filter_map(|l| message(log.text(l))).collect();
        let unit = decide(&log, messages.iter());
        assert_eq!((unit.shifted, unit.evidence.as_str()), (shifted, evidence));
    }

    #[test]
    fn ticks_decide_then_the_version_then_the_literal_meaning() {
        let whole = "4 figures are whole timer ticks of 10.0 ms, but only in this unit";
        check("x", &[9765, 9765, 19531, 19531], true, whole);
        check("Linux version 6.12.1 (vendor)", &[0, 9765, 9765, 19531, 19531, 12], true, whole);
        check(
            "Linux version 3.5.7",
            &[10000, 20000, 0, 30000],
            false,
            "3 figures are whole timer ticks of 10.0 ms, but only in this unit",
        );
        check("x", &[3906, 7812, 0, 11718], true, "3 figures are whole timer ticks of 4.00 ms, but only in this unit");
        check(
            "x",
            &[976, 1953, 2929, 37109, 177734],
            true,
            "5 figures are whole timer ticks of 1.00 ms, but only in this unit",
        );
        check("Linux version 3.5.7", &[12, 9765], true, "the log is of Linux 3.5");
        check("Linux version 5.17.0", &[12, 44], true, "the log is of Linux 5.17");
        check("Linux version 5.18.0", &[12, 44], false, "the log is of Linux 5.18");
        check("x", &[12, 44], false, "nothing: the word usecs is believed");
        check("x", &[u64::MAX, 1], false, "nothing: the word usecs is believed");
    }
}
