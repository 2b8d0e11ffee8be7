//! Escapes paths for QEMU's command line, where a comma ends a value.

use std::path::Path;

use crate::Error;

/// A path with its commas doubled, as QEMU's comma-separated options require.
pub(crate) fn escaped(path: &Path) -> Result<String, Error> {
    let text = path.to_str().ok_or_else(|| {
        Error::Unusable(format!("{} is not UTF-8, which QEMU's options need: rename or link it", path.display()))
    })?;
    Ok(text.replace(',', ",,"))
}
