//! The folder: which boots it has, and how more come in.
//!
//! A batch of boots is a file in the folder of each table, all of one name: `rows/day=2026-11-26/0123456789abcdef.parquet`. It is there also
//! without rows, so that who reads a table finds one. Who adds holds the lake's lock, and first notes the batch's name in
//! `adding.json`. The files are written beside their names and synced; then they get their names, that of `boots` last. So a boot is in the
//! lake when `boots` has it, and a kill leaves at most files of a batch that is noted. Whoever adds next removes these, and nothing else:
//! other files in the folder are the user's. How files are replaced by others, `rewrite` says.

use crate::batch::{Batch, check_no_links, day_folder, day_of, name_in, name_of};
use crate::columns::{Rows, texts};
use crate::files::{anew, entries, is_parquet, is_partial, lock, remove, small, sync_folder, write_whole};
use crate::key::{Keyed, sorted};
use crate::machines::machines_in;
use crate::rewrite::{Rewrite, finish};
use crate::rows::rows_of;
use crate::stored::Stored;
use crate::tables::{HEAD, Of, SCHEMA, Table, boots, tables};
use crate::{Boot, Error};
use recording::beside;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Which batch is being added.
const ADDING: &str = "adding.json";
/// A file that compacting makes has no more rows in any table: some tens of MB.
const FILE_ROWS_MOST: usize = 1 << 22;
/// So many become one at once: each is open meanwhile.
const FILES_MOST: usize = 256;
/// So often the folder is looked at again, if files go away while it is.
const LOOKS_MOST: usize = 10;

/// A lake in a folder.
#[derive(Debug)]
pub struct Lake {
    path: PathBuf,
    /// Boots that it had when last looked.
    boots: HashSet<String>,
    /// Files of `boots` that were read for that.
    read: HashSet<PathBuf>,
}

/// What became of boots that were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// So many are new.
    pub new: usize,
    /// So many were there before.
    pub there: usize,
}

/// What compacting did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// So many days were compacted.
    pub days: usize,
    /// So many files a table had in these days.
    pub before: usize,
    /// So many it has.
    pub after: usize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    about: String,
}

impl Lake {
    /// The lake in a folder; an empty folder, or none, becomes one.
    ///
    /// # Errors
    /// If something else is there, a later bootscope made it, or it cannot be read.
    pub fn open(path: &Path) -> Result<Lake, Error> {
        let new: Vec<&Path> =
            path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
        fs::create_dir_all(path).map_err(Error::io("make the folder", path))?;
        // They have their names for good before anything is in them.
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

    /// The lake in a folder that is one.
    ///
    /// # Errors
    /// If it is none, a later bootscope made it, or it cannot be read.
    pub fn existing(path: &Path) -> Result<Lake, Error> {
        let head = path.join(HEAD);
        if !head.exists() {
            return Err(Error::NoLake { path: path.to_owned() });
        }
        let found: Head = serde_json::from_slice(&small(&head)?)
            .map_err(|e| Error::Head { path: head.clone(), why: e.to_string() })?;
        if found.schema != SCHEMA {
            let is_later = found.schema.starts_with("bootscope.lake/");
            return Err(match is_later {
                true => Error::Later { path: path.to_owned(), schema: found.schema },
                false => Error::Head { path: head, why: format!("its schema is {:?}", found.schema) },
            });
        }
        let mut lake = Lake { path: path.to_owned(), boots: HashSet::new(), read: HashSet::new() };
        lake.look()?;
        Ok(lake)
    }

    /// Identities of the boots that it had when last looked.
    pub fn boots(&self) -> &HashSet<String> {
        &self.boots
    }

    /// Adds boots. One that is there, or comes twice, is there once. When this returns, they are on the disk.
    ///
    /// # Errors
    /// If the lake cannot be read or written: then none of them is in it, or, with several days, those of some days.
    pub fn add(&mut self, boots: Vec<Boot>) -> Result<Added, Error> {
        let all = boots.len();
        let _lock = lock(&self.path.join(HEAD))?;
        self.recover()?;
        self.look()?;
        let mut days: BTreeMap<String, Vec<Boot>> = BTreeMap::new();
        for boot in boots {
            if self.boots.insert(boot.id.clone()) {
                days.entry(boot.day()).or_default().push(boot);
            }
        }
        let new = days.values().map(Vec::len).sum();
        for (day, boots) in days {
            if let Err(e) = self.add_day(&day, boots) {
                // Which of them are there, only the folder knows.
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
        write_whole(&adding, &serde_json::to_vec(&batch).unwrap_or_default())?;
        let added = self.write(&batch, &boots).and_then(|()| self.name(&batch));
        match added {
            Ok(()) => fs::remove_file(&adding).map_err(Error::io("remove", &adding)),
            Err(e) => {
                // What is left of it goes now, or with the next who adds.
                let _ = self.undo_adding();
                Err(e)
            }
        }
    }

    /// Writes a batch's files, not under their names yet.
    fn write(&self, batch: &Batch, boots: &[Keyed]) -> Result<(), Error> {
        // Who is counted in `machines` is read from the file of `boots`, as where files are rewritten: so that must be written.
        let (first, others): (Vec<_>, Vec<_>) = tables().iter().partition(|table| table.of == Of::Boots);
        for table in first.into_iter().chain(others) {
            let rows = match table.of {
                Of::Machines => machines_in(&batch.partial(&self.path, crate::tables::boots()))?,
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
            let mut file = anew(&path)?;
            rows.write(BufWriter::new(&mut file)).map_err(Error::parquet(&path))?;
            file.sync_all().map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    /// Gives the files of a batch their names, in order; each is there for good before the next gets its own.
    fn name(&mut self, batch: &Batch) -> Result<(), Error> {
        for table in tables() {
            let path = batch.file(&self.path, table);
            fs::rename(batch.partial(&self.path, table), &path).map_err(Error::io("give its name to", &path))?;
            // The folder, and those above it that may be new with it.
            path.ancestors().skip(1).take(3).try_for_each(sync_folder)?;
        }
        self.read.insert(batch.file(&self.path, boots()));
        Ok(())
    }

    /// Takes in what others added or removed meanwhile.
    fn look(&mut self) -> Result<(), Error> {
        for _ in 1..LOOKS_MOST {
            match self.look_once() {
                // Who has no lock may see files go: somebody compacts.
                Err(e) if e.is_not_found() => (self.boots, self.read) = Default::default(),
                looked => return looked,
            }
        }
        self.look_once()
    }

    fn look_once(&mut self) -> Result<(), Error> {
        let files = self.files(boots())?;
        let there: HashSet<&PathBuf> = files.iter().collect();
        if self.read.iter().any(|path| !there.contains(path)) {
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

    /// Removes every row of boots: those of which `is_it` says so, asked with a boot's identity and its machine. So many were removed.
    /// When this returns, no file has them.
    ///
    /// # Errors
    /// If the lake cannot be read or written: then all of them are in it, or who changes the lake next removes all.
    pub fn forget(&mut self, is_it: impl Fn(&str, Option<&str>) -> bool) -> Result<usize, Error> {
        let _lock = lock(&self.path.join(HEAD))?;
        self.recover()?;
        let mut rewrite = Rewrite::begin(&self.path)?;
        let mut forgotten = 0;
        for path in self.files(boots())? {
            let stored = Stored::open(&path)?;
            let (ids, machines) = (stored.texts("boot_id")?, stored.texts("machine")?);
            let all = ids.into_iter().zip(machines).filter_map(|(id, machine)| Some((id?, machine)));
            let gone: HashSet<String> =
                all.filter(|(id, machine)| is_it(id, machine.as_deref())).map(|(id, _)| id).collect();
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
        self.look()?;
        Ok(forgotten)
    }

    /// Merges small files of each day, or of the days before one. Readers see the same rows all the time.
    ///
    /// # Errors
    /// If the lake cannot be read or written: some days may be compacted then, and no row is lost.
    pub fn compact(&mut self, before: Option<&str>) -> Result<Compacted, Error> {
        let mut all = Compacted::default();
        for day in entries(&self.path.join(boots().name))?.iter().filter_map(|folder| day_of(folder)) {
            if before.is_none_or(|before| day.as_str() < before) {
                // Others may add between two days.
                let _lock = lock(&self.path.join(HEAD))?;
                self.recover()?;
                let done = self.compact_day(&day)?;
                all.days += done.days;
                all.before += done.before;
                all.after += done.after;
            }
        }
        self.look()?;
        Ok(all)
    }

    fn compact_day(&self, day: &str) -> Result<Compacted, Error> {
        let sizes = self.sizes(day)?;
        let (before, mut merged) = (sizes.len(), together(sizes, FILE_ROWS_MOST, FILES_MOST));
        if merged.is_empty() {
            return Ok(Compacted::default());
        }
        // Of very many files some become one, and these then become one.
        while !merged.is_empty() {
            let mut rewrite = Rewrite::begin(&self.path)?;
            for names in merged {
                rewrite.replace(day, names, |_| true)?;
            }
            rewrite.commit()?;
            merged = together(self.sizes(day)?, FILE_ROWS_MOST, FILES_MOST);
        }
        Ok(Compacted { days: 1, before, after: self.sizes(day)?.len() })
    }

    /// The batches of a day, each with the rows of its largest file.
    fn sizes(&self, day: &str) -> Result<Vec<(usize, String)>, Error> {
        let mut sizes = Vec::new();
        for name in entries(&day_folder(&self.path, boots(), day))?.iter().filter_map(|path| name_in(path)) {
            let batch = Batch { day: day.to_owned(), name };
            let mut most = 0;
            for path in tables().iter().map(|table| batch.file(&self.path, table)).filter(|path| path.exists()) {
                most = Stored::open(&path)?.rows().max(most);
            }
            sizes.push((most, batch.name));
        }
        Ok(sizes)
    }

    /// Ends or undoes what somebody began who was killed. Whoever calls it has the lock.
    fn recover(&self) -> Result<(), Error> {
        self.undo_adding()?;
        finish(&self.path)
    }

    /// Removes what somebody left who was killed while adding.
    fn undo_adding(&self) -> Result<(), Error> {
        let adding = self.path.join(ADDING);
        if !adding.exists() {
            return Ok(());
        }
        let noted = serde_json::from_slice(&small(&adding)?).ok();
        if let Some(batch) = noted.filter(Batch::is_ours) {
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
            // Others are the user's.
            files.extend(entries(day)?.into_iter().filter(|path| is_parquet(path) && name_in(path).is_some()));
        }
        Ok(files)
    }
}

/// Which files become one, by their rows: the smallest first, as many as fit.
fn together(mut sizes: Vec<(usize, String)>, rows_most: usize, files_most: usize) -> Vec<Vec<String>> {
    sizes.sort();
    let (mut merged, mut one, mut rows) = (Vec::new(), Vec::new(), 0);
    for (size, name) in sizes {
        if rows + size > rows_most || one.len() == files_most {
            merged.push(std::mem::take(&mut one));
            rows = 0;
        }
        rows += size;
        one.push(name);
    }
    merged.push(one);
    merged.retain(|names| names.len() > 1);
    merged
}

/// Makes a lake of an empty folder. Of two that do it at once, one wins: the file is what is locked, so it must stay the same one.
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
