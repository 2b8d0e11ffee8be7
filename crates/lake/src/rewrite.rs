//! Replaces files of a lake by others, all at once, whatever happens meanwhile.
//!
//! The new files of a day are prepared in a folder of their own, with links to those of the day's that stay:
//! `.preparing/rows/day=2026-11-26/`. All of it is on the disk when `.preparing` is renamed to `.rewriting`: from then on the change
//! is made, by whoever has the lake's lock next. Table by table, `boots` first, the day's folder is exchanged for the new one,
//! by one call of the system's. So who reads a table finds the old rows or the new ones, and never both. Then the old files are removed. A
//! `.preparing` that somebody left is removed, which undoes the change.
//!
//! Nothing is removed but files that have the name of a batch. What else is in a day's folder is the user's, and is moved to the new one.

use crate::Error;
use crate::batch::{Batch, check_no_links, day_folder, is_day, name_in, name_of};
use crate::files::{anew, entries, remove, sync_folder};
use crate::machines::machines_in;
use crate::stored::{Stored, kept_boots, merge};
use crate::tables::{Of, Table, boots, tables};
use recording::{BYTES_MAX, check_no_link, read_regular};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is not decided yet.
const PREPARING: &str = ".preparing";
/// What is decided, and is to be ended.
const REWRITING: &str = ".rewriting";
/// In it: which files go, and which come.
const CHANGES: &str = "changes.json";

/// What becomes of a day, in each table.
#[derive(Default, Serialize, Deserialize)]
struct Change {
    /// Names of batches that go.
    gone: Vec<String>,
    /// Names of batches that come.
    made: Vec<String>,
}

/// A change that is being prepared. Whoever does that has the lock.
pub struct Rewrite<'a> {
    lake: &'a Path,
    /// By day.
    changes: BTreeMap<String, Change>,
}

impl<'a> Rewrite<'a> {
    /// Nothing is prepared yet. What somebody else prepared must have been ended or undone.
    pub fn begin(lake: &'a Path) -> Result<Self, Error> {
        undo(lake)?;
        Ok(Rewrite { lake, changes: BTreeMap::new() })
    }

    /// Batches of a day become one, which has those of their boots that are kept; or none, if none is kept.
    pub fn replace(&mut self, day: &str, gone: Vec<String>, keep: impl Fn(&str) -> bool) -> Result<(), Error> {
        let prepared = self.prepare(day, &gone, keep).inspect_err(|_| drop(undo(self.lake)))?;
        let change = self.changes.entry(day.to_owned()).or_default();
        change.gone.extend(gone);
        change.made.extend(prepared);
        Ok(())
    }

    fn prepare(&self, day: &str, gone: &[String], keep: impl Fn(&str) -> bool) -> Result<Option<String>, Error> {
        let of = |table: &Table| -> Result<Vec<Stored>, Error> {
            let path = |name: &String| Batch { day: day.to_owned(), name: name.clone() }.file(self.lake, table);
            // A batch of an earlier bootscope has no file in tables that came later.
            gone.iter().map(path).filter(|path| path.exists()).map(|path| Stored::open(&path)).collect()
        };
        let kept = kept_boots(&of(boots())?, boots(), keep)?;
        if kept.is_empty() {
            return Ok(None);
        }
        let mut name = name_of(kept.iter().map(String::as_str));
        while gone.contains(&name) {
            name = name_of([name.as_str()].into_iter());
        }
        let new = Batch { day: day.to_owned(), name };
        for table in boots_first() {
            let path = new.file(&self.lake.join(PREPARING), table);
            let folder = path.parent().unwrap_or(self.lake);
            fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
            if table.of == Of::Machines {
                let rows = machines_in(&new.file(&self.lake.join(PREPARING), boots()))?;
                let mut file = anew(&path)?;
                rows.write(BufWriter::new(&mut file)).map_err(Error::parquet(&path))?;
                file.sync_all().map_err(Error::io("write", &path))?;
            } else {
                merge(table, &of(table)?, &kept, &path)?;
            }
        }
        moment();
        Ok(Some(new.name))
    }

    /// Makes the change. When this returns, the old files are gone.
    pub fn commit(self) -> Result<(), Error> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.decide().inspect_err(|_| drop(undo(self.lake)))?;
        moment();
        finish(self.lake)
    }

    fn decide(&self) -> Result<(), Error> {
        let preparing = self.lake.join(PREPARING);
        for table in tables() {
            for (day, change) in &self.changes {
                check_no_links(self.lake, table, day)?;
                let folder = day_folder(&preparing, table, day);
                fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
                for path in entries(&day_folder(self.lake, table, day))? {
                    if let (Some(name), Some(file)) = (name_in(&path), path.file_name()) {
                        if !change.gone.contains(&name) {
                            link(&path, &folder.join(file))?;
                        }
                    }
                }
                sync_folder(&folder)?;
            }
            sync_folder(&preparing.join(table.name))?;
        }
        let path = preparing.join(CHANGES);
        let text = serde_json::to_vec(&self.changes).unwrap_or_default();
        let mut file = anew(&path)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(Error::io("write", &path))?;
        sync_folder(&preparing)?;
        moment();
        let rewriting = self.lake.join(REWRITING);
        fs::rename(&preparing, &rewriting).map_err(Error::io("give its name to", &rewriting))?;
        sync_folder(self.lake)
    }
}

/// `boots` has a boot, or it is not in the lake: so it goes first.
fn boots_first() -> impl Iterator<Item = &'static Table> {
    std::iter::once(boots()).chain(tables().iter().filter(|table| table.of != Of::Boots))
}

/// The same file under another name; a copy where there are no links.
fn link(path: &Path, to: &Path) -> Result<(), Error> {
    fs::hard_link(path, to)
        .or_else(|_| fs::copy(path, to).and_then(|_| File::open(to)).and_then(|file| file.sync_all()))
        .map_err(Error::io("make", to))
}

/// Ends what was decided, and undoes what was not.
///
/// # Errors
/// If the system refuses; then it can be called again.
pub fn finish(lake: &Path) -> Result<(), Error> {
    undo(lake)?;
    let rewriting = lake.join(REWRITING);
    if !rewriting.exists() {
        return Ok(());
    }
    check_no_link(&rewriting).map_err(Error::io("use", &rewriting))?;
    let path = rewriting.join(CHANGES);
    let text = read_regular(&path, BYTES_MAX).map_err(Error::io("read", &path))?;
    let mut changes: BTreeMap<String, Change> =
        serde_json::from_slice(&text).map_err(|e| Error::Head { path, why: e.to_string() })?;
    // It may say anything: only names that we give are believed.
    let is_ours = |day: &String, name: &String| Batch { day: day.clone(), name: name.clone() }.is_ours();
    changes.retain(|day, change| is_day(day) && change.gone.iter().chain(&change.made).all(|name| is_ours(day, name)));
    // Nor is a folder that leads elsewhere.
    for (day, table) in changes.keys().flat_map(|day| tables().iter().map(move |table| (day, table))) {
        check_no_links(lake, table, day)?;
        check_no_links(&rewriting, table, day)?;
    }
    for table in boots_first() {
        for (day, change) in &changes {
            exchange(&day_folder(lake, table, day), &day_folder(&rewriting, table, day), change)?;
        }
    }
    for table in tables() {
        for (day, change) in &changes {
            clear(&day_folder(&rewriting, table, day), &day_folder(lake, table, day), change)?;
            moment();
        }
    }
    fs::rename(&rewriting, lake.join(PREPARING)).map_err(Error::io("rename", &rewriting))?;
    moment();
    undo(lake)?;
    sync_folder(lake)
}

fn undo(lake: &Path) -> Result<(), Error> {
    let preparing = lake.join(PREPARING);
    match fs::remove_dir_all(&preparing) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove the folder", &preparing)(e)),
        _ => Ok(()),
    }
}

/// Exchanges a day's folder for the one that was prepared, unless that was done.
fn exchange(live: &Path, prepared: &Path, change: &Change) -> Result<(), Error> {
    let has = |name: &String| live.join(format!("{name}.parquet")).exists();
    let aside = prepared.with_extension("aside");
    if !aside.exists() && !change.gone.iter().any(has) && change.made.iter().all(has) {
        return Ok(());
    }
    let parents = || [live, prepared].into_iter().filter_map(Path::parent);
    parents().try_for_each(|folder| fs::create_dir_all(folder).map_err(Error::io("make the folder", folder)))?;
    let rename = |from: &Path, to: &Path| {
        let renamed = fs::rename(from, to).map_err(Error::io("rename", from));
        moment();
        renamed
    };
    if !aside.exists() && !live.exists() {
        rename(prepared, live)?;
    } else if aside.exists() || !at_once(live, prepared)? {
        // One after the other: for a moment the day is not there.
        if !aside.exists() {
            rename(live, &aside)?;
        }
        if !live.exists() {
            rename(prepared, live)?;
        }
        rename(&aside, prepared)?;
    }
    moment();
    parents().try_for_each(sync_folder)
}

/// Exchanges two folders. Not every file system can, such as NFS.
fn at_once(a: &Path, b: &Path) -> Result<bool, Error> {
    #[cfg(test)]
    if pretend::CANNOT_EXCHANGE.get() {
        return Ok(false);
    }
    match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(Error::io("exchange the folder", a)(e.into())),
    }
}

/// Removes the files of an old folder. What is not ours goes to the new one.
fn clear(old: &Path, live: &Path, change: &Change) -> Result<(), Error> {
    for path in entries(old)? {
        let name = name_in(&path);
        let has_it = path.file_name().is_some_and(|file| live.join(file).exists());
        if name.is_some_and(|name| has_it || change.gone.contains(&name)) {
            remove(&path)?;
        } else {
            fs::create_dir_all(live).map_err(Error::io("make the folder", live))?;
            let to = free(live, &path);
            fs::rename(&path, &to).map_err(Error::io("move", &path))?;
        }
        moment();
    }
    // One that is empty now says nothing. Whether it goes does not matter.
    if change.made.is_empty() && entries(live)?.is_empty() {
        let _ = fs::remove_dir(live);
    }
    Ok(())
}

/// A name in a folder that nothing has.
fn free(folder: &Path, path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    while folder.join(&name).exists() {
        name.push("~");
    }
    folder.join(name)
}

/// A kill may come here: in tests one does.
fn moment() {
    #[cfg(test)]
    pretend::moment();
}

/// What tests pretend: a kill, and a file system that cannot exchange folders.
#[cfg(test)]
pub mod pretend {
    use std::cell::Cell;

    thread_local! {
        pub static CANNOT_EXCHANGE: Cell<bool> = const { Cell::new(false) };
        pub static MOMENTS_UNTIL_KILLED: Cell<Option<usize>> = const { Cell::new(None) };
    }

    pub fn moment() {
        if let Some(left) = MOMENTS_UNTIL_KILLED.get() {
            MOMENTS_UNTIL_KILLED.set(left.checked_sub(1));
            // A panic leaves files as they are, as a kill does.
            assert!(left > 0, "killed");
        }
    }
}
