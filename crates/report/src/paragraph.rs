//! Text broken at spaces, for a terminal.

use crate::Layout;
use crate::text::width;
use std::fmt::Write;

/// Writes text broken at spaces. `first` stands before it; the following lines are indented by its width.
pub fn paragraph(text: &str, first: &str, layout: Layout, out: &mut String) {
    let indent = width(first);
    let room = layout.width.saturating_sub(indent).max(20);
    let mut line = String::new();
    let mut begun = false;
    let mut flush = |line: &mut String| {
        let lead = if begun { " ".repeat(indent) } else { first.to_owned() };
        begun = true;
        let _ = writeln!(out, "{lead}{line}");
        line.clear();
    };
    for word in text.split(' ').flat_map(|word| pieces(word, room)) {
        if !line.is_empty() && width(&line) + 1 + width(&word) > room {
            flush(&mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    flush(&mut line);
}

/// The pieces of a word, cut if it is wider than a line.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let last = pieces.last_mut().expect("never empty");
        last.push(c);
        if width(last) > room || last.len() > room * 8 {
            last.pop();
            pieces.push(c.to_string());
        }
    }
    pieces
}
