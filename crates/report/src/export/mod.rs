//! Exports: the whole boot in the formats of other programs. Each format has one file; all share one trait.
//!
//! Each format writes as it goes, in time linear in the number of spans. Names have passed [`crate::harmless`]. Times
//! are exact to the nanosecond if the format allows it. Every format with a place for warnings has them: all but CSV,
//! whose column names state the unit.

mod chrome;
pub(crate) mod csv;
mod flame_graph;
mod folded;
mod json;
mod otlp;
mod perfetto;
mod processes_svg;
mod samples;
mod speedscope;
mod svg;
mod tslog;

pub use samples::SampleFormat;

use crate::{Boot, WarningLine, harmless};
use std::io::{self, Write};

/// A format that a boot can be written in.
pub trait Export: Sync {
    /// The value of `--to` that selects it.
    fn name(&self) -> &'static str;
    /// The usual file extension, without the dot.
    fn extension(&self) -> &'static str;
    /// Its content and its readers, in a line.
    fn about(&self) -> &'static str;
    /// True if it is not text.
    fn is_binary(&self) -> bool {
        false
    }
    /// True if each of its lines is a document that a collector accepts.
    fn has_signals(&self) -> bool {
        false
    }
    /// True if it lists the boot's findings.
    fn has_findings(&self) -> bool {
        false
    }
    /// True if it can show a part of the boot, [`Boot::window`].
    fn has_window(&self) -> bool {
        false
    }
    /// Writes the boot. `out` should be buffered.
    ///
    /// # Errors
    /// If `out` cannot be written; for `svg` and `flame-graph`, also if the boot has no path; for `processes-svg`, if it has no
    /// processes.
    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()>;
}

/// The most frames of a stack in formats that repeat the whole stack at every change. Without a limit, the file of a
/// deep nest would grow with the square of its depth. A kernel's stacks have some twenty frames. One frame stands for
/// those left out.
const MAX_FRAMES: usize = 128;

/// The warnings, made harmless, for formats that have a place for them.
pub(crate) fn warnings(boot: &Boot) -> impl Iterator<Item = String> {
    WarningLine::all(boot.timeline).into_iter().map(|warning| harmless(&warning.text).into_owned())
}

/// Every format that `--to` offers.
pub const FORMATS: [&dyn Export; 13] = [
    &perfetto::Perfetto,
    &speedscope::Speedscope,
    &chrome::Chrome,
    &folded::Folded { all_threads: false },
    &folded::Folded { all_threads: true },
    &svg::Svg,
    &flame_graph::FlameGraph,
    &processes_svg::ProcessesSvg,
    &csv::Spans,
    &csv::Where,
    &json::Json,
    &otlp::Otlp,
    &tslog::Tslog,
];

/// The format with this name.
pub fn format(name: &str) -> Option<&'static dyn Export> {
    FORMATS.into_iter().find(|f| f.name() == name)
}
