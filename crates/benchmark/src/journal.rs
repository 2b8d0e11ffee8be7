//! The bench on disk while it runs: one JSON value a line, each written whole the moment it is known.
//!
//! ```text
//! {"schema":"bootscope.bench/1","plan":{…},"variants":[…],…}      the head
//! {"number":0,"round":null,"variant":1,"outcome":"reached",…}     one line for each boot that is over
//! {"ended":"rounds"}                                              unless it was killed
//! {"continued":7}                                                 where it went on, after 7 boots
//! ```
//! A killed program loses no boot that was over. The last line may be torn; it is counted, as is any line that is not what
//! it should be, and the rest is used. Who writes it holds a lock, so that nobody goes on with a bench that is still running.

use crate::document::Document;
use crate::head::{Head, SCHEMA};
use crate::runs::{Boot, Ended};
use recording::{Locked, LockedElsewhere};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The journal in the folder of a bench.
pub const JOURNAL: &str = "bench.jsonl";

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: Locked,
    path: PathBuf,
}

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It is there already.
    #[error("{0} is there already: give another name, or remove it")]
    Exists(PathBuf),
    /// Another process writes it.
    #[error("{0}: the bench is still running: wait for it, or stop it first")]
    InUse(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// `write`, `read`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// A later version's.
    #[error("{path} has the schema {found:?}, this bootscope reads up to {known}: use a newer bootscope", known = SCHEMA)]
    Later {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// It is something else.
    #[error("{path} is not a bench: line 1 {why}; give a file that `bootscope bench` wrote")]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first line.
        why: String,
    },
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
struct End {
    ended: Ended,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
struct Continued {
    continued: u32,
}

/// A boot's line is some KiB; a longer one is no boot's.
const LINE_BYTES_MOST: u64 = 4 << 20;

impl Journal {
    /// Begins one. What is there is never overwritten.
    pub fn create(path: &Path, head: &Head) -> Result<Journal, JournalError> {
        if let Some(folder) = path.parent() {
            recording::own_folder(folder).map_err(|why| failed("make the folder of", path, why))?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => JournalError::Exists(path.to_owned()),
            _ => failed("write", path, why),
        })?;
        let mut journal = Journal { file: locked(file, path)?, path: path.to_owned() };
        journal.line(head)?;
        Ok(journal)
    }

    /// Goes on with one, and what it says so far. A last line that was torn is taken away: its boot was not over. It is
    /// written, so [`read`] it first, and go on only with one that may be gone on with.
    pub fn resume(path: &Path) -> Result<(Journal, Journaled), JournalError> {
        let file = recording::open_to_append(path).map_err(|why| failed("write", path, why))?;
        let mut journal = Journal { file: locked(file, path)?, path: path.to_owned() };
        journal.mend()?;
        let found = read(path)?;
        Ok((journal, found))
    }

    /// Says that it goes on, after so many boots.
    pub fn continued(&mut self, boots: u32) -> Result<(), JournalError> {
        self.line(&Continued { continued: boots })
    }

    /// Ends the last line, or takes away what there is of it.
    fn mend(&mut self) -> Result<(), JournalError> {
        let mended = || -> io::Result<()> {
            let mut lines = BufReader::new(&*self.file);
            let mut at = 0;
            while let Some(last) = line(&mut lines)? {
                if last.ends_with(b"\n") || last.len() as u64 == LINE_BYTES_MOST {
                    at += last.len() as u64;
                } else if serde_json::from_slice::<serde_json::Value>(&last).is_ok() {
                    (&*self.file).write_all(b"\n")?;
                } else {
                    self.file.set_len(at)?;
                }
            }
            Ok(())
        };
        mended().map_err(|why| failed("write", &self.path, why))
    }

    /// Keeps a boot that is over.
    pub fn boot(&mut self, boot: &Boot) -> Result<(), JournalError> {
        self.line(boot)
    }

    /// Says why there are no more.
    pub fn end(&mut self, ended: Ended) -> Result<(), JournalError> {
        self.line(&End { ended })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(value).expect("plain data always serializes");
        line.push(b'\n');
        (&*self.file).write_all(&line).map_err(|why| failed("write", &self.path, why))
    }
}

fn locked(file: File, path: &Path) -> Result<Locked, JournalError> {
    Locked::take(file).map_err(|LockedElsewhere| JournalError::InUse(path.to_owned()))
}

fn failed(doing: &'static str, path: &Path, why: io::Error) -> JournalError {
    JournalError::Io { doing, path: path.to_owned(), why }
}

/// A journal, read.
#[derive(Debug)]
pub struct Journaled {
    /// What it says.
    pub document: Document,
    /// Lines that are nothing, from 1; a kill can leave one.
    pub damaged: Vec<usize>,
}

/// Reads a journal, whole or not.
pub fn read(path: &Path) -> Result<Journaled, JournalError> {
    let file = recording::open_regular(path).map_err(|why| failed("read", path, why))?;
    let mut lines = BufReader::new(file);
    let mut next = || line(&mut lines).map_err(|why| failed("read", path, why));
    let not_one = |why: String| JournalError::NotAJournal { path: path.to_owned(), why };
    let first = next()?.ok_or_else(|| not_one("is missing".to_owned()))?;
    if let Some(found) = later_schema(&first) {
        return Err(JournalError::Later { path: path.to_owned(), found });
    }
    let head: Head = serde_json::from_slice(&first).map_err(|e| not_one(format!("says: {e}")))?;
    if head.schema != SCHEMA {
        return Err(not_one(format!("has the schema {:?}, not {SCHEMA}", head.schema)));
    }
    // Boots are planned by that number.
    if head.plan.variants != head.variants.len() {
        let (planned, listed) = (head.plan.variants, head.variants.len());
        return Err(not_one(format!("plans {planned} variants, and lists {listed}")));
    }
    let (mut boots, mut ended, mut damaged, mut number) = (Vec::new(), None, Vec::new(), 1);
    let mut continued = Vec::new();
    while let Some(line) = next()? {
        number += 1;
        if let Ok(boot) = serde_json::from_slice::<Boot>(&line) {
            if boot.variant < head.variants.len() {
                boots.push(boot);
                continue;
            }
        } else if let Ok(end) = serde_json::from_slice::<End>(&line) {
            ended = Some(end.ended);
            continue;
        } else if let Ok(on) = serde_json::from_slice::<Continued>(&line) {
            continued.push(on.continued);
            // It had not ended after all.
            ended = None;
            continue;
        }
        damaged.push(number);
    }
    Ok(Journaled { document: Document { continued, ..Document::new(head, boots, ended) }, damaged })
}

/// The schema of a bench that a later bootscope wrote, whose other fields this one need not know. Of a bench's first line, or of its
/// document.
pub fn later_schema(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let number = |schema: &str| {
        let (kind, number) = schema.split_once('/')?;
        (kind == "bootscope.bench").then(|| number.parse::<u32>().ok())?
    };
    let found = serde_json::from_slice::<Schema>(json).ok()?.schema;
    (number(&found)? > number(SCHEMA)?).then_some(found)
}

/// The next line, at most so long: the rest of a longer one is another line, and as little a boot.
fn line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = lines.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::Measured;
    use crate::{Plan, Stop, Variant};

    fn head() -> Head {
        let stop = Stop { rounds: 3, width: Some(0.1), budget_ns: None };
        let quiet = Variant { how: serde_json::json!({"append": "quiet"}), ..Variant::named("quiet") };
        let plan = Plan { leaves_out: false, variants: 1, warm_ups: 0, stop, seed: u64::MAX };
        Head { host_cpus_allowed: "0-1".to_owned(), ..Head::of(plan, vec![quiet]) }
    }

    fn boot(number: u32) -> Boot {
        let measured = Measured { outcome: "reached".to_owned(), total_ns: Some(1_234_567_890), ..Measured::default() };
        Boot { number, round: Some(number), variant: 0, began_ns: 17, measured }
    }

    #[test]
    fn a_journal_cut_anywhere_keeps_every_boot_that_was_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/bench.jsonl");
        let mut journal = Journal::create(&path, &head()).unwrap();
        let mut sizes = vec![std::fs::metadata(&path).unwrap().len() as usize];
        for number in 0..3 {
            journal.boot(&boot(number)).unwrap();
            sizes.push(std::fs::metadata(&path).unwrap().len() as usize);
        }
        journal.end(Ended::NeverReached(0)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in sizes[0]..whole.len() {
            let part = folder.path().join("cut");
            std::fs::write(&part, &whole[..cut]).unwrap();
            let found = read(&part).unwrap();
            // A line that lacks nothing but its end is whole.
            let over = sizes[1..].iter().filter(|&&size| size <= cut + 1).count();
            assert_eq!(found.document.boots, [boot(0), boot(1), boot(2)][..over], "{cut}");
            assert!(found.damaged.len() <= 1);
        }
        let found = read(&path).unwrap();
        assert_eq!((found.document.ended, found.document.head), (Some(Ended::NeverReached(0)), head()));
        assert_eq!(found.document.results.variants[0].total.as_ref().unwrap().mean, 1_234_567_890.0);
    }

    #[test]
    fn a_journal_cut_anywhere_goes_on_where_its_last_whole_boot_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.jsonl");
        let mut journal = Journal::create(&path, &head()).unwrap();
        let head_bytes = std::fs::metadata(&path).unwrap().len() as usize;
        assert!(matches!(Journal::resume(&path), Err(JournalError::InUse(_))), "it is being written");
        (0..3).for_each(|number| journal.boot(&boot(number)).unwrap());
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in head_bytes..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, found) = Journal::resume(&path).unwrap();
            let over = found.document.boots.len() as u32;
            assert!(found.damaged.is_empty(), "cut at {cut}");
            journal.continued(over).unwrap();
            (over..3).for_each(|number| journal.boot(&boot(number)).unwrap());
            journal.end(Ended::Rounds).unwrap();
            drop(journal);
            let found = read(&path).unwrap();
            assert_eq!((found.damaged, found.document.continued), (vec![], vec![over]), "cut at {cut}");
            assert_eq!(found.document.boots, [boot(0), boot(1), boot(2)], "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_bench_is_refused_and_what_is_no_boot_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.jsonl");
        Journal::create(&path, &head()).unwrap().boot(&Boot { variant: 9, ..boot(1) }).unwrap();
        assert_eq!(read(&path).unwrap().damaged, [2], "a variant that is not there");
        assert!(matches!(Journal::create(&path, &head()), Err(JournalError::Exists(_))));
        for wrong in ["", "{}\n", "\u{0}\u{1}", "{\"schema\":\"bootscope.show/1\"}\n"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(read(&path), Err(JournalError::NotAJournal { .. })), "{wrong:?}");
        }
    }
}
