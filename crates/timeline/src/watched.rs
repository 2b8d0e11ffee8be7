//! What a variable of the guest was at a few moments: a counter beside the boot's work.
//!
//! It is no evidence of how long anything took. Times are the host's, also where the timeline's are the guest's.

use crate::Ns;

/// A variable that was read where functions were entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Which, as a user wrote it.
    pub variable: String,
    /// The functions at whose entries it was to be read.
    pub functions: Vec<String>,
    /// Whether it has a sign: values are then its two's complement.
    pub is_signed: bool,
    /// In order of time.
    pub readings: Vec<Reading>,
    /// What else is to be known, in sentences.
    pub notes: Vec<String>,
}

/// A variable at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub at: Ns,
    /// How long the CPUs stood still for it, at least.
    pub stood: Ns,
    /// What it was, as a number without a sign; none where the guest had nothing mapped there.
    pub value: Option<u64>,
    /// The function that was entered.
    pub function: String,
}

impl Watched {
    /// How long the CPUs stood still in all, at least: until the host heard of a stop, they stood too.
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
    fn what_was_never_entered_is_known_and_time_does_not_overflow() {
        let reading =
            |function: &str, stood| Reading { stood: Ns(stood), function: function.to_owned(), ..Reading::default() };
        let functions = ["f", "g", "h"].map(str::to_owned).to_vec();
        let watched =
            Watched { functions, readings: vec![reading("g", i64::MAX), reading("g", 2)], ..Watched::default() };
        assert_eq!(watched.unentered().collect::<Vec<_>>(), ["f", "h"]);
        assert_eq!(watched.stood(), Ns(i64::MAX));
    }
}
