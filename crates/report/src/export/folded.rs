//! Folded stacks: `frame;frame;frame nanoseconds`, a line per stack, in the order of first appearance.
//!
//! With a call trace, the stacks also have the calls that are too short to be spans. The format has these rules: `;`
//! separates frames, the last word is the number, a number before it would count as a second one, and a line that
//! begins with `# ` is a comment. [`frame`] keeps names within these rules. A stack of more than [`MAX_FRAMES`] keeps
//! its outermost frames; one frame, `(deeper)`, stands for the rest.

use super::{Export, MAX_FRAMES};
use crate::Boot;
use crate::lanes::{Edge, Group, Label, Open, Slice, edges};
use analysis::{Follow, Spread, StretchKind};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use timeline::{NameId, NodeId, Ns, SpanKind, TrackId};

/// The `folded` formats.
pub struct Folded {
    /// Every thread's self time instead of the boot path.
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
            "the same for all threads, with their waits"
        } else {
            "stacks of the boot path, for flame graph tools"
        }
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        // The brackets keep a comment from ending in a number.
        super::warnings(boot).try_for_each(|warning| writeln!(out, "# (warning: {warning})"))?;
        let mut names = Names::new(boot);
        if !self.all_threads {
            return match Spread::new(boot.timeline) {
                Some(spread) => sums(boot, &spread, out),
                None => {
                    let mut folded = Sums::default();
                    fold("", boot.path_slices().into_iter(), &mut names, &mut folded);
                    folded.write(out)
                }
            };
        }
        let mut folded = Sums::default();
        for lane in boot.lanes().iter().filter(|l| matches!(l.group, Group::Threads | Group::Machine)) {
            fold(&frame(&lane.name), lane.slices(), &mut names, &mut folded);
        }
        folded.write(out)
    }
}

/// Writes the boot path with every recorded call: a line per stack, in the order in which spans first show them.
fn sums(boot: &Boot, spread: &Spread, out: &mut dyn Write) -> io::Result<()> {
    let mut stacks = Stacks::new(boot);
    let mut open = Open::new(boot.path_slices());
    // Sorted, so that each run writes the same lines for a boot.
    let mut to_share: BTreeMap<(NodeId, (u32, TrackId)), Ns> = BTreeMap::new();
    for stretch in &boot.path().stretches {
        let stack = open.at(stretch.from).iter().fold(Stacks::EMPTY, |stack, slice| stacks.with(stack, slice.label));
        let owner = stretch.owner();
        let ran = matches!(stretch.kind, StretchKind::Running | StretchKind::Runqueue);
        match Some(owner).filter(|_| ran).and_then(|owner| spread.path(owner)) {
            Some(path) => *to_share.entry((path, (stack, owner.track))).or_default() += stretch.length(),
            None => stacks.add(stack, stretch.length()),
        }
    }
    spread.share(to_share, &mut stacks);
    stacks.write(out)
}

/// Stacks, each one frame on top of another, and the time that each was the running stack.
struct Stacks<'a> {
    boot: &'a Boot<'a>,
    numbers: HashMap<(u32, Label), u32>,
    frames: Vec<(u32, Label)>,
    time: Vec<Ns>,
    initcall: NameId,
}

impl<'a> Stacks<'a> {
    const EMPTY: u32 = 0;

    fn new(boot: &'a Boot<'a>) -> Self {
        let initcall = boot.timeline.names.find("initcall").unwrap_or_default();
        let bottom = (Self::EMPTY, Label::Wait);
        Stacks { boot, numbers: HashMap::new(), frames: vec![bottom], time: vec![Ns::ZERO], initcall }
    }

    fn with(&mut self, stack: u32, label: Label) -> u32 {
        *self.numbers.entry((stack, label)).or_insert_with(|| {
            self.frames.push((stack, label));
            self.time.push(Ns::ZERO);
            timeline::number(self.frames.len() - 1)
        })
    }

    fn add(&mut self, stack: u32, length: Ns) {
        self.time[stack as usize] += length;
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut names = Names::new(self.boot);
        for (i, time) in self.time.iter().enumerate().filter(|(_, time)| **time > Ns::ZERO) {
            let up = |&at: &u32| Some(self.frames[at as usize].0).filter(|&below| below != Self::EMPTY);
            let mut labels: Vec<Label> =
                std::iter::successors(Some(timeline::number(i)), up).map(|at| self.frames[at as usize].1).collect();
            labels.reverse();
            for (i, label) in labels.iter().take(MAX_FRAMES).enumerate() {
                write!(out, "{}{}", if i == 0 { "" } else { ";" }, names.text(*label))?;
            }
            writeln!(out, "{} {}", if labels.len() > MAX_FRAMES { ";(deeper)" } else { "" }, time.0)?;
        }
        Ok(())
    }
}

impl Follow for Stacks<'_> {
    type Key = (u32, TrackId);

    fn called(&mut self, (stack, track): Self::Key, path: NodeId, _: u64) -> Self::Key {
        let node = self.boot.timeline.profile.get(path);
        let label = match node.kind {
            SpanKind::Initcall => Label::Span(self.initcall, node.name),
            _ => Label::Span(node.name, NameId::EMPTY),
        };
        (self.with(stack, label), track)
    }

    fn interrupted(&mut self, (_, track): Self::Key) -> Self::Key {
        (self.with(Self::EMPTY, Label::Thread(track)), track)
    }

    fn own(&mut self, (stack, _): Self::Key, _: NodeId, length: u64) {
        self.add(stack, Ns::saturated(length));
    }
}

/// The text of each stack once, with the time that it was the running stack.
#[derive(Default)]
struct Sums {
    places: HashMap<String, usize>,
    stacks: Vec<(String, Ns)>,
}

impl Sums {
    fn add(&mut self, stack: &str, length: Ns) {
        let place = self.places.get(stack).copied().unwrap_or_else(|| {
            self.places.insert(stack.to_owned(), self.stacks.len());
            self.stacks.push((stack.to_owned(), Ns::ZERO));
            self.stacks.len() - 1
        });
        self.stacks[place].1 += length;
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let lasting = self.stacks.iter().filter(|(_, length)| *length > Ns::ZERO);
        lasting.into_iter().try_for_each(|(stack, length)| writeln!(out, "{stack} {}", length.0))
    }
}

/// Adds the stacks of nested slices on top of `bottom`, but not `bottom` alone.
fn fold(bottom: &str, slices: impl Iterator<Item = Slice>, names: &mut Names, folded: &mut Sums) {
    let mut stack = bottom.to_owned();
    let mut ends: Vec<usize> = Vec::new();
    let mut since = Ns::ZERO;
    let done = edges(slices, |edge| {
        let at = edge.at();
        if at > since && !ends.is_empty() {
            folded.add(&stack, at - since);
        }
        since = at;
        match edge {
            Edge::Begin(slice) => {
                ends.push(stack.len());
                let frame = match ends.len() {
                    ..=MAX_FRAMES => names.text(slice.label),
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
        Ok(())
    });
    done.unwrap_or_else(|never: std::convert::Infallible| match never {});
}

const DEEPER: usize = MAX_FRAMES + 1;

/// The text of each frame, computed once.
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
pub(super) fn frame(text: &str) -> String {
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
