//! The units that the guest's systemd logs, so that a boot that never logs the awaited one can say which is nearest.

use std::collections::BTreeMap;

use recording::is_unit_name;
use regex::bytes::Regex;

/// A guest may log any number of names.
const UNITS_MAX: usize = 10_000;
/// So many names help; more are a list to read.
const SHOWN: usize = 3;

/// The units by name.
#[derive(Clone, Debug)]
pub(crate) struct UnitsLogged {
    of_unit: Regex,
    /// Whether the unit began to start, at least.
    units: BTreeMap<String, bool>,
}

impl UnitsLogged {
    /// None yet. `settled` are the words of systemd's that say that a unit is active, or is not and will not be.
    ///
    /// # Errors
    /// None: the words make no pattern that is not one.
    pub(crate) fn new(settled: &str) -> Result<UnitsLogged, regex::Error> {
        let of_unit = Regex::new(&format!(
            r"systemd\[1\]: (?:(Starting|Mounting|Activating swap|Expecting device)|{settled}) (\S+?)(?: - |\.+$)"
        ))?;
        Ok(UnitsLogged { of_unit, units: BTreeMap::new() })
    }

    /// Takes the next line, or as much of it as there is. Units that do not `count` are left out.
    pub(crate) fn hear(&mut self, line: &[u8], counts: impl Fn(&str) -> bool) {
        let Some(found) = self.of_unit.captures(line) else { return };
        let Some(name) = found.get(2).and_then(|name| std::str::from_utf8(name.as_bytes()).ok()) else { return };
        let has_room = self.units.len() < UNITS_MAX || self.units.contains_key(name);
        if is_unit_name(name) && has_room && counts(name) {
            let is_starting = self.units.entry(name.to_owned()).or_default();
            *is_starting |= found.get(1).is_some();
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.units.len()
    }

    /// What is known of a unit that was awaited for nothing, in words.
    pub(crate) fn instead_of(&self, awaited: &str) -> String {
        if self.units.get(awaited) == Some(&true) {
            return format!("systemd logged that it starts {awaited}, and not that it is active");
        }
        if self.units.is_empty() {
            return format!(
                "no line of systemd's names a unit, so {awaited} could not be seen: --until unit: needs a guest with systemd, \
                 which logs to the kernel's log or to the console"
            );
        }
        let (all, nearest) = (self.units.len(), self.nearest(awaited).join(", "));
        format!("systemd logged {all} units and not {awaited}; nearest: {nearest}. An alias does not count")
    }

    fn nearest(&self, awaited: &str) -> Vec<&str> {
        let alike = |name: &str| strsim::normalized_damerau_levenshtein(name, awaited);
        let mut all: Vec<(f64, &str)> = self.units.keys().map(|name| (alike(name), name.as_str())).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        all.into_iter().take(SHOWN).map(|(_, name)| name).collect()
    }
}
