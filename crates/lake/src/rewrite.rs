//! Replaces files of a lake atomically: after a kill at any moment, the replacement is completed or undone.
//!
//! The new files of a day are prepared in a separate folder, with links to the day's files that stay:
//! `.preparing/rows/day=2026-11-26/`. When everything is synced to disk, `.preparing` is renamed to `.rewriting`. From then on
//! the change is decided, and the next holder of the lake's lock completes it. Table by table, `boots` first, one system call
//! exchanges the day's folder for the new one. So a reader of a table sees the old rows or the new ones, never both. Then the
//! old files are removed. A leftover `.preparing` is removed, which undoes the change.
//!
//! Only files with the name of a batch are removed. Other files in a day's folder belong to the user and are moved to the new
//! one.

use crate::Error;
use crate::batch::{Batch, check_no_links, day_folder, is_day, name_in, name_of};
use crate::files::{create_anew, entries, remove, sync_folder};
use crate::machines::machines_in;
use crate::stored::{Stored, kept_boots, merge};
use crate::tables::{Table, TableKind, boots, tables};
use recording::{BYTES_MAX, check_no_link, read_regular};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Folder of a change that is not decided yet.
const PREPARING: &str = ".preparing";
/// Folder of a change that is decided and must be completed.
const REWRITING: &str = ".rewriting";
/// File in that folder with the [`Change`] of each day.
const CHANGES: &str = "changes.json";

/// The change of a day, the same in each table.
#[derive(Default, Serialize, Deserialize)]
struct Change {
    /// Names of batches to remove.
    gone: Vec<String>,
    /// Names of batches to add.
    made: Vec<String>,
}

/// A change in preparation. The caller must hold the lake's lock.
pub struct Rewrite<'a> {
    lake: &'a Path,
    /// The changes by day.
    changes: BTreeMap<String, Change>,
}

impl<'a> Rewrite<'a> {
    /// Starts an empty change. The caller must have completed or undone an earlier one with [`finish`].
    pub fn begin(lake: &'a Path) -> Result<Self, Error> {
        undo(lake)?;
        Ok(Rewrite { lake, changes: BTreeMap::new() })
    }

    /// Merges batches of a day into one with the boots for which `keep(id)` is true. If no boot is kept, only removes them.
    pub fn replace(&mut self, day: &str, gone: Vec<String>, keep: impl Fn(&str) -> bool) -> Result<(), Error> {
        let prepared = self.prepare(day, &gone, keep).inspect_err(|_| drop(undo(self.lake)))?;
        let change = self.changes.entry(day.to_owned()).or_default();
        change.gone.extend(gone);
        change.made.extend(prepared);
        Ok(())
    }

    fn prepare(&self, day: &str, gone: &[String], keep: impl Fn(&str) -> bool) -> Result<Option<String>, Error> {
        let files_of = |table: &Table| -> Result<Vec<Stored>, Error> {
            let path = |name: &String| Batch { day: day.to_owned(), name: name.clone() }.file(self.lake, table);
            // A batch of an earlier bootscope has no files in tables that were added later.
            gone.iter().map(path).filter(|path| path.exists()).map(|path| Stored::open(&path)).collect()
        };
        let kept = kept_boots(&files_of(boots())?, boots(), keep)?;
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
            if table.kind == TableKind::Machines {
                let rows = machines_in(&new.file(&self.lake.join(PREPARING), boots()))?;
                let mut file = create_anew(&path)?;
                rows.write(BufWriter::new(&mut file)).map_err(Error::parquet(&path))?;
                file.sync_all().map_err(Error::io("write", &path))?;
            } else {
                merge(table, &files_of(table)?, &kept, &path)?;
            }
        }
        kill_point();
        Ok(Some(new.name))
    }

    /// Completes the change. When this succeeds, the old files are removed.
    pub fn commit(self) -> Result<(), Error> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.decide().inspect_err(|_| drop(undo(self.lake)))?;
        kill_point();
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
        let mut file = create_anew(&path)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(Error::io("write", &path))?;
        sync_folder(&preparing)?;
        kill_point();
        let rewriting = self.lake.join(REWRITING);
        fs::rename(&preparing, &rewriting).map_err(Error::io("give its name to", &rewriting))?;
        sync_folder(self.lake)
    }
}

/// All tables, `boots` first: a boot is in the lake only if `boots` has it.
fn boots_first() -> impl Iterator<Item = &'static Table> {
    std::iter::once(boots()).chain(tables().iter().filter(|table| table.kind != TableKind::Boots))
}

/// Links a file to another name, or copies it if the file system has no links.
fn link(path: &Path, to: &Path) -> Result<(), Error> {
    fs::hard_link(path, to)
        .or_else(|_| fs::copy(path, to).and_then(|_| File::open(to)).and_then(|file| file.sync_all()))
        .map_err(Error::io("make", to))
}

/// Completes a decided change, and undoes an undecided one.
///
/// # Errors
/// If the system refuses. Calling it again then continues.
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
    // The file may have arbitrary content, so check the names.
    let is_valid = |day: &String, name: &String| Batch { day: day.clone(), name: name.clone() }.is_valid();
    changes.retain(|day, change| is_day(day) && change.gone.iter().chain(&change.made).all(|name| is_valid(day, name)));
    // Folders must not be links to another place.
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
            kill_point();
        }
    }
    fs::rename(&rewriting, lake.join(PREPARING)).map_err(Error::io("rename", &rewriting))?;
    kill_point();
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

/// Exchanges a day's folder for the prepared one, unless that is done already.
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
        kill_point();
        renamed
    };
    if !aside.exists() && !live.exists() {
        rename(prepared, live)?;
    } else if aside.exists() || !exchange_atomically(live, prepared)? {
        // Rename one after the other; for a moment the day's folder does not exist.
        if !aside.exists() {
            rename(live, &aside)?;
        }
        if !live.exists() {
            rename(prepared, live)?;
        }
        rename(&aside, prepared)?;
    }
    kill_point();
    parents().try_for_each(sync_folder)
}

/// Exchanges two folders by one system call. Returns false if the file system does not support it, as NFS.
fn exchange_atomically(a: &Path, b: &Path) -> Result<bool, Error> {
    #[cfg(test)]
    if test_faults::CANNOT_EXCHANGE.get() {
        return Ok(false);
    }
    match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(Error::io("exchange the folder", a)(e.into())),
    }
}

/// Removes the batches' files of an old folder. Moves other files to the new one.
fn clear(old: &Path, live: &Path, change: &Change) -> Result<(), Error> {
    for path in entries(old)? {
        let name = name_in(&path);
        let has_it = path.file_name().is_some_and(|file| live.join(file).exists());
        if name.is_some_and(|name| has_it || change.gone.contains(&name)) {
            remove(&path)?;
        } else {
            fs::create_dir_all(live).map_err(Error::io("make the folder", live))?;
            let to = unused_path(live, &path);
            fs::rename(&path, &to).map_err(Error::io("move", &path))?;
        }
        kill_point();
    }
    // An empty folder has no meaning, so it does not matter if the removal fails.
    if change.made.is_empty() && entries(live)?.is_empty() {
        let _ = fs::remove_dir(live);
    }
    Ok(())
}

/// An unused path in a folder for a file that is moved there.
fn unused_path(folder: &Path, path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    while folder.join(&name).exists() {
        name.push("~");
    }
    folder.join(name)
}

/// A place where tests simulate a kill.
fn kill_point() {
    #[cfg(test)]
    test_faults::kill_point();
}

/// Faults that tests simulate: a kill, and a file system that cannot exchange folders.
#[cfg(test)]
pub mod test_faults {
    use std::cell::Cell;

    thread_local! {
        pub static CANNOT_EXCHANGE: Cell<bool> = const { Cell::new(false) };
        pub static KILL_POINTS_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    pub fn kill_point() {
        if let Some(left) = KILL_POINTS_LEFT.get() {
            KILL_POINTS_LEFT.set(left.checked_sub(1));
            // Like a kill, a panic leaves files in their present state.
            assert!(left > 0, "killed");
        }
    }
}
