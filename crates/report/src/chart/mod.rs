//! The flame chart of the boot path: time runs to the right, callees hang below their callers.
//!
//! It is made of the path's slices in one pass per step: [`Layout`] decides what is drawn one by one, [`draw`] writes
//! SVG, `chart.js` zooms it and marks frames. The export `svg` and the page show the same chart. A chart of every slice
//! would be too large to open. Beyond the [`MAX_FRAMES`] longest, neighbours are therefore drawn as one, and the chart
//! says so.

mod draw;

pub(crate) use draw::{AXIS, CHARACTER, Heading, LINE, MARGIN, Positions, ROW, WIDTH, alone, axis, plain_frames, x};

use crate::Boot;
use crate::lanes::Slice;
use crate::text::counted;
use timeline::Ns;

/// The script that zooms a chart and marks its frames. It defines `flameChart(svg)`.
pub(crate) const SCRIPT: &str = include_str!("chart.js");

/// The most slices drawn one by one. Each takes about 200 bytes of SVG, and a browser still zooms these without delay.
const MAX_FRAMES: usize = 6_000;

/// A frame of the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    start: Ns,
    end: Ns,
    /// The number of rows above it.
    depth: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Slice(Slice),
    /// The number of neighbours that are drawn as one, with their callees, because each is too short.
    Together(u64),
}

/// The frames of a chart and their positions.
pub(crate) struct Layout {
    /// The frames, callers before their callees.
    frames: Vec<Frame>,
    /// Slices shorter than this are drawn together.
    shortest: Ns,
    /// The number of those slices.
    short: usize,
}

impl Layout {
    /// Lays out the boot path; `None` if there is no path.
    pub(crate) fn of(boot: &Boot) -> Option<Layout> {
        let slices = boot.path_slices();
        (!slices.is_empty()).then(|| Layout::of_slices(slices))
    }

    /// Lays out slices, in linear time but for the search for the length that [`MAX_FRAMES`] slices reach.
    pub(crate) fn of_slices(slices: Vec<Slice>) -> Layout {
        Layout::with_most(slices, MAX_FRAMES)
    }

    /// The same with at most about this number of slices drawn one by one.
    pub(crate) fn with_most(slices: Vec<Slice>, most: usize) -> Layout {
        let (shortest, short) = threshold(&slices, most);
        let frames = Vec::with_capacity(slices.len().min(2 * most));
        let mut drawing = Drawing { shortest, frames, open: Vec::new() };
        slices.into_iter().for_each(|slice| drawing.add(slice));
        Layout { frames: drawing.frames, shortest, short }
    }

    /// A sentence about the slices that the chart draws together; empty if it draws all one by one.
    pub(crate) fn left_out(&self, boot: &Boot) -> String {
        match self.short {
            0 => String::new(),
            n => format!(
                "{} shorter than {} are drawn together.",
                counted(n as u64, "frame"),
                boot.timeline.unit.show_at(self.shortest)
            ),
        }
    }

    /// The number of rows of the chart.
    pub(crate) fn rows(&self) -> u32 {
        self.frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0)
    }
}

/// The shortest length to draw one by one, so that at most about `most` slices are, and the number of shorter slices.
fn threshold(slices: &[Slice], most: usize) -> (Ns, usize) {
    if slices.len() <= most {
        return (Ns::ZERO, 0);
    }
    let mut lengths: Vec<Ns> = slices.iter().map(|s| s.end - s.start).collect();
    let (_, &mut limit, _) = lengths.select_nth_unstable_by(most, |a, b| b.cmp(a));
    let shortest = limit + Ns(1);
    (shortest, slices.iter().filter(|s| s.end - s.start < shortest).count())
}

struct Drawing {
    shortest: Ns,
    frames: Vec<Frame>,
    /// The open slices that are drawn one by one.
    open: Vec<Open>,
}

struct Open {
    slice: Slice,
    /// The frame of the last run of short slices within it.
    run: Option<usize>,
}

impl Drawing {
    /// Adds a slice. Slices come in order, outer ones first. A callee of a short slice is short too, and joins the same
    /// run.
    fn add(&mut self, slice: Slice) {
        while self.open.last().is_some_and(|top| !top.slice.holds(&slice)) {
            self.open.pop();
        }
        if slice.end - slice.start < self.shortest {
            return self.together(slice);
        }
        if let Some(around) = self.open.last_mut() {
            around.run = None;
        }
        let depth = timeline::number(self.open.len());
        self.frames.push(Frame { start: slice.start, end: slice.end, depth, what: What::Slice(slice) });
        self.open.push(Open { slice, run: None });
    }

    /// Adds a short slice. It joins the run before it if the gap between them is shorter than `shortest`.
    fn together(&mut self, slice: Slice) {
        let run = self.open.last().and_then(|around| around.run).map(|run| &mut self.frames[run]);
        match run.filter(|run| slice.start - run.end < self.shortest) {
            Some(run) => {
                run.end = run.end.max(slice.end);
                run.what = What::Together(if let What::Together(count) = run.what { count + 1 } else { 1 });
            }
            None => {
                let depth = timeline::number(self.open.len());
                let frame = Frame { start: slice.start, end: slice.end, depth, what: What::Together(1) };
                if let Some(around) = self.open.last_mut() {
                    around.run = Some(self.frames.len());
                }
                self.frames.push(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Label;

    fn slice(start: i64, end: i64) -> Slice {
        Slice { start: Ns(start), end: Ns(end), label: Label::Wait, kind: None }
    }

    fn drawn(shortest: i64, slices: &[(i64, i64)]) -> Vec<(i64, i64, u32, u64)> {
        let mut drawing = Drawing { shortest: Ns(shortest), frames: Vec::new(), open: Vec::new() };
        slices.iter().for_each(|&(start, end)| drawing.add(slice(start, end)));
        let count = |what| if let What::Together(count) = what { count } else { 0 };
        drawing.frames.iter().map(|f| (f.start.0, f.end.0, f.depth, count(f.what))).collect()
    }

    #[test]
    fn short_neighbours_are_one_frame_unless_much_lies_between() {
        let slices = [(0, 100), (10, 12), (11, 12), (13, 15), (30, 31), (40, 60), (61, 62), (62, 64)];
        let together = [(0, 100, 0, 0), (10, 15, 1, 3), (30, 31, 1, 1), (40, 60, 1, 0), (61, 64, 1, 2)];
        assert_eq!(drawn(5, &slices), together);
        assert_eq!(drawn(0, &slices).len(), slices.len());
    }

    #[test]
    fn the_longest_of_many_slices_are_drawn_and_the_others_counted() {
        let slices: Vec<Slice> = (0..100_000).map(|i| slice(i * 100, i * 100 + 1 + i % 50)).collect();
        let layout = Layout::of_slices(slices);
        let ones = layout.frames.iter().filter(|f| matches!(f.what, What::Slice(_))).count();
        let together: u64 = layout.frames.iter().map(|f| if let What::Together(n) = f.what { n } else { 0 }).sum();
        assert_eq!((ones + together as usize, together as usize), (100_000, layout.short));
        assert!(ones <= MAX_FRAMES, "{ones}");
    }

    #[test]
    fn a_nest_as_deep_as_it_likes_is_drawn_in_one_pass() {
        let slices: Vec<Slice> = (0..300_000).map(|i| slice(i, 1_000_000 - i)).collect();
        let layout = Layout::of_slices(slices);
        assert!(layout.frames.len() <= MAX_FRAMES + 1 && layout.rows() as usize <= MAX_FRAMES + 1);
    }
}
