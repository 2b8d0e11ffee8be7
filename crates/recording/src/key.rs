//! A secret key in a file of the user. It makes seals and tokens that only this user can make.
//!
//! A key is created at its first use, readable only by its owner. No code here may print it or copy it elsewhere.

use std::fs::{self, File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Error, open_regular};

/// The length of a new key, and the minimum length of an existing one.
const KEY_BYTES: usize = 32;
/// The most bytes read from a key's file.
const MAX_KEY_BYTES: u64 = 4096;

pub struct Key(Vec<u8>);

impl Key {
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Key {
        Key(bytes)
    }

    /// The key in a file, which several users may share. If the file is missing, creates it with a random key.
    ///
    /// # Errors
    /// If the file can be neither read nor created, is not a regular file, or is too short.
    pub fn at(path: &Path) -> Result<Key, Error> {
        Key::read(path, |_| None)
    }

    /// As [`Key::at`], for a file that no other user could have read or written.
    ///
    /// # Errors
    /// As [`Key::at`], and if the file belongs to another user or is open to others.
    pub fn private_at(path: &Path) -> Result<Key, Error> {
        Key::read(path, |meta| match meta {
            _ if meta.uid() != rustix::process::geteuid().as_raw() => Some("it belongs to another user"),
            _ if meta.mode() & 0o077 != 0 => Some("other users may read or write it"),
            _ => None,
        })
    }

    /// Reads or creates a key. `unfit` returns the fault of its file, if any.
    fn read(path: &Path, unfit: impl Fn(&Metadata) -> Option<&'static str>) -> Result<Key, Error> {
        if !path.exists() {
            make(path)?;
        }
        let refused = |why: &'static str| Error::UnfitKey { path: path.to_owned(), why };
        let file = open_regular(path).map_err(Error::io("open the key", path))?;
        let meta = file.metadata().map_err(Error::io("read the key", path))?;
        if let Some(why) = unfit(&meta) {
            return Err(refused(why));
        }
        let mut key = Vec::new();
        file.take(MAX_KEY_BYTES).read_to_end(&mut key).map_err(Error::io("read the key", path))?;
        if key.len() < KEY_BYTES {
            return Err(refused("it is shorter than 32 bytes"));
        }
        Ok(Key(key))
    }

    /// HMAC-SHA-256 (RFC 2104) of the concatenated parts.
    #[must_use]
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

fn make(path: &Path) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    }
    let mut key = [0; KEY_BYTES];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(Error::io("read", random))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only the owner can read temporary files.
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(Error::io("make the key", path))?;
    new.write_all(&key).and_then(|()| new.as_file().sync_all()).map_err(Error::io("make the key", path))?;
    match new.persist_noclobber(path) {
        // If two programs create it at once, one wins, and both use that key.
        Err(failure) if failure.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop).map_err(|failure| Error::io("make the key", path)(failure.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_created_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/lake.key");
        let mac = Key::at(&path).unwrap().mac(&[b"host"]);
        assert_eq!(Key::at(&path).unwrap().mac(&[b"ho", b"st"]), mac, "the same key is read again");
        assert_ne!(Key::at(&folder.path().join("other")).unwrap().mac(&[b"host"]), mac);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_not_the_users_secret_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let why = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            Key::private_at(&path).err().map(|why| why.to_string()).unwrap_or_default()
        };
        assert!(why("short", 0o600).contains("shorter than 32 bytes"));
        assert!(Key::at(&path).is_err());
        assert!(why(&"k".repeat(32), 0o640).contains("other users may read"));
        assert!(Key::at(&path).is_ok(), "a fleet's machines may share one");
        assert_eq!(why(&"k".repeat(32), 0o600), "");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Key::at(&path).err().unwrap().to_string().contains("a FIFO"));
    }

    /// RFC 4231, test case 6: a key longer than a block.
    #[test]
    fn a_mac_is_hmac_sha_256() {
        let mac = Key(vec![0xaa; 131]).mac(&[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        let hex: String = mac[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "60e431591ee0b67f0d8a26aacbf5b77f");
    }
}
