//! The folder: which boots it has, and how more come in.
//!
//! A batch of boots is a file in the folder of each table, all of one name: `rows/day=2026-11-26/0123456789abcdef.parquet`. It is there also
//! without rows, so that who reads a table finds one. Who adds holds the lake's lock, and first notes the batch's name in
//! `adding.json`. The files are written beside their names and synced; then they get their names, that of `boots` last. So a boot is in the
//! lake when `boots` has it, and a kill leaves at most files of a batch that is noted. Whoever adds next removes these, and nothing else:
//! other files in the folder are the user's.

use crate::columns::{Rows, texts};
use crate::identity::hex;
use crate::key::{Keyed, sorted};
use crate::rows::rows_of;
use crate::tables::{HEAD, SCHEMA, Table, boots, tables};
use crate::{Boot, Error};
use recording::{PARTIAL_SUFFIX, beside};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Which batch is being added.
const ADDING: &str = "adding.json";
/// A head is small, and so is that.
const SMALL_BYTES_MOST: u64 = 1 << 16;

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

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    about: String,
}

/// A batch: its files are `TABLE/day=DAY/NAME.parquet`.
#[derive(Serialize, Deserialize)]
struct Batch {
    day: String,
    name: String,
}

impl Batch {
    /// One that is read may say anything: only names that we give are believed.
    fn is_ours(&self) -> bool {
        let is_day = self.day.len() == 10 && self.day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        is_day && self.name.len() == 16 && self.name.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn file(&self, lake: &Path, table: &Table) -> PathBuf {
        lake.join(table.name).join(format!("day={}", self.day)).join(format!("{}.parquet", self.name))
    }

    /// Until it is whole. Its name begins with a dot: Spark reads every other file of a table's folder.
    fn partial(&self, lake: &Path, table: &Table) -> PathBuf {
        self.file(lake, table).with_file_name(format!(".{}.parquet{PARTIAL_SUFFIX}", self.name))
    }
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
            if entries(path)?.iter().any(|entry| !is_partial(entry)) {
                return Err(Error::NotALake { path: path.to_owned() });
            }
            make_head(&head)?;
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
        self.remove_leftovers()?;
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
        let ids = boots.iter().fold(Sha256::new(), |ids, boot| ids.chain_update(&boot.boot.id));
        let mut name = hex(&ids.finalize());
        name.truncate(16);
        let batch = Batch { day: day.to_owned(), name };
        let adding = self.path.join(ADDING);
        write_whole(&adding, &serde_json::to_vec(&batch).unwrap_or_default())?;
        let added = self.write(&batch, &boots).and_then(|()| self.name(&batch));
        match added {
            Ok(()) => fs::remove_file(&adding).map_err(Error::io("remove", &adding)),
            Err(e) => {
                // What is left of it goes now, or with the next who adds.
                let _ = self.remove_leftovers();
                Err(e)
            }
        }
    }

    /// Writes a batch's files, not under their names yet.
    fn write(&self, batch: &Batch, boots: &[Keyed]) -> Result<(), Error> {
        for table in tables() {
            let mut rows = Rows::new(table);
            boots.iter().for_each(|boot| rows_of(boot, &mut rows));
            let path = batch.partial(&self.path, table);
            let folder = path.parent().unwrap_or(&self.path);
            fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
            let mut file = File::create(&path).map_err(Error::io("make", &path))?;
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

    /// Removes what somebody left who was killed while adding. Whoever calls it has the lock.
    fn remove_leftovers(&self) -> Result<(), Error> {
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
            files.extend(entries(day)?.into_iter().filter(|path| is_parquet(path)));
        }
        Ok(files)
    }
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

/// Waits until nobody else adds. The lock lasts until the file is closed.
fn lock(head: &Path) -> Result<File, Error> {
    // For writing too: NFS takes no exclusive lock of a file that is only read.
    let file = OpenOptions::new().read(true).write(true).open(head).map_err(Error::io("open", head))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::NoLock { path: head.to_owned(), source: e.into() }),
        }
    }
}

/// Writes a file that is there whole or not at all, and for good.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = beside(path).map_err(Error::io("make a file beside", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io("write", path))?;
    file.persist(path).map_err(|e| Error::io("give its name to", path)(e.error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write the folder", folder))
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// The beginning of a file that is small.
fn small(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.take(SMALL_BYTES_MOST).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// What is in a folder, sorted; nothing if it is not there, or is a file.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read the folder", folder))? {
        found.push(entry.map_err(Error::io("read the folder", folder))?.path());
    }
    found.sort();
    Ok(found)
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTIAL_SUFFIX))
}

#[cfg(test)]
mod tests;
