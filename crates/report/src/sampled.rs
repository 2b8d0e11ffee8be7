//! What samples say, beside what the recorder does: shares of the samples, each with its error.

use crate::table::{Align, Column, Line, render};
use crate::{Layout, SampledLine, SampledLines, Summary, harmless};
use std::fmt::Write;
use timeline::Ns;

/// The table for a terminal: the functions that most samples found on a stack.
pub(crate) fn table(sampled: &SampledLines, summary: &Summary, layout: Layout) -> String {
    let columns = [
        Column::new("sampled", Align::Left, None),
        Column::new("self", Align::Right, Some(16)),
        Column::new("total", Align::Right, Some(16)),
    ];
    let share = |share: f64, error: f64| format!("{:.1} % \u{b1}{:.1}", share * 100.0, error * 100.0);
    let line = |f: &SampledLine| {
        let cells = vec![
            harmless(&f.name).into_owned(),
            share(f.self_share, f.self_error),
            share(f.total_share, f.total_error),
        ];
        Line { cells, faint: false }
    };
    let mut lines: Vec<Line> = sampled.functions.iter().take(layout.top).map(line).collect();
    if sampled.functions.len() > lines.len() {
        let rest = format!("{} more", sampled.functions.len() - lines.len());
        lines.push(Line { cells: vec![rest, String::new(), String::new()], faint: true });
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    let SampledLines { samples, lost, user, .. } = sampled;
    let _ = write!(
        out,
        "shares of {samples} samples of all CPUs, {user} of them in user code, {lost} lost; \u{b1} is one standard error"
    );
    if let Some(began) = sampled.began_ns {
        let _ = write!(out, "; nothing before {} was sampled", summary.time(Ns(began).0));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_errors_and_what_is_left_out_is_counted() {
        let function = |name: &str, total_share| SampledLine {
            name: name.to_owned(),
            self_share: 0.25,
            total_share,
            self_error: 0.01,
            total_error: 0.02,
        };
        let functions = vec![function("a\x1b[1m", 1.0), function("b", 0.5), function("c", 0.125)];
        let sampled = SampledLines { samples: 400, lost: 3, user: 7, began_ns: Some(15_848_386), functions };
        let layout = Layout { top: 2, ..Layout::default() };
        let text = table(&sampled, &Summary::default(), layout);
        let expected = "\
sampled          self         total\n\
a\\x1b[1m  25.0 % ±1.0  100.0 % ±2.0\n\
b         25.0 % ±1.0   50.0 % ±2.0\n\
1 more\n\
shares of 400 samples of all CPUs, 7 of them in user code, 3 lost; ± is one standard error; nothing before 15.8 ms was sampled\n";
        assert_eq!(text, expected);
    }
}
