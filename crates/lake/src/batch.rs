//! A batch: files that belong together, one of each table, all with one day and one name.

use crate::Error;
use crate::identity::hex;
use crate::tables::Table;
use recording::{PARTIAL_SUFFIX, check_no_link};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Day and name of a batch. Its files are `TABLE/day=DAY/NAME.parquet`.
#[derive(Serialize, Deserialize)]
pub struct Batch {
    /// Day of the boots: `2026-11-26`.
    pub day: String,
    /// Name: 16 hexadecimal digits.
    pub name: String,
}

impl Batch {
    /// True if day and name have the form that this crate writes. Check this after reading a batch from a file, because its
    /// content may be arbitrary.
    pub fn is_valid(&self) -> bool {
        is_day(&self.day) && is_name(&self.name)
    }

    /// Path of the batch's file of a table.
    pub fn file(&self, lake: &Path, table: &Table) -> PathBuf {
        day_folder(lake, table, &self.day).join(format!("{}.parquet", self.name))
    }

    /// Path of the file while it is being written. The name begins with a dot, because Spark reads all other files of a table's
    /// folder.
    pub fn partial(&self, lake: &Path, table: &Table) -> PathBuf {
        self.file(lake, table).with_file_name(format!(".{}.parquet{PARTIAL_SUFFIX}", self.name))
    }
}

/// The name of a batch, made from the boots in it.
pub fn name_of<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let mut name = hex(&ids.fold(Sha256::new(), |ids, id| ids.chain_update(id)).finalize());
    name.truncate(16);
    name
}

/// True if the text has the form of a day. It then cannot be a path to another folder.
pub fn is_day(day: &str) -> bool {
    day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The folder of a day in a table.
pub fn day_folder(lake: &Path, table: &Table, day: &str) -> PathBuf {
    lake.join(table.name).join(format!("day={day}"))
}

/// Fails if the folder of the table or the day is a symbolic link: files would be written elsewhere.
pub fn check_no_links(lake: &Path, table: &Table, day: &str) -> Result<(), Error> {
    [lake.join(table.name), day_folder(lake, table, day)]
        .iter()
        .try_for_each(|folder| check_no_link(folder).map_err(Error::io("use", folder)))
}

/// The day of a folder, if its name has that form.
pub fn day_of(folder: &Path) -> Option<String> {
    let day = folder.file_name()?.to_str()?.strip_prefix("day=")?;
    is_day(day).then(|| day.to_owned())
}

/// The name of the batch to which a file belongs, if its name has that form.
pub fn name_in(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
    is_name(name).then(|| name.to_owned())
}
