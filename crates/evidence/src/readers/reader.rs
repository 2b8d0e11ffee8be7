//! What a reader of one format is, and what one format's evidence gives to the timeline.
//!
//! # The way of a file
//! [`crate::assemble::files`] loads a recording. A file that our own recorder wrote belongs to the reader that lists its name
//! ([`Reader::own`]). Any other file is looked at once, by its content: a reader knows a file as a whole by its first
//! bytes ([`Reader::is_whole`]), takes what it can out of it ([`Reader::take`]), or knows a line ([`Reader::is_line`]).
//! The readers of its lines get the file. `import` asks the same question before it makes a recording.
//!
//! # The way of evidence
//! A reader that has files reads them and leaves an [`Evidence`]. [`crate::assemble::merge`] then asks all of them, pass by pass
//! and in each pass in the order of the table:
//!
//! 1. [`Evidence::offer`]: what clocks it is stamped with, and what joins them. Then [`crate::assemble::clocks`] joins them.
//! 2. [`Evidence::whole_boot`]: a kernel that logged its own boot needs none of the passes 3 to 5.
//! 3. [`Evidence::threads`]: who ran where and who waited for whom.
//! 4. [`Evidence::place`]: its work and its messages, as spans and marks.
//! 5. [`Evidence::phases`]: where phases of the kernel's boot begin.
//! 6. [`Evidence::around`]: what came before the kernel, or goes on beside it.
//! 7. [`Evidence::end`]: when the boot was done, with a rank ([`EndRank`]) and an error.
//!
//! Two readers may report the same phase: both are boundaries, and the analysis takes the one with the smaller error. Of
//! several end marks the one of the highest rank wins. What one reader finds and others build on is in [`Found`], in terms
//! of the boot (stages of the machine, the first thread, names of functions), never of a format.
//!
//! # What it must not do
//! A reader does no I/O, panics on nothing, keeps memory in proportion to its input, and drops nothing silently.
//! It decides nothing about other readers: who is used beside whom is data, in [`crate::assemble::reader_table`].

use crate::boot::followed::Followed;
use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::tslog;
use crate::input::Input;
use crate::input::text::Line;
use std::ops::Range;
use timeline::{Diagnostics, EndEvidence, FileLoss, Ns, Timeline, TrackId};

/// A file of a recording of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// As it is.
    Plain(&'static str),
    /// Compressed by gzip.
    Packed(&'static str),
    /// `NAME-1.gz`, `NAME-2.gz`, …
    PackedNumbered(&'static str),
    /// `NAME.log`, and `NAME.idx` that says when each line arrived.
    Stream(&'static str),
}

impl Own {
    /// Whether it is the file of this name; if so, whether that is the index of a stream.
    pub(crate) fn is(self, name: &str) -> Option<bool> {
        let (is_file, is_index) = match self {
            Own::Plain(own) | Own::Packed(own) => (name == own, false),
            Own::PackedNumbered(own) => {
                (name.strip_prefix(own).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".gz")), false)
            }
            Own::Stream(own) => {
                let ending = name.strip_prefix(own);
                (matches!(ending, Some(".log" | ".idx")), ending == Some(".idx"))
            }
        };
        is_file.then_some(is_index)
    }
}

/// What a reader took of a file that somebody imported.
#[derive(Debug, Default)]
pub(crate) enum Taken {
    /// None of it.
    #[default]
    Nothing,
    /// All of it: what it is, in words.
    All(String),
    /// Some lines.
    Lines {
        /// What they are, in words; nothing if there are none.
        kinds: Vec<String>,
        /// Whether any of them tells of a boot.
        of_a_boot: bool,
        /// Where the other lines are.
        others: Vec<Range<usize>>,
    },
}

/// Reads one format. There is one for each recording, and one for each file that `import` looks at.
pub(crate) trait Reader {
    /// What its lines are, in words, for people; a line is of one of these kinds.
    fn kinds(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its files in a recording of our own, in the order in which they are used.
    fn own(&self) -> &'static [Own] {
        &[]
    }

    /// What figures lose if one of [`Reader::own`] is missing or cut, by its place there; or the index of that stream.
    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::WhatItSaid
    }

    /// The same of a file that is none of [`Reader::own`], as far as its name says what it was. Nothing else is left of it.
    fn loss_by_name(&self, _file: &str) -> Option<FileLoss> {
        None
    }

    /// Whether it is given an imported file that has lines of it.
    fn wants_files(&self) -> bool {
        true
    }

    /// What a file is that is of this format from its first byte on; none if it is another.
    fn is_whole(&self, _bytes: &[u8]) -> Option<String> {
        None
    }

    /// Takes what is its own out of a file; for formats whose lines are told only by reading them.
    fn take(&mut self, _name: &str, _bytes: &[u8], _diagnostics: &mut Diagnostics) -> Taken {
        Taken::Nothing
    }

    /// Which of [`Reader::kinds`] a line is, whatever else it may look like.
    fn is_line(&self, _line: Line<'_>) -> Option<usize> {
        None
    }

    /// The same of a line that no reader knows for sure.
    fn may_be_line(&self, _line: Line<'_>) -> Option<usize> {
        None
    }

    /// The kind of a file in which no reader knows a line, by the whole of it; `None` if it is of another format.
    fn may_be_whole(&self, _bytes: &[u8]) -> Option<String> {
        None
    }

    /// The number of lines that prove this format: of a table, one line is no proof.
    fn min_lines(&self) -> u64 {
        1
    }

    /// The kind of a log without times, and what to give in its place; `None` if this reader does not know its lines.
    fn without_times(&self, _bytes: &[u8]) -> Option<&'static str> {
        None
    }

    /// Advice on the next recording, where a file of this format says less than its machine could.
    fn next_time(&self, _bytes: &[u8]) -> Option<&'static str> {
        None
    }

    /// Takes a file: one of [`Reader::own`], by its place there, or an imported one.
    fn add(&mut self, own: Option<usize>, input: Input, diagnostics: &mut Diagnostics);

    /// Whether it was given evidence of a boot, beside what every recording has.
    fn has_boot(&self) -> bool {
        false
    }

    /// Reads what it was given. Diagnostics go to the boot's timeline.
    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>>;

    /// A kernel's own event log, to be written out again.
    fn into_event_log(self: Box<Self>) -> Option<tslog::Log> {
        None
    }
}

/// A boot that one kernel's own log tells of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeBoot {
    /// Who ran first, where the log is joined to the host's clock: what came before is chained to it.
    pub first: Option<TrackId>,
    /// When its first record was logged.
    pub begins: Option<Ns>,
}

/// The priority of end marks, highest first. At equal priority the one with the smallest error wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndRank {
    /// A tool that recorded the whole boot (libguestfs, systemd-analyze) reports its end.
    BootDone,
    /// The mark that the recording's user asked for.
    Asked,
    /// Process 1 said that it runs.
    ProcessOneSaid,
    /// User space was seen to run.
    UserSpaceRan,
    /// The kernel said that it starts process 1; of evidence taken elsewhere only.
    ProcessOneStarted,
    /// The kernel panicked.
    Panicked,
    /// Nothing says: the last sign of the kernel.
    LastSign,
}

/// When the boot was done, by one piece of evidence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndCandidate {
    pub rank: EndRank,
    pub at: Ns,
    /// How far off that may be.
    pub error: Ns,
    /// What shows it.
    pub evidence: EndEvidence,
    /// The track that reached it; process 1's where nothing else is said.
    pub track: Option<TrackId>,
}

/// What one format's files say of a boot.
pub(crate) trait Evidence {
    /// What it is stamped with, and what joins these clocks to others.
    fn offer<'e>(&'e self, _offers: &mut Offers<'e>) {}

    /// Places the whole boot, if it is a kernel's own log of it.
    fn whole_boot(&mut self, _boot: &mut Placing<'_>) -> Option<WholeBoot> {
        None
    }

    /// Places who ran where, and who waited for whom.
    fn threads(&mut self, _boot: &mut Placing<'_>) {}

    /// Places work and messages.
    fn place(&mut self, _boot: &mut Placing<'_>) {}

    /// Adds boundaries of the kernel's phases, each with its error.
    fn phases(&mut self, _boot: &mut Placing<'_>) {}

    /// Places what came before the kernel.
    fn around(&mut self, _boot: &mut Placing<'_>) {}

    /// When it says that the boot was done.
    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        None
    }

    /// The last thing that it shows the kernel do, beside what is on the timeline.
    fn last_sign(&self, _boot: &Placing<'_>) -> Option<Ns> {
        None
    }

    /// What it says of the timeline as a whole, once all is placed.
    fn finish(&mut self, _boot: &mut Placing<'_>) {}

    /// Its calls, for tables that the timeline has no room for.
    fn into_calls(self: Box<Self>) -> Option<Followed> {
        None
    }
}
