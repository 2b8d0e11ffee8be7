//! What bootscope remembers of this host between runs: small JSON files in `$XDG_CACHE_HOME/bootscope`.
//!
//! Each is named by a hash of all that its truth depends on, so nothing is ever updated or invalidated. It is only a
//! memory: where it cannot be read or written, things are found out again.

use std::fs;
use std::path::PathBuf;

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// What was remembered under `kind` for `key`.
pub(crate) fn recall<T: DeserializeOwned>(kind: &str, key: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(file(kind, key)?).ok()?).ok()
}

/// Remembers `value` under `kind` for `key`.
pub(crate) fn remember<T: Serialize>(kind: &str, key: &str, value: &T) {
    let Some(path) = file(kind, key) else {
        return;
    };
    let Ok(text) = serde_json::to_vec(value) else {
        return;
    };
    // By rename, as several may run at once. A failure costs only time, the next time.
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = path.parent().map(fs::create_dir_all);
    if fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path)).is_err() {
        let _ = fs::remove_file(&beside);
    }
}

fn file(kind: &str, key: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let hash: String = Sha256::digest(key).iter().take(16).map(|b| format!("{b:02x}")).collect();
    Some(cache.join("bootscope").join(format!("{kind}-{hash}.json")))
}
