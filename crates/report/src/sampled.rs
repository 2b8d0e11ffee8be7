//! What samples say, beside what the recorder does: shares of the samples, each with its error.
//!
//! One table for each event, because events count different things.

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{Layout, SampledEventLines, SampledLine, SampledLines, SampledOnKind, SampledTrackLine, Summary, harmless};
use timeline::Ns;

/// Events shown; the others are counted.
pub(crate) const EVENTS_SHOWN: usize = 4;
/// Threads and CPUs shown of an event; the others are counted.
const TRACKS_SHOWN: usize = 8;

/// The tables for a terminal: of each event the functions that most samples found on a stack, and where they were taken.
pub(crate) fn table(sampled: &SampledLines, summary: &Summary, layout: Layout) -> String {
    let mut out = String::new();
    for event in sampled.events.iter().take(EVENTS_SHOWN) {
        functions(event, layout, &mut out);
        tracks(event, layout, &mut out);
        paragraph(&about(event), "", layout, &mut out);
    }
    if sampled.events.len() > EVENTS_SHOWN {
        let left = counted((sampled.events.len() - EVENTS_SHOWN) as u64, "more sampled event");
        paragraph(&format!("{left}: see show --json"), "", layout, &mut out);
    }
    paragraph(&lost_and_unseen(sampled, summary), "", layout, &mut out);
    out
}

/// What is not in the samples.
pub(crate) fn lost_and_unseen(sampled: &SampledLines, summary: &Summary) -> String {
    let lost = match sampled.lost {
        Some(lost) => format!("{} lost", counted(lost, "sample")),
        None => "the samples do not say how many were lost".to_owned(),
    };
    let unseen = sampled
        .began_ns
        .map(|began| format!("; sampling began at {} of the samples' own clock", summary.time(Ns(began).0)));
    lost + &unseen.unwrap_or_default()
}

/// A share and its error, in per cent.
pub(crate) fn share(share: f64, error: f64) -> String {
    format!("{:.1} % \u{b1}{:.1}", share * 100.0, error * 100.0)
}

fn functions(event: &SampledEventLines, layout: Layout, out: &mut String) {
    let title = format!("sampled: {}", harmless(&event.name));
    let columns = [
        Column::new(title, Align::Left, None),
        Column::new("self", Align::Right, Some(16)),
        Column::new("total", Align::Right, Some(16)),
    ];
    let line = |f: &SampledLine| {
        let cells = vec![
            harmless(&f.name).into_owned(),
            share(f.self_share, f.self_error),
            share(f.total_share, f.total_error),
        ];
        Line { cells, faint: false }
    };
    let mut lines: Vec<Line> = event.functions.iter().take(layout.top).map(line).collect();
    more(event.functions.len(), &mut lines);
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// Only where they differ: of one thread on one CPU there is nothing to say.
fn tracks(event: &SampledEventLines, layout: Layout, out: &mut String) {
    let of = |kind| event.tracks.iter().filter(|track| track.kind == kind).count();
    if of(SampledOnKind::Thread) < 2 && of(SampledOnKind::Cpu) < 2 {
        return;
    }
    let columns = [
        Column::new("sampled on", Align::Left, None),
        Column::new("samples", Align::Right, Some(16)),
        Column::new("share", Align::Right, Some(16)),
    ];
    let line = |track: &SampledTrackLine| {
        let name = harmless(&track.name);
        let name =
            if track.kind == SampledOnKind::Thread { format!("{name} [{}]", track.id) } else { name.into_owned() };
        Line { cells: vec![name, track.samples.to_string(), share(track.share, track.error)], faint: false }
    };
    let mut lines: Vec<Line> = event.tracks.iter().take(TRACKS_SHOWN).map(line).collect();
    more(event.tracks.len(), &mut lines);
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

fn more(all: usize, lines: &mut Vec<Line>) {
    if all > lines.len() {
        let rest = format!("{} more", all - lines.len());
        lines.push(Line { cells: vec![rest, String::new(), String::new()], faint: true });
    }
}

/// What an event's shares are of, and what their error is.
pub(crate) fn about(event: &SampledEventLines) -> String {
    let weights = if event.by_period { ", each weighed by its period" } else { "" };
    let user = match event.user {
        Some(user) => format!("{user} of them in user code"),
        None => "how many of them in user code is not known".to_owned(),
    };
    let of = counted(event.samples, "sample");
    format!("shares of {of} of all CPUs{weights}; {user}; \u{b1} is one standard error, binomial")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> SampledEventLines {
        let function = |name: &str, total_share| SampledLine {
            name: name.to_owned(),
            self_share: 0.25,
            total_share,
            self_error: 0.01,
            total_error: 0.02,
        };
        let functions = vec![function("a\x1b[1m", 1.0), function("b", 0.5), function("c", 0.125)];
        let name = "nmi".to_owned();
        SampledEventLines { name, samples: 400, user: Some(7), by_period: true, functions, ..Default::default() }
    }

    #[test]
    fn shares_have_errors_and_what_is_left_out_is_counted() {
        let (lost, began_ns) = (Some(3), Some(15_848_386));
        let sampled = SampledLines { samples: 400, lost, began_ns, unsampled_cpus: 0, events: vec![event()] };
        let layout = Layout { top: 2, ..Layout::default() };
        let text = table(&sampled, &Summary::default(), layout);
        let expected = "\
sampled: nmi         self         total\n\
a\\x1b[1m      25.0 % ±1.0  100.0 % ±2.0\n\
b             25.0 % ±1.0   50.0 % ±2.0\n\
1 more\n\
shares of 400 samples of all CPUs, each weighed by its period; 7 of them in user\n\
code; ± is one standard error, binomial\n\
3 samples lost; sampling began at 15.8 ms of the samples' own clock\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_nobody_says_is_not_zero_and_events_have_a_table_each() {
        let track = |kind, name: &str, id| SampledTrackLine {
            kind,
            name: name.to_owned(),
            id,
            samples: 200,
            share: 0.5,
            error: 0.025,
            ..Default::default()
        };
        let tracks = vec![
            track(SampledOnKind::Thread, "init", 1),
            track(SampledOnKind::Cpu, "CPU 0", 0),
            track(SampledOnKind::Cpu, "CPU 1", 1),
        ];
        let cycles = SampledEventLines { name: "cycles".to_owned(), user: None, tracks, ..event() };
        let sampled = SampledLines { events: vec![cycles, event()], ..Default::default() };
        let text = table(&sampled, &Summary::default(), Layout::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "sampled: cycles",
            "sampled: nmi",
            "sampled on",
            "init [1] 200 50.0 % ±2.5",
            "user code is not known",
            "do not say how many were lost",
        ] {
            assert!(text.contains(words), "no {words:?} in\n{text}");
        }
        assert!(!text.contains("0 lost"), "{text}");
    }
}
