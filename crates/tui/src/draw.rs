//! Draws the whole screen: a title, the names of the views, the view, and a line of keys.

use crate::app::App;
use crate::pen::{broken, put};
use crate::view::View;
use crate::{chart, details, rows};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use report::{Layout, harmless};
use timeline::Ns;

/// Lines of the details below the chart.
const DETAILS: u16 = 6;
/// The fewest lines of a list, and of the chart.
const MIN_LIST: u16 = 4;
const MIN_CHART: u16 = 5;

const KEYS: [(&str, &str); 14] = [
    ("1 to 5, Tab", "views: path, where, findings, console, compare"),
    ("← →  h l", "the bar before or after, as drawn"),
    ("↑ ↓  k j", "the bar around, the longest bar inside"),
    ("[ ]", "along the boot path, step by step"),
    ("Enter  f", "zoom to the bar; from a list, to its place"),
    ("w s  + -", "zoom in, zoom out"),
    ("a d", "move to the left, to the right"),
    ("0", "the whole boot"),
    ("Backspace", "back to the window before"),
    ("/", "search by a regular expression"),
    ("n N", "the next match, the one before"),
    ("b", "the next boot, if there are several"),
    ("Esc", "clear the selection, leave a list"),
    ("q", "end"),
];

/// The signs of the chart.
const SIGNS: [(char, &str); 4] = [
    ('─', "a thread computes; with colours, the background"),
    ('·', "it waits"),
    ('≈', "it waits for a CPU (run queue)"),
    ('▒', "bars that are shorter than a column"),
];

/// Draws the screen, or says that it is too small.
pub fn draw(app: &mut App, area: Rect, screen: &mut Buffer) {
    if area.width < 24 || area.height < 8 {
        put(screen, area, 0, "too small", Style::new());
        return;
    }
    title(app, area, screen);
    views(app, Rect { y: area.y + 1, height: 1, ..area }, screen);
    let warning = app.boot().summary.warnings.first().map(|text| format!("Warning: {}", harmless(text)));
    let top = if warning.is_some() { 3 } else { 2 };
    put(screen, area, 2, &warning.unwrap_or_default(), app.look.warning());
    let body = Rect { y: area.y + top, height: area.height - top - 1, ..area };
    match app.view {
        _ if app.has_help => help(app, body, screen),
        View::Path => path(app, body, screen),
        View::Compare => compare(app, body, screen),
        View::Where | View::Findings | View::Console => list(app, body, screen),
    }
    status(app, Rect { y: area.bottom() - 1, height: 1, ..area }, screen);
    app.look.finish(screen);
}

fn title(app: &App, area: Rect, screen: &mut Buffer) {
    let boot = app.boot();
    let subject = &boot.summary.subject;
    let kernel = format!("{} {}", subject.os, subject.kernel);
    let kernel = if kernel.trim().is_empty() { "A boot" } else { kernel.trim() };
    let outcome = if boot.summary.outcome.is_empty() { "outcome unknown" } else { &boot.summary.outcome };
    let text = format!("{}  {}  {}", harmless(kernel), boot.unit().show(Ns(boot.summary.total_ns)), harmless(outcome));
    let has_others = app.boots.len() > 1;
    let room = if has_others { area.width - area.width / 2 - 1 } else { area.width };
    put(screen, area, 0, &report::cut(&text, usize::from(room)), app.look.heading());
    if has_others {
        let which = format!(" boot {} of {}: {} ", app.shown + 1, app.boots.len(), harmless(boot.page.name));
        let width = u16::try_from(which.chars().count()).unwrap_or(u16::MAX).min(area.width / 2);
        put(screen, Rect { x: area.right() - width, width, ..area }, 0, &which, app.look.heading());
    }
}

fn views(app: &App, area: Rect, screen: &mut Buffer) {
    let mut x = area.x;
    for (i, view) in app.views().iter().enumerate() {
        let text = format!(" {} {} ", i + 1, view.name());
        let is_shown = *view == app.view;
        let style = if is_shown { Style::new().add_modifier(Modifier::REVERSED) } else { app.look.faint() };
        put(screen, Rect { x, width: area.right().saturating_sub(x), ..area }, 0, &text, style);
        x = x.saturating_add(u16::try_from(text.len()).unwrap_or(0) + 1);
    }
}

fn path(app: &mut App, area: Rect, screen: &mut Buffer) {
    let lines = broken(details::about(&mut app.boots[app.shown]), area.width);
    let room = DETAILS.min(area.height.saturating_sub(MIN_CHART + 1));
    let App { boots, shown, search, look, .. } = app;
    // A chart of few rows leaves the rest to the details.
    let depth = u16::try_from(boots[*shown].flame.depth()).unwrap_or(u16::MAX).max(1);
    let height = (area.height - room - 1).min(depth.saturating_add(2));
    chart::draw(&mut boots[*shown], search.as_ref(), *look, Rect { height, ..area }, screen);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    put_details(app, &lines, below, screen);
}

/// A line, and the paragraphs below it.
fn put_details(app: &App, lines: &[String], area: Rect, screen: &mut Buffer) {
    put(screen, area, 0, &"─".repeat(usize::from(area.width)), app.look.faint());
    for (i, line) in (1..area.height).zip(lines) {
        let style = if i == 1 { app.look.heading() } else { Style::new() };
        put(screen, area, i, line, style);
    }
}

/// A list, and the paragraphs about its selected row in as many lines as they need.
fn list(app: &mut App, area: Rect, screen: &mut Buffer) {
    let lines = broken(&rows::about(app), area.width);
    let wanted = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(1);
    let below = wanted.min(area.height.saturating_sub(MIN_LIST));
    let height = area.height - below;
    put_rows(app, Rect { height, ..area }, screen);
    if !lines.is_empty() {
        put_details(app, &lines, Rect { y: area.y + height, height: below, ..area }, screen);
    }
}

fn put_rows(app: &mut App, area: Rect, screen: &mut Buffer) {
    let len = rows::len(app);
    if len == 0 {
        put(screen, area, 0, &rows::empty(app), Style::new());
        return;
    }
    put(screen, area, 0, rows::title(app), app.look.faint());
    let at = app.selected_row();
    let Some(list) = app.list_mut() else { return };
    let seen = list.seen(usize::from(area.height - 1), len);
    for (line, number) in (1..area.height).zip(seen) {
        let row = rows::row(app, number);
        let text = format!("{}  {}", row.figures, row.name);
        let style = match &app.search {
            _ if number == at => app.look.selected(Style::new()),
            Some(search) if search.rows().binary_search(&number).is_ok() => app.look.found(Style::new()),
            _ => Style::new(),
        };
        let text = report::cut(&text, usize::from(area.width));
        put(screen, area, line, &text, style);
    }
}

/// The two boots on one axis of time, what differs in how they were run, and the rows that differ.
fn compare(app: &mut App, area: Rect, screen: &mut Buffer) {
    let (before, after) = app.pair();
    let [first, second] = [before, after].map(|i| &app.boots[i]);
    let has_axis = first.unit() == second.unit();
    let longest = if first.whole.length() >= second.whole.length() { first.whole } else { second.whole };
    if has_axis {
        chart::axis(longest, first.unit(), app.look, Rect { height: 1, ..area }, screen);
    } else {
        // Instructions and time have no common axis.
        put(screen, area, 0, "each of its own length:", app.look.faint());
    }
    for (line, boot) in [(1, first), (2, second)] {
        let window = if has_axis { longest } else { boot.whole };
        chart::phases(boot, window, app.look, Rect { y: area.y + line, height: 1, ..area }, screen);
    }
    let layout = Layout { width: usize::from(area.width), ..Layout::default() };
    let heading = match app.compared() {
        Some(Ok(diff)) => diff.heading(layout),
        _ => String::new(),
    };
    let room = area.height.saturating_sub(3 + MIN_LIST + 1);
    let lines: Vec<&str> = heading.lines().filter(|line| !line.is_empty()).take(usize::from(room)).collect();
    for (i, line) in (3..).zip(&lines) {
        put(screen, area, i, line, Style::new());
    }
    let used = 3 + u16::try_from(lines.len()).unwrap_or(0);
    list(app, Rect { y: area.y + used, height: area.height.saturating_sub(used), ..area }, screen);
}

fn help(app: &App, area: Rect, screen: &mut Buffer) {
    put(screen, area, 0, "Keys", app.look.heading());
    let is_ascii = !app.look.has_unicode;
    let keys = |keys: &str| {
        if is_ascii { keys.replace("← →", "Arrows").replace("↑ ↓", "Arrows") } else { keys.to_owned() }
    };
    let signs = SIGNS.iter().map(|(sign, meaning)| (sign.to_string().repeat(3), *meaning));
    let all = KEYS.iter().map(|(names, action)| (keys(names), *action)).chain([(String::new(), "")]).chain(signs);
    for (line, (name, text)) in (1..area.height).zip(all) {
        put(screen, area, line, &format!("  {name:<12}  {text}"), Style::new());
    }
}

fn status(app: &App, area: Rect, screen: &mut Buffer) {
    if let Some(typed) = &app.typed {
        let text = format!("/{}", harmless(typed));
        return put(screen, area, 0, &format!("{text}_"), app.look.heading());
    }
    let keys = match app.view {
        _ if app.has_help => "any key: back",
        View::Path => "arrows: bars  [ ]: steps  Enter: zoom  0: all  /: search  ?: keys  q: end",
        View::Where | View::Findings | View::Console | View::Compare => {
            "arrows: rows  Enter: its place in the path  /: search  ?: keys  q: end"
        }
    };
    let text = match &app.search {
        Some(search) if !search.is_valid() => format!("/{}: not a regular expression", harmless(search.text())),
        Some(search) => format!("/{}: {}  n N: next, before  ?: keys", harmless(search.text()), app.found()),
        None => keys.to_owned(),
    };
    put(screen, area, 0, &text, app.look.faint());
}
