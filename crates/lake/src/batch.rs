//! Which files belong together: of each table one, all of one day and one name.

use crate::Error;
use crate::identity::hex;
use crate::tables::Table;
use recording::{PARTIAL_SUFFIX, check_no_link};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A batch: its files are `TABLE/day=DAY/NAME.parquet`.
#[derive(Serialize, Deserialize)]
pub struct Batch {
    /// Of which day: `2026-11-26`.
    pub day: String,
    /// 16 hexadecimal digits.
    pub name: String,
}

impl Batch {
    /// One that is read may say anything: only names that we give are believed.
    pub fn is_ours(&self) -> bool {
        is_day(&self.day) && is_name(&self.name)
    }

    /// Its file of a table.
    pub fn file(&self, lake: &Path, table: &Table) -> PathBuf {
        day_folder(lake, table, &self.day).join(format!("{}.parquet", self.name))
    }

    /// Until it is whole. Its name begins with a dot: Spark reads every other file of a table's folder.
    pub fn partial(&self, lake: &Path, table: &Table) -> PathBuf {
        self.file(lake, table).with_file_name(format!(".{}.parquet{PARTIAL_SUFFIX}", self.name))
    }
}

/// A name that is made of the boots in the files.
pub fn name_of<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let mut name = hex(&ids.fold(Sha256::new(), |ids, id| ids.chain_update(id)).finalize());
    name.truncate(16);
    name
}

/// Whether it is written as a day is, and so leads nowhere else.
pub fn is_day(day: &str) -> bool {
    day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The folder of a table's day.
pub fn day_folder(lake: &Path, table: &Table, day: &str) -> PathBuf {
    lake.join(table.name).join(format!("day={day}"))
}

/// Refuses a table or a day whose folder is a symbolic link: files would go elsewhere.
pub fn check_no_links(lake: &Path, table: &Table, day: &str) -> Result<(), Error> {
    [lake.join(table.name), day_folder(lake, table, day)]
        .iter()
        .try_for_each(|folder| check_no_link(folder).map_err(Error::io("use", folder)))
}

/// The day of such a folder, if it is one.
pub fn day_of(folder: &Path) -> Option<String> {
    let day = folder.file_name()?.to_str()?.strip_prefix("day=")?;
    is_day(day).then(|| day.to_owned())
}

/// The name of the batch that a file is of, if it is of any.
pub fn name_in(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
    is_name(name).then(|| name.to_owned())
}
