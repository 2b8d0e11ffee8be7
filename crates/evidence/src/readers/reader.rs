//! [`Reader`] reads one format. [`Evidence`] is what the files of one format give to the timeline.
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
//! 3. [`Evidence::threads`]: the threads that ran on each CPU, and their waits for each other.
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
//! It decides nothing about other readers: which of them are used together is data, in
//! [`crate::assemble::reader_table`].

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
    /// `None` if it is not the file of this name; otherwise true if the file is the index of a stream.
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

/// The part of an imported file that a reader took.
#[derive(Debug, Default)]
pub(crate) enum Taken {
    /// None of it.
    #[default]
    Nothing,
    /// All of it: what it is, in words.
    All(String),
    /// Some lines.
    Lines {
        /// The kinds of the lines, in words.
        kinds: Vec<String>,
        /// True if any of them is evidence of a boot.
        of_a_boot: bool,
        /// The ranges of the other lines in the file, in bytes.
        others: Vec<Range<usize>>,
    },
}

/// Reads one format. There is one for each recording, and one for each file that `import` looks at.
pub(crate) trait Reader {
    /// The kinds of its lines, in words for the user. A line is of one of these kinds.
    fn kinds(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its files in a recording of our own, in the order in which they are used.
    fn own(&self) -> &'static [Own] {
        &[]
    }

    /// The effect on figures if one of [`Reader::own`], given by its place there, is missing or cut, or if the index of
    /// that stream is.
    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::WhatItSaid
    }

    /// The same of a file that is none of [`Reader::own`], as far as its name says what it was. Nothing else is left of it.
    fn loss_by_name(&self, _file: &str) -> Option<FileLoss> {
        None
    }

    /// Reads only the facts that hold beside a whole boot of another format, which makes the rest needless.
    fn read_beside(&self, _timeline: &mut Timeline) {}

    /// True if it is given the imported files that have lines of its format.
    fn wants_files(&self) -> bool {
        true
    }

    /// The kind of a file that is of this format from its first byte on; `None` for another file.
    fn is_whole(&self, _bytes: &[u8]) -> Option<String> {
        None
    }

    /// Takes its lines out of a file, in formats whose lines are recognised only by reading them.
    fn take(&mut self, _name: &str, _bytes: &[u8], _diagnostics: &mut Diagnostics) -> Taken {
        Taken::Nothing
    }

    /// The place in [`Reader::kinds`] of a line that is certainly of this format.
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

    /// False for a log that says nothing of times, not even how long something took.
    fn has_times(&self, _bytes: &[u8]) -> bool {
        true
    }

    /// Advice on the next recording, where a file of this format says less than its machine could.
    fn next_time(&self, _bytes: &[u8]) -> Option<&'static str> {
        None
    }

    /// Takes a file: one of [`Reader::own`], by its place there, or an imported one.
    fn add(&mut self, own: Option<usize>, input: Input, diagnostics: &mut Diagnostics);

    /// True if it was given evidence of a boot, beside what every recording has.
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
    /// The track that ran first, if the log is joined to the host's clock. Earlier work is chained to it.
    pub first: Option<TrackId>,
    /// The time of its first record.
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

/// The end of the boot, by one piece of evidence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndCandidate {
    pub rank: EndRank,
    pub at: Ns,
    pub error: Ns,
    pub evidence: EndEvidence,
    /// The track that reached the end; `None` for that of process 1.
    pub track: Option<TrackId>,
}

/// The evidence of a boot in the files of one format.
pub(crate) trait Evidence {
    /// Offers the clocks of its stamps, and what joins these clocks to others.
    fn offer<'e>(&'e self, _offers: &mut Offers<'e>) {}

    /// Places the whole boot, if it is a kernel's own log of it.
    fn whole_boot(&mut self, _boot: &mut Placing<'_>) -> Option<WholeBoot> {
        None
    }

    /// Places the threads that ran on each CPU, and their waits for each other.
    fn threads(&mut self, _boot: &mut Placing<'_>) {}

    /// Places work and messages.
    fn place(&mut self, _boot: &mut Placing<'_>) {}

    /// Adds boundaries of the kernel's phases, each with its error.
    fn phases(&mut self, _boot: &mut Placing<'_>) {}

    /// Places what came before the kernel.
    fn around(&mut self, _boot: &mut Placing<'_>) {}

    /// The end of the boot, by this evidence.
    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        None
    }

    /// The last thing that it shows the kernel do, beside what is on the timeline.
    fn last_sign(&self, _boot: &Placing<'_>) -> Option<Ns> {
        None
    }

    /// Adds what depends on the timeline as a whole, once all is placed.
    fn finish(&mut self, _boot: &mut Placing<'_>) {}

    /// Its calls, for tables that the timeline has no room for.
    fn into_calls(self: Box<Self>) -> Option<Followed> {
        None
    }
}
