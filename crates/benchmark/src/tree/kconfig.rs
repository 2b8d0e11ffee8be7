//! Reads a kernel configuration, and facts about options from the Kconfig files of Linux.
//!
//! It reads only a part of Kconfig's language (Documentation/kbuild/kconfig-language.rst): which options select an option, and
//! its dependencies. They explain a result to the user; only `make olddefconfig` decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The values of a configuration file such as `.config`.
#[derive(Debug, Default)]
pub(super) struct Config(BTreeMap<String, String>);

impl Config {
    pub(super) fn parse(text: &str) -> Config {
        let value = |line: &str| {
            let off = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"));
            let set = || line.strip_prefix("CONFIG_")?.split_once('=');
            let (option, value) = off.map(|option| (option, "n")).or_else(set)?;
            Some((option.to_owned(), value.trim().to_owned()))
        };
        Config(text.lines().filter_map(|line| value(line.trim())).collect())
    }

    /// Value of an option: `y`, `m`, `n` or another. `None` if the configuration does not name it.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(String::as_str)
    }

    /// True if the option is built in or a module.
    pub(super) fn is_on(&self, option: &str) -> bool {
        self.value(option).is_some_and(|value| value != "n")
    }

    /// Options that differ: `-NAME` went off, `+NAME` came on, `NAME=m` has another value.
    pub(super) fn differences(&self, after: &Config) -> Vec<String> {
        let all: BTreeSet<&String> = self.0.keys().chain(after.0.keys()).collect();
        let changed = |option: &String| match (self.is_on(option), after.is_on(option)) {
            (true, false) => Some(format!("-{option}")),
            (false, true) => Some(format!("+{option}")),
            (true, true) if self.value(option) != after.value(option) => {
                Some(format!("{option}={}", after.value(option).unwrap_or_default()))
            }
            _ => None,
        };
        all.into_iter().filter_map(changed).collect()
    }
}

/// Facts from the Kconfig files about some options.
#[derive(Debug, Default)]
pub(super) struct KconfigFacts(BTreeMap<String, OptionFacts>);

#[derive(Debug, Default)]
struct OptionFacts {
    is_defined: bool,
    selected_by: BTreeSet<String>,
    depends_on: BTreeSet<String>,
}

/// Linux has no deeper folder and no larger Kconfig file.
const MAX_DEPTH: usize = 12;
const MAX_FILE_BYTES: u64 = 4 << 20;

impl KconfigFacts {
    /// Reads the facts about these options from all Kconfig files of the sources. Skips files that cannot be read.
    pub(super) fn read(tree: &Path, options: &[&str]) -> KconfigFacts {
        let mut facts =
            KconfigFacts(options.iter().map(|option| ((*option).to_owned(), OptionFacts::default())).collect());
        facts.walk(tree, 0);
        facts
    }

    fn walk(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() && depth < MAX_DEPTH && !name.starts_with('.') {
                self.walk(&entry.path(), depth + 1);
            } else if kind.is_file() && name.starts_with("Kconfig") {
                let is_short = entry.metadata().is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES);
                let text = if is_short { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
                self.parse(&String::from_utf8_lossy(&text));
            }
        }
    }

    fn parse(&mut self, text: &str) {
        let mut current = "";
        for line in text.lines() {
            let line = line.trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "config" | "menuconfig" => {
                    current = rest;
                    if let Some(facts) = self.0.get_mut(current) {
                        facts.is_defined = true;
                    }
                }
                "select" => {
                    let selected = rest.split_whitespace().next().unwrap_or_default();
                    if let Some(facts) = self.0.get_mut(selected) {
                        facts.selected_by.insert(current.to_owned());
                    }
                }
                "depends" => {
                    if let Some(facts) = self.0.get_mut(current) {
                        facts.depends_on.insert(rest.strip_prefix("on").unwrap_or(rest).trim().to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.0.get(option).is_some_and(|facts| facts.is_defined)
    }

    /// The reason why an option that was switched off is on.
    pub(super) fn why_on(&self, option: &str, config: &Config) -> String {
        let selects = self.0.get(option).map(|facts| &facts.selected_by);
        let on: Vec<&str> =
            selects.into_iter().flatten().filter(|other| config.is_on(other)).map(String::as_str).collect();
        if on.is_empty() {
            return "no option that is on selects it, so its own default does: it cannot be switched by itself"
                .to_owned();
        }
        format!("it is selected by {}, which would have to go too", on.join(", "))
    }

    /// The reason why an option that was switched on is not built in.
    pub(super) fn why_not_on(&self, option: &str, config: &Config) -> String {
        match config.value(option) {
            Some("m") => format!("it became a module, and no modules are built: {}", self.dependencies(option)),
            Some(value) if value != "n" => format!("it is no switch: its value is {value}"),
            _ => self.dependencies(option),
        }
    }

    /// The dependencies of an option, for the user.
    fn dependencies(&self, option: &str) -> String {
        let Some(facts) = self.0.get(option).filter(|facts| facts.is_defined) else {
            return "these sources have no such option".to_owned();
        };
        if facts.depends_on.is_empty() {
            return "it stands in a menu or choice that does not allow more".to_owned();
        }
        let on: Vec<&str> = facts.depends_on.iter().map(String::as_str).collect();
        format!("it depends on {}", on.join("; "))
    }
}
