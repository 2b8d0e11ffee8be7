//! Values of a guest variable at a few moments: a counter beside the boot's work.
//!
//! They are no evidence of lengths of time. Times are the host's, even if the timeline has guest time.

use crate::Ns;

/// A variable that was read where functions were entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The variable, as the user wrote it.
    pub variable: String,
    /// The functions at whose entries the variable was to be read.
    pub functions: Vec<String>,
    /// True if it is signed: its values are then in two's complement.
    pub is_signed: bool,
    /// In order of time.
    pub readings: Vec<Reading>,
    /// Further facts about the readings, in sentences.
    pub notes: Vec<String>,
}

/// A variable at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub at: Ns,
    /// The shortest time that the CPUs can have stood still for this reading.
    pub stood: Ns,
    /// The value, as an unsigned number; `None` where the guest had no memory mapped.
    pub value: Option<u64>,
    /// The function that was entered.
    pub function: String,
}

impl Watched {
    /// A lower bound of the time that the CPUs stood still in all. They also stood still until the host noticed each
    /// stop.
    pub fn stood(&self) -> Ns {
        self.readings.iter().fold(Ns(0), |sum, reading| Ns(sum.0.saturating_add(reading.stood.0)))
    }

    /// The functions that were not entered.
    pub fn unentered(&self) -> impl Iterator<Item = &str> {
        let is_entered = |name: &str| self.readings.iter().any(|reading| reading.function == name);
        self.functions.iter().map(String::as_str).filter(move |name| !is_entered(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_an_entry_are_listed_and_time_does_not_overflow() {
        let reading =
            |function: &str, stood| Reading { stood: Ns(stood), function: function.to_owned(), ..Reading::default() };
        let functions = ["f", "g", "h"].map(str::to_owned).to_vec();
        let watched =
            Watched { functions, readings: vec![reading("g", i64::MAX), reading("g", 2)], ..Watched::default() };
        assert_eq!(watched.unentered().collect::<Vec<_>>(), ["f", "h"]);
        assert_eq!(watched.stood(), Ns(i64::MAX));
    }
}
