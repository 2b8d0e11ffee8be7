//! What a configuration and the Kconfig files of Linux say of an option.
//!
//! Of Kconfig's language (Documentation/kbuild/kconfig-language.rst) this reads who selects an option and what it depends on. It
//! decides nothing: `make olddefconfig` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A configuration, as `.config` has it.
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

    /// What is said of it: `y`, `m`, `n` or another value.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(String::as_str)
    }

    /// Whether it is built in, or a module.
    pub(super) fn is_on(&self, option: &str) -> bool {
        self.value(option).is_some_and(|value| value != "n")
    }

    /// Options that differ: `-NAME` went, `+NAME` came, `NAME=m` has another value.
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

/// What Kconfig files say of some options.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<String, OfOption>);

#[derive(Debug, Default)]
struct OfOption {
    is_there: bool,
    selected_by: BTreeSet<String>,
    depends_on: BTreeSet<String>,
}

/// No folder of sources is deeper, and no Kconfig file is longer.
const DEPTH_MAX: usize = 12;
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Said {
    /// Of these options, in all Kconfig files of the sources. What cannot be read says nothing.
    pub(super) fn of(tree: &Path, options: &[&str]) -> Said {
        let mut said = Said(options.iter().map(|option| ((*option).to_owned(), OfOption::default())).collect());
        said.walk(tree, 0);
        said
    }

    fn walk(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() && depth < DEPTH_MAX && !name.starts_with('.') {
                self.walk(&entry.path(), depth + 1);
            } else if kind.is_file() && name.starts_with("Kconfig") {
                let is_short = entry.metadata().is_ok_and(|meta| meta.len() <= FILE_BYTES_MAX);
                let text = if is_short { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
                self.read(&String::from_utf8_lossy(&text));
            }
        }
    }

    fn read(&mut self, text: &str) {
        let mut of = "";
        for line in text.lines() {
            let line = line.trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "config" | "menuconfig" => {
                    of = rest;
                    if let Some(said) = self.0.get_mut(of) {
                        said.is_there = true;
                    }
                }
                "select" => {
                    let selected = rest.split_whitespace().next().unwrap_or_default();
                    if let Some(said) = self.0.get_mut(selected) {
                        said.selected_by.insert(of.to_owned());
                    }
                }
                "depends" => {
                    if let Some(said) = self.0.get_mut(of) {
                        said.depends_on.insert(rest.strip_prefix("on").unwrap_or(rest).trim().to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.0.get(option).is_some_and(|said| said.is_there)
    }

    /// Why an option that was switched off is on.
    pub(super) fn why_on(&self, option: &str, config: &Config) -> String {
        let selects = self.0.get(option).map(|said| &said.selected_by);
        let on: Vec<&str> =
            selects.into_iter().flatten().filter(|other| config.is_on(other)).map(String::as_str).collect();
        if on.is_empty() {
            return "no option that is on selects it, so its own default does: it cannot be switched by itself"
                .to_owned();
        }
        format!("it is selected by {}, which would have to go too", on.join(", "))
    }

    /// Why an option that was switched on is not built in.
    pub(super) fn why_not_on(&self, option: &str, config: &Config) -> String {
        match config.value(option) {
            Some("m") => format!("it became a module, and no modules are built: {}", self.depends(option)),
            Some(value) if value != "n" => format!("it is no switch: its value is {value}"),
            _ => self.depends(option),
        }
    }

    /// On what it depends.
    fn depends(&self, option: &str) -> String {
        let Some(said) = self.0.get(option).filter(|said| said.is_there) else {
            return "these sources have no such option".to_owned();
        };
        if said.depends_on.is_empty() {
            return "it stands in a menu or choice that does not allow more".to_owned();
        }
        let on: Vec<&str> = said.depends_on.iter().map(String::as_str).collect();
        format!("it depends on {}", on.join("; "))
    }
}
