//! Results of the sources, and the limits that apply to all of them.

use crate::bounded::Cut;
use recording::Subject;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The user's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep names, serial numbers and addresses.
    pub identify: bool,
    /// Include the journal of this boot.
    pub journal: bool,
    /// The time limit for all of it.
    pub time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { identify: false, journal: true, time: Duration::from_secs(60) }
    }
}

/// Evidence that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The evidence, in words for people.
    pub what: String,
    /// The reason, and the remedy.
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub origin: String,
    /// True if readers use it; other files are for people.
    pub is_evidence: bool,
    /// True if it is not text: its identities cannot be replaced.
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

/// The result of one source.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub files: Vec<File>,
    pub missing: Vec<Missing>,
}

impl Collected {
    pub fn missing(&mut self, what: &str, why: impl Into<String>) {
        self.missing.push(Missing { what: what.to_owned(), why: why.into() });
    }

    /// Adds a file, unless it is empty. Reports it as missing if it was cut.
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

/// The results of all sources until now.
#[derive(Debug)]
pub(crate) struct Gather {
    pub options: Options,
    pub files: Vec<File>,
    pub missing: Vec<Missing>,
    pub subject: Subject,
    /// The hash of the boot's ID; empty in a container, whose boots share the ID of the host's.
    pub boot_key: String,
    /// The time that each source took.
    pub took: Vec<(&'static str, Duration)>,
    until: Instant,
}

/// A source that is running.
pub(crate) struct PendingSource<T> {
    what: &'static str,
    until: Instant,
    limit: Duration,
    receiver: mpsc::Receiver<(T, Duration)>,
}

impl Gather {
    pub fn new(options: &Options) -> Gather {
        Gather {
            options: options.clone(),
            files: Vec::new(),
            missing: Vec::new(),
            subject: Subject::default(),
            boot_key: String::new(),
            took: Vec::new(),
            until: Instant::now() + options.time,
        }
    }

    /// Starts a source, and passes it the time of its deadline.
    pub fn start<T: Send + 'static>(
        &self,
        what: &'static str,
        limit: Duration,
        source: impl FnOnce(Instant) -> T + Send + 'static,
    ) -> PendingSource<T> {
        let (sender, receiver) = mpsc::channel();
        let until = (Instant::now() + limit).min(self.until);
        // A read that blocks forever ends with the process; no thread waits for it.
        let spawned = thread::Builder::new().spawn(move || {
            let begun = Instant::now();
            let collected = source(until);
            let _ = sender.send((collected, begun.elapsed()));
        });
        drop(spawned);
        PendingSource { what, until, limit, receiver }
    }

    /// Waits for a source's result. Returns `None` if it misses its deadline.
    pub fn wait_for<T>(&mut self, pending: PendingSource<T>) -> Option<T> {
        // The source keeps the deadline itself where it can, and then still returns a partial result. So this waits a
        // little longer.
        let left = pending.until.saturating_duration_since(Instant::now()) + Duration::from_millis(300);
        match pending.receiver.recv_timeout(left) {
            Ok((collected, took)) => {
                self.took.push((pending.what, took));
                Some(collected)
            }
            Err(_) => {
                let why = format!("no answer within {:.0} s", pending.limit.as_secs_f64());
                self.missing.push(Missing { what: pending.what.to_owned(), why });
                None
            }
        }
    }

    /// Adds the result of a source.
    pub fn keep(&mut self, collected: Collected) {
        self.files.extend(collected.files);
        self.missing.extend(collected.missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_does_not_answer_costs_its_time_and_no_more() {
        let mut gather = Gather::new(&Options::default());
        let begun = Instant::now();
        let pending = gather.start("a pipe", Duration::from_millis(50), |_| thread::sleep(Duration::from_secs(60)));
        let other = gather.start("a file", Duration::from_secs(5), |_| 7);
        assert_eq!((gather.wait_for(pending), gather.wait_for(other)), (None, Some(7)));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(gather.missing.len(), 1);
    }
}
