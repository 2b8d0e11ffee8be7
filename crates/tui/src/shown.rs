//! A boot with the place that its screen shows: the window of time, and the selected bar.

use crate::flame::{Flame, Spot};
use crate::list::List;
use crate::pen::Paragraph;
use crate::window::Window;
use report::{ConsoleLine, PageBoot, Summary, kernel_log};
use std::borrow::Cow;
use timeline::{Ns, Unit};

/// The columns that a bar takes at least after a step to it.
const MIN_COLUMNS: i64 = 4;
/// The most windows to which one can go back.
const MAX_EARLIER: usize = 100;

pub struct ShownBoot<'a> {
    pub page: PageBoot<'a>,
    pub summary: Summary,
    pub flame: Flame,
    /// The console, or the kernel's log where that is more.
    pub lines: Cow<'a, [ConsoleLine<'a>]>,
    pub has_log: bool,
    /// The paragraphs about a selection, as they were made last.
    pub details: Option<(Option<Spot>, Vec<Paragraph>)>,
    pub whole: Window,
    pub window: Window,
    /// The selected bar, and the instant in it from which steps go on.
    pub spot: Option<Spot>,
    pub at: Ns,
    earlier: Vec<Window>,
    /// The first row of the flame chart that is drawn.
    pub first_row: usize,
    /// The columns of the chart, as it was drawn last.
    pub columns: u16,
    pub wheres: List,
    pub findings: List,
    pub console: List,
    pub compared: List,
}

impl<'a> ShownBoot<'a> {
    pub fn new(page: PageBoot<'a>) -> ShownBoot<'a> {
        let whole = Window::new(Ns::ZERO, page.boot.total);
        let log = kernel_log(page.boot);
        // The page chooses by the same rule.
        let has_log = log.len() > 2 * page.console.len();
        ShownBoot {
            page,
            summary: Summary::of(page.boot),
            flame: Flame::of(page.boot),
            lines: if has_log { Cow::Owned(log) } else { Cow::Borrowed(page.console) },
            has_log,
            details: None,
            whole,
            window: whole,
            spot: None,
            at: Ns(-1),
            earlier: Vec::new(),
            first_row: 0,
            columns: 80,
            wheres: List::default(),
            findings: List::default(),
            console: List::default(),
            compared: List::default(),
        }
    }

    /// The unit of lengths. Here they are shown whole, with their timed waits.
    pub fn unit(&self) -> Unit {
        one_unit(self.page.boot.timeline.unit, self.summary.waited_ns)
    }

    /// Selects a bar, and moves the window so that it is seen.
    pub fn select(&mut self, spot: Spot) {
        let Some(bar) = self.flame.get(spot).copied() else { return };
        (self.spot, self.at) = (Some(spot), bar.start);
        if bar.end <= self.window.from || bar.start >= self.window.to {
            self.window = self.window.showing(bar.start, bar.end).within(self.whole);
        }
    }

    /// Selects the next drawn bar of the same row, or the previous one.
    pub fn beside(&mut self, is_forwards: bool) {
        let Some(spot) = self.spot else { return self.step(is_forwards) };
        let runs = self.flame.runs(spot.row, self.window, self.columns);
        let next = match is_forwards {
            true => runs.iter().find(|run| run.bar > spot.bar),
            false => runs.iter().rev().find(|run| run.bar < spot.bar),
        };
        let bar = match next {
            Some(run) => run.bar,
            None if is_forwards => spot.bar + 1,
            None => spot.bar.saturating_sub(1),
        };
        self.select(Spot { bar, ..spot });
    }

    /// Selects the bar around the selected one.
    pub fn up(&mut self) {
        if let Some(around) = self.spot.and_then(|spot| self.flame.around(spot)) {
            self.select(around);
        }
    }

    /// Selects the longest bar inside of the selected one.
    pub fn down(&mut self) {
        match self.spot {
            None => self.step(true),
            Some(spot) => {
                if let Some(inner) = self.flame.longest_inside(spot) {
                    self.select(inner);
                }
            }
        }
    }

    /// Goes to the next or the previous change of the boot path. The window then shows the bar.
    pub fn step(&mut self, is_forwards: bool) {
        let Some((at, spot)) = self.flame.step(self.at, is_forwards) else { return };
        self.select(spot);
        self.at = at;
        self.widen_to_selected();
    }

    /// Zooms in until the selected bar is wide enough to be seen.
    pub fn widen_to_selected(&mut self) {
        let Some(bar) = self.spot.and_then(|spot| self.flame.get(spot)).copied() else { return };
        let column = self.window.length() / i64::from(self.columns.max(1));
        if bar.length().0 < column.saturating_mul(MIN_COLUMNS) {
            let half = bar.length().0.saturating_mul(10);
            self.show(Window::new(Ns(bar.start.0.saturating_sub(half)), Ns(bar.end.0.saturating_add(half))));
        } else if self.at < self.window.from || self.at >= self.window.to {
            self.window = self.window.showing(bar.start, bar.end).within(self.whole);
        }
    }

    /// Shows a window, from which one can go back to the present one.
    fn show(&mut self, window: Window) {
        let window = window.within(self.whole);
        if window != self.window {
            if self.earlier.len() == MAX_EARLIER {
                self.earlier.remove(0);
            }
            self.earlier.push(self.window);
            self.window = window;
        }
    }

    /// Shows the selected bar over the whole width.
    pub fn zoom_to_selected(&mut self) {
        if let Some(bar) = self.spot.and_then(|spot| self.flame.get(spot)).copied() {
            self.show(Window::new(bar.start, bar.end));
        }
    }

    /// Zooms around the selected bar, or around the middle.
    pub fn zoom(&mut self, factor: f64) {
        let bar = self.spot.and_then(|spot| self.flame.get(spot));
        let (from, to) = bar.map_or((self.window.from, self.window.to), |bar| {
            (bar.start.max(self.window.from), bar.end.min(self.window.to))
        });
        let around = if from < to { Ns(from.0 + (to.0 - from.0) / 2) } else { self.window.middle(0, 1) };
        self.window = self.window.zoomed(factor, around).within(self.whole);
    }

    pub fn pan(&mut self, share: f64) {
        self.window = self.window.moved(share).within(self.whole);
    }

    pub fn show_whole(&mut self) {
        self.show(self.whole);
    }

    /// Shows the window before the last jump. Returns false without an earlier one.
    pub fn back(&mut self) -> bool {
        let earlier = self.earlier.pop();
        self.window = earlier.unwrap_or(self.window);
        earlier.is_some()
    }

    /// Shows a stretch with some time around it, and selects the bar that fits it best.
    pub fn go_to(&mut self, from: Ns, to: Ns) {
        let around = to.0.saturating_sub(from.0) / 4;
        self.show(Window::new(Ns(from.0.saturating_sub(around)), Ns(to.0.saturating_add(around))));
        let middle = Window::new(from, to).middle(0, 1);
        let fits = |spot: &Spot| self.flame.get(*spot).is_some_and(|bar| bar.start >= from && bar.end <= to);
        let rows = || (0..self.flame.depth()).map_while(|row| self.flame.at(row, middle));
        let spot = rows().find(fits).or_else(|| rows().last());
        if let Some(spot) = spot {
            self.select(spot);
        }
    }
}

/// The unit of lengths that are shown whole: guest time, if instructions and timed waits are together.
pub fn one_unit(unit: Unit, waited_ns: i64) -> Unit {
    if waited_ns > 0 { unit.with_waits() } else { unit }
}
