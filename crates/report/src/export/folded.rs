//! Folded stacks: `frame;frame;frame nanoseconds`, a line per stack, in the order in which the boot enters them.
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

    fn has_window(&self) -> bool {
        !self.all_threads
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        // The brackets keep a comment from ending in a number.
        super::warnings(boot).try_for_each(|warning| writeln!(out, "# (warning: {warning})"))?;
        if !self.all_threads {
            return of_boot_path(boot).write(out);
        }
        let mut stacks = Stacks::new(boot);
        for lane in boot.lanes().iter().filter(|l| matches!(l.group, Group::Threads | Group::Machine)) {
            if let Some(track) = lane.track {
                let bottom = stacks.with_track(track);
                stacks.fold(bottom, lane.slices());
            }
        }
        stacks.write(out)
    }
}

/// The stacks of the boot path in the boot's window. With a call trace, they have every recorded call.
pub(super) fn of_boot_path<'a>(boot: &'a Boot<'a>) -> Stacks<'a> {
    let mut stacks = Stacks::new(boot);
    match Spread::new(boot.timeline) {
        Some(spread) => stacks.add_calls(&spread),
        None => {
            let slices = boot.path_slices().into_iter();
            stacks.fold(Stacks::EMPTY, slices.filter_map(|slice| slice.within(boot.window)));
        }
    }
    stacks
}

/// Stacks, each one frame on top of another, and the time that each was the running stack.
pub(super) struct Stacks<'a> {
    boot: &'a Boot<'a>,
    numbers: HashMap<(u32, Frame), u32>,
    stacks: Vec<Stack>,
    initcall: NameId,
}

/// The top of a stack, and the time that it was the running one.
struct Stack {
    below: u32,
    top: Frame,
    /// The number of frames, up to one more than [`MAX_FRAMES`].
    depth: usize,
    time: Ns,
}

/// A call, a thread or a wait in a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    Label(Label),
    /// A track by its name and number.
    Track(TrackId),
    /// All frames that are deeper than [`MAX_FRAMES`].
    Deeper,
}

impl<'a> Stacks<'a> {
    const EMPTY: u32 = 0;

    fn new(boot: &'a Boot<'a>) -> Self {
        let initcall = boot.timeline.names.find("initcall").unwrap_or_default();
        let empty = Stack { below: Self::EMPTY, top: Frame::Deeper, depth: 0, time: Ns::ZERO };
        Stacks { boot, numbers: HashMap::new(), stacks: vec![empty], initcall }
    }

    /// The stack of a track's name alone. It does not count as a frame.
    fn with_track(&mut self, track: TrackId) -> u32 {
        self.on(Self::EMPTY, Frame::Track(track), 0)
    }

    fn with(&mut self, stack: u32, label: Label) -> u32 {
        let depth = self.stacks[stack as usize].depth + 1;
        match depth {
            ..=MAX_FRAMES => self.on(stack, Frame::Label(label), depth),
            DEEPER => self.on(stack, Frame::Deeper, depth),
            _ => stack,
        }
    }

    fn on(&mut self, below: u32, top: Frame, depth: usize) -> u32 {
        *self.numbers.entry((below, top)).or_insert_with(|| {
            self.stacks.push(Stack { below, top, depth, time: Ns::ZERO });
            timeline::number(self.stacks.len() - 1)
        })
    }

    fn add(&mut self, stack: u32, length: Ns) {
        self.stacks[stack as usize].time += length;
    }

    /// Adds the stacks of nested slices on top of `bottom`, but not `bottom` alone.
    fn fold(&mut self, bottom: u32, slices: impl Iterator<Item = Slice>) {
        let mut open: Vec<u32> = Vec::new();
        let mut since = Ns::ZERO;
        let done = edges(slices, |edge| {
            let at = edge.at();
            if let Some(&running) = open.last().filter(|_| at > since) {
                self.add(running, at - since);
            }
            since = at;
            match edge {
                Edge::Begin(slice) => {
                    let below = open.last().copied().unwrap_or(bottom);
                    open.push(self.with(below, slice.label));
                }
                Edge::End(_) => drop(open.pop()),
            }
            Ok(())
        });
        done.unwrap_or_else(|never: std::convert::Infallible| match never {});
    }

    /// Adds the boot path with every recorded call.
    fn add_calls(&mut self, spread: &Spread) {
        let mut open = Open::new(self.boot.path_slices());
        // Sorted, so that each run writes the same lines for a boot.
        let mut to_share: BTreeMap<(NodeId, (u32, TrackId)), Ns> = BTreeMap::new();
        for stretch in &self.boot.path().stretches {
            let (from, to) = self.boot.window;
            let length = stretch.to.min(to) - stretch.from.max(from);
            if length <= Ns::ZERO {
                continue;
            }
            let stack = open.at(stretch.from).iter().fold(Self::EMPTY, |stack, slice| self.with(stack, slice.label));
            let owner = stretch.owner();
            let ran = matches!(stretch.kind, StretchKind::Running | StretchKind::Runqueue);
            match Some(owner).filter(|_| ran).and_then(|owner| spread.path(owner)) {
                Some(path) => *to_share.entry((path, (stack, owner.track))).or_default() += length,
                None => self.add(stack, length),
            }
        }
        spread.share(to_share, self);
    }

    /// The frames of each stack that ran, outermost first, and its time.
    pub(super) fn running(&self) -> impl Iterator<Item = (Vec<Frame>, Ns)> {
        (1..self.stacks.len()).filter(|&number| self.stacks[number].time > Ns::ZERO).map(|number| {
            let below = |&number: &usize| Some(self.stacks[number].below as usize).filter(|&below| below != 0);
            let up = std::iter::successors(Some(number), below);
            let mut frames: Vec<Frame> = up.map(|number| self.stacks[number].top).collect();
            frames.reverse();
            (frames, self.stacks[number].time)
        })
    }

    /// Writes a line for each text of a stack.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut names = Names::new(self.boot);
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut lines: Vec<(String, Ns)> = Vec::new();
        for (frames, length) in self.running() {
            let mut line = String::new();
            for (i, &frame) in frames.iter().enumerate() {
                line.push_str(if i == 0 { "" } else { ";" });
                line.push_str(names.text(frame));
            }
            match places.get(&line) {
                Some(&place) => lines[place].1 += length,
                None => {
                    places.insert(line.clone(), lines.len());
                    lines.push((line, length));
                }
            }
        }
        lines.iter().try_for_each(|(line, length)| writeln!(out, "{line} {}", length.0))
    }
}

const DEEPER: usize = MAX_FRAMES + 1;

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

/// The text of each frame, computed once.
struct Names<'a> {
    boot: &'a Boot<'a>,
    texts: HashMap<Frame, String>,
}

impl<'a> Names<'a> {
    fn new(boot: &'a Boot<'a>) -> Self {
        Names { boot, texts: HashMap::new() }
    }

    fn text(&mut self, of: Frame) -> &str {
        self.texts.entry(of).or_insert_with(|| match of {
            Frame::Label(label) => frame(&self.boot.text(label)),
            Frame::Track(track) => frame(&self.boot.lane_name(track)),
            Frame::Deeper => DEEPER_FRAMES.to_owned(),
        })
    }
}

/// The text of the frame that stands for deeper ones.
pub(super) const DEEPER_FRAMES: &str = "(deeper)";

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
