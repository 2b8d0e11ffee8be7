//! Parses limits: `1.2s`, `180M`, `1.9G`, `300M instr`, `+5%`, `+2ms`.

use super::{Kind, Limit};
use timeline::{Unit, amount};

/// Unit suffixes of a number of instructions, with their factors.
const INSTRUCTION_UNITS: [(&str, f64); 4] = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// The word after a number of instructions where a limit may also be a time.
pub(super) const INSTRUCTIONS: &str = "instr";

/// Parses a limit for a kind of quantity. The unit is that of an amount which is time or instructions; shares and bytes
/// have none. The error is a message for the user.
pub(super) fn limit(kind: Kind, text: &str) -> Result<(Limit, Option<Unit>), String> {
    let examples = match kind {
        Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone => "1.2s, 300ms, 300M instr, +5% or +2ms",
        Kind::Metric => "1.2s, 300ms, +5% or +2ms",
        Kind::Memory => "180M, +5% or +4M",
        Kind::Instructions => "1.9G, 250k, +0.5% or +1M",
    };
    let (is_relative, rest) = match text.trim().strip_prefix('+') {
        Some(rest) => (true, rest.trim()),
        None => (false, text.trim()),
    };
    let time = || Some((amount::time(rest).ok()?.0 as f64, Some(Unit::Nanoseconds)));
    let instructions = |rest: &str| Some((count(rest)?, Some(Unit::Instructions)));
    let limit = match rest.strip_suffix('%') {
        Some(share) if is_relative => number(share.trim_end()).map(|share| (Limit::OverShare(share / 100.0), None)),
        Some(_) => None,
        None => {
            let amount = match kind {
                Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone => match rest.strip_suffix(INSTRUCTIONS) {
                    Some(number) => instructions(number.trim_end()),
                    None => time(),
                },
                Kind::Metric => time().map(|(ns, _)| (ns, None)),
                Kind::Memory => amount::bytes(rest).ok().map(|bytes| (bytes as f64, None)),
                Kind::Instructions => instructions(rest.trim_end_matches(INSTRUCTIONS).trim_end()),
            };
            amount.map(|(amount, unit)| (if is_relative { Limit::Over } else { Limit::AtMost }(amount), unit))
        }
    };
    limit.ok_or_else(|| format!("`{text}` is no limit here: write one such as {examples}"))
}

fn count(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let factor = INSTRUCTION_UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?.1;
    Some(number(digits.trim_end())? * factor)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_in_options() {
        for text in ["10m", "1h 30m", "2 min", "0.5 ms", "7µs"] {
            let ns = amount::time(text).unwrap().0 as f64;
            let unit = Some(Unit::Nanoseconds);
            assert_eq!(limit(Kind::Phase, text), Ok((Limit::AtMost(ns), unit)), "{text}");
            assert_eq!(limit(Kind::Total, &format!("+{text}")), Ok((Limit::Over(ns), unit)), "{text}");
        }
        assert_eq!(limit(Kind::Memory, "1.5g"), Ok((Limit::AtMost(f64::from(3 << 29)), None)));
        assert_eq!(limit(Kind::Metric, "2s"), Ok((Limit::AtMost(2e9), None)), "the host's time, in any boot");
        assert_eq!(limit(Kind::Total, "+5%"), Ok((Limit::OverShare(0.05), None)));
        for (kind, text, count) in [
            (Kind::Instructions, "250 k", 250e3),
            (Kind::Instructions, "1.9G instr", 1.9e9),
            (Kind::Total, "1.20 G instr", 1.2e9),
            (Kind::Phase, "300M instr", 300e6),
            (Kind::Function, "12 instr", 12.0),
        ] {
            assert_eq!(limit(kind, text), Ok((Limit::AtMost(count), Some(Unit::Instructions))), "{text}");
        }
        for (kind, text) in [
            (Kind::Total, "10M"),
            (Kind::Total, "5%"),
            (Kind::Total, "1s instr"),
            (Kind::Metric, "3M instr"),
            (Kind::Memory, "10m s"),
            (Kind::Memory, "512"),
            (Kind::Instructions, "-1k"),
            (Kind::Instructions, "1e999"),
        ] {
            assert!(limit(kind, text).is_err(), "{text}");
        }
    }
}
