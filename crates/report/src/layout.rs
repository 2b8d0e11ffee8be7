//! The layout of a view for a terminal: its width, the length of its tables, its unit.

use crate::table::WIDE;
use crate::{Style, Summary};
use timeline::{Ns, Unit};

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

    /// A length of time as text, or the least that it can be.
    pub(crate) fn at_least(&self, at_least: bool, ns: i64) -> String {
        format!("{}{}", at_least_sign(at_least), self.time(ns))
    }

    /// The most columns that such a text takes.
    pub(crate) fn time_width(&self) -> usize {
        match self.unit {
            Unit::Nanoseconds | Unit::Count => 9,
            Unit::Ticks => 12,
            Unit::Instructions => 13,
        }
    }
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
