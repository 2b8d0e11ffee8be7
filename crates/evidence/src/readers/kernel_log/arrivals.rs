//! The times at which the kernel's messages arrived on the console. It places nothing.

use crate::formats::kernel_log::{KernelLog, Line};
use crate::input::index::Index;
use hashbrown::HashMap;
use timeline::Ns;

/// The source of arrival times. A message from before the kernel's clock ran has no other time.
pub(super) enum Arrivals<'a> {
    Unknown,
    /// The log is the console.
    ByOffset(&'a Index),
    /// The console has the same messages.
    ByText(HashMap<&'a str, Ns>),
}

impl<'a> Arrivals<'a> {
    pub(super) fn by_text(console: &'a KernelLog, index: &Index) -> Self {
        let mut by_text = HashMap::new();
        for line in console.lines.iter().filter(|line| line.stamp.is_none()) {
            if let Some(at) = index.arrival(line.offset) {
                by_text.entry(console.text(line).trim()).or_insert(at);
            }
        }
        Arrivals::ByText(by_text)
    }

    pub(super) fn of(&self, log: &KernelLog, line: &Line) -> Option<Ns> {
        match self {
            Arrivals::Unknown => None,
            Arrivals::ByOffset(index) => index.arrival(line.offset),
            Arrivals::ByText(by_text) => by_text.get(log.text(line).trim()).copied(),
        }
    }
}
