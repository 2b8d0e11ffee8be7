//! What a running machine still knows of how it booted, taken as an ordinary recording.
//!
//! Each source is asked in a thread of its own, for a bounded time and a bounded number of bytes: one that does not answer costs
//! its part and no more. What could not be had is listed with the reason. Evidence goes into numbered files, which readers know by
//! their content as they know an imported file's. Other files are for people.
//!
//! It must write nothing but its recording, and it must leave no process behind. It understands no evidence: `evidence` does.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod anonymous;
mod bounded;
mod forms;
mod gather;
mod scrub;
mod sources;
pub mod ssh;

pub use anonymous::{Anonymous, NAMES_MAX, anonymous};
pub use forms::without_identities;
pub use gather::{Missing, Options};

use gather::Gather;
use recording::{InMemory, Manifest};
use std::fmt::Write as _;
use std::time::Instant;

/// What was taken.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The recording, yet to be written.
    pub recording: InMemory,
    /// What could not be had, and why.
    pub missing: Vec<Missing>,
}

/// Asks all sources of this machine.
#[must_use]
pub fn capture(options: &Options) -> Captured {
    let mut gather = Gather::new(options);
    sources::ask(&mut gather);
    let Gather { mut files, missing, subject, mut took, .. } = gather;
    if !options.identify {
        let begun = Instant::now();
        scrub::scrub(&mut files);
        took.push(("make names and numbers tokens", begun.elapsed()));
    }
    let mut manifest = Manifest { subject, ..Manifest::begun_now() };
    if !missing.is_empty() {
        let said: Vec<String> = missing.iter().map(|missing| format!("{} ({})", missing.what, missing.why)).collect();
        manifest.notes.push(format!("capture could not read: {}", said.join("; ")));
    }
    let mut text = String::new();
    for missing in &missing {
        let _ = writeln!(text, "not read: {}: {}", missing.what, missing.why);
    }
    for (what, took) in took {
        let _ = writeln!(text, "took {} ms: {what}", took.as_millis());
    }
    files.push(gather::File::for_people(
        "capture.txt",
        text.into_bytes(),
        "what capture could not read, and how long its parts took",
    ));
    let named = files.into_iter().enumerate().map(|(number, file)| {
        let name = if file.is_evidence { format!("{number:02}-{}", file.name) } else { file.name.to_owned() };
        (name, file.bytes, file.origin)
    });
    Captured { recording: InMemory { manifest, files: named.collect() }, missing }
}
