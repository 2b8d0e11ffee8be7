//! Keys of encrypted disks, derived from a passphrase by PBKDF2 with HMAC-SHA512, as FreeBSD's GELI does.
//!
//! Derivation must be slow, so that a passphrase cannot be guessed. But it need not run twice: disks with the same passphrase,
//! salt and number of iterations have the same key. [`Keyring`] remembers the last key that was derived.

use pbkdf2::pbkdf2_hmac_array;
use pbkdf2::sha2::Sha512;

/// Number of bytes of its key that a disk stores, to detect a wrong passphrase.
pub const CHECK_BYTES: usize = 4;
const KEY_BYTES: usize = 64;

/// The data about its key in the last block of an encrypted disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Random, so that one passphrase gives every disk another key.
    pub salt: [u8; 16],
    /// Number of iterations of the derivation.
    pub iterations: u32,
    /// First bytes of the key.
    pub check: [u8; CHECK_BYTES],
}

/// A passphrase and the last key derived from it.
pub struct Keyring<'a> {
    passphrase: &'a [u8],
    /// Salt, iterations and key.
    last: Option<([u8; 16], u32, [u8; KEY_BYTES])>,
    derived: u32,
}

impl<'a> Keyring<'a> {
    /// A keyring with one passphrase for all disks, and no key yet.
    pub const fn new(passphrase: &'a [u8]) -> Keyring<'a> {
        Keyring { passphrase, last: None, derived: 0 }
    }

    /// Returns the disk's key, or `None` if the passphrase is wrong for the disk. Derives the key, unless the last key has the
    /// same salt and iterations.
    pub fn unlock(&mut self, disk: &Metadata) -> Option<[u8; KEY_BYTES]> {
        let key = match self.last {
            Some((salt, iterations, key)) if (salt, iterations) == (disk.salt, disk.iterations) => key,
            _ => self.derive(disk),
        };
        (key[..CHECK_BYTES] == disk.check).then_some(key)
    }

    /// Number of keys derived.
    pub fn derived(&self) -> u32 {
        self.derived
    }

    fn derive(&mut self, disk: &Metadata) -> [u8; KEY_BYTES] {
        let key = pbkdf2_hmac_array::<Sha512, KEY_BYTES>(self.passphrase, &disk.salt, disk.iterations);
        self.last = Some((disk.salt, disk.iterations, key));
        self.derived += 1;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The check bytes are from `hashlib.pbkdf2_hmac('sha512', b'correct horse', salt, iterations, 64)` of Python 3.11.
    const ONE: Metadata = Metadata { salt: *b"lab disk 0 salt.", iterations: 20_000, check: [0x66, 0xb4, 0xd3, 0x04] };
    const OTHER: Metadata =
        Metadata { salt: *b"lab disk 1 salt.", iterations: 20_000, check: [0xeb, 0x9e, 0xab, 0x21] };

    #[test]
    fn keys_are_those_of_another_implementation() {
        let mut keyring = Keyring::new(b"correct horse");
        let key = keyring.unlock(&ONE).unwrap();
        assert_eq!(key[..8], [0x66, 0xb4, 0xd3, 0x04, 0x2a, 0x3b, 0x71, 0x94]);
        assert!(keyring.unlock(&OTHER).is_some_and(|other| other != key));
        assert_eq!(keyring.derived(), 2);
    }

    #[test]
    fn one_salt_is_one_derivation() {
        let mut keyring = Keyring::new(b"correct horse");
        assert_eq!(keyring.unlock(&ONE), keyring.unlock(&ONE));
        assert_eq!(keyring.derived(), 1);
        // Another number of iterations gives another key.
        assert_eq!(keyring.unlock(&Metadata { iterations: 3, ..ONE }), None);
        assert_eq!(keyring.derived(), 2);
    }

    #[test]
    fn another_passphrase_opens_nothing() {
        assert_eq!(Keyring::new(b"battery staple").unlock(&Metadata { iterations: 10, ..ONE }), None);
    }
}
