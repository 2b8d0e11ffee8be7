//! The rows of the list views, and the paragraphs about a selected one.

use crate::app::App;
use crate::pen::{MAX_COLUMNS, Paragraph};
use crate::shown::{ShownBoot, one_unit};
use crate::view::View;
use report::{ConsoleLine, Diff, DiffRow, Finding, cut, harmless, harmless_bytes};
use std::borrow::Cow;
use timeline::{Ns, Unit};

/// A row: figures, right-aligned, and a name.
#[derive(Default)]
pub struct Row {
    pub figures: String,
    pub name: String,
}

/// The number of rows of the view's list.
pub fn len(app: &App) -> usize {
    let boot = app.boot();
    match app.view {
        View::Path => 0,
        View::Where => boot.summary.wheres.len(),
        View::Findings => findings(boot).len(),
        View::Console => boot.lines.len(),
        View::Compare => app
            .compared()
            .and_then(|diff| diff.as_ref().ok())
            .filter(|diff| !diff.counts_differ())
            .map_or(0, |diff| diff.phases.len() + diff.rows.len()),
    }
}

/// A row by its number.
pub fn row(app: &App, number: usize) -> Row {
    let boot = app.boot();
    let unit = boot.unit();
    match app.view {
        View::Path => None,
        View::Where => boot.summary.wheres.get(number).map(|row| {
            let sign = if row.first_calls_only { "≥ " } else { "" };
            let time = format!("{sign}{}", unit.show(Ns(row.self_ns)));
            plain(format!("{time:>11} {:>7} {:>7}", percent(row.share), row.count), &row.name)
        }),
        View::Findings => {
            findings(boot).get(number).map(|finding| plain(format!("{:>13}", finding.price(unit)), &finding.title))
        }
        View::Console => boot.lines.get(number).map(|line| {
            let at = line.at.map(|at| unit.show(at)).unwrap_or_default();
            Row { figures: format!("{at:>10}"), name: line_text(line) }
        }),
        View::Compare => changed(app, number),
    }
    .unwrap_or_default()
}

/// The text of a row in which a search looks.
pub fn text(app: &App, number: usize) -> String {
    let row = row(app, number);
    format!("{} {}", row.figures.trim(), row.name)
}

/// The most bytes of a console line that are shown and searched.
const MAX_LINE_BYTES: usize = 2_000;

fn line_text(line: &ConsoleLine) -> String {
    // A serial console ends its lines with CR and LF.
    let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
    harmless_bytes(&text[..text.len().min(MAX_LINE_BYTES)])
}

fn plain(figures: String, name: &str) -> Row {
    Row { figures, name: harmless(&cut(name, MAX_COLUMNS)).into_owned() }
}

/// The figures' titles above a list.
pub fn title(app: &App) -> &'static str {
    match app.view {
        View::Path => "",
        View::Where => "       self   share   times  where the boot path went",
        View::Findings => "        price  cause",
        View::Console if app.boot().has_log => "     stamp  line of the kernel's log",
        View::Console => "   arrived  line",
        View::Compare => "    before      after     change  phase, then row of the boot path",
    }
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The findings of a boot, all of them.
pub fn findings<'b>(boot: &'b ShownBoot) -> &'b [Finding] {
    boot.page.boot.findings.as_ref().map_or(&[], |found| &found.findings)
}

/// A row of the comparison: the phases come first.
fn change(diff: &Diff, number: usize) -> Option<&DiffRow> {
    diff.phases.iter().chain(&diff.rows).nth(number)
}

fn changed(app: &App, number: usize) -> Option<Row> {
    let diff = app.compared()?.as_ref().ok()?;
    let row = change(diff, number)?;
    let unit = one_unit(Unit::named(&diff.before.unit), diff.before.waited_ns.max(diff.after.waited_ns));
    let time = |ns: Option<i64>| ns.map_or_else(|| "not there".to_owned(), |ns| unit.show(Ns(ns)));
    let change = signed(row.change(), unit);
    let figures = format!("{:>10} {:>10} {change:>10}", time(row.before_ns), time(row.after_ns));
    Some(plain(figures, &row.name))
}

fn signed(ns: i64, unit: Unit) -> String {
    match ns {
        0 => "0".to_owned(),
        1.. => format!("+{}", unit.show(Ns(ns))),
        _ => format!("−{}", unit.show(Ns(ns.saturating_neg()))),
    }
}

/// The stretch of time of a row, to show it in the chart of the shown boot.
pub fn place(app: &App, number: usize) -> Option<(Ns, Ns)> {
    let boot = app.boot();
    match app.view {
        View::Path => None,
        View::Where => boot.page.boot.place_of(number),
        View::Findings => {
            let spans = findings(boot).get(number)?.evidence.iter().map(|span| (Ns(span.start_ns), Ns(span.end_ns)));
            spans.max_by_key(|(from, to)| to.0 - from.0)
        }
        View::Console => {
            let (line, later) = (boot.lines.get(number)?, &boot.lines[number + 1..]);
            let next = later.iter().find_map(|next: &ConsoleLine| next.at.filter(|at| Some(*at) > line.at));
            Some((line.at?, next.unwrap_or(boot.page.boot.total).max(line.at?)))
        }
        View::Compare => {
            let name = &change(app.compared()?.as_ref().ok()?, number)?.name;
            let phase = boot.page.boot.phases.iter().find(|phase| phase.name == *name);
            let row = || boot.summary.wheres.iter().position(|row| row.name == *name);
            phase.map(|phase| (phase.start, phase.end)).or_else(|| boot.page.boot.place_of(row()?))
        }
    }
}

/// The paragraphs about the selected row.
pub fn about(app: &App) -> Vec<Paragraph> {
    let (boot, number) = (app.boot(), app.selected_row());
    let unit = boot.unit();
    match app.view {
        View::Path => Vec::new(),
        View::Where => boot.summary.wheres.get(number).map_or_else(Vec::new, |row| {
            let time = |ns: i64| unit.show(Ns(ns));
            let mut all = vec![("", row.name.clone())];
            let total = format!("{} in which it was active, with what it called or waited for", time(row.total_ns));
            all.push(("", format!("{} charged to it, of {total}", time(row.self_ns))));
            all.extend((!row.tracks.is_empty()).then(|| ("on", row.tracks.join(", "))));
            let held: Vec<String> =
                row.cpu_held.iter().map(|held| format!("{} {}", held.name, time(held.ns))).collect();
            all.extend((!held.is_empty()).then(|| ("had its CPU", held.join(", "))));
            all
        }),
        View::Findings => findings(boot).get(number).map_or_else(Vec::new, |finding| {
            let title = [("", finding.title.clone())].into_iter();
            title.chain(finding.paragraphs(boot.page.boot.cost(), unit)).collect()
        }),
        View::Console => boot.lines.get(number).map_or_else(Vec::new, |line| vec![("", line_text(line))]),
        View::Compare => row_name(app, number).map_or_else(Vec::new, |name| vec![("", name)]),
    }
}

fn row_name(app: &App, number: usize) -> Option<String> {
    Some(change(app.compared()?.as_ref().ok()?, number)?.name.clone())
}

/// The sentence for a list without rows.
pub fn empty(app: &App) -> Cow<'static, str> {
    match app.view {
        View::Path | View::Where => "There is no boot path: no evidence says which thread reached the end mark.".into(),
        View::Findings => "No rule found anything that costs more than the noise.".into(),
        View::Console => "No console was recorded, and no log of the kernel.".into(),
        View::Compare => match app.compared() {
            Some(Err(why)) => harmless(why).into_owned().into(),
            Some(Ok(diff)) if diff.not_comparable.is_some() || diff.counts_differ() => "No row can be compared.".into(),
            _ => "No phase and no row differs.".into(),
        },
    }
}
