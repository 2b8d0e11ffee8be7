//! The terminal views of the sample boot, against expected text. `BLESS=1` writes the expectations anew.

use report::{Layout, Style, Summary, summarize};
use std::path::Path;
use timeline::{DiagnosticKind, Diagnostics, End, EndEvidence, Ns};
use unicode_width::UnicodeWidthStr;

fn check(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; look at the output, then bless it:\n{got}", path.display()));
    assert_eq!(got, expected, "{}: if this is right, run again with BLESS=1", path.display());
}

fn summary() -> Summary {
    summarize(&crate::sample::timeline(), &crate::sample::facts())
}

#[test]
fn eighty_columns() {
    check("show-80.txt", &report::show(&summary(), Layout::default()));
}

#[test]
fn wide_and_in_colour() {
    let layout = Layout { width: 120, top: 5, style: Style::Colour, ..Layout::default() };
    check("show-120-colour.txt", &report::show(&summary(), layout));
}

#[test]
fn other_tables() {
    let s = summary();
    let layout = Layout { top: 6, ..Layout::default() };
    let text = report::functions(&s.functions, layout) + "\n" + &report::all_threads(&s.where_all_threads, layout);
    check("tables-80.txt", &text);
}

/// The requested line ends the boot and shows its outcome. The evidence of a panic is another line.
#[test]
fn the_line_of_the_end_mark_is_printed_once() {
    let mut timeline = crate::sample::timeline();
    let facts = report::Facts { outcome_detail: "login:".to_owned(), ..crate::sample::facts() };
    let line = timeline.names.intern("login:");
    let mut shown = |evidence| {
        timeline.end = timeline.end.map(|end| End { evidence, ..end });
        let text = report::show(&summarize(&timeline, &facts), Layout::default());
        text.matches("login:").count()
    };
    assert_eq!(shown(EndEvidence::Asked(line)), 1);
    assert_eq!(shown(EndEvidence::Process1Sent), 1, "it is beside the end mark");
    let panicked = report::Facts { outcome: "panic".to_owned(), ..facts.clone() };
    let text = report::show(&summarize(&timeline, &panicked), Layout::default());
    assert!(text.contains("login:"), "{text}");
}

#[test]
fn nothing_known() {
    let text = report::show(&summarize(&timeline::Timeline::default(), &report::Facts::default()), Layout::default());
    check("nothing.txt", &text);
}

#[test]
fn no_line_is_too_wide_or_controls_the_terminal() {
    for width in [80, 81, 99, 100, 132, 300] {
        let text = report::show(&summary(), Layout { width, ..Layout::default() });
        for line in text.lines() {
            assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
        let text = text + &summary().to_json();
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
    }
}

/// Diagnostics that change no figure share one line, with their cost. With `--verbose` each kind has its own.
#[test]
fn harmless_diagnostics_are_summed() {
    let mut timeline = crate::sample::timeline();
    timeline.diagnostics = Diagnostics::default();
    (0..6).for_each(|_| timeline.diagnostics.note_time(DiagnosticKind::HoldPassedOn, Ns(66_700), String::new));
    timeline.diagnostics.note(DiagnosticKind::LogControlCharacters, || "console.log:7".to_owned());
    timeline.diagnostics.note_many(DiagnosticKind::TraceEventsLost, 1200, || "trace.txt:9".to_owned());
    let summary = summarize(&timeline, &crate::sample::facts());
    let printed = |harmless_too| {
        let text = report::show(&summary, Layout { width: 200, harmless_too, ..Layout::default() });
        let kept = text.lines().filter(|l| l.starts_with("evidence: ") || l.starts_with("harmless: "));
        kept.map(str::to_owned).collect::<Vec<String>>()
    };
    let lost = "evidence: 1 200 trace events were lost; what they showed is missing; boot with a larger trace_buf_size= (affects functions; first at trace.txt:9)";
    let sum = "harmless: 7 problems (2 kinds), without effect on any figure; --verbose lists them";
    assert_eq!(printed(false), [lost, sum]);
    let holds = "evidence: 6 holds were released by another thread than took them, as GEOM events are (400 µs); they last until then";
    let stray = "evidence: 1 control character stands in a log; it is taken out (first at console.log:7)";
    assert_eq!(printed(true), [holds, stray, lost]);
    let severity = |i: usize| (&*summary.diagnostics[i].severity, &*summary.diagnostics[i].affects);
    assert_eq!([severity(0), severity(2)], [("harmless", ""), ("figures affected", "functions")]);
    assert_eq!((&*summary.diagnostics[0].code, summary.diagnostics[0].cost_ns), ("hold-passed-on", Some(400_200)));
}

/// At most three lines are about diagnostics, unless all are requested.
#[test]
fn diagnostics_are_three_lines() {
    use DiagnosticKind::{ClockBack, EntryWithoutExit, ExitWithoutEntry, HoldPassedOn, TraceEventsLost};
    let affecting = [EntryWithoutExit, ExitWithoutEntry, ClockBack, TraceEventsLost];
    for n in 0..=affecting.len() {
        for with_harmless in [false, true] {
            let mut timeline = crate::sample::timeline();
            timeline.diagnostics = Diagnostics::default();
            affecting[..n].iter().for_each(|kind| timeline.diagnostics.note(*kind, || "trace.txt:9".to_owned()));
            if with_harmless {
                timeline.diagnostics.note(HoldPassedOn, String::new);
            }
            let summary = summarize(&timeline, &crate::sample::facts());
            let lines = |harmless_too| {
                let text = report::show(&summary, Layout { width: 300, harmless_too, ..Layout::default() });
                let listed = text.lines().filter(|l| l.starts_with("evidence: ") || l.starts_with("harmless: "));
                listed.map(str::to_owned).collect::<Vec<String>>()
            };
            let all = n + usize::from(with_harmless);
            assert_eq!((lines(false).len(), lines(true).len()), (all.min(3), all));
            if n == 4 && with_harmless {
                let rest = "evidence: 2 further problems may change a figure, 1 other cannot; --verbose lists them";
                assert_eq!(lines(false)[2], rest);
            }
        }
    }
}

#[test]
fn the_parts_sum_to_the_whole() {
    let s = summary();
    assert_eq!(s.phases.iter().map(|p| p.end_ns - p.start_ns).sum::<i64>(), s.total_ns);
    assert_eq!(s.wheres.iter().map(|w| w.self_ns).sum::<i64>(), s.total_ns);
    assert!(s.functions.iter().any(|f| (f.name.as_str(), f.detail.as_str()) == ("initcall", "acpi_init")));
}
