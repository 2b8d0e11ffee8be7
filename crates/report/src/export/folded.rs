//! Folded stacks: `frame;frame;frame nanoseconds`, a line per stretch, in order of time.
//!
//! Flame graph tools sort and merge such lines; kept in order they are also what a flame chart is
//! made of. Rules of the format: `;` sets frames apart, the last word is the number, a number before it would be taken
//! for a second one, and a line that begins with `# ` is a comment; [`frame`] keeps names clear of all that. Of a stack
//! of more than [`MOST_FRAMES`] the outermost are written, and all that is deeper is one frame, `(deeper)`.

use super::{Export, MOST_FRAMES};
use crate::Boot;
use crate::lanes::{Edge, Group, Label, Slice, edges};
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::Ns;

/// The `folded` formats.
pub struct Folded {
    /// Every thread's own time instead of the boot path.
    pub all_threads: bool,
}

impl Export for Folded {
    fn name(&self) -> &'static str {
        if self.all_threads { "folded-all-threads" } else { "folded" }
    }

    fn extension(&self) -> &'static str {
        "folded"
    }

    fn about(&self) -> &'static str {
        if self.all_threads {
            "stacks of all threads (waits included) as frame;frame ns, for flame graph tools"
        } else {
            "stacks of the boot path as frame;frame ns, for flame graph tools"
        }
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let mut names = Names::new(boot);
        if !self.all_threads {
            return fold("", boot.path_slices().into_iter(), &mut names, out);
        }
        for lane in boot.lanes().iter().filter(|l| matches!(l.group, Group::Threads | Group::Machine)) {
            fold(&frame(&lane.name), lane.slices(), &mut names, out)?;
        }
        Ok(())
    }
}

/// Writes the stacks of nested slices on top of `bottom`, each with the time in which it was the whole stack. Equal
/// neighbours are one. Where there is nothing on top of `bottom`, nothing is written.
fn fold(bottom: &str, slices: impl Iterator<Item = Slice>, names: &mut Names, out: &mut dyn Write) -> io::Result<()> {
    let mut stack = bottom.to_owned();
    let mut ends: Vec<usize> = Vec::new();
    let (mut since, mut last, mut length) = (Ns::ZERO, String::new(), Ns::ZERO);
    edges(slices, |edge| {
        let at = edge.at();
        if at > since && !ends.is_empty() {
            if stack != last {
                line(&last, length, out)?;
                (length, last) = (Ns::ZERO, stack.clone());
            }
            length += at - since;
        }
        since = at;
        match edge {
            Edge::Begin(slice) => {
                ends.push(stack.len());
                let frame = match ends.len() {
                    ..=MOST_FRAMES => names.text(slice.label),
                    DEEPER => "(deeper)",
                    _ => return Ok(()),
                };
                if !stack.is_empty() {
                    stack.push(';');
                }
                stack.push_str(frame);
            }
            Edge::End(_) => stack.truncate(ends.pop().unwrap_or_default()),
        }
        io::Result::Ok(())
    })?;
    line(&last, length, out)
}

const DEEPER: usize = MOST_FRAMES + 1;

fn line(stack: &str, length: Ns, out: &mut dyn Write) -> io::Result<()> {
    if length > Ns::ZERO { writeln!(out, "{stack} {}", length.0) } else { Ok(()) }
}

/// Frames' texts, made once.
struct Names<'a> {
    boot: &'a Boot<'a>,
    texts: HashMap<Label, String>,
}

impl<'a> Names<'a> {
    fn new(boot: &'a Boot<'a>) -> Self {
        Names { boot, texts: HashMap::new() }
    }

    fn text(&mut self, label: Label) -> &str {
        self.texts.entry(label).or_insert_with(|| frame(&self.boot.text(label)))
    }
}

/// Harmless text as a frame of a folded stack.
fn frame(text: &str) -> String {
    let mut frame = text.trim().replace(';', ":");
    if frame.is_empty() {
        return "(blank)".to_owned();
    }
    if let Some(last) = frame.rfind(' ') {
        let ends_in_number = frame[last + 1..].chars().all(|c| c.is_ascii_digit() || c == '.');
        if ends_in_number {
            frame.replace_range(last..last + 1, "_");
        }
    }
    if frame.starts_with('#') {
        frame.replace_range(..1, "\\x23");
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn frames_keep_clear_of_the_formats_own_signs() {
        assert_eq!(frame("initcall acpi_init"), "initcall acpi_init");
        assert_eq!(frame("a;b"), "a:b");
        assert_eq!(frame("CPU 7"), "CPU_7");
        assert_eq!(frame("load 1.25"), "load_1.25");
        assert_eq!(frame("# comment"), "\\x23 comment");
        assert_eq!(frame("  "), "(blank)");
    }
}
