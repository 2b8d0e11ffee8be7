//! Draws the phases, the axis of time, and the flame chart of the boot path.

use crate::flame::{Bar, Run};
use crate::look::{CROWD, EDGE, Look, fill};
use crate::pen::put;
use crate::search::Search;
use crate::shown::ShownBoot;
use crate::window::Window;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use report::{cut, harmless};
use timeline::{Ns, Unit};

/// The fewest columns between two times on the axis.
const MIN_TICK: i64 = 14;

/// Draws the chart: a line of phases, the axis, and as many rows as there is room for.
pub fn draw(boot: &mut ShownBoot, search: Option<&Search>, look: Look, area: Rect, screen: &mut Buffer) {
    if area.height < 3 || area.width < 2 {
        return;
    }
    boot.columns = area.width;
    phases(boot, boot.window, look, Rect { height: 1, ..area }, screen);
    axis(boot.window, boot.unit(), look, Rect { y: area.y + 1, height: 1, ..area }, screen);
    let area = Rect { y: area.y + 2, height: area.height - 2, ..area };
    if boot.flame.depth() == 0 {
        put(
            screen,
            area,
            0,
            "There is no boot path: no evidence says which thread reached the end mark.",
            look.faint(),
        );
        return;
    }
    let room = usize::from(area.height);
    let selected = boot.spot.map_or(boot.first_row, |spot| spot.row);
    let last = boot.flame.depth().saturating_sub(room);
    boot.first_row = boot.first_row.min(selected).max((selected + 1).saturating_sub(room)).min(last);
    for line in 0..room.min(boot.flame.depth() - boot.first_row) {
        let row = boot.first_row + line;
        for run in boot.flame.runs(row, boot.window, area.width) {
            let y = area.y + u16::try_from(line).unwrap_or(0);
            draw_run(boot, row, run, search, look, (area.x, y), screen);
        }
    }
    let below = boot.flame.depth() - boot.first_row - room.min(boot.flame.depth() - boot.first_row);
    if below > 0 {
        let text = format!(" {below} rows below ");
        let width = u16::try_from(text.len()).unwrap_or(0).min(area.width);
        let corner = Rect { x: area.right() - width, y: area.bottom() - 1, width, height: 1 };
        put(screen, corner, 0, &text, look.heading());
    }
}

fn draw_run(
    boot: &ShownBoot,
    row: usize,
    run: Run,
    search: Option<&Search>,
    look: Look,
    (x, y): (u16, u16),
    screen: &mut Buffer,
) {
    let Some(bar) = boot.flame.row(row).get(run.bar) else { return };
    let is_selected = boot.spot.is_some_and(|spot| spot.row == row && spot.bar == run.bar);
    let style = match search {
        _ if is_selected => look.selected(Style::new()),
        Some(search) if search.has_label(bar.label) => look.found(look.bar(bar.label, bar.kind)),
        _ => look.bar(bar.label, bar.kind),
    };
    let text =
        if run.is_crowd { CROWD.to_string() } else { bar_text(boot, bar, usize::from(run.right - run.left), look) };
    let area = Rect { x: x + run.left, y, width: run.right - run.left, height: 1 };
    put(screen, area, 0, &text, style);
}

/// The edge and the name of a bar, filled to its width.
fn bar_text(boot: &ShownBoot, bar: &Bar, columns: usize, look: Look) -> String {
    let name = if columns > 3 { boot.page.boot.text(bar.label) } else { String::new() };
    let name = cut(&name, columns.saturating_sub(1));
    let used = 1 + ratatui::text::Line::raw(&*name).width();
    // A background already shows how far a bar reaches.
    let sign = if look.has_colours && fill(bar.label) == '─' { ' ' } else { fill(bar.label) };
    let gap = usize::from(!name.is_empty() && used < columns);
    let rest = columns.saturating_sub(used + gap);
    format!("{EDGE}{name}{}{}", " ".repeat(gap), sign.to_string().repeat(rest))
}

/// Draws the phases of a boot over a window.
pub fn phases(boot: &ShownBoot, window: Window, look: Look, area: Rect, screen: &mut Buffer) {
    for phase in &boot.page.boot.phases {
        if phase.end <= window.from || phase.start >= window.to {
            continue;
        }
        let left = window.column(phase.start, area.width).unwrap_or(0);
        let right = window.column(phase.end, area.width).unwrap_or(area.width);
        let width = right.saturating_sub(left);
        let name = cut(&harmless(&phase.name), usize::from(width).saturating_sub(1)).into_owned();
        let text = format!("{EDGE}{name:<columns$}", columns = usize::from(width));
        put(screen, Rect { x: area.x + left, width, ..area }, 0, &text, look.phase(phase.what, &phase.name));
    }
}

/// Draws round times at the columns where they are.
pub fn axis(window: Window, unit: Unit, look: Look, area: Rect, screen: &mut Buffer) {
    let step = round_step(window.length() / (i64::from(area.width) / MIN_TICK).max(1));
    let first = window.from.0.div_euclid(step).saturating_mul(step);
    for at in (0..=i64::from(area.width)).map_while(|i| first.checked_add(i.checked_mul(step)?)) {
        if at >= window.to.0 {
            break;
        }
        let Some(column) = window.column(Ns(at), area.width) else { continue };
        let rest = Rect { x: area.x + column, width: area.width - column, ..area };
        let label = format!("│{}", time(at, step, unit));
        // A number without its end would be another number.
        let label = if label.chars().count() <= usize::from(rest.width) { &label } else { "│" };
        put(screen, rest, 0, label, look.faint());
    }
}

/// An instant with as many digits as tell it from others within a length.
pub fn instant(at: Ns, length: Ns, unit: Unit) -> String {
    time(at.0, round_step((length.0 / 100).max(1)), unit)
}

/// The least round number (1, 2 or 5 times a power of ten) that is not below a length.
fn round_step(least: i64) -> i64 {
    let powers = std::iter::successors(Some(1_i64), |power| power.checked_mul(10));
    powers.flat_map(|power| [1, 2, 5].map(|n| power.saturating_mul(n))).find(|&step| step >= least).unwrap_or(i64::MAX)
}

/// A time with as many digits as tell it from a neighbour that is `step` away.
fn time(at: i64, step: i64, unit: Unit) -> String {
    let units = match unit {
        // The instants of a deterministic boot are on the guest's clock.
        Unit::Nanoseconds | Unit::GuestTime | Unit::Instructions | Unit::Priced => ["ns", "µs", "ms", "s"],
        Unit::Ticks => ["ticks", "kticks", "Mticks", "Gticks"],
        Unit::Count => ["", "k", "M", "G"],
    };
    let (mut one, mut name) = (1_i64, units[0]);
    for unit in &units[1..] {
        if at.abs() >= one * 1_000 {
            (one, name) = (one * 1_000, unit);
        }
    }
    let decimals = (0..9).find(|&digits| step.saturating_mul(10_i64.pow(digits)) % one == 0).unwrap_or(9);
    format!("{:.*} {name}", decimals as usize, at as f64 / one as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_times_differ() {
        assert_eq!([1, 3, 17, 200, 201].map(round_step), [1, 5, 20, 200, 500]);
        let at = |at, step| time(at, step, Unit::Nanoseconds);
        assert_eq!(at(0, 1_000_000), "0 ns");
        assert_eq!(at(1_500_000_000, 500_000_000), "1.5 s");
        assert_eq!(at(1_234_560_000, 10_000), "1.23456 s");
        assert_eq!(at(20_000, 5_000), "20 µs");
        assert_eq!(time(2_000_000, 1_000_000, Unit::Instructions), "2 ms");
        assert_eq!(time(2_000_000, 1_000_000, Unit::Ticks), "2 Mticks");
        assert_eq!(round_step(i64::MAX), i64::MAX);
    }
}
