//! Output files appear under their name only when whole.

use anyhow::Context;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file: first under another name in the same folder, then renamed.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = File::create(partial).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        std::fs::rename(partial, path)
    });
    if written.is_err() {
        // What is there is not the file; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}
