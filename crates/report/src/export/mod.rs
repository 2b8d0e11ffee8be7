//! Exports: the whole boot in the formats of other programs. One file per format, one trait for all.
//!
//! Each writes as it goes, in time linear in the number of spans. Names in them have passed
//! [`crate::harmless`]; times are exact to the nanosecond wherever the format allows it. What a reader must know first stands
//! in each that has a place for it: all but CSV, of which the columns' names say what they count.

mod chrome;
pub(crate) mod csv;
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
    /// What `--to` calls it.
    fn name(&self) -> &'static str;
    /// The usual ending of its files, without the dot.
    fn extension(&self) -> &'static str;
    /// What it holds and who reads it, in a line.
    fn about(&self) -> &'static str;
    /// Whether it is something else than text.
    fn is_binary(&self) -> bool {
        false
    }
    /// Whether each of its lines is a document that a collector takes.
    fn has_signals(&self) -> bool {
        false
    }
    /// Whether it lists the boot's findings.
    fn has_findings(&self) -> bool {
        false
    }
    /// Writes the boot. `out` should be buffered.
    ///
    /// # Errors
    /// What `out` says; for `svg`, also a boot without a path, and for `processes-svg` one without processes.
    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()>;
}

/// Frames of a stack where a format repeats the whole stack for every change in it: a log of a deep nest would else become
/// a file that grows with its square. A kernel's stacks have some twenty. What is left out is a frame that says so.
const MOST_FRAMES: usize = 128;

/// What a reader must know first, harmless, for formats that have a place for it.
pub(crate) fn warnings(boot: &Boot) -> impl Iterator<Item = String> {
    WarningLine::all(boot.timeline).into_iter().map(|warning| harmless(&warning.text).into_owned())
}

/// All formats.
pub const FORMATS: [&dyn Export; 12] = [
    &perfetto::Perfetto,
    &speedscope::Speedscope,
    &chrome::Chrome,
    &folded::Folded { all_threads: false },
    &folded::Folded { all_threads: true },
    &svg::Svg,
    &processes_svg::ProcessesSvg,
    &csv::Spans,
    &csv::Where,
    &json::Json,
    &otlp::Otlp,
    &tslog::Tslog,
];

/// The format of that name.
pub fn format(name: &str) -> Option<&'static dyn Export> {
    FORMATS.into_iter().find(|f| f.name() == name)
}
