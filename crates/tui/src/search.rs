//! The search: a regular expression, and what it matches in a view of a boot.

use crate::flame::{Flame, Spot};
use crate::view::View;
use regex::{Regex, RegexBuilder};
use report::{Boot, Label};
use std::collections::HashMap;

/// A search, and its matches where it looked last.
pub struct Search {
    text: String,
    /// `None` if the text is not a regular expression.
    pattern: Option<Regex>,
    /// The number of the boot and the view of the matches.
    place: Option<(usize, View)>,
    /// The matching bars, in order of time; in a list, the numbers of the matching rows.
    bars: Vec<Spot>,
    rows: Vec<usize>,
    /// The labels of bars that were tested.
    labels: HashMap<Label, bool>,
}

impl Search {
    pub fn new(text: String) -> Search {
        let pattern = RegexBuilder::new(&text).case_insensitive(true).build().ok();
        Search { text, pattern, place: None, bars: Vec::new(), rows: Vec::new(), labels: HashMap::new() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_valid(&self) -> bool {
        self.pattern.is_some()
    }

    /// Looks in the chart of a boot, unless that is the last place.
    pub fn look_in_chart(&mut self, number: usize, boot: &Boot, flame: &Flame) {
        if self.is_new_place((number, View::Path)) {
            let Search { pattern: Some(pattern), labels, bars, .. } = self else { return };
            let mut is_match = |label| *labels.entry(label).or_insert_with(|| pattern.is_match(&boot.text(label)));
            bars.extend(flame.bars().filter(|(_, bar)| is_match(bar.label)).map(|(spot, _)| spot));
            bars.sort_by_key(|&spot| flame.order(spot));
        }
    }

    /// Looks in the list of a view, unless that is the last place. `text` gives the text of a row.
    pub fn look_in_list(&mut self, number: usize, view: View, len: usize, text: impl Fn(usize) -> String) {
        if self.is_new_place((number, view)) {
            let Some(pattern) = &self.pattern else { return };
            self.rows = (0..len).filter(|&row| pattern.is_match(&text(row))).collect();
        }
    }

    fn is_new_place(&mut self, place: (usize, View)) -> bool {
        let is_new = self.place != Some(place);
        if is_new {
            (self.place, self.bars, self.rows) = (Some(place), Vec::new(), Vec::new());
            self.labels.clear();
        }
        is_new
    }

    /// The matching bars of the chart, in order of time.
    pub fn bars(&self) -> &[Spot] {
        &self.bars
    }

    /// The matching rows of the list.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// True if a label matches in the chart where the search looked.
    pub fn has_label(&self, label: Label) -> bool {
        self.labels.get(&label).copied().unwrap_or(false)
    }
}

/// The first of some sorted keys after a key, or the last before it; beyond the end, the other end.
pub fn beside<K: PartialOrd>(
    count: usize,
    key: impl Fn(usize) -> K,
    at: Option<K>,
    is_forwards: bool,
) -> Option<usize> {
    let all = 0..count;
    match (at, is_forwards) {
        (None, true) => all.clone().next(),
        (None, false) => all.clone().next_back(),
        (Some(at), true) => all.clone().find(|&i| key(i) > at).or(all.clone().next()),
        (Some(at), false) => all.clone().rev().find(|&i| key(i) < at).or(all.clone().next_back()),
    }
}
