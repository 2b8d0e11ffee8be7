//! How a view for a terminal is laid out: how wide, how much of each table, in which unit.

use crate::table::WIDE;
use crate::{Style, Summary};
use timeline::{Ns, Unit};

/// How a terminal view is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Columns of the terminal; 80 if unknown.
    pub width: usize,
    /// Whether tables may be wider, so that names and evidence need not be cut: no terminal shows them.
    pub wide_tables: bool,
    /// How many rows of a table are listed before "everything else".
    pub top: usize,
    /// Of which rows the tables of the boot path's time are made, before "everything else".
    pub cutoff: Cutoff,
    /// Colour or none.
    pub style: Style,
    /// What the summary's times count.
    pub unit: Unit,
    /// Whether to list all user processes, not only those that last.
    pub all_processes: bool,
    /// Whether to list all units, not only the longest.
    pub all_units: bool,
    /// Whether to list what in the evidence did not add up and changes no figure.
    pub harmless_too: bool,
}

/// What is too small to be listed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Cutoff {
    /// Nothing.
    #[default]
    None,
    /// What is shorter.
    Time(Ns),
    /// What is a smaller share of the whole (0 to 1).
    Share(f64),
}

impl Cutoff {
    /// Whether a row of a table is listed.
    pub(crate) fn lists(self, ns: i64, whole: i64) -> bool {
        match self {
            Cutoff::None => true,
            Cutoff::Time(least) => ns >= least.0,
            Cutoff::Share(least) => ns as f64 >= least * whole as f64,
        }
    }
}

impl Layout {
    /// The same for a summary whose times may not be times.
    #[must_use]
    pub fn of(self, summary: &Summary) -> Layout {
        Layout { unit: summary.time_unit(), ..self }
    }

    /// How wide a table may be.
    pub(crate) fn table_width(&self) -> usize {
        if self.wide_tables { WIDE } else { self.width }
    }

    /// A length of time as text.
    pub(crate) fn time(&self, ns: i64) -> String {
        self.unit.show(Ns(ns))
    }

    /// How many columns such a text can take.
    pub(crate) fn time_width(&self) -> usize {
        match self.unit {
            Unit::Nanoseconds | Unit::Instructions | Unit::Count => 9,
            Unit::Ticks => 12,
        }
    }
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
