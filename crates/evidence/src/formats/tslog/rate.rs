//! Reads the rate of the log's counter from the text around the log.
//!
//! ```text
//! EVENT TSLOG hz 2445431964                                          the recorder's note at the end, from its header
//! machdep.tsc_freq: 2445431964                                       sysctl; also `=`, or `tsc_freq=` in notes
//! machdep.tsc_freq: 2,445,431,964                                    sysctl -h
//! kern.timecounter.tc.ARM MPCore Timecounter.frequency: 24000000     sysctl
//! Timecounter "TSC-low" frequency 1222715982 Hz quality 1000         console
//! CPU: AMD EPYC (2445.80-MHz K8-class CPU)                           console
//! ```
//! The most exact of several rates counts, in this order. `TSC-low` is the TSC shifted right until the timecounter can
//! use it, usually by one bit (`sys/x86/x86/tsc.c`); the shift that best fits the CPU's line is chosen. On arm64 the
//! log counts the generic timer. Other timecounters are not the log's counter. An implausible rate is counted but never
//! used: a typing error would turn milliseconds into years.

use crate::input::text::{grouped_number, number, skip_spaces};
use timeline::{Clock, RateLine, RateSource};

/// The source of a rate, the most exact first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The note at the log's end.
    Log,
    /// `machdep.tsc_freq`.
    Sysctl,
    /// `kern.timecounter.tc.*.frequency`, or the console's line, of the counter itself.
    Timecounter,
    /// `TSC-low`, from the same two places.
    ShiftedTimecounter,
    /// The CPU's line, with six digits.
    Cpu,
}

/// A rate that a line gives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    pub hz: f64,
    pub source: Source,
    pub file: u32,
    pub line: u32,
}

/// The rate that the recorder notes at the end of its log: `TSLOG hz 2445431964`.
pub(super) fn note(text: &[u8]) -> Option<f64> {
    let (hz, rest) = number(text.strip_prefix(b"TSLOG hz ")?)?;
    (rest.is_empty() && hz > 0).then_some(hz as f64)
}

/// Reads a line about the counter's rate. The caller fills in file and line.
pub(super) fn line(text: &[u8]) -> Option<Rate> {
    // Quick rejection: nearly all lines lack both of the two words.
    let (hz, source) = match text {
        _ if memchr::memmem::find(text, b"freq").is_some() => tsc_freq(text).or_else(|| timecounter(text))?,
        _ => cpu(text)?,
    };
    (hz >= 1.0).then_some(Rate { hz, source, file: 0, line: 0 })
}

fn tsc_freq(text: &[u8]) -> Option<(f64, Source)> {
    const KEY: &[u8] = b"tsc_freq";
    let at = memchr::memmem::find(text, KEY)?;
    let rest = skip_spaces(&text[at + KEY.len()..]);
    let [b':' | b'=', rest @ ..] = rest else { return None };
    let (hz, _) = grouped_number(skip_spaces(rest))?;
    Some((hz as f64, Source::Sysctl))
}

fn timecounter(text: &[u8]) -> Option<(f64, Source)> {
    let sysctl = || {
        let rest = text.strip_prefix(b"kern.timecounter.tc.")?;
        let at = memchr::memmem::find(rest, b".frequency")?;
        let [b':' | b'=', value @ ..] = skip_spaces(&rest[at + b".frequency".len()..]) else { return None };
        Some((&rest[..at], grouped_number(skip_spaces(value))?.0))
    };
    let console = || {
        const KEY: &[u8] = b"Timecounter \"";
        let rest = &text[memchr::memmem::find(text, KEY)? + KEY.len()..];
        let at = memchr::memchr(b'"', rest)?;
        let value = rest[at + 1..].strip_prefix(b" frequency ")?;
        Some((&rest[..at], number(value)?.0))
    };
    let (name, hz): (&[u8], u64) = sysctl().or_else(console)?;
    let source = match name {
        b"TSC" | b"ARM MPCore Timecounter" | b"ARM MPCore" | b"ARM Generic Timer" | b"RISC-V Timecounter" => {
            Source::Timecounter
        }
        b"TSC-low" => Source::ShiftedTimecounter,
        _ => return None,
    };
    Some((hz as f64, source))
}

/// `CPU: AMD EPYC (2445.80-MHz K8-class CPU)`
fn cpu(text: &[u8]) -> Option<(f64, Source)> {
    let text = text.strip_prefix(b"CPU: ")?;
    let end = memchr::memmem::find(text, b"-MHz")?;
    let begin = memchr::memrchr(b'(', &text[..end])? + 1;
    let mhz: f64 = std::str::from_utf8(&text[begin..end]).ok()?.parse().ok()?;
    mhz.is_finite().then_some((mhz * 1e6, Source::Cpu))
}

/// Returns the most exact rate, and where it comes from. `place` formats where a line is.
pub(super) fn choose(rates: &[Rate], place: impl Fn(&Rate) -> String) -> Option<(f64, RateSource)> {
    let best = rates.iter().min_by_key(|rate| rate.source)?;
    let (hz, line) = match best.source {
        Source::Log => (best.hz, RateLine::LogItself),
        Source::Sysctl => (best.hz, RateLine::Sysctl),
        Source::Timecounter => (best.hz, RateLine::Timecounter),
        Source::Cpu => (best.hz, RateLine::Cpu),
        Source::ShiftedTimecounter => {
            let cpu = rates.iter().find(|rate| rate.source == Source::Cpu);
            let shift = cpu.map_or(1, |cpu| timeline::rounded((cpu.hz / best.hz).log2()).clamp(0, 31));
            let shift = u8::try_from(shift).unwrap_or(0);
            let line = RateLine::ShiftedTimecounter { shift, by_cpu: cpu.is_some() };
            (best.hz * 2_f64.powi(i32::from(shift)), line)
        }
    };
    Some((hz, RateSource::Line { line, place: place(best) }))
}

/// Parses a frequency as users type it: `2445431964`, `2.4GHz`, `24 MHz`.
///
/// # Errors
/// A message if `text` is not a number, has another unit, or is not between 1 kHz and 100 GHz.
pub fn parse_frequency(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 =
        text[..digits].parse().map_err(|_| format!("{text:?} is no frequency: give 2445431964 or 2.4GHz"))?;
    let scale = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "hz" => 1.0,
        "khz" => 1e3,
        "mhz" => 1e6,
        "ghz" => 1e9,
        unit => return Err(format!("{unit:?} is no unit of a frequency: Hz, kHz, MHz or GHz")),
    };
    let hz = value * scale;
    if Clock::can_run_at(hz) {
        Ok(hz)
    } else {
        Err(format!(
            "{hz} Hz is no counter's rate, which are from 1 kHz to 100 GHz: give it in Hz, or with its unit (2.4GHz)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(f64, Source)>) {
        assert_eq!(line(text.as_bytes()).map(|rate| (rate.hz, rate.source)), expected, "{text}");
    }

    #[test]
    fn each_kind_of_line_gives_its_rate() {
        check("machdep.tsc_freq: 2445431964", Some((2445431964.0, Source::Sysctl)));
        check("machdep.tsc_freq = 2445431964", Some((2445431964.0, Source::Sysctl)));
        check("machdep.tsc_freq: 1,000,000,000", Some((1e9, Source::Sysctl)));
        check("SMOLFIRE_TSLOG_META tsc_freq=2445431964 ncpu=1", Some((2445431964.0, Source::Sysctl)));
        check("kern.timecounter.tc.ARM MPCore Timecounter.frequency: 24000000", Some((24e6, Source::Timecounter)));
        check(
            "Timecounter \"TSC-low\" frequency 1222715982 Hz quality 1000",
            Some((1222715982.0, Source::ShiftedTimecounter)),
        );
        check(
            "timecounter: Timecounter \"TSC\" frequency 2445431964 Hz quality 3000",
            Some((2445431964.0, Source::Timecounter)),
        );
        check("CPU: AMD EPYC (Zen) (2445.80-MHz K8-class CPU)", Some((2445.80e6, Source::Cpu)));
        for other in [
            "Timecounter \"kvmclock\" frequency 1000000000 Hz quality 975",
            "machdep.tsc_freq: 0",
            "tsc_freq",
            "CPU: x",
            "freq",
            "CPU: (e400-MHz",
            "machdep.tsc_freq: 1,00,000",
            "machdep.tsc_freq: 2.4",
            "machdep.tsc_freq: 1,000,0000",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn the_most_exact_rate_counts() {
        let rates = |texts: &[&str]| -> Vec<Rate> { texts.iter().filter_map(|t| line(t.as_bytes())).collect() };
        let hz = |texts: &[&str]| choose(&rates(texts), |_| String::new()).map(|(hz, _)| hz);
        let (cpu, low) =
            ("CPU: AMD EPYC (2445.80-MHz)", "Timecounter \"TSC-low\" frequency 1222715982 Hz quality 1000");
        assert_eq!(hz(&[cpu, low]), Some(2445431964.0));
        assert_eq!(hz(&[low]), Some(2445431964.0));
        assert_eq!(hz(&[cpu]), Some(2445.80e6));
        assert_eq!(hz(&[low, cpu, "machdep.tsc_freq: 5"]), Some(5.0));
        assert_eq!(hz(&[]), None);
    }

    #[test]
    fn frequencies_as_typed() {
        assert_eq!(parse_frequency("2445431964"), Ok(2445431964.0));
        assert_eq!(parse_frequency("2.4GHz"), Ok(2.4e9));
        assert_eq!(parse_frequency(" 24 mhz"), Ok(24e6));
        assert_eq!((parse_frequency("1 kHz"), parse_frequency("100GHz")), (Ok(1e3), Ok(1e11)));
        for bad in ["", "GHz", "2.4 lux", "-1", "0", "1.2.3", "9999 GHz", "999", "2.4", "100.1GHz"] {
            assert!(parse_frequency(bad).is_err(), "{bad}");
        }
    }
}
