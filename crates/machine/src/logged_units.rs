//! The units that the guest's systemd logs. If the awaited unit is never logged, the nearest names are printed.

use std::collections::BTreeMap;

use recording::is_unit_name;
use regex::bytes::Regex;

/// A guest may log any number of names.
const MAX_UNITS: usize = 10_000;
/// A few names help the user; more would be a list to read.
const MAX_SHOWN: usize = 3;

/// The logged units by name.
#[derive(Clone, Debug)]
pub(crate) struct LoggedUnits {
    of_unit: Regex,
    /// True for a unit that at least began to start.
    units: BTreeMap<String, bool>,
}

impl LoggedUnits {
    /// An empty set. `settled` are systemd's words for a unit that is active, or is not active and will not be.
    ///
    /// # Errors
    /// Never in practice: the words make a valid pattern.
    pub(crate) fn new(settled: &str) -> Result<LoggedUnits, regex::Error> {
        let of_unit = Regex::new(&format!(
            r"systemd\[1\]: (?:(Starting|Mounting|Activating swap|Expecting device)|{settled}) (\S+?)(?: - |\.+$)"
        ))?;
        Ok(LoggedUnits { of_unit, units: BTreeMap::new() })
    }

    /// Takes the next line, or the part of it that has arrived. Ignores units for which `counts` is false.
    pub(crate) fn hear(&mut self, line: &[u8], counts: impl Fn(&str) -> bool) {
        let Some(captures) = self.of_unit.captures(line) else { return };
        let Some(name) = captures.get(2).and_then(|name| std::str::from_utf8(name.as_bytes()).ok()) else { return };
        let has_room = self.units.len() < MAX_UNITS || self.units.contains_key(name);
        if is_unit_name(name) && has_room && counts(name) {
            let is_starting = self.units.entry(name.to_owned()).or_default();
            *is_starting |= captures.get(1).is_some();
        }
    }

    /// The number of units.
    pub(crate) fn count(&self) -> usize {
        self.units.len()
    }

    /// A sentence on what was logged instead of an awaited unit that never became active.
    pub(crate) fn instead_of(&self, awaited: &str) -> String {
        if self.units.get(awaited) == Some(&true) {
            return format!("systemd logged that it starts {awaited}, and not that it is active");
        }
        if self.units.is_empty() {
            return format!(
                "no line of systemd's names a unit, so {awaited} could not be seen: a unit as end mark needs a guest with \
                 systemd, which logs to the kernel's log or to the console"
            );
        }
        let (all, nearest) = (self.units.len(), self.nearest(awaited).join(", "));
        format!("systemd logged {all} units and not {awaited}; nearest: {nearest}. An alias does not count")
    }

    fn nearest(&self, awaited: &str) -> Vec<&str> {
        let similarity = |name: &str| strsim::normalized_damerau_levenshtein(name, awaited);
        let mut all: Vec<(f64, &str)> = self.units.keys().map(|name| (similarity(name), name.as_str())).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        all.into_iter().take(MAX_SHOWN).map(|(_, name)| name).collect()
    }
}
