//! Collects what a running machine still has about its boot, as an ordinary recording.
//!
//! Each source runs in its own thread, with limits on time and bytes. A source that hangs costs its own time and no
//! more. Missing evidence is listed with the reason. Evidence goes into numbered files; readers recognise them by
//! content, like imported files. Other files are for people.
//!
//! It must write nothing except its recording, and it must leave no process behind. It does not interpret evidence:
//! `evidence` does.
// Only `standard_output` has unsafe code.
#![deny(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod anonymous;
mod bounded;
mod forms;
mod gather;
mod identities;
mod journal_export;
mod learned_identities;
mod scrub;
mod sources;
pub mod ssh;
mod standard_output;

pub use anonymous::{Anonymous, anonymous};
pub use gather::{Missing, Options};
pub use identities::Identities;
pub use learned_identities::IDENTITIES_MAX;
pub use standard_output::standard_output;

use gather::Gather;
use recording::{InMemory, Manifest};
use std::fmt::Write as _;

/// The result of a capture.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The recording, not written yet.
    pub recording: InMemory,
    /// Missing evidence, with the reasons.
    pub missing: Vec<Missing>,
    /// The number of identities of each kind, with the kind in words. They are tokens, unless [`Options::identify`] is
    /// set.
    pub identities: Vec<(&'static str, usize)>,
    /// The number of lines in the recording that services wrote into the journal.
    pub journal_lines: usize,
}

/// Runs all sources of this machine.
#[must_use]
pub fn capture(options: &Options) -> Captured {
    let mut gather = Gather::new(options);
    sources::collect(&mut gather);
    let Gather { mut files, missing, subject, boot_key, took, .. } = gather;
    let mut manifest = Manifest { subject, boot_key, ..Manifest::begun_now() };
    if !missing.is_empty() {
        let sentences: Vec<String> =
            missing.iter().map(|missing| format!("{} ({})", missing.what, missing.why)).collect();
        manifest.notes.push(format!("capture could not read: {}", sentences.join("; ")));
    }
    let mut text = String::new();
    for missing in &missing {
        let _ = writeln!(text, "not read: {}: {}", missing.what, missing.why);
    }
    for (what, took) in took {
        let _ = writeln!(text, "took {} ms: {what}", took.as_millis());
    }
    let origin = "what capture could not read, and how long its parts took";
    files.push(gather::File::for_people(recording::CAPTURE, text.into_bytes(), origin));
    let learned = scrub::learn(&files);
    if !options.identify {
        let scrubber = scrub::Scrubber::new(&learned);
        scrub::scrub(&mut files, &scrubber);
        manifest.change_texts(&mut |text| *text = scrubber.word(text));
    }
    let journal = files.iter().find(|file| file.name == "journal.txt");
    let journal_lines = journal.map_or(0, |file| file.bytes.iter().filter(|&&byte| byte == b'\n').count());
    let named = files.into_iter().enumerate().map(|(number, file)| {
        let name = if file.is_evidence { format!("{number:02}-{}", file.name) } else { file.name.to_owned() };
        (name, file.bytes, file.origin)
    });
    let recording = InMemory { manifest, files: named.collect() };
    Captured { recording, missing, identities: anonymous::in_words(&learned), journal_lines }
}

impl Captured {
    /// Describes the identities that it keeps, and those that are tokens. The sentences are for the user, before
    /// anything is written.
    #[must_use]
    pub fn what_it_keeps(&self, options: &Options) -> Vec<String> {
        let counted: Vec<String> = self.identities.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        let counted = if counted.is_empty() { "no identities".to_owned() } else { counted.join(", ") };
        let mut kept = vec![match options.identify {
            true => format!("keeps, as --identify says: {counted}"),
            false => format!("makes tokens of {counted}"),
        }];
        if self.journal_lines > 0 {
            let lines = self.journal_lines;
            kept.push(format!(
                "keeps {lines} lines of the journal, which may name more than has a form; --no-journal leaves them out"
            ));
        }
        kept
    }
}
