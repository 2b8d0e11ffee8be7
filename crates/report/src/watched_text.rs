//! The values of a guest variable at the entries of functions, and the cost of reading it. This is the text for a
//! terminal; `watched_document` has the document.

use crate::paragraph::paragraph;
use crate::silences_text::stood_still;
use crate::text::counted;
use crate::{Layout, ReadingLine, WatchedLine, harmless};
use std::fmt::Write;

/// The most first stops that are printed, and the most last ones; the others are counted.
const SHOWN: usize = 6;

/// The text for a terminal. `accelerator` is the accelerator that ran the guest.
pub(crate) fn watched(found: &WatchedLine, accelerator: &str, layout: Layout) -> String {
    let mut out = String::new();
    let name = if found.variable.is_empty() { "the variable" } else { &found.variable };
    let name = harmless(name);
    if found.readings.is_empty() {
        paragraph(&format!("watch: {name} was never read"), "", layout, &mut out);
    } else {
        let _ = writeln!(out, "{}", layout.style.heading("what a variable was where functions were entered"));
        let clock = if found.stood_in_total { "" } else { ", by the host's clock" };
        paragraph(&format!("{name}{clock}"), "  ", layout, &mut out);
    }
    let first = found.readings.len().min(SHOWN);
    let last = found.readings.len().saturating_sub(SHOWN).max(first);
    let value_width = found.readings.iter().map(|reading| value(reading, found.signed).len()).max().unwrap_or(0);
    let print = |readings: &[ReadingLine], out: &mut String| {
        for reading in readings {
            let (at, value) = (layout.at(reading.at_ns), value(reading, found.signed));
            paragraph(&harmless(&reading.function), &format!("  {at:>9}  {value:>value_width$}  "), layout, out);
        }
    };
    print(&found.readings[..first], &mut out);
    if last > first {
        let between = counted((last - first) as u64, "stop");
        paragraph(&format!("{between} between not printed: see show --json"), "  ", layout, &mut out);
    }
    print(&found.readings[last..], &mut out);
    if !found.never_entered.is_empty() {
        paragraph(&harmless(&found.never_entered.join(", ")), "never entered: ", layout, &mut out);
    }
    if found.stood_ns > 0 {
        let cost = stood_still(found.stood_ns, found.readings.len() as u64, found.stood_in_total, accelerator, layout);
        paragraph(&cost, "cost: ", layout, &mut out);
    }
    for note in &found.notes {
        paragraph(&harmless(note), "note: ", layout, &mut out);
    }
    out
}

fn value(reading: &ReadingLine, is_signed: bool) -> String {
    match reading.value {
        Some(value) if is_signed => i64::from_le_bytes(value.to_le_bytes()).to_string(),
        Some(value) => value.to_string(),
        None => "unmapped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(stops: usize) -> WatchedLine {
        let reading = |i: usize| ReadingLine {
            at_ns: i as i64 * 1_000_000,
            stood_ns: 2_000_000,
            value: (i != 2).then_some(i as u64 * 1_000),
            function: "lab::em::stop\u{1b}[2J".to_owned(),
        };
        WatchedLine {
            variable: "ARENA+0x410\u{202e}".to_owned(),
            stood_ns: stops as i64 * 2_000_000,
            stood_in_total: true,
            signed: false,
            never_entered: vec!["g".to_owned(), "h\u{7}".to_owned()],
            readings: (1..=stops).map(reading).collect(),
            notes: vec!["it was not read again\u{1b}".to_owned()],
        }
    }

    #[test]
    fn each_stop_of_few_is_printed_with_what_they_cost() {
        let text = watched(&example(3), "kvm", Layout::default());
        let expected = "\
what a variable was where functions were entered
  ARENA+0x410\\u{202e}
    1.00 ms      1000  lab::em::stop\\x1b[2J
    2.00 ms  unmapped  lab::em::stop\\x1b[2J
    3.00 ms      3000  lab::em::stop\\x1b[2J
never entered: g, h\\x07
cost: the CPUs stood still for 6.00 ms in 3 stops; that is part of the times
      above
note: it was not read again\\x1b
";
        assert_eq!(text, expected, "{text}");
        let mut negative = WatchedLine { signed: true, ..example(1) };
        negative.readings[0].value = Some(u64::MAX - 4);
        let text = watched(&negative, "kvm", Layout::default());
        assert!(text.contains("    1.00 ms  -5  lab"), "{text}");
        let guests = WatchedLine { stood_in_total: false, ..example(1) };
        let text = watched(&guests, "tcg", Layout::default());
        assert!(text.contains("u{202e}, by the host's clock\n") && text.contains("clock stood too\n"), "{text}");
    }

    #[test]
    fn the_first_and_the_last_of_many_stops_are_printed() {
        let text = watched(&example(2_000), "kvm", Layout::default());
        assert!(text.contains("    6.00 ms      6000  lab"), "{text}");
        assert!(text.contains("\n  1 988 stops between not printed: see show --json\n"), "{text}");
        assert!(text.contains("     2.00 s   2000000  lab"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("lab::em::stop")).count(), 2 * SHOWN);
        for stops in [SHOWN, SHOWN + 1, 2 * SHOWN] {
            let text = watched(&example(stops), "kvm", Layout::default());
            assert_eq!(text.lines().filter(|line| line.contains("lab::em::stop")).count(), stops);
            assert!(!text.contains("between"), "{text}");
        }
    }

    #[test]
    fn a_variable_that_was_never_read_is_reported() {
        let none = WatchedLine { readings: Vec::new(), stood_ns: 0, ..example(1) };
        let text = watched(&none, "kvm", Layout::default());
        assert!(text.starts_with("watch: ARENA+0x410\\u{202e} was never read\nnever entered: g, "), "{text}");
        assert!(watched(&WatchedLine::default(), "", Layout::default()).contains("the variable was never read"));
    }
}
