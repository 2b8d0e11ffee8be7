//! Text dumps of the readers' results, and their comparison with the expected ones.

use std::fmt::Write as _;
use std::path::Path;
use timeline::{Diagnostics, Ns, Timeline, TrackId, WaitedOn};

/// Compares the text with the file beside the fixture. With `BLESS=1` in the environment, writes that file instead. A
/// missing file is a failure.
pub fn compare(fixture: &Path, found: &str) {
    let expected_path = fixture.with_extension("expected");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&expected_path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&expected_path)
        .unwrap_or_else(|e| panic!("{}: {e}; look at what BLESS=1 writes there", expected_path.display()));
    for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "{}:{}", expected_path.display(), number + 1);
    }
    assert_eq!(expected.lines().count(), found.lines().count(), "{}: number of lines", expected_path.display());
}

pub fn diagnostics(all: &Diagnostics) -> String {
    let mut text = String::new();
    for d in all.iter() {
        writeln!(text, "diagnostic: {} × {} ({})", d.kind.code(), d.count, d.first).unwrap();
    }
    text
}

/// Tracks, running, waits and nested spans; times in microseconds.
pub fn timeline(timeline: &Timeline) -> String {
    let mut text = String::new();
    let name = |track: TrackId| format!("{}#{}", timeline.names.get(timeline.tracks.get(track).name), track.0);
    let us = |ns: Ns| if ns == Ns::MAX { "never".to_owned() } else { format!("{:.3}", ns.0 as f64 / 1e3) };
    for (id, track) in timeline.tracks.iter() {
        let idle = if track.idle { " idle" } else { "" };
        let created = track.created.map_or(String::new(), |(at, by)| format!(" created {} by {}", us(at), name(by)));
        writeln!(text, "track {} id {}{idle}{created}", name(id), track.id).unwrap();
        for r in timeline.running.iter().filter(|r| r.track == id) {
            writeln!(text, "  ran on {} {}..{}", r.cpu, us(r.from), us(r.to)).unwrap();
        }
        for w in timeline.waits.iter().filter(|w| w.track == id) {
            let by = match w.by {
                WaitedOn::Thread(track) => name(track),
                WaitedOn::Interrupt(by) => format!("interrupt: {}", timeline.names.get(by)),
                WaitedOn::Holders(topic) => format!("holders of: {}", timeline.names.get(topic)),
                WaitedOn::Nothing => "preempted".to_owned(),
                WaitedOn::Halted => "the CPU slept".to_owned(),
                WaitedOn::Unknown => "not known".to_owned(),
            };
            writeln!(text, "  waited {}..{}..{} {by}", us(w.from), us(w.woken), us(w.until)).unwrap();
        }
        for (span, row) in timeline.spans.iter().filter(|(_, row)| row.track == id) {
            let indent = "  ".repeat(timeline.spans.depth(span) as usize + 1);
            let (name, detail) = (timeline.names.get(row.name), timeline.names.get(row.detail));
            let kind = format!("{:?}", row.kind).to_lowercase();
            writeln!(text, "{indent}{kind}: {name} {detail} {}..{}", us(row.start), us(row.end)).unwrap();
        }
    }
    for mark in &timeline.marks {
        writeln!(text, "mark {} {} {}", us(mark.at), name(mark.track), timeline.names.get(mark.name)).unwrap();
    }
    text
}
