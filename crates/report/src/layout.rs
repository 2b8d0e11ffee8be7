//! The layout of a view for a terminal: its width, the length of its tables, its unit.

use crate::table::WIDE;
use crate::{Style, Summary};
use timeline::{Cost, Ns, Unit};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Columns of the terminal; 80 if unknown.
    pub width: usize,
    /// True if tables may be wider, so that names and evidence need not be cut: the output is not a terminal.
    pub wide_tables: bool,
    /// The most rows of a table before "everything else".
    pub top: usize,
    /// The threshold for rows in tables of the boot path's time, before "everything else".
    pub cutoff: Cutoff,
    /// Colours, or plain text.
    pub style: Style,
    /// The unit of the summary's times.
    pub unit: Unit,
    /// True to list all user processes, not only those that last.
    pub all_processes: bool,
    /// True to list all units, not only the longest.
    pub all_units: bool,
    /// True to list also the diagnostics that change no figure.
    pub harmless_too: bool,
}

/// The threshold below which rows are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Cutoff {
    /// There is no threshold.
    #[default]
    None,
    /// Shorter rows are not listed.
    Time(Ns),
    /// Rows with a smaller share of the whole (0 to 1) are not listed.
    Share(f64),
}

impl Cutoff {
    /// True if a row of a table is listed.
    pub(crate) fn lists(self, ns: i64, whole: i64) -> bool {
        match self {
            Cutoff::None => true,
            Cutoff::Time(least) => ns >= least.0,
            Cutoff::Share(least) => ns as f64 >= least * whole as f64,
        }
    }
}

impl Layout {
    /// The same layout, with the unit of a summary.
    #[must_use]
    pub fn of(self, summary: &Summary) -> Layout {
        Layout { unit: summary.time_unit(), ..self }
    }

    /// The greatest width of a table.
    pub(crate) fn table_width(&self) -> usize {
        if self.wide_tables { WIDE } else { self.width }
    }

    /// A length of time as text.
    pub(crate) fn time(&self, ns: i64) -> String {
        self.unit.show(Ns(ns))
    }

    /// An instant as text. In a deterministic boot it is on the guest's clock.
    pub(crate) fn at(&self, ns: i64) -> String {
        self.unit.show_at(Ns(ns))
    }

    /// The title of a column of instants.
    pub(crate) fn instants(&self, title: &'static str) -> &'static str {
        if self.unit == Unit::Instructions { "guest time" } else { title }
    }

    /// A length of time as text, in its parts.
    pub(crate) fn cost(&self, cost: Cost) -> String {
        self.unit.show_cost(cost)
    }

    /// The part of a length that is no timed wait as text, or the least that it can be.
    pub(crate) fn at_least(&self, at_least: bool, cost: Cost) -> String {
        format!("{}{}", at_least_sign(at_least), self.busy(cost))
    }

    /// The part of a length that is no timed wait as text.
    pub(crate) fn busy(&self, cost: Cost) -> String {
        self.time(cost.instructions().0)
    }

    /// The timed waits in a length as text; empty if the guest did not wait.
    pub(crate) fn waited(&self, cost: Cost) -> String {
        if cost.waited == Ns::ZERO { String::new() } else { cost.waited.to_string() }
    }

    /// The most columns that such a text takes.
    pub(crate) fn time_width(&self) -> usize {
        match self.unit {
            Unit::Nanoseconds | Unit::GuestTime | Unit::Priced | Unit::Count => 9,
            Unit::Ticks => 12,
            Unit::Instructions => 13,
        }
    }
}

/// A length and its timed waits, from a document. A document of a replay rounds both by itself.
pub(crate) fn cost(ns: i64, waited_ns: i64) -> Cost {
    Cost { length: Ns(ns), waited: Ns(waited_ns) }
}

/// The sign before the time of a row that rests on first calls alone.
pub(crate) fn at_least_sign(first_calls_only: bool) -> &'static str {
    if first_calls_only { "≥ " } else { "" }
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            width: 80,
            wide_tables: false,
            top: 20,
            cutoff: Cutoff::default(),
            style: Style::Plain,
            unit: Unit::default(),
            all_processes: false,
            all_units: false,
            harmless_too: false,
        }
    }
}
