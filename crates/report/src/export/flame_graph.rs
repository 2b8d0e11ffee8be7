//! The boot path as a flame graph: equal stacks are one frame, as wide as their time, wherever in the boot they ran.
//!
//! The stacks are those of [`super::folded`]. Neighbours are in the order of their names.

use super::folded::{DEEPER_FRAMES, Frame, of_boot_path};
use super::{Export, svg};
use crate::Boot;
use crate::chart::{self, Layout, Positions};
use crate::lanes::{Label, Slice};
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::{End, EndEvidence, NameId, Names, Ns, SpanKind, TimeBase, Timeline, Unit};

/// The `flame-graph` format.
pub struct FlameGraph;

impl Export for FlameGraph {
    fn name(&self) -> &'static str {
        "flame-graph"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn about(&self) -> &'static str {
        "the same with equal stacks merged: a flame graph"
    }

    fn has_window(&self) -> bool {
        true
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let mut names = boot.timeline.names.clone();
        let deeper = Label::Span(names.intern(DEEPER_FRAMES), NameId::EMPTY);
        let label = |frame| match frame {
            Frame::Label(label) => label,
            Frame::Track(track) => Label::Thread(track),
            Frame::Deeper => deeper,
        };
        let of_path = of_boot_path(boot);
        let stacks: Vec<(Vec<Label>, Ns)> =
            of_path.running().map(|(frames, length)| (frames.into_iter().map(label).collect(), length)).collect();
        if stacks.is_empty() {
            return Err(svg::no_path());
        }
        let kinds = boot.path_slices().into_iter().filter_map(|slice| Some((slice.label, slice.kind?)));
        let kinds: HashMap<Label, SpanKind> = kinds.collect();
        let mut texts: HashMap<Label, String> = HashMap::from([(deeper, DEEPER_FRAMES.to_owned())]);
        for &label in stacks.iter().flat_map(|(frames, _)| frames) {
            texts.entry(label).or_insert_with(|| boot.text(label));
        }
        let (mut slices, total) = merged(stacks, |label| texts[&label].as_str(), |label| label);
        slices.iter_mut().for_each(|slice| slice.kind = kinds.get(&slice.label).copied());

        let heading = chart::Heading {
            about: about(boot),
            positions: Positions::Merged,
            whole: "all of it",
            ..chart::Heading::of_boot_path(boot)
        };
        draw(boot, names, boot.timeline.unit.with_waits(), (slices, total), &heading, out)
    }
}

/// Draws merged stacks, as long as their sum, with the names in them.
pub(super) fn draw(
    boot: &Boot,
    names: Names,
    unit: Unit,
    (slices, total): (Vec<Slice>, Ns),
    heading: &chart::Heading,
    out: &mut dyn Write,
) -> io::Result<()> {
    let end = Some(End { at: total, error: Ns::ZERO, track: None, evidence: EndEvidence::LastSample });
    let tracks = boot.timeline.tracks.clone();
    let timeline = Timeline { names, tracks, unit, end, ..Timeline::new(TimeBase::Evidence) };
    chart::alone(&Boot::new(&timeline, boot.facts), &Layout::of_slices(slices), heading, out)
}

/// A sentence about the part of the boot.
fn about(boot: &Boot) -> String {
    let unit = boot.timeline.unit.with_waits();
    let (from, to) = boot.window;
    match (from, to) == (Ns::ZERO, boot.total) {
        true => format!("{}, equal stacks merged", unit.show(boot.total)),
        false => format!("{} from {} to {}, equal stacks merged", unit.show(to - from), unit.show(from), unit.show(to)),
    }
}

/// A frame for each stack of frames, callers first and neighbours by name; and the sum of all lengths.
pub(super) fn merged<'t, T: Copy + Eq>(
    stacks: impl IntoIterator<Item = (Vec<T>, Ns)>,
    text: impl Fn(T) -> &'t str,
    label: impl Fn(T) -> Label,
) -> (Vec<Slice>, Ns) {
    let mut by_name: Vec<(Vec<T>, Ns)> = stacks.into_iter().collect();
    by_name.sort_by(|(a, _), (b, _)| a.iter().map(|&frame| text(frame)).cmp(b.iter().map(|&frame| text(frame))));
    let mut slices: Vec<Slice> = Vec::new();
    let mut open: Vec<(T, usize)> = Vec::new();
    let mut at = Ns::ZERO;
    for (stack, length) in by_name {
        let common = open.iter().zip(&stack).take_while(|((open, _), frame)| open == *frame).count();
        open.truncate(common);
        let end = at + length;
        for &frame in &stack[common..] {
            open.push((frame, slices.len()));
            slices.push(Slice { start: at, end, label: label(frame), kind: None });
        }
        open.iter().for_each(|&(_, slice)| slices[slice].end = end);
        at = end;
    }
    (slices, at)
}
