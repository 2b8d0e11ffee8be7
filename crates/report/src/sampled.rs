//! Samples on a terminal: shares of the samples, each with its error. They describe the same boot as the recorder's
//! tables.
//!
//! There is one table for each event, because events count different things.

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{Layout, SampledEventLines, SampledLine, SampledLines, SampledOnKind, SampledTrackLine, Summary, harmless};
use timeline::Ns;

/// The most events that are shown; the others are counted.
pub(crate) const MAX_EVENTS: usize = 4;
/// The most threads and CPUs that are shown per event; the others are counted.
const MAX_TRACKS: usize = 8;

/// The tables for a terminal: for each event, the functions on most sampled stacks, and the threads and CPUs of its
/// samples.
pub(crate) fn table(sampled: &SampledLines, summary: &Summary, layout: Layout) -> String {
    let mut out = String::new();
    for event in sampled.events.iter().take(MAX_EVENTS) {
        functions(event, layout, &mut out);
        tracks(event, SampledOnKind::Program, layout, &mut out);
        tracks(event, SampledOnKind::Thread, layout, &mut out);
        tracks(event, SampledOnKind::Cpu, layout, &mut out);
        paragraph(&about(event), "", layout, &mut out);
    }
    if sampled.events.len() > MAX_EVENTS {
        let left = counted((sampled.events.len() - MAX_EVENTS) as u64, "more sampled event");
        paragraph(&format!("{left}: see show --json"), "", layout, &mut out);
    }
    paragraph(&lost_and_unseen(sampled, summary), "", layout, &mut out);
    if let Some(empty) = empty_intervals(sampled, summary) {
        paragraph(&empty, "", layout, &mut out);
    }
    out
}

/// The number of intervals without a sample, if known. On a busy host an emulator delivers fewer interrupts.
pub(crate) fn empty_intervals(sampled: &SampledLines, summary: &Summary) -> Option<String> {
    let (intervals, empty) = (sampled.intervals?, sampled.empty_intervals?);
    let each = summary.at(sampled.period_ns?);
    Some(match empty {
        0 => format!("each of {} of {each} brought a sample", counted(intervals, "sampling interval")),
        _ => format!(
            "{empty} of {} of {each} brought no sample: no interrupt came, which is not a lost sample",
            counted(intervals, "sampling interval")
        ),
    })
}

/// The lost samples, and the time before sampling began.
pub(crate) fn lost_and_unseen(sampled: &SampledLines, summary: &Summary) -> String {
    let lost = match sampled.lost {
        Some(lost) => format!("{} lost", counted(lost, "sample")),
        None => "the samples do not say how many were lost".to_owned(),
    };
    let unseen = sampled
        .began_ns
        .map(|began| format!("; sampling began at {} of the samples' own clock", summary.at(Ns(began).0)));
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
    let shown = event.functions.iter().filter(|f| shows(f.total_share, f.total_error)).take(layout.top);
    let mut lines: Vec<Line> = shown.map(line).collect();
    more(event.functions.len(), &mut lines);
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// True if a share prints as more than `0.0 % ±0.0`.
fn shows(share: f64, error: f64) -> bool {
    share.max(error) * 100.0 >= 0.05
}

/// Writes the threads or CPUs of an event. With only one, there is nothing to compare, so there is no table.
fn tracks(event: &SampledEventLines, kind: SampledOnKind, layout: Layout, out: &mut String) {
    let tracks: Vec<&SampledTrackLine> = event.tracks.iter().filter(|track| track.kind == kind).collect();
    if tracks.len() < 2 && kind != SampledOnKind::Program || tracks.is_empty() {
        return;
    }
    let columns = [
        Column::new(on(kind), Align::Left, None),
        Column::new("samples", Align::Right, Some(16)),
        Column::new("share", Align::Right, Some(16)),
    ];
    let line = |track: &&SampledTrackLine| Line {
        cells: vec![
            harmless(&track_name(track)).into_owned(),
            track.samples.to_string(),
            share(track.share, track.error),
        ],
        faint: false,
    };
    let shown = tracks.iter().filter(|track| shows(track.share, track.error)).take(MAX_TRACKS);
    let mut lines: Vec<Line> = shown.map(line).collect();
    more(tracks.len(), &mut lines);
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// The title of a column of threads, or of CPUs.
pub(crate) fn on(kind: SampledOnKind) -> &'static str {
    match kind {
        SampledOnKind::Thread => "sampled thread",
        SampledOnKind::Program => "sampled program",
        SampledOnKind::Cpu => "sampled CPU",
    }
}

/// A thread's name with its number, because threads can share a name. A CPU's name has its number.
pub(crate) fn track_name(track: &SampledTrackLine) -> String {
    match track.kind {
        SampledOnKind::Thread => format!("{} [{}]", track.name, track.id),
        SampledOnKind::Program => format!("{} ({} threads)", track.name, track.id),
        SampledOnKind::Cpu => track.name.clone(),
    }
}

fn more(all: usize, lines: &mut Vec<Line>) {
    if all > lines.len() {
        let rest = format!("{} more", all - lines.len());
        lines.push(Line { cells: vec![rest, String::new(), String::new()], faint: true });
    }
}

/// A sentence about the base of an event's shares, and their error.
pub(crate) fn about(event: &SampledEventLines) -> String {
    let weights = if event.by_period { ", each weighed by its period" } else { "" };
    let user = match event.user {
        Some(user) => format!("{user} of them in user code"),
        None => "how many of them in user code is not known".to_owned(),
    };
    let samples = counted(event.samples, "sample");
    format!("shares of {samples} of all CPUs, idle ones too{weights}; {user}; \u{b1} is one standard error, binomial")
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
        let sampled = SampledLines { samples: 400, lost, began_ns, events: vec![event()], ..Default::default() };
        let sampled =
            SampledLines { period_ns: Some(999_846), intervals: Some(530), empty_intervals: Some(130), ..sampled };
        let layout = Layout { top: 2, ..Layout::default() };
        let text = table(&sampled, &Summary::default(), layout);
        let expected = "\
sampled: nmi         self         total\n\
a\\x1b[1m      25.0 % ±1.0  100.0 % ±2.0\n\
b             25.0 % ±1.0   50.0 % ±2.0\n\
1 more\n\
shares of 400 samples of all CPUs, idle ones too, each weighed by its period; 7\n\
of them in user code; ± is one standard error, binomial\n\
3 samples lost; sampling began at 15.8 ms of the samples' own clock\n\
130 of 530 sampling intervals of 1.00 ms brought no sample: no interrupt came,\n\
which is not a lost sample\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn unknown_counts_are_not_zero_and_each_event_has_a_table() {
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
            "sampled CPU samples share CPU 0 200 50.0 % ±2.5 CPU 1 200",
            "user code is not known",
            "do not say how many were lost",
        ] {
            assert!(text.contains(words), "no {words:?} in\n{text}");
        }
        // A single thread gets no table; the length of an interval is unknown.
        assert!(["0 lost", "sampled thread", "interval"].iter().all(|words| !text.contains(words)), "{text}");
    }

    #[test]
    fn threads_and_cpus_have_separate_lists_and_tiny_shares_are_counted() {
        let track = |kind, name: &str, share: f64, error| SampledTrackLine {
            kind,
            name: name.to_owned(),
            id: 1,
            samples: 1,
            share,
            error,
            ..Default::default()
        };
        let mut event = event();
        event.tracks = vec![
            track(SampledOnKind::Cpu, "CPU 0", 0.75, 0.01),
            track(SampledOnKind::Thread, "init", 0.5, 0.01),
            track(SampledOnKind::Thread, "udevd", 0.0006, 0.0002),
            track(SampledOnKind::Thread, "next-to-nothing", 0.0004, 0.0003),
            track(SampledOnKind::Cpu, "CPU 1", 0.25, 0.01),
        ];
        (event.functions[1].total_share, event.functions[1].total_error) = (0.0002, 0.0001);
        let sampled = SampledLines { events: vec![event], ..Default::default() };
        let text = table(&sampled, &Summary::default(), Layout::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "12.5 % ±2.0 1 more sampled thread",
            "init [1] 1 50.0 % ±1.0 udevd [1] 1 0.1 % ±0.0 1 more sampled CPU",
            "CPU 0 1 75.0 % ±1.0 CPU 1 1 25.0 % ±1.0 shares of",
        ] {
            assert!(text.contains(words), "no {words:?} in\n{text}");
        }
    }
}
