//! The folder of a bisection. It keeps the measurements, so that the same command resumes a stopped or killed bisection.
//!
//! `range.json` identifies the search. `step-0001`, `step-0002`, … are benches of two commits each: the good end and another.
//! In a search by instructions, each is one boot of one image. Each commit that cannot be measured is a line of
//! `cannot-say.jsonl`. The finished boots of a killed step count.

use super::exact::Counted;
use super::{Commit, Search, log_ratios};
use crate::journal::{JOURNAL, read};
use recording::{SMALL_BYTES_MAX, read_regular, read_regular_text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the file that identifies the search.
pub const SEARCH: &str = "range.json";
/// Key of the setting that holds a variant's commit.
pub const COMMIT: &str = "commit";
/// Key of the setting that holds the hash of a variant's kernel.
pub const IMAGE: &str = "image";
/// Name of the file that lists the commits that cannot be measured, one per line.
const CANNOT_SAY: &str = "cannot-say.jsonl";

/// Identity of a search. Pairs of boots measured for another search do not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchOf {
    schema: String,
    good: String,
    bad: String,
    build: String,
    kernel: PathBuf,
    how: serde_json::Value,
}

/// A commit that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failed {
    /// Full hash of the commit.
    pub commit: String,
    /// The reason.
    pub why: String,
}

/// An error in using the folder.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The folder belongs to another search.
    #[error("{0} is of another search (other ends, build or options): give another folder with -o")]
    OfAnother(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// The measurements of a search, kept in its folder.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    /// Logarithms of commit ÷ good end of each pair of boots, by good end and commit.
    pairs: BTreeMap<(String, String), Vec<f64>>,
    /// The count of each boot, by image and layout, with the number of its step.
    counts: BTreeMap<(String, u32), (Counted, u32)>,
    /// The image of each commit that was booted.
    images: BTreeMap<String, String>,
    cannot_say: BTreeMap<String, String>,
    steps: u32,
}

impl SearchOf {
    /// A kind of search from `good` to `bad` with a build command, the kernel's path in the tree, and the recorder's options.
    pub fn new(
        kind: &str,
        [good, bad]: [&Commit; 2],
        build: String,
        kernel: PathBuf,
        how: serde_json::Value,
    ) -> SearchOf {
        let (good, bad) = (good.id.clone(), bad.id.clone());
        SearchOf { schema: format!("bootscope.{kind}-of/1"), good, bad, build, kernel, how }
    }
}

impl Memory {
    /// Reads the folder, or initializes it if it is empty. The folder must exist.
    ///
    /// # Errors
    /// If the folder belongs to another search, or cannot be read or written.
    pub fn open(folder: &Path, identity: &SearchOf) -> Result<Memory, MemoryError> {
        let path = folder.join(SEARCH);
        match read_regular(&path, SMALL_BYTES_MAX) {
            Ok(text) if serde_json::from_slice::<SearchOf>(&text).is_ok_and(|stored| stored == *identity) => {}
            Ok(_) => return Err(MemoryError::OfAnother(path)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => write_identity(&path, identity)?,
            Err(why) => return Err(failed("read", path, why)),
        }
        let mut memory = Memory {
            folder: folder.to_owned(),
            pairs: BTreeMap::new(),
            counts: BTreeMap::new(),
            images: BTreeMap::new(),
            cannot_say: BTreeMap::new(),
            steps: 0,
        };
        for line in read_regular_text(&folder.join(CANNOT_SAY), SMALL_BYTES_MAX).unwrap_or_default().lines() {
            // The last line may be torn.
            if let Ok(failed) = serde_json::from_str::<Failed>(line) {
                memory.cannot_say.insert(failed.commit, failed.why);
            }
        }
        memory.read_steps();
        Ok(memory)
    }

    fn read_steps(&mut self) {
        while self.step(self.steps + 1).exists() {
            self.steps += 1;
            // A step that was killed before its first line has no measurements.
            let Ok(journaled) = read(&self.step(self.steps).join(JOURNAL)) else { continue };
            let value = |variant: usize, key: &str| {
                let settings = &journaled.document.head.variants.get(variant)?.settings;
                settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone())
            };
            if let (Some(good), Some(other)) = (value(0, COMMIT), value(1, COMMIT)) {
                self.pairs.entry((good, other)).or_default().extend(log_ratios(&journaled.document));
            }
            for variant in 0..journaled.document.head.variants.len() {
                self.images.extend(value(variant, COMMIT).zip(value(variant, IMAGE)));
            }
            let is_pair = journaled.document.head.variants.len() > 1;
            let Some(image) = value(0, IMAGE).filter(|_| !is_pair) else { continue };
            for boot in &journaled.document.boots {
                if let Some(layout) = boot.round {
                    self.counts.insert((image.clone(), layout), (Counted::of(&boot.measured), self.steps));
                }
            }
        }
    }

    /// The count of the boot of an image with a layout. `None` if it was not booted.
    pub fn count(&self, image: &str, layout: u32) -> Option<Counted> {
        self.counts.get(&(image.to_owned(), layout)).map(|(count, _)| *count)
    }

    /// Folders of the steps that booted an image, by layout.
    pub fn steps_of(&self, image: &str) -> Vec<PathBuf> {
        let all = self.counts.range((image.to_owned(), 0)..=(image.to_owned(), u32::MAX));
        all.map(|(_, (_, step))| self.step(*step)).collect()
    }

    /// Adds the count of a boot of the newest step. Its journal must be on disk already.
    pub fn learn_count(&mut self, image: &str, layout: u32, count: Counted) {
        self.counts.insert((image.to_owned(), layout), (count, self.steps));
    }

    /// Number of images and of boots that were counted.
    pub fn images_and_boots(&self) -> (usize, usize) {
        let images: BTreeSet<&str> = self.counts.keys().map(|(image, _)| image.as_str()).collect();
        (images.len(), self.counts.len())
    }

    /// True if a commit cannot be measured.
    pub fn is_skipped(&self, commit: &Commit) -> bool {
        self.cannot_say.contains_key(&commit.id)
    }

    /// Passes the measurements of a line of commits to its search. The first commit of the line is its good end.
    pub fn tell(&self, line: &[Commit], search: &mut Search) {
        let Some(good) = line.first() else { return };
        for (place, commit) in line.iter().enumerate() {
            if let Some(image) = self.images.get(&commit.id) {
                search.learn_image(place, image.clone());
            }
        }
        for (place, commit) in line.iter().enumerate().skip(1) {
            let logs = self.logs(good, commit);
            if self.is_skipped(commit) {
                search.skip(place);
            } else if !logs.is_empty() {
                search.tell(place, logs.iter().copied());
            }
        }
    }

    /// Logarithms of commit ÷ good end, for all pairs of boots of the two.
    pub fn logs(&self, good: &Commit, commit: &Commit) -> &[f64] {
        self.pairs.get(&(good.id.clone(), commit.id.clone())).map_or(&[], Vec::as_slice)
    }

    /// Number of commits with pairs of boots, and number of pairs in all.
    pub fn commits_and_pairs(&self) -> (usize, usize) {
        (self.pairs.len(), self.pairs.values().map(Vec::len).sum())
    }

    /// True if an earlier run began a step.
    pub fn goes_on(&self) -> bool {
        self.steps > 0
    }

    /// Commits that cannot be measured, with the reasons.
    pub fn cannot_say(&self) -> Vec<Failed> {
        self.cannot_say.iter().map(|(commit, why)| Failed { commit: commit.clone(), why: why.clone() }).collect()
    }

    /// Path for the folder of the next step, which does not exist yet.
    pub fn next_folder(&mut self) -> PathBuf {
        self.steps += 1;
        self.step(self.steps)
    }

    /// Adds pairs of boots. Their journal must be on disk already.
    pub fn learn(&mut self, good: &Commit, commit: &Commit, logs: &[f64]) {
        self.pairs.entry((good.id.clone(), commit.id.clone())).or_default().extend(logs);
    }

    /// Records that a commit cannot be measured.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn skip(&mut self, commit: &Commit, why: String) -> Result<(), MemoryError> {
        let path = self.folder.join(CANNOT_SAY);
        let skipped = Failed { commit: commit.id.clone(), why };
        let line = serde_json::to_string(&skipped).expect("plain data always serializes") + "\n";
        append_line(&path, &line).map_err(|why| failed("write", path, why))?;
        self.cannot_say.insert(skipped.commit, skipped.why);
        Ok(())
    }

    fn step(&self, number: u32) -> PathBuf {
        self.folder.join(format!("step-{number:04}"))
    }
}

/// Appends a line. Terminates a torn last line first, or this line would be lost with it.
fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let newline = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{newline}{line}").as_bytes())
}

fn write_identity(path: &Path, identity: &SearchOf) -> Result<(), MemoryError> {
    let text = serde_json::to_vec_pretty(identity).expect("plain data always serializes");
    let write = || -> io::Result<()> {
        let mut file = recording::beside(path)?;
        file.write_all(&text)?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|why| failed("write", path.to_owned(), why))
}

fn failed(doing: &'static str, path: PathBuf, why: io::Error) -> MemoryError {
    MemoryError::Io { doing, path, why }
}

#[cfg(test)]
mod tests {
    use super::super::Step;
    use super::*;
    use crate::head::{Head, Setting, Variant};
    use crate::journal::Journal;
    use crate::runs::{Boot, Measured, Plan, Stop};
    use std::fs;

    fn commit(id: &str) -> Commit {
        Commit { id: id.to_owned(), tree: String::new(), parents: Vec::new(), subject: String::new() }
    }

    fn of(build: &str) -> SearchOf {
        let how = serde_json::json!({"cpus": 1});
        SearchOf::new("bisect", [&commit("good"), &commit("bad")], build.to_owned(), "bzImage".into(), how)
    }

    /// Writes a step's bench as a killed program leaves it after these boots: variant, round and length.
    fn boots(folder: &Path, commits: [&str; 2], boots: &[(usize, u32, i64)]) {
        let stop = Stop { rounds: 5, ..Stop::default() };
        let plan = Plan { variants: 2, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let variant = |id: &str| {
            let settings = vec![Setting { key: COMMIT.to_owned(), value: id.to_owned() }];
            Variant { settings, ..Variant::named(id) }
        };
        let head = Head::of(plan, commits.map(variant).to_vec());
        let mut journal = Journal::create(&folder.join(JOURNAL), &head).unwrap();
        for (number, &(variant, round, total_ns)) in (0..).zip(boots) {
            let measured = Measured { total_ns: Some(total_ns), ..Measured::default() };
            journal.boot(&Boot { number, round: Some(round), variant, began_ns: 0, measured }).unwrap();
        }
    }

    #[test]
    fn a_killed_search_resumes_with_its_measurements() {
        let folder = tempfile::tempdir().unwrap();
        let line = ["good", "a", "b", "bad"].map(commit);
        let mut memory = Memory::open(folder.path(), &of("make")).unwrap();
        assert!(!memory.goes_on());
        // A boot without its pair does not count, nor does a step that was killed before its first line.
        boots(&memory.next_folder(), ["good", "bad"], &[(0, 0, 100), (1, 0, 200), (0, 1, 100)]);
        fs::create_dir(memory.next_folder()).unwrap();
        boots(&memory.next_folder(), ["good", "bad"], &[(1, 0, 100), (0, 0, 200)]);
        memory.skip(&line[1], "it does not build".to_owned()).unwrap();
        let torn = folder.path().join(CANNOT_SAY);
        OpenOptions::new().append(true).open(torn).unwrap().write_all(b"{\"commit\":\"b\",").unwrap();

        let mut again = Memory::open(folder.path(), &of("make")).unwrap();
        assert!(again.goes_on());
        assert_eq!(again.commits_and_pairs(), (1, 2));
        assert_eq!(again.logs(&line[0], &line[3]), [2_f64.ln(), 0.5_f64.ln()]);
        assert!(again.logs(&line[0], &line[1]).is_empty());
        assert_eq!(again.cannot_say(), [Failed { commit: "a".to_owned(), why: "it does not build".to_owned() }]);
        let next = again.next_folder();
        assert!(next.ends_with("step-0004") && !next.exists());

        let (mut told, mut expected) = (Search::new(3), Search::new(3));
        again.tell(&line, &mut told);
        expected.skip(1);
        expected.tell(3, [2_f64.ln(), 0.5_f64.ln()]);
        assert_eq!((told.measured(), told.next()), (expected.measured(), expected.next()));
        assert!(matches!(told.next(), Step::Measure { commit: 3, .. }), "{:?}", told.next());
        again.skip(&line[3], "it does not boot".to_owned()).unwrap();
        let again = Memory::open(folder.path(), &of("make")).unwrap();
        let said: Vec<String> = again.cannot_say().into_iter().map(|failed| failed.commit).collect();
        assert_eq!(said, ["a", "bad"], "the torn line takes none with it");
        let mut without_an_end = Search::new(3);
        again.tell(&line, &mut without_an_end);
        assert!(matches!(without_an_end.next(), Step::Done(_)));
    }

    #[test]
    fn a_folder_belongs_to_one_search() {
        let folder = tempfile::tempdir().unwrap();
        Memory::open(folder.path(), &of("make")).unwrap();
        let error = Memory::open(folder.path(), &of("make -j2")).unwrap_err();
        assert!(error.to_string().contains("another search") && error.to_string().contains("range.json"), "{error}");
        fs::write(folder.path().join(SEARCH), "no JSON").unwrap();
        assert!(matches!(Memory::open(folder.path(), &of("make")), Err(MemoryError::OfAnother(_))));
        let gone = folder.path().join("gone");
        let error = Memory::open(&gone, &of("make")).unwrap_err();
        assert!(matches!(error, MemoryError::Io { doing: "write", .. }), "{error}");
    }
}
