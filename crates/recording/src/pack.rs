//! Making one file of a recording: a tar archive, compressed with zstd.
//!
//! Layout: `<folder>/recording.json` first, then the other files, sorted; no times, no owners, so that the same recording
//! gives the same bytes. What is packed is opened first: nothing is written of what no bootscope could read.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::open::read_file;
use crate::write::{files_in, replace_with};
use crate::{Error, MANIFEST_NAME, Recording, is_plain_name};

const ZSTD_LEVEL: i32 = 9;

/// Packs the recording in the folder `dir` into the file `out`, which must not exist unless `force`.
///
/// # Errors
/// If `dir` is not a recording's folder or is packed already, `out` exists, or reading or writing fails.
pub fn pack(dir: &Path, out: &Path, force: bool) -> Result<(), Error> {
    // Opening it says what is wrong with it, before anything is written.
    Recording::open(dir)?;
    if !dir.is_dir() {
        return Err(Error::PackedAlready { path: dir.to_path_buf() });
    }
    if out.symlink_metadata().is_ok_and(|m| !m.is_file()) {
        return Err(Error::Foreign { path: out.to_path_buf(), why: "it is not a file" });
    }
    if out.exists() && !force {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    replace_with(out, |beside| write_archive(dir, beside, out))
}

fn write_archive(dir: &Path, file: &mut File, path: &Path) -> Result<(), Error> {
    let writing = || Error::io("write", path);
    let zstd = zstd::Encoder::new(file, ZSTD_LEVEL).map_err(writing())?;
    let mut tar = Builder::new(zstd);
    let folder = folder_name(dir);
    let evidence = files_in(dir)?.plain.into_iter().map(|(name, _)| name);
    for name in std::iter::once(MANIFEST_NAME.to_owned()).chain(evidence) {
        let from = dir.join(&name);
        if name == MANIFEST_NAME && !from.exists() {
            continue;
        }
        let bytes = read_file(&from)?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, format!("{folder}/{name}"), bytes.as_slice()).map_err(writing())?;
    }
    let zstd = tar.into_inner().map_err(writing())?;
    zstd.finish().map_err(writing())?;
    Ok(())
}

/// The folder's own name where it is a plain one.
fn folder_name(dir: &Path) -> String {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    match real.file_name().and_then(OsStr::to_str) {
        Some(name) if is_plain_name(name) => name.to_owned(),
        _ => "recording".to_owned(),
    }
}
