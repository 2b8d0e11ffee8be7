//! The terminal: raw mode, keys, and what restores it.

use crate::app::App;
use crate::draw::draw;
use crate::look::Look;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io::{self, stdout};

/// The size of a terminal that does not tell its own, as on a serial line.
const UNKNOWN_SIZE: Rect = Rect { x: 0, y: 0, width: 80, height: 24 };

/// Shows the screen until the user ends it. The terminal is restored also if the program panics, and if SIGTERM, SIGINT or
/// SIGHUP ends it.
///
/// # Errors
/// If the terminal cannot be read or written.
pub fn run(app: &mut App) -> io::Result<()> {
    let restorer = Restorer::new()?;
    let (width, height) = ratatui::crossterm::terminal::size().unwrap_or((0, 0));
    let viewport = match width == 0 || height == 0 {
        true => Viewport::Fixed(UNKNOWN_SIZE),
        false => Viewport::Fullscreen,
    };
    let terminal = ratatui::try_init_with_options(TerminalOptions { viewport });
    let shown = terminal.and_then(|mut terminal| {
        execute!(stdout(), EnterAlternateScreen)?;
        terminal.clear()?;
        // The first poll begins to listen for changes of the size: none is missed after the first frame.
        event::poll(std::time::Duration::ZERO)?;
        show(app, &mut terminal)
    });
    restore();
    drop(restorer);
    shown
}

/// Restores the terminal, also its cursor. A terminal that is gone needs none of it.
fn restore() {
    let _ = execute!(stdout(), Show);
    ratatui::restore();
}

fn show(app: &mut App, terminal: &mut ratatui::DefaultTerminal) -> io::Result<()> {
    while !app.is_over {
        terminal.draw(|frame| draw(app, frame.area(), frame.buffer_mut()))?;
        take(app, event::read()?);
        // Keys that have come meanwhile are drawn together.
        while !app.is_over && event::poll(std::time::Duration::ZERO)? {
            take(app, event::read()?);
        }
    }
    Ok(())
}

fn take(app: &mut App, event: Event) {
    if let Event::Key(key) = event {
        if key.kind != KeyEventKind::Release {
            app.press(key);
        }
    }
}

/// A thread that restores the terminal when a signal ends the program, even while the screen is computed.
struct Restorer(Handle);

impl Restorer {
    fn new() -> io::Result<Restorer> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                restore();
                // The program ends as by the signal itself, so that a shell sees why.
                drop(signal_hook::low_level::emulate_default_handler(signal));
            }
        })?;
        Ok(Restorer(handle))
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Look {
    /// The abilities of the terminal, by the environment's locale.
    pub fn of_terminal(has_colours: bool) -> Look {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
        Look { has_colours, has_unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }
}
