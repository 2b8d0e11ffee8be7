//! A lake in a folder: lists its boots, adds boots, removes boots and merges files.
//!
//! A batch of boots has a file in the folder of each table, all with one name: `rows/day=2026-11-26/0123456789abcdef.parquet`.
//! A table gets a file even without rows, so that its readers find one. The writer holds the lake's lock, and first writes the
//! batch's name to `adding.json`. It writes the files under temporary names and syncs them; then it renames them, `boots` last.
//! So a boot is in the lake when `boots` has it, and a kill leaves at most files of the batch in `adding.json`. The next writer
//! removes these. It removes no other file, because those belong to the user. `rewrite` describes how files are replaced.

use crate::batch::{Batch, check_no_links, day_folder, day_of, name_in, name_of};
use crate::columns::{Rows, texts};
use crate::files::{
    create_anew, entries, is_parquet, is_partial, lock, read_small, remove, sync_folder, write_atomically,
};
use crate::key::{Keyed, sorted};
use crate::machines::machines_in;
use crate::rewrite::{Rewrite, finish};
use crate::rows::rows_of;
use crate::stored::Stored;
use crate::tables::{HEAD, SCHEMA, Table, TableKind, boots, tables};
use crate::{Boot, Error};
use recording::beside;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Name of the file with the batch that is being added.
const ADDING: &str = "adding.json";
/// Maximum number of rows, in any table, of a file that compacting makes: some tens of MB.
const MAX_FILE_ROWS: usize = 1 << 22;
/// Maximum number of files merged into one at a time, because all of them are open.
const MAX_MERGED_FILES: usize = 256;
/// Maximum number of attempts to read the folder while files disappear.
const MAX_ATTEMPTS: usize = 10;

/// A lake in a folder.
#[derive(Debug)]
pub struct Lake {
    path: PathBuf,
    /// Identities of the boots at the last refresh.
    boots: HashSet<String>,
    /// Files of `boots` that have been read for that.
    read: HashSet<PathBuf>,
}

/// Result of adding boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of new boots.
    pub new: usize,
    /// Number of boots that the lake had already.
    pub there: usize,
}

/// Result of compacting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Number of compacted days.
    pub days: usize,
    /// Number of files per table in these days before.
    pub before: usize,
    /// Number of files per table in these days after.
    pub after: usize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    about: String,
}

impl Lake {
    /// Opens the lake in a folder. Makes a lake of a missing or empty folder.
    ///
    /// # Errors
    /// If the folder has other files, a later bootscope made the lake, or it cannot be read.
    pub fn open(path: &Path) -> Result<Lake, Error> {
        let new: Vec<&Path> =
            path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
        fs::create_dir_all(path).map_err(Error::io("make the folder", path))?;
        // Sync the names of new folders before they get content.
        new.iter().filter_map(|path| path.parent()).try_for_each(sync_folder)?;
        let head = path.join(HEAD);
        if !head.exists() {
            let has_files = entries(path)?.iter().any(|entry| !is_partial(entry));
            match head.exists() {
                // Another program made the lake meanwhile.
                true => {}
                false if has_files => return Err(Error::NotALake { path: path.to_owned() }),
                false => make_head(&head)?,
            }
        }
        Lake::existing(path)
    }

    /// Opens an existing lake.
    ///
    /// # Errors
    /// If the folder is not a lake, a later bootscope made it, or it cannot be read.
    pub fn existing(path: &Path) -> Result<Lake, Error> {
        let head = path.join(HEAD);
        if !head.exists() {
            return Err(Error::NoLake { path: path.to_owned() });
        }
        let header: Head = serde_json::from_slice(&read_small(&head)?)
            .map_err(|e| Error::Head { path: head.clone(), why: e.to_string() })?;
        if header.schema != SCHEMA {
            let is_later = header.schema.starts_with("bootscope.lake/");
            return Err(match is_later {
                true => Error::Later { path: path.to_owned(), schema: header.schema },
                false => Error::Head { path: head, why: format!("its schema is {:?}", header.schema) },
            });
        }
        let mut lake = Lake { path: path.to_owned(), boots: HashSet::new(), read: HashSet::new() };
        lake.refresh()?;
        Ok(lake)
    }

    /// Identities of the boots at the last refresh.
    pub fn boots(&self) -> &HashSet<String> {
        &self.boots
    }

    /// Adds boots. Skips those that the lake has already and repeated ones. When this succeeds, the boots are on disk.
    ///
    /// # Errors
    /// If the lake cannot be read or written. Then it has none of the boots, or, if they have several days, those of some days.
    pub fn add(&mut self, boots: Vec<Boot>) -> Result<Added, Error> {
        let all = boots.len();
        let _lock = lock(&self.path.join(HEAD))?;
        self.recover()?;
        self.refresh()?;
        let mut days: BTreeMap<String, Vec<Boot>> = BTreeMap::new();
        for boot in boots {
            if self.boots.insert(boot.id.clone()) {
                days.entry(boot.day()).or_default().push(boot);
            }
        }
        let new = days.values().map(Vec::len).sum();
        for (day, boots) in days {
            if let Err(e) = self.add_day(&day, boots) {
                // Some days may have been added, so the folder must be read again.
                (self.boots, self.read) = Default::default();
                return Err(e);
            }
        }
        Ok(Added { new, there: all - new })
    }

    fn add_day(&mut self, day: &str, boots: Vec<Boot>) -> Result<(), Error> {
        let boots = sorted(&boots);
        let name = name_of(boots.iter().map(|boot| boot.boot.id.as_str()));
        let batch = Batch { day: day.to_owned(), name };
        let adding = self.path.join(ADDING);
        write_atomically(&adding, &serde_json::to_vec(&batch).unwrap_or_default())?;
        let added = self.write(&batch, &boots).and_then(|()| self.rename(&batch));
        match added {
            Ok(()) => fs::remove_file(&adding).map_err(Error::io("remove", &adding)),
            Err(e) => {
                // Remove the leftovers now; if that fails, the next writer does.
                let _ = self.undo_adding();
                Err(e)
            }
        }
    }

    /// Writes a batch's files under temporary names.
    fn write(&self, batch: &Batch, boots: &[Keyed]) -> Result<(), Error> {
        // Write `boots` first, because `machines` is computed from that file, as when files are rewritten.
        let (first, others): (Vec<_>, Vec<_>) = tables().iter().partition(|table| table.kind == TableKind::Boots);
        for table in first.into_iter().chain(others) {
            let rows = match table.kind {
                TableKind::Machines => machines_in(&batch.partial(&self.path, crate::tables::boots()))?,
                _ => {
                    let mut rows = Rows::new(table);
                    boots.iter().for_each(|boot| rows_of(boot, &mut rows));
                    rows
                }
            };
            let path = batch.partial(&self.path, table);
            let folder = path.parent().unwrap_or(&self.path);
            check_no_links(&self.path, table, &batch.day)?;
            fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
            let mut file = create_anew(&path)?;
            rows.write(BufWriter::new(&mut file)).map_err(Error::parquet(&path))?;
            file.sync_all().map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    /// Gives the files of a batch their final names, in order. Syncs each name before the next.
    fn rename(&mut self, batch: &Batch) -> Result<(), Error> {
        for table in tables() {
            let path = batch.file(&self.path, table);
            fs::rename(batch.partial(&self.path, table), &path).map_err(Error::io("give its name to", &path))?;
            // Sync the folder, and its parents, which may be new.
            path.ancestors().skip(1).take(3).try_for_each(sync_folder)?;
        }
        self.read.insert(batch.file(&self.path, boots()));
        Ok(())
    }

    /// Updates the list of boots with the changes of other processes.
    fn refresh(&mut self) -> Result<(), Error> {
        for _ in 1..MAX_ATTEMPTS {
            match self.refresh_once() {
                // Without the lock, files may disappear while another process compacts.
                Err(e) if e.is_not_found() => (self.boots, self.read) = Default::default(),
                result => return result,
            }
        }
        self.refresh_once()
    }

    fn refresh_once(&mut self) -> Result<(), Error> {
        let files = self.files(boots())?;
        let existing: HashSet<&PathBuf> = files.iter().collect();
        if self.read.iter().any(|path| !existing.contains(path)) {
            (self.boots, self.read) = Default::default();
        }
        for path in files {
            if !self.read.contains(&path) {
                self.boots.extend(texts(&path, "boot_id")?);
                self.read.insert(path);
            }
        }
        Ok(())
    }

    /// Removes the boots for which `should_forget(boot_id, machine)` is true. Returns how many. When this succeeds, no file has any
    /// row of them.
    ///
    /// # Errors
    /// If the lake cannot be read or written. Then it still has all of them, or the next change of the lake removes all of them.
    pub fn forget(&mut self, should_forget: impl Fn(&str, Option<&str>) -> bool) -> Result<usize, Error> {
        let _lock = lock(&self.path.join(HEAD))?;
        self.recover()?;
        let mut rewrite = Rewrite::begin(&self.path)?;
        let mut forgotten = 0;
        for path in self.files(boots())? {
            let stored = Stored::open(&path)?;
            let (ids, machines) = (stored.texts("boot_id")?, stored.texts("machine")?);
            let all = ids.into_iter().zip(machines).filter_map(|(id, machine)| Some((id?, machine)));
            let gone: HashSet<String> =
                all.filter(|(id, machine)| should_forget(id, machine.as_deref())).map(|(id, _)| id).collect();
            if gone.is_empty() {
                continue;
            }
            let (Some(day), Some(name)) = (path.parent().and_then(day_of), name_in(&path)) else {
                return Err(Error::NotOurs { path });
            };
            rewrite.replace(&day, vec![name], |id| !gone.contains(id))?;
            forgotten += gone.len();
        }
        rewrite.commit()?;
        (self.boots, self.read) = Default::default();
        self.refresh()?;
        Ok(forgotten)
    }

    /// Merges small files of each day, or of the days before `before`. Readers always see the same rows.
    ///
    /// # Errors
    /// If the lake cannot be read or written. Some days may be compacted then; no row is lost.
    pub fn compact(&mut self, before: Option<&str>) -> Result<Compacted, Error> {
        let mut all = Compacted::default();
        for day in entries(&self.path.join(boots().name))?.iter().filter_map(|folder| day_of(folder)) {
            if before.is_none_or(|before| day.as_str() < before) {
                // Take the lock for each day, so that others can add in between.
                let _lock = lock(&self.path.join(HEAD))?;
                self.recover()?;
                let done = self.compact_day(&day)?;
                all.days += done.days;
                all.before += done.before;
                all.after += done.after;
            }
        }
        self.refresh()?;
        Ok(all)
    }

    fn compact_day(&self, day: &str) -> Result<Compacted, Error> {
        let sizes = self.sizes(day)?;
        let (before, mut merged) = (sizes.len(), merge_groups(sizes, MAX_FILE_ROWS, MAX_MERGED_FILES));
        if merged.is_empty() {
            return Ok(Compacted::default());
        }
        // A very large number of files is merged in several passes.
        while !merged.is_empty() {
            let mut rewrite = Rewrite::begin(&self.path)?;
            for names in merged {
                rewrite.replace(day, names, |_| true)?;
            }
            rewrite.commit()?;
            merged = merge_groups(self.sizes(day)?, MAX_FILE_ROWS, MAX_MERGED_FILES);
        }
        Ok(Compacted { days: 1, before, after: self.sizes(day)?.len() })
    }

    /// The batches of a day, each with the number of rows of its largest file.
    fn sizes(&self, day: &str) -> Result<Vec<(usize, String)>, Error> {
        let mut sizes = Vec::new();
        for name in entries(&day_folder(&self.path, boots(), day))?.iter().filter_map(|path| name_in(path)) {
            let batch = Batch { day: day.to_owned(), name };
            let mut max_rows = 0;
            for path in tables().iter().map(|table| batch.file(&self.path, table)).filter(|path| path.exists()) {
                max_rows = Stored::open(&path)?.rows().max(max_rows);
            }
            sizes.push((max_rows, batch.name));
        }
        Ok(sizes)
    }

    /// Completes or undoes the change of a killed process. The caller must hold the lock.
    fn recover(&self) -> Result<(), Error> {
        self.undo_adding()?;
        finish(&self.path)
    }

    /// Removes the files of a process that was killed while adding.
    fn undo_adding(&self) -> Result<(), Error> {
        let adding = self.path.join(ADDING);
        if !adding.exists() {
            return Ok(());
        }
        let noted = serde_json::from_slice(&read_small(&adding)?).ok();
        if let Some(batch) = noted.filter(Batch::is_valid) {
            let is_whole = batch.file(&self.path, boots()).exists();
            for table in tables() {
                remove(&batch.partial(&self.path, table))?;
                if !is_whole {
                    remove(&batch.file(&self.path, table))?;
                }
            }
        }
        remove(&adding)
    }

    /// The files of a table, in order.
    fn files(&self, table: &Table) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        let is_day = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("day="));
        for day in entries(&self.path.join(table.name))?.iter().filter(|path| is_day(path)) {
            // Other files belong to the user.
            files.extend(entries(day)?.into_iter().filter(|path| is_parquet(path) && name_in(path).is_some()));
        }
        Ok(files)
    }
}

/// Groups the files to merge, by their numbers of rows: the smallest first, as many as fit.
fn merge_groups(mut sizes: Vec<(usize, String)>, max_rows: usize, max_files: usize) -> Vec<Vec<String>> {
    sizes.sort();
    let (mut merged, mut group, mut rows) = (Vec::new(), Vec::new(), 0);
    for (size, name) in sizes {
        if rows + size > max_rows || group.len() == max_files {
            merged.push(std::mem::take(&mut group));
            rows = 0;
        }
        rows += size;
        group.push(name);
    }
    merged.push(group);
    merged.retain(|names| names.len() > 1);
    merged
}

/// Makes a lake of an empty folder. If two processes do so at the same time, one wins: the file is the lock, so it must not be
/// replaced.
fn make_head(head: &Path) -> Result<(), Error> {
    let about =
        "https://parquet.apache.org: a folder a table, a folder a day; bootscope's docs/lake.md names each column";
    let new = Head { schema: SCHEMA.to_owned(), about: about.to_owned() };
    let mut text = serde_json::to_vec_pretty(&new).unwrap_or_default();
    text.push(b'\n');
    let mut file = beside(head).map_err(Error::io("make a file beside", head))?;
    file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(Error::io("write", head))?;
    match file.persist_noclobber(head) {
        Err(e) if e.error.kind() != io::ErrorKind::AlreadyExists => Err(Error::io("give its name to", head)(e.error)),
        _ => head.parent().map_or(Ok(()), sync_folder),
    }
}

#[cfg(test)]
mod tests;
