//! Which boot a recording is of, and tokens of machines' names.

use crate::Error;
use hmac::{Hmac, KeyInit, Mac};
use recording::Recording;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// So many bytes has a new key.
const KEY_BYTES: usize = 32;
/// What is read of a key's file.
const KEY_BYTES_MOST: u64 = 4096;
/// Of an identity and of a token so many bytes are kept: in a lake of 2⁴⁰ boots, two are confused with a chance of 10⁻¹⁵.
const KEPT_BYTES: usize = 16;

/// Which boot a recording is of: 32 hexadecimal digits made of its evidence, so that its folder, its packed file and a copy elsewhere are one
/// boot. A boot that bootscope recorded has its time in it too: two counted boots may leave the same evidence. Evidence from
/// elsewhere has the machine, if that is known: two machines may say the same. None of a recording without evidence. Reads all of it.
///
/// # Errors
/// If a file of it cannot be read.
pub fn identity(recording: &Recording, machine: Option<&str>) -> Result<Option<String>, recording::Error> {
    let manifest = recording.manifest();
    // What somebody put beside it later is not listed. A recorder that was killed leaves no list.
    let mut names: Vec<&str> = manifest.evidence.iter().map(|listed| listed.file.as_str()).collect();
    if names.is_empty() {
        names = recording.names().collect();
    }
    names.sort_unstable();
    let mut all = Sha256::new();
    let mut bytes = 0;
    for name in names {
        // Decompressed: that is how readers see it, whether it is stored as `NAME` or as `NAME.zst`.
        let file = recording.read(name)?.unwrap_or_default();
        bytes += file.len();
        all.update(name);
        all.update([0]);
        all.update(Sha256::digest(file));
    }
    match manifest.outcome {
        Some(_) => all.update(&manifest.created),
        None => all.update(machine.unwrap_or_default()),
    }
    Ok((bytes > 0).then(|| hex(&all.finalize())))
}

/// The owner's key, by which names of machines become tokens.
pub struct Key(Vec<u8>);

impl Key {
    /// The key in a file, which is made with a new one if it is not there. Only its owner may read it.
    ///
    /// # Errors
    /// If it can be neither read nor made, or holds none.
    pub fn at(path: &Path) -> Result<Key, Error> {
        if !path.exists() {
            make(path)?;
        }
        let mut key = Vec::new();
        let file = File::open(path).map_err(Error::io("open the key", path))?;
        file.take(KEY_BYTES_MOST).read_to_end(&mut key).map_err(Error::io("read the key", path))?;
        if key.len() < KEY_BYTES {
            return Err(Error::NoKey { path: path.to_owned(), least: KEY_BYTES });
        }
        Ok(Key(key))
    }

    /// The token of a name: `machine-` and 32 hexadecimal digits (HMAC-SHA-256, RFC 2104). Who has no key cannot find the name by trying
    /// all.
    pub fn token(&self, name: &str) -> String {
        // Any length is a key's.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return "machine-".to_owned() };
        mac.update(name.as_bytes());
        format!("machine-{}", hex(&mac.finalize().into_bytes()))
    }
}

fn make(path: &Path) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    }
    let mut key = [0; KEY_BYTES];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(Error::io("read", random))?;
    // Beside its name, then linked to it: of two that make it at once, one wins, and nobody reads half a key.
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(&key).and_then(|()| file.sync_all()));
    let linked = written.and_then(|()| match fs::hard_link(&beside, path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    });
    // It has its name by now, or is not needed.
    let _ = fs::remove_file(&beside);
    linked.map_err(Error::io("make the key", path))
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().take(KEPT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/lake.key");
        let token = Key::at(&path).unwrap().token("host");
        assert_eq!(token.len(), "machine-".len() + 32);
        assert_eq!(Key::at(&path).unwrap().token("host"), token, "the same key is read again");
        assert_ne!(Key::at(&path).unwrap().token("hosts"), token);
        assert_ne!(Key::at(&folder.path().join("other")).unwrap().token("host"), token);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "short").unwrap();
        assert!(matches!(Key::at(&path), Err(Error::NoKey { .. })));
    }

    /// RFC 4231, test case 6: a key longer than a block.
    #[test]
    fn tokens_are_hmac_sha_256() {
        let token = Key(vec![0xaa; 131]).token("Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(token, "machine-60e431591ee0b67f0d8a26aacbf5b77f");
    }
}
