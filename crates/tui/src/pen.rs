//! Puts text on the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use report::{Layout, cut, harmless};

/// A paragraph with the label before it.
pub type Paragraph = (&'static str, String);

/// The columns of the longest label of a paragraph.
const LABEL: usize = 10;
/// The most columns of a paragraph's text.
pub const MAX_COLUMNS: usize = 4_000;

/// Writes text at a line of an area, without control characters. What does not fit is cut off.
pub fn put(screen: &mut Buffer, area: Rect, line: u16, text: &str, style: Style) {
    let area = Rect { y: area.y.saturating_add(line), height: 1, ..area }.intersection(screen.area);
    if !area.is_empty() {
        screen.set_stringn(area.x, area.y, harmless(text), usize::from(area.width), style);
    }
}

/// The lines of paragraphs, broken at spaces.
pub fn broken(paragraphs: &[Paragraph], columns: u16) -> Vec<String> {
    let layout = Layout { width: usize::from(columns), ..Layout::default() };
    let mut lines = String::new();
    for (label, text) in paragraphs {
        let lead = if label.is_empty() { String::new() } else { format!("{label:<LABEL$}") };
        report::paragraph(&harmless(&cut(text, MAX_COLUMNS)), &lead, layout, &mut lines);
    }
    lines.lines().map(str::to_owned).collect()
}
