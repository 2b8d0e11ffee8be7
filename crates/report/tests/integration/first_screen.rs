//! The picture of the first screen: short, the same each time, well formed, with hostile text escaped.

use crate::sample;
use report::{Boot, Facts};
use std::io::Write;
use std::process::{Command, Stdio};
use timeline::{End, EndEvidence, NameId, Ns, SpanKind, SpanRow, TimeBase, Timeline, TrackKind};

const MAX_BYTES: usize = 100_000;

fn picture(boot: &Boot) -> String {
    let mut svg = Vec::new();
    report::first_screen(boot, &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

/// Parses the picture with another program, if it is here.
#[track_caller]
fn assert_well_formed(svg: &str) {
    let parser = Command::new("python3")
        .args(["-c", "import sys, xml.dom.minidom as m; m.parse(sys.stdin.buffer)"])
        .stdin(Stdio::piped())
        .spawn();
    match parser {
        Ok(mut parser) => {
            parser.stdin.take().unwrap().write_all(svg.as_bytes()).unwrap();
            assert!(parser.wait().unwrap().success(), "{svg}");
        }
        Err(why) => println!("skip: no python3 to parse the XML with: {why}"),
    }
}

#[test]
fn it_has_the_phases_the_largest_rows_and_a_legend() {
    let timeline = sample::timeline();
    let facts = sample::facts();
    let boot = Boot::new(&timeline, &facts);
    let svg = picture(&boot);
    assert_well_formed(&svg);
    assert!(svg.len() < MAX_BYTES && svg == picture(&boot), "{} bytes", svg.len());
    let row = &boot.wheres()[0];
    let total = boot.timeline.unit.show(boot.total);
    for part in [&*row.name, &total, "initcall acpi_init", "xml:space", ">thread</text>", ">waiting</text>"] {
        assert!(svg.contains(part), "{part} is not in {svg}");
    }
    let longest = boot.phases.iter().max_by_key(|phase| phase.length()).unwrap();
    let colour = report::phase_colour(longest.what, &longest.name);
    assert!(svg.contains(&format!("fill=\"{colour}\"")), "{colour}");
    // Nothing of a guest is markup, and no text turns the direction of the rest.
    assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains(['\u{1b}', '\u{202e}', '\u{7}']));
}

#[test]
fn a_million_spans_and_names_of_markup_fit() {
    let spans = |count: i64, names: usize, name: &str| {
        let mut t = Timeline::new(TimeBase::Host);
        let init = t.names.intern("init");
        let track = t.tracks.add(init, TrackKind::Thread, 1);
        let detail = NameId::EMPTY;
        let names: Vec<NameId> = (0..names).map(|i| t.names.intern(&format!("{name}{i}"))).collect();
        for i in 0..count {
            let (start, name) = (Ns(i * 1_000), names[i as usize % names.len()]);
            let end = start + Ns(500 + i * 7 % 500);
            t.spans.push(SpanRow { name, detail, start, end, track, kind: SpanKind::Call }, None);
        }
        t.end = Some(End {
            at: Ns(count * 1_000),
            error: Ns::ZERO,
            track: Some(track),
            evidence: EndEvidence::Asked(init),
        });
        t.finalize(Ns::ZERO);
        t
    };
    let markup = "&\"<\u{1b}>'".repeat(300);
    for (count, name) in [(1_000_000, "f"), (3_000, &*markup), (600, &*markup), (1, "f")] {
        let timeline = spans(count, 500, name);
        let facts = Facts::default();
        let svg = picture(&Boot::new(&timeline, &facts));
        assert!(svg.len() < MAX_BYTES, "{count} spans: {} bytes", svg.len());
        assert!(svg.contains("init"), "{svg}");
        assert_well_formed(&svg);
    }
    let (timeline, facts) = (Timeline::default(), Facts::default());
    assert_well_formed(&picture(&Boot::new(&timeline, &facts)));
}
