//! The state of the screen.

use crate::list::List;
use crate::look::Look;
use crate::search::Search;
use crate::shown::ShownBoot;
use crate::view::View;
use report::{Diff, PageBoot};

/// Compares two boots by their numbers. The error is a sentence.
pub type Compare<'a> = dyn Fn(usize, usize) -> Result<Diff, String> + 'a;

pub struct App<'a> {
    pub boots: Vec<ShownBoot<'a>>,
    /// The number of the shown boot.
    pub shown: usize,
    pub view: View,
    pub look: Look,
    pub search: Option<Search>,
    /// The text of a search that is being typed.
    pub typed: Option<String>,
    pub has_help: bool,
    pub is_over: bool,
    compare: &'a Compare<'a>,
    /// The last comparison, and the numbers of its boots.
    compared: Option<((usize, usize), Result<Diff, String>)>,
}

impl<'a> App<'a> {
    /// A screen of boots, at least one.
    pub fn new(boots: &[PageBoot<'a>], compare: &'a Compare<'a>, look: Look) -> App<'a> {
        App {
            boots: boots.iter().map(|page| ShownBoot::new(*page)).collect(),
            shown: 0,
            view: View::Path,
            look,
            search: None,
            typed: None,
            has_help: false,
            is_over: false,
            compare,
            compared: None,
        }
    }

    pub fn boot(&self) -> &ShownBoot<'a> {
        &self.boots[self.shown]
    }

    pub fn boot_mut(&mut self) -> &mut ShownBoot<'a> {
        &mut self.boots[self.shown]
    }

    /// The views of these boots: one boot is compared with nothing.
    pub fn views(&self) -> &'static [View] {
        if self.boots.len() > 1 { &View::ALL } else { &View::ALL[..4] }
    }

    /// The boots to compare: the first with the shown one, or with the second if the first is shown.
    pub fn pair(&self) -> (usize, usize) {
        (0, self.shown.max(1))
    }

    /// Compares the two boots, unless that is done.
    pub fn compare(&mut self) {
        let pair = self.pair();
        if self.boots.len() > 1 && self.compared.as_ref().is_none_or(|(of, _)| *of != pair) {
            self.compared = Some((pair, (self.compare)(pair.0, pair.1)));
        }
    }

    /// The comparison, if it was made.
    pub fn compared(&self) -> Option<&Result<Diff, String>> {
        self.compared.as_ref().map(|(_, diff)| diff)
    }

    /// The cursor of the view's list; `None` for the chart.
    pub fn list_mut(&mut self) -> Option<&mut List> {
        let view = self.view;
        let boot = self.boot_mut();
        match view {
            View::Path => None,
            View::Where => Some(&mut boot.wheres),
            View::Findings => Some(&mut boot.findings),
            View::Console => Some(&mut boot.console),
            View::Compare => Some(&mut boot.compared),
        }
    }

    /// The selected row of the view's list.
    pub fn selected_row(&self) -> usize {
        let boot = self.boot();
        match self.view {
            View::Path => 0,
            View::Where => boot.wheres.at,
            View::Findings => boot.findings.at,
            View::Console => boot.console.at,
            View::Compare => boot.compared.at,
        }
    }

    /// The number of matches of the search in this view, and which of them is selected.
    pub fn found(&self) -> String {
        let Some(search) = &self.search else { return String::new() };
        let (at, count) = match self.view {
            View::Path => {
                (search.bars().iter().position(|found| Some(*found) == self.boot().spot), search.bars().len())
            }
            _ => (search.rows().binary_search(&self.selected_row()).ok(), search.rows().len()),
        };
        match at {
            _ if count == 0 => "no match".to_owned(),
            Some(at) => format!("{} of {count}", at + 1),
            None => format!("{count} found"),
        }
    }
}
