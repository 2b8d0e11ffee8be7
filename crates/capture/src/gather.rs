//! What sources give, and the limits that all of them keep.

use crate::bounded::Cut;
use recording::Subject;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Leave names, serial numbers and addresses as they are.
    pub identify: bool,
    /// Take the journal of this boot.
    pub journal: bool,
    /// How long all of it may take.
    pub time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { identify: false, journal: true, time: Duration::from_secs(60) }
    }
}

/// Something that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it is, for people.
    pub what: String,
    /// Why, and what to do about it.
    pub why: String,
}

/// A file of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub origin: String,
    /// Readers take it; others are for people.
    pub is_evidence: bool,
    /// It is no text: nothing can be hashed in it.
    pub is_binary: bool,
}

impl File {
    pub fn evidence(name: &'static str, bytes: Vec<u8>, origin: &str) -> File {
        File { name, bytes, origin: origin.to_owned(), is_evidence: true, is_binary: false }
    }

    pub fn for_people(name: &'static str, bytes: Vec<u8>, origin: &str) -> File {
        File { is_evidence: false, ..File::evidence(name, bytes, origin) }
    }
}

/// What one source gave.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub files: Vec<File>,
    pub missing: Vec<Missing>,
}

impl Given {
    pub fn missing(&mut self, what: &str, why: impl Into<String>) {
        self.missing.push(Missing { what: what.to_owned(), why: why.into() });
    }

    /// Adds a file if there is anything in it; says so if it was cut.
    pub fn put(&mut self, file: File, cut: Cut) {
        let kib = file.bytes.len() >> 10;
        match cut {
            Cut::No => {}
            Cut::Bytes => self.missing(&file.origin, format!("it has more than the first {kib} KiB, which were taken")),
            Cut::Time => self.missing(&file.origin, format!("it took too long; the first {kib} KiB were taken")),
        }
        if !file.bytes.is_empty() {
            self.files.push(file);
        }
    }
}

/// All that was given so far.
#[derive(Debug)]
pub(crate) struct Gather {
    pub options: Options,
    pub files: Vec<File>,
    pub missing: Vec<Missing>,
    pub subject: Subject,
    /// How long each source took.
    pub took: Vec<(&'static str, Duration)>,
    until: Instant,
}

/// A source that is being asked.
pub(crate) struct Asked<T> {
    what: &'static str,
    until: Instant,
    limit: Duration,
    answer: mpsc::Receiver<(T, Duration)>,
}

impl Gather {
    pub fn new(options: &Options) -> Gather {
        Gather {
            options: options.clone(),
            files: Vec::new(),
            missing: Vec::new(),
            subject: Subject::default(),
            took: Vec::new(),
            until: Instant::now() + options.time,
        }
    }

    /// Asks a source, which gets the time by which it has to answer.
    pub fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        limit: Duration,
        source: impl FnOnce(Instant) -> T + Send + 'static,
    ) -> Asked<T> {
        let (tell, answer) = mpsc::channel();
        let until = (Instant::now() + limit).min(self.until);
        // A read that blocks for ever ends with the process, and nobody waits for it.
        let spawned = thread::Builder::new().spawn(move || {
            let begun = Instant::now();
            let given = source(until);
            let _ = tell.send((given, begun.elapsed()));
        });
        drop(spawned);
        Asked { what, until, limit, answer }
    }

    /// What a source answers; none if it does not in time.
    pub fn answer<T>(&mut self, asked: Asked<T>) -> Option<T> {
        // It keeps the time itself where it can, and then still says what it has: a little more is left for that.
        let left = asked.until.saturating_duration_since(Instant::now()) + Duration::from_millis(300);
        match asked.answer.recv_timeout(left) {
            Ok((given, took)) => {
                self.took.push((asked.what, took));
                Some(given)
            }
            Err(_) => {
                let why = format!("no answer within {:.0} s", asked.limit.as_secs_f64());
                self.missing.push(Missing { what: asked.what.to_owned(), why });
                None
            }
        }
    }

    /// Keeps what a source gave.
    pub fn keep(&mut self, given: Given) {
        self.files.extend(given.files);
        self.missing.extend(given.missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_does_not_answer_costs_its_time_and_no_more() {
        let mut gather = Gather::new(&Options::default());
        let begun = Instant::now();
        let asked = gather.ask("a pipe", Duration::from_millis(50), |_| thread::sleep(Duration::from_secs(60)));
        let other = gather.ask("a file", Duration::from_secs(5), |_| 7);
        assert_eq!((gather.answer(asked), gather.answer(other)), (None, Some(7)));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(gather.missing.len(), 1);
    }
}
