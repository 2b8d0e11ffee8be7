//! Boots of very many and of deeply nested spans: each key and frame ends, and its work follows the columns.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use report::{Boot, Facts, PageBoot};
use timeline::{End, EndEvidence, NameId, Ns, SpanKind, SpanRow, TimeBase, Timeline, TrackKind};
use tui::{App, Look};

/// A boot of one thread with these spans.
fn boot(spans: impl Iterator<Item = (String, i64, i64)>, total: i64) -> Timeline {
    let mut t = Timeline::new(TimeBase::Host);
    let name = t.names.intern("init");
    let track = t.tracks.add(name, TrackKind::Thread, 1);
    for (name, start, end) in spans {
        let (name, detail) = (t.names.intern(&name), NameId::EMPTY);
        t.spans.push(SpanRow { name, detail, start: Ns(start), end: Ns(end), track, kind: SpanKind::Call }, None);
    }
    t.end = Some(End { at: Ns(total), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::Asked(name) });
    t.finalize(Ns::ZERO);
    t
}

fn use_every_key(timeline: &Timeline) {
    let facts = Facts::default();
    let boot = Boot::new(timeline, &facts);
    let compare = |_, _| Err("one boot".to_owned());
    let look = Look { has_colours: true, has_unicode: true };
    let mut app = App::new(&[PageBoot { name: "a", boot: &boot, console: &[] }], &compare, look);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen");
    for key in "]]]jjjlhkk[[fjjjdaws0/f7\nnnN2jjG\n3 4G\n1]q".chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        app.press(KeyEvent::new(code, KeyModifiers::NONE));
        terminal.draw(|frame| tui::draw(&mut app, frame.area(), frame.buffer_mut())).expect("it draws");
        let screen = terminal.backend().buffer();
        assert!(screen.content.iter().any(|cell| cell.symbol() != " "));
    }
    assert!(app.is_over);
}

#[test]
fn a_boot_of_many_spans() {
    let count = 200_000;
    use_every_key(&boot((0..count).map(|i| (format!("f{}", i % 500), i * 1_000, i * 1_000 + 900)), count * 1_000));
}

#[test]
fn a_boot_of_deeply_nested_spans() {
    let depth = 50_000;
    use_every_key(&boot((0..depth).map(|i| (format!("f{i}"), i, 2 * depth - i)), 2 * depth));
}

#[test]
fn a_name_without_end() {
    let long = "very long name ".repeat(10_000);
    use_every_key(&boot((0..20).map(|i| (format!("f7 {i} {long}"), i * 1_000, i * 1_000 + 900)), 20_000));
}
