//! The signs and colours of the screen. A colour only repeats what a sign or an attribute says, so the screen reads without it.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use report::Label;
use timeline::{Phase, SpanKind};

/// The abilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub has_colours: bool,
    /// True if it shows more than ASCII.
    pub has_unicode: bool,
}

/// The left edge of a bar.
pub const EDGE: char = '▏';
/// A column of short bars.
pub const CROWD: char = '▒';

/// The sign that fills the rest of a bar: it tells how the time passed.
pub fn fill(label: Label) -> char {
    match label {
        Label::Wait | Label::WaitFor(_) => '·',
        Label::Runqueue => '≈',
        Label::Span(..) | Label::Thread(_) | Label::Phase(_) => '─',
    }
}

/// The ASCII text in place of a sign.
fn ascii(sign: char) -> &'static str {
    match sign {
        EDGE | '│' => "|",
        CROWD => ":",
        '─' | '−' | '–' => "-",
        '·' => ".",
        '≈' => "~",
        '…' | '›' | '▸' => ">",
        'µ' => "u",
        '×' => "x",
        '“' | '”' => "\"",
        '≥' => ">",
        '→' => ">",
        _ => "?",
    }
}

impl Look {
    /// Replaces what the terminal cannot show.
    pub fn finish(self, screen: &mut Buffer) {
        if self.has_unicode {
            return;
        }
        for cell in screen.content.iter_mut().filter(|cell| !cell.symbol().is_ascii()) {
            let sign = cell.symbol().chars().next().map_or(" ", ascii);
            cell.set_symbol(sign);
        }
    }

    /// The style of a bar.
    pub fn bar(self, label: Label, kind: Option<SpanKind>) -> Style {
        let on = |colour| Style::new().fg(Color::Black).bg(colour);
        if !self.has_colours {
            return Style::new();
        }
        match (label, kind) {
            (Label::Wait | Label::WaitFor(_), _) => Style::new().fg(Color::DarkGray),
            (Label::Runqueue, _) => on(Color::LightYellow),
            (_, Some(SpanKind::Initcall | SpanKind::Call)) => on(Color::Yellow),
            (_, Some(SpanKind::Work | SpanKind::Stage | SpanKind::Level)) => on(Color::Cyan),
            (_, Some(SpanKind::Probe | SpanKind::Attach | SpanKind::Mount)) => on(Color::Green),
            (_, Some(SpanKind::Module | SpanKind::Process)) => on(Color::Magenta),
            (_, Some(SpanKind::Interrupt)) => on(Color::LightRed),
            _ => on(Color::Gray),
        }
    }

    /// The style of a phase, by its name: the same in every boot.
    pub fn phase(self, phase: Phase, name: &str) -> Style {
        // In the order of the tones of `report::phase_tone`.
        const COLOURS: [Color; 8] = [
            Color::Cyan,
            Color::Yellow,
            Color::Green,
            Color::Magenta,
            Color::LightYellow,
            Color::LightRed,
            Color::LightCyan,
            Color::LightBlue,
        ];
        let colour = report::phase_tone(phase, name).map_or(Color::Gray, |tone| COLOURS[tone % COLOURS.len()]);
        if self.has_colours { Style::new().fg(Color::Black).bg(colour) } else { Style::new() }
    }

    /// The style of something with the selection on it.
    pub fn selected(self, style: Style) -> Style {
        let style = if self.has_colours { style.fg(Color::Black).bg(Color::White) } else { style };
        style.add_modifier(if self.has_colours { Modifier::BOLD } else { Modifier::REVERSED })
    }

    /// The style of something that matches the search.
    pub fn found(self, style: Style) -> Style {
        let style = if self.has_colours { style.fg(Color::Black).bg(Color::LightMagenta) } else { style };
        style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        if self.has_colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    pub fn warning(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.has_colours { style.fg(Color::Red) } else { style }
    }

    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}
