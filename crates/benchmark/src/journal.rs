//! The journal of a running bench on disk: one JSON value per line, each written whole as soon as it is known.
//!
//! ```text
//! {"schema":"bootscope.bench/1","plan":{…},"variants":[…],…}      the header
//! {"number":0,"round":null,"variant":1,"outcome":"reached",…}     one line for each boot that is over
//! {"ended":"rounds"}                                              unless the program was killed
//! {"continued":7}                                                 if the bench resumed, after 7 boots
//! ```
//! A killed program loses no boot that was over. The last line may be torn. The reader counts torn and malformed lines and
//! uses the rest. The writer holds a lock, so that no other process resumes a bench that is still running.

use crate::document::Document;
use crate::head::{Head, SCHEMA};
use crate::runs::{Boot, Ended};
use recording::{Locked, LockedElsewhere};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the journal's file in the folder of a bench.
pub const JOURNAL: &str = "bench.jsonl";

/// A journal opened for writing.
#[derive(Debug)]
pub struct Journal {
    file: Locked,
    path: PathBuf,
}

/// An error in writing or reading a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file exists already.
    #[error("{0} is there already: give another name, or remove it")]
    Exists(PathBuf),
    /// Another process writes it.
    #[error("{0}: the bench is still running: wait for it, or stop it first")]
    InUse(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// The operation: `write`, `read`, …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// A later version wrote it.
    #[error("{path} has the schema {found:?}, this bootscope reads up to {known}: use a newer bootscope", known = SCHEMA)]
    Later {
        /// The file.
        path: PathBuf,
        /// The schema that it names.
        found: String,
    },
    /// The file is not a journal.
    #[error("{path} is not a bench: line 1 {why}; give a file that `bootscope bench` wrote")]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// The error in its first line.
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

/// Maximum length of a line. The line of a boot has a few KiB.
const MAX_LINE_BYTES: u64 = 4 << 20;

impl Journal {
    /// Creates a journal. Never overwrites an existing file.
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

    /// Opens a journal to resume its bench, and returns its content so far. Removes a torn last line, whose boot was not over.
    /// This writes to the file, so first [`read`] the journal and check that its bench may be resumed.
    pub fn resume(path: &Path) -> Result<(Journal, Journaled), JournalError> {
        let file = recording::open_to_append(path).map_err(|why| failed("write", path, why))?;
        let mut journal = Journal { file: locked(file, path)?, path: path.to_owned() };
        journal.repair_last_line()?;
        let journaled = read(path)?;
        Ok((journal, journaled))
    }

    /// Writes that the bench resumes after this number of boots.
    pub fn continued(&mut self, boots: u32) -> Result<(), JournalError> {
        self.line(&Continued { continued: boots })
    }

    /// Terminates the last line if its JSON is complete; else removes it.
    fn repair_last_line(&mut self) -> Result<(), JournalError> {
        let repair = || -> io::Result<()> {
            let mut lines = BufReader::new(&*self.file);
            let mut at = 0;
            while let Some(last) = line(&mut lines)? {
                if last.ends_with(b"\n") || last.len() as u64 == MAX_LINE_BYTES {
                    at += last.len() as u64;
                } else if serde_json::from_slice::<serde_json::Value>(&last).is_ok() {
                    (&*self.file).write_all(b"\n")?;
                } else {
                    self.file.set_len(at)?;
                }
            }
            Ok(())
        };
        repair().map_err(|why| failed("write", &self.path, why))
    }

    /// Writes a boot that is over.
    pub fn boot(&mut self, boot: &Boot) -> Result<(), JournalError> {
        self.line(boot)
    }

    /// Writes the reason why the bench ended.
    pub fn end(&mut self, ended: Ended) -> Result<(), JournalError> {
        self.line(&End { ended })
    }

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

/// The content of a journal.
#[derive(Debug)]
pub struct Journaled {
    /// The bench so far.
    pub document: Document,
    /// Numbers of the lines that cannot be parsed, from 1. A kill can leave one.
    pub damaged: Vec<usize>,
}

/// Reads a journal, complete or not.
pub fn read(path: &Path) -> Result<Journaled, JournalError> {
    let file = recording::open_regular(path).map_err(|why| failed("read", path, why))?;
    let mut lines = BufReader::new(file);
    let mut next = || line(&mut lines).map_err(|why| failed("read", path, why));
    let not_a_journal = |why: String| JournalError::NotAJournal { path: path.to_owned(), why };
    let first = next()?.ok_or_else(|| not_a_journal("is missing".to_owned()))?;
    if let Some(found) = later_schema(&first) {
        return Err(JournalError::Later { path: path.to_owned(), found });
    }
    let head: Head = serde_json::from_slice(&first).map_err(|e| not_a_journal(format!("says: {e}")))?;
    if head.schema != SCHEMA {
        return Err(not_a_journal(format!("has the schema {:?}, not {SCHEMA}", head.schema)));
    }
    // The plan decides which variant each boot has, so the numbers must agree.
    if head.plan.variants != head.variants.len() {
        let (planned, listed) = (head.plan.variants, head.variants.len());
        return Err(not_a_journal(format!("plans {planned} variants, and lists {listed}")));
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
        } else if let Ok(resumed) = serde_json::from_slice::<Continued>(&line) {
            continued.push(resumed.continued);
            // The bench went on after an earlier end.
            ended = None;
            continue;
        }
        damaged.push(number);
    }
    Ok(Journaled { document: Document { continued, ..Document::new(head, boots, ended) }, damaged })
}

/// The schema in a journal's first line or in a document, if a later bootscope wrote it. Reads no other field, because this
/// version need not know the others. Returns `None` for this version's schema and earlier ones.
pub fn later_schema(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let number = |schema: &str| {
        let (kind, number) = schema.split_once('/')?;
        (kind == "bootscope.bench").then(|| number.parse::<u32>().ok())?
    };
    let schema = serde_json::from_slice::<Schema>(json).ok()?.schema;
    (number(&schema)? > number(SCHEMA)?).then_some(schema)
}

/// The next line, cut at [`MAX_LINE_BYTES`]. The rest of a longer line is read as another line, and neither parses as a boot.
fn line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::Measured;
    use crate::{Plan, Stop, Variant};

    fn head() -> Head {
        let stop = Stop { rounds: 3, width: Some(0.1), ..Stop::default() };
        let quiet = Variant { how: serde_json::json!({"append": "quiet"}), ..Variant::named("quiet") };
        let plan = Plan { variants: 1, warm_ups: 0, stop, seed: u64::MAX, ..Plan::default() };
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
            // A line that lacks only its newline is complete.
            let over = sizes[1..].iter().filter(|&&size| size <= cut + 1).count();
            assert_eq!(found.document.boots, [boot(0), boot(1), boot(2)][..over], "{cut}");
            assert!(found.damaged.len() <= 1);
        }
        let found = read(&path).unwrap();
        assert_eq!((found.document.ended, found.document.head), (Some(Ended::NeverReached(0)), head()));
        assert_eq!(found.document.results.variants[0].total.as_ref().unwrap().mean, 1_234_567_890.0);
    }

    #[test]
    fn a_journal_cut_anywhere_resumes_after_its_last_whole_boot() {
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
    fn other_files_are_refused_and_malformed_lines_counted() {
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
