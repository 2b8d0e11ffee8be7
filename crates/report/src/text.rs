//! Text for a reader: made harmless, cut to a width, coloured. No other file may print text from a machine.

pub use harmless::{harmless, harmless_bytes, json, write_json};

use analysis::floor;
use benchmark::metrics::Unit;
use std::borrow::Cow;
use timeline::Ns;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The number of columns of harmless text.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Harmless text cut to `columns`; `…` marks the cut. Combining marks without width are cut too.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    let max_chars = columns.saturating_mul(4);
    if text.chars().nth(max_chars).is_none() && width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut taken = 0;
    let mut kept = String::new();
    for c in text.chars().take(max_chars) {
        taken += c.width().unwrap_or(0);
        if taken + 1 > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// The nearest whole number of columns, lines or digits; 0 if the value is negative.
pub(crate) fn places(value: f64) -> usize {
    usize::try_from(timeline::rounded(value)).unwrap_or(0)
}

/// The amount of a metric with its unit.
pub(crate) fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => Ns::rounded(value).to_string(),
        Unit::Bytes => bytes(timeline::rounded_count(value)),
    }
}

/// A number of bytes with its unit: `512 MiB`, `1.50 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// A share (0 to 1) in per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// By how much another memory layout alone changes the length of a deterministic boot.
pub(crate) fn by_layout() -> String {
    let (most_kernels, some) = (100.0 * floor::VIRTUAL_TIME, 100.0 * floor::LAYOUT_MOST);
    format!("{most_kernels:.3} %, and on some kernels by {some:.0} %")
}

/// A share that is not negative, in per cent with two significant digits.
pub(crate) fn two_digits(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent >= 10.0 || percent.fract() == 0.0 { 0 } else { places(1.0 - percent.log10().floor()) };
    format!("{percent:.*} %", decimals.min(6))
}

/// A relative change in whole per cent (`−31 %`).
pub(crate) fn percent_change(change: f64) -> String {
    let percent = (change * 100.0).round();
    let sign = if percent < 0.0 {
        "−"
    } else if percent > 0.0 {
        "+"
    } else {
        ""
    };
    format!("{sign}{:.0} %", percent.abs())
}

/// A number of things: `1 line`, `2 lines`, with thousands set apart.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(n))
}

/// A whole number with spaces between thousands.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// The colouring of a terminal view. The program chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text only.
    #[default]
    Plain,
    /// ANSI escape sequences, with 16 colours, so that the terminal's theme applies.
    Colour,
}

impl Style {
    fn sgr(self, code: &str, text: &str) -> String {
        match self {
            Style::Colour if !text.trim_end().is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.sgr("1", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.sgr("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.sgr("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.sgr("1;31", text)
    }

    pub(crate) fn bar(self, text: &str) -> String {
        self.sgr("34", text)
    }
}

/// A range with the unit at the end; one value if both look the same.
pub(crate) fn range(from: &str, to: &str) -> String {
    // A unit may have two words: `90.0 to 100 M instr`.
    fn parts(text: &str) -> Option<(&str, &str)> {
        text.find(|c: char| c.is_alphabetic() || c == '%').map(|at| text.split_at(at))
    }
    match (parts(from), parts(to)) {
        _ if from == to => to.to_owned(),
        (Some((number, from_unit)), Some((_, to_unit))) if from_unit == to_unit => {
            format!("{} to {to}", number.trim_end())
        }
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_unit_once_unless_there_are_two() {
        assert_eq!(range("18.0 ms", "20.0 ms"), "18.0 to 20.0 ms");
        assert_eq!(range("20.0 ms", "20.0 ms"), "20.0 ms");
        assert_eq!(range("0 ns", "2.60 s"), "0 ns to 2.60 s");
        assert_eq!(range("900 ms", "2.60 s"), "900 ms to 2.60 s");
        assert_eq!(range("3", "5"), "3 to 5");
        assert_eq!(range("90.0 M instr", "100 M instr"), "90.0 to 100 M instr");
        assert_eq!(range("900 k instr", "1 100.0 M instr"), "900 k instr to 1 100.0 M instr");
    }

    fn check_cut(text: &str, columns: usize, expected: &str) {
        let got = cut(text, columns);
        assert_eq!(got, expected);
        assert!(width(&got) <= columns, "{got:?} is wider than {columns}");
    }

    #[test]
    fn text_is_cut_by_columns() {
        check_cut("acpi_init", 9, "acpi_init");
        check_cut("acpi_init", 8, "acpi_in…");
        check_cut("日本語", 5, "日本…");
        check_cut("日本語", 4, "日…");
        check_cut("x", 0, "");
        let stacked = format!("a{}", "\u{301}".repeat(10_000));
        assert!(cut(&stacked, 10).len() < 100);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(bytes(512 << 20), "512 MiB");
        assert_eq!(bytes(1_610_612_736), "1.50 GiB");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(thousands(1_234_567), "1 234 567");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(percent(0.1234), "12.3 %");
    }
}
