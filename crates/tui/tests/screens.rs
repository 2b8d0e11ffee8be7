//! Screens of recordings whose figures are known, on a terminal of the test's own.

use campaigns::boot_findings;
use campaigns::opened_boot::{self, OpenedBoot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use report::{Boot, ConsoleLine, Diff, Findings, PageBoot};
use std::path::PathBuf;
use timeline::Ns;
use tui::{App, Look};

const PLAIN: Look = Look { has_colours: false, has_unicode: true };
const MAX_FINDINGS: usize = 1_000;

fn kept(name: &str) -> OpenedBoot {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/kept");
    opened_boot::open(&folder.join(format!("{name}.tar.zst"))).expect("a kept recording opens")
}

fn analysed(opened: &OpenedBoot) -> Boot<'_> {
    let found = boot_findings::find(opened, MAX_FINDINGS);
    let mut boot = Boot::new(&opened.timeline, &opened.facts);
    boot.findings = Some(Findings::of_page(&opened.timeline, &found));
    boot
}

/// Calls a function with the screen of kept recordings, and their boots.
fn with_app(names: &[&str], look: Look, test: impl FnOnce(&mut App, &[Boot])) {
    let opened: Vec<OpenedBoot> = names.iter().map(|name| kept(name)).collect();
    let boots: Vec<Boot> = opened.iter().map(analysed).collect();
    let consoles = opened.iter().map(|opened| evidence::console(&opened.recording).expect("a console"));
    let consoles: Vec<_> = consoles.collect();
    let lines = consoles.iter().map(|console| console.lines().map(|(at, text)| ConsoleLine { at, text }).collect());
    let lines: Vec<Vec<ConsoleLine>> = lines.collect();
    let pages = boots.iter().zip(&lines).zip(names).map(|((boot, console), name)| PageBoot { name, boot, console });
    let pages: Vec<PageBoot> = pages.collect();
    let compare = |before: usize, after: usize| {
        Ok(Diff::new((names[before], &boots[before]), (names[after], &boots[after]), false))
    };
    test(&mut App::new(&pages, &compare, look), &boots);
}

fn drawn(app: &mut App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| tui::draw(app, frame.area(), frame.buffer_mut())).expect("it draws");
    terminal.backend().buffer().clone()
}

/// The lines of the screen at 80 × 24, without the spaces at their ends.
fn lines(app: &mut App) -> Vec<String> {
    lines_of(&drawn(app, 80, 24))
}

fn lines_of(screen: &Buffer) -> Vec<String> {
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    screen
        .content
        .chunks(usize::from(screen.area.width.max(1)))
        .map(|cells| line(cells).trim_end().to_owned())
        .collect()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            '→' => KeyCode::Right,
            '←' => KeyCode::Left,
            '↑' => KeyCode::Up,
            '↓' => KeyCode::Down,
            '\t' => KeyCode::Tab,
            key => KeyCode::Char(key),
        };
        app.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

/// The text of the selected cells: the only reversed ones below the line of views.
fn selected(screen: &Buffer) -> String {
    let below = screen.content.iter().skip(2 * usize::from(screen.area.width));
    below.filter(|cell| cell.modifier.contains(Modifier::REVERSED)).map(|cell| cell.symbol()).collect()
}

#[test]
fn the_path_is_a_flame_chart_and_its_largest_rows_are_named() {
    with_app(&["lab-two-cpus"], PLAIN, |app, boots| {
        let (boot, screen) = (&boots[0], lines(app));
        let total = boot.timeline.unit.show(boot.total);
        assert!(screen[0].contains(&total), "{screen:#?}");
        assert!(screen[1].contains("1 Path") && !screen[1].contains("Compare"), "{screen:#?}");
        // The phase that is the longest is named in the line of phases.
        let longest = boot.phases.iter().max_by_key(|phase| phase.length()).expect("a phase");
        assert!(screen[2].contains(&longest.name[..4]), "{screen:#?}");
        assert!(screen[3].starts_with("│0 "), "{screen:#?}");
        // Below the chart, the first rows of `show` with their figures.
        for row in &boot.wheres()[..3] {
            let figure = boot.timeline.unit.show(Ns(row.self_ns));
            assert!(
                screen.iter().any(|line| line.contains(&row.name) && line.contains(&figure)),
                "{row:?} {screen:#?}"
            );
        }
    });
}

#[test]
fn the_keyboard_walks_the_chart_and_the_details_follow() {
    with_app(&["lab-two-cpus"], PLAIN, |app, boots| {
        let boot = &boots[0];
        let deepest = boot.path_slices().len();
        assert!(deepest > 100, "a boot with a trace");
        press(app, "]");
        let first = selected(&drawn(app, 80, 24));
        assert!(!first.is_empty());
        // Along the whole path: each step shows its bar, and the last one is at the end of the boot.
        let mut seen = std::collections::HashSet::new();
        for _ in 0..4 * deepest {
            press(app, "]");
            seen.insert(lines(app)[4..23].join("\n"));
        }
        assert!(seen.len() > 50, "{}", seen.len());
        press(app, "]0");
        // The last digits follow the bar's length.
        let end = format!(" to {}.", boot.total.0 / 1_000_000);
        assert!(lines(app).iter().any(|line| line.contains(&end)), "{end} {:#?}", lines(app));
        // Up leads to the outermost bar, zooming to it and back is the same screen.
        press(app, &"↑".repeat(64));
        let before = lines(app);
        press(app, "\n");
        press(app, "\u{8}");
        assert_eq!(lines(app), before);
    });
}

#[test]
fn rows_are_those_of_show_and_lead_to_their_place() {
    with_app(&["lab-two-cpus"], PLAIN, |app, boots| {
        let boot = &boots[0];
        press(app, "2");
        let screen = lines(app);
        for (line, row) in screen[3..].iter().zip(&boot.wheres()[..5]) {
            let figure = boot.timeline.unit.show(Ns(row.self_ns));
            assert!(line.contains(&figure) && line.contains(&row.name), "{row:?} is not {line:?}");
        }
        for row in 0..5 {
            press(app, "2");
            press(app, "g");
            press(app, &"↓".repeat(row));
            press(app, "\n");
            let (from, to) = boot.place_of(row).expect("a place");
            assert!(from < to && to <= boot.total, "{row}");
            assert!(lines(app)[1].contains("1 Path") && !selected(&drawn(app, 80, 24)).is_empty(), "{row}");
        }
    });
}

#[test]
fn findings_have_their_remedy() {
    with_app(&["gzip-cut-beside-log"], PLAIN, |app, boots| {
        let found = boots[0].findings.as_ref().expect("rules ran");
        assert!(!found.findings.is_empty());
        press(app, "3");
        let first = &found.findings[0];
        let screen = drawn(app, 120, 40);
        let text = lines_of(&screen).join(" ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        for part in [first.title.as_str(), first.remedy.as_str(), first.id.as_str()] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    });
}

#[test]
fn a_search_counts_and_walks_its_matches_in_each_view() {
    with_app(&["lab-two-cpus"], PLAIN, |app, boots| {
        let boot = &boots[0];
        let row = boot.wheres()[0].name.clone();
        let word = row.split(|c: char| !c.is_alphanumeric() && c != '_').max_by_key(|word| word.len()).expect("a word");
        let names = boot.path_slices().iter().map(|slice| boot.text(slice.label)).collect::<Vec<_>>();
        let count = names.iter().filter(|name| name.to_lowercase().contains(&word.to_lowercase())).count();
        press(app, &format!("/{word}\n"));
        let status = lines(app)[23].clone();
        match count {
            0 => assert!(status.contains("no match"), "{status}"),
            _ => assert!(status.contains(&format!("1 of {count} ")), "{status}, not {count} of {word}"),
        }
        press(app, "2n");
        assert!(lines(app)[23].contains(" of "), "{:?}", lines(app)[23]);
        press(app, "/(\n");
        assert!(lines(app)[23].contains("not a regular expression"), "{:?}", lines(app)[23]);
        press(app, "/nowhere at all\n");
        assert!(lines(app)[23].contains("no match"), "{:?}", lines(app)[23]);
        press(app, "/\u{1b}q");
        assert!(app.is_over);
    });
}

#[test]
fn two_boots_stand_on_one_axis_with_the_rows_that_differ() {
    with_app(&["lab-two-cpus", "lab-deterministic"], PLAIN, |app, _| {
        press(app, "5");
        let text = lines(app).join("\n");
        // One counts instructions: nothing of it may look like a change, and there is no common axis.
        assert!(text.contains("No row can be compared.") && !text.contains("│0 "), "{text}");
        press(app, "b1");
        assert!(lines(app)[0].contains("boot 2 of 2: lab-deterministic"), "{:?}", lines(app)[0]);
    });
    with_app(&["trace-and-log", "log-excerpt"], PLAIN, |app, boots| {
        press(app, "5");
        let diff = Diff::new(("trace-and-log", &boots[0]), ("log-excerpt", &boots[1]), false);
        let text = lines(app).join("\n");
        assert!(text.contains(&diff.before.kernel) || text.contains("before"), "{text}");
        for row in diff.phases.iter().take(2) {
            assert!(text.contains(&row.name), "{row:?} is not in {text}");
        }
    });
}

#[test]
fn a_terminal_without_colours_or_unicode_is_enough() {
    for has_unicode in [true, false] {
        with_app(&["lab-two-cpus"], Look { has_colours: false, has_unicode }, |app, _| {
            for keys in ["]]]", "2", "3", "4", "?", "1/init\n"] {
                press(app, keys);
                let screen = drawn(app, 80, 24);
                for cell in &screen.content {
                    assert!(cell.fg == Color::Reset && cell.bg == Color::Reset, "{cell:?} after {keys:?}");
                    assert!(has_unicode || cell.symbol().is_ascii(), "{cell:?} after {keys:?}");
                }
                if keys == "?" {
                    press(app, "x");
                }
            }
        });
    }
}

#[test]
fn no_size_and_no_key_is_too_much() {
    const KEYS: &str = "]]↓↓→→←↑wws+-ad0[.,\n\u{8}2↓↓ G\n3↓\n4↓ \n5↓\n1b/a\nnN\u{1b}?x/[\n\t";
    let names = ["lab-two-cpus", "log-no-stamps", "linux-first-run-cut", "tslog-in-two-parts", "lab-deterministic"];
    for name in names {
        with_app(&[name, "log-excerpt"], Look { has_colours: true, has_unicode: true }, |app, _| {
            let keys: Vec<char> = KEYS.chars().collect();
            let mut random = 7_usize;
            for i in 0..600 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                press(app, &keys[(random >> 33) % keys.len()].to_string());
                app.is_over = false;
                let size =
                    if i % 2 == 0 { (80, 24) } else { ((random >> 40) as u16 % 130, (random >> 50) as u16 % 50) };
                let screen = drawn(app, size.0, size.1);
                let control = screen.content.iter().find(|cell| cell.symbol().chars().any(char::is_control));
                assert_eq!(control, None, "{name}");
            }
        });
    }
}

/// The screens after some keys, as they are kept in tests/frames.
#[test]
fn screens_are_those_that_are_kept() {
    let frames: [(&str, &[&str], &str); 8] = [
        ("keys", &["log-excerpt"], "?"),
        ("path", &["linux-traced-no-symbols"], ""),
        ("step", &["linux-traced-no-symbols"], "]]]]]]"),
        ("where", &["lab-two-cpus"], "2\u{2193}"),
        ("findings", &["gzip-cut-beside-log"], "3"),
        ("console", &["lab-two-cpus"], "4/smp\n"),
        ("compare", &["log-excerpt", "log-no-stamps"], "5"),
        ("log", &["log-excerpt"], ""),
    ];
    for (frame, names, keys) in frames {
        for (width, height) in [(80, 24), (120, 40)] {
            with_app(names, PLAIN, |app, _| {
                drawn(app, width, height);
                press(app, keys);
                let shown = lines_of(&drawn(app, width, height)).join("\n") + "\n";
                let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/frames/{frame}-{width}.txt"));
                if std::env::var_os("BLESS").is_some() {
                    std::fs::write(&path, &shown).expect("the frame is written");
                }
                let kept = std::fs::read_to_string(&path).expect("a kept frame");
                assert_eq!(kept, shown, "{}: BLESS=1 writes it anew", path.display());
            });
        }
    }
}
