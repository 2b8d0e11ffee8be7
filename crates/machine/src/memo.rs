//! Facts about this host that bootscope remembers between runs: small JSON files in `$XDG_CACHE_HOME/bootscope`.
//!
//! Each file is named by a hash of everything that its content depends on, so nothing is ever updated or invalidated. This is only a cache:
//! if it cannot be read or written, the facts are measured again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use recording::{SMALL_BYTES_MAX, read_regular};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The value that was remembered under `kind` for `key`.
pub(crate) fn recall<T: DeserializeOwned>(kind: &str, key: &str) -> Option<T> {
    serde_json::from_slice(&read_regular(&file(kind, key)?, SMALL_BYTES_MAX).ok()?).ok()
}

/// Remembers `value` under `kind` for `key`.
pub(crate) fn remember<T: Serialize>(kind: &str, key: &str, value: &T) {
    let Some(path) = file(kind, key) else {
        return;
    };
    let Ok(text) = serde_json::to_vec(value) else {
        return;
    };
    // A failure costs only time on the next run.
    let _ = path.parent().map(fs::create_dir_all);
    let _ = keep(&path, &text);
}

/// Writes by rename, because several processes may do so at once.
fn keep(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = recording::beside(path)?;
    beside.write_all(text)?;
    beside.persist(path)?;
    Ok(())
}

fn file(kind: &str, key: &str) -> Option<PathBuf> {
    let hash: String = Sha256::digest(key).iter().take(16).map(|b| format!("{b:02x}")).collect();
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_file(format!("{kind}-{hash}.json"))
}
