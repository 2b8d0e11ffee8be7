//! The keys that change the state of the screen. They are those of the page where both have the action.

use crate::app::App;
use crate::rows;
use crate::search::{Search, beside};
use crate::view::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use timeline::Ns;

/// The factor of a zoom, and the share of the window that a move covers.
const ZOOM: f64 = 0.7;
const PAN: f64 = 0.15;
/// The most bytes of a search.
const MAX_TYPED: usize = 200;

impl App<'_> {
    /// Acts on a key.
    pub fn press(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        // A terminal may send a line feed for Enter.
        let code = if is_control && key.code == KeyCode::Char('j') { KeyCode::Enter } else { key.code };
        match code {
            KeyCode::Char('c') if is_control => self.is_over = true,
            KeyCode::Char(_) if is_control && self.typed.is_some() => {}
            _ if self.typed.is_some() => self.type_search(code),
            // Any key closes the list of keys.
            _ if self.has_help => self.has_help = false,
            _ => self.act(code, is_control),
        }
    }

    fn type_search(&mut self, key: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        match key {
            KeyCode::Char(letter) if typed.len() < MAX_TYPED => typed.push(letter),
            KeyCode::Backspace if typed.pop().is_some() => {}
            KeyCode::Backspace | KeyCode::Esc => self.typed = None,
            KeyCode::Enter => {
                let text = self.typed.take().unwrap_or_default();
                self.search = (!text.is_empty()).then(|| Search::new(text));
                self.find(true, true);
            }
            _ => {}
        }
    }

    fn act(&mut self, key: KeyCode, is_control: bool) {
        match key {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.has_help = true,
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('n') => self.find(true, false),
            KeyCode::Char('N') => self.find(false, false),
            KeyCode::Char('b') => self.shown = (self.shown + 1) % self.boots.len(),
            KeyCode::Char(digit @ '1'..='9') => self.show_view(digit as usize - '1' as usize),
            KeyCode::Tab => self.beside_view(1),
            KeyCode::BackTab => self.beside_view(self.views().len() - 1),
            _ if self.view == View::Path => self.act_on_chart(key),
            _ => self.act_on_list(key, is_control),
        }
        if self.view == View::Compare {
            self.compare();
        }
        self.look_for();
    }

    fn show_view(&mut self, number: usize) {
        self.view = self.views().get(number).copied().unwrap_or(self.view);
    }

    fn beside_view(&mut self, by: usize) {
        let views = self.views();
        let at = views.iter().position(|view| *view == self.view).unwrap_or(0);
        self.view = views[(at + by) % views.len()];
    }

    fn act_on_chart(&mut self, key: KeyCode) {
        let boot = self.boot_mut();
        match key {
            KeyCode::Right | KeyCode::Char('l') => boot.beside(true),
            KeyCode::Left | KeyCode::Char('h') => boot.beside(false),
            KeyCode::Up | KeyCode::Char('k') => boot.up(),
            KeyCode::Down | KeyCode::Char('j') => boot.down(),
            KeyCode::Char(']' | '.') => boot.step(true),
            KeyCode::Char('[' | ',') => boot.step(false),
            KeyCode::Enter | KeyCode::Char('f') => boot.zoom_to_selected(),
            KeyCode::Char('w' | '+') => boot.zoom(ZOOM),
            KeyCode::Char('s' | '-') => boot.zoom(1.0 / ZOOM),
            KeyCode::Char('d') | KeyCode::PageDown => boot.pan(PAN),
            KeyCode::Char('a') | KeyCode::PageUp => boot.pan(-PAN),
            KeyCode::Char('0') | KeyCode::Home => boot.show_whole(),
            KeyCode::Backspace => drop(boot.back()),
            KeyCode::Esc => (boot.spot, boot.at) = (None, Ns(-1)),
            _ => {}
        }
    }

    fn act_on_list(&mut self, key: KeyCode, is_control: bool) {
        let len = rows::len(self);
        if matches!(key, KeyCode::Enter | KeyCode::Char('f')) {
            return self.go_to_place();
        }
        let Some(list) = self.list_mut() else { return };
        match key {
            KeyCode::Down | KeyCode::Char('j') => list.step(1, len),
            KeyCode::Up | KeyCode::Char('k') => list.step(-1, len),
            KeyCode::PageDown | KeyCode::Char(' ') => list.page(true, len),
            KeyCode::PageUp => list.page(false, len),
            KeyCode::Char('f') if is_control => list.page(true, len),
            KeyCode::Home | KeyCode::Char('g' | '0') => list.at = 0,
            KeyCode::End | KeyCode::Char('G') => list.at = len.saturating_sub(1),
            KeyCode::Esc | KeyCode::Backspace => self.view = View::Path,
            _ => {}
        }
    }

    /// Shows the place of the selected row in the chart.
    fn go_to_place(&mut self) {
        if let Some((from, to)) = rows::place(self, self.selected_row()) {
            self.view = View::Path;
            self.boot_mut().go_to(from, to);
        }
    }

    /// Looks for the search in the view, if it has not yet.
    pub fn look_for(&mut self) {
        let Some(mut search) = self.search.take() else { return };
        let boot = self.boot();
        match self.view {
            View::Path => search.look_in_chart(self.shown, boot.page.boot, &boot.flame),
            view => search.look_in_list(self.shown, view, rows::len(self), |row| rows::text(self, row)),
        }
        self.search = Some(search);
    }

    /// Selects the next match, or the previous one. A new search also takes the selected row.
    fn find(&mut self, is_forwards: bool, is_new: bool) {
        self.look_for();
        let App { boots, shown, search: Some(search), view, .. } = self else { return };
        let boot = &mut boots[*shown];
        if *view == View::Path {
            let (bars, at) = (search.bars(), boot.spot.map(|spot| boot.flame.order(spot)));
            if let Some(next) = beside(bars.len(), |i| boot.flame.order(bars[i]), at, is_forwards) {
                let spot = bars[next];
                boot.select(spot);
                boot.widen_to_selected();
            }
            return;
        }
        let (matching, at) = (search.rows().to_vec(), self.selected_row());
        let is_here = is_new && matching.binary_search(&at).is_ok();
        let next = beside(matching.len(), |i| matching[i], Some(at), is_forwards).filter(|_| !is_here);
        if let (Some(next), Some(list)) = (next, self.list_mut()) {
            list.at = matching[next];
        }
    }
}
