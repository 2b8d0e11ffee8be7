//! Keys of encrypted disks, derived from a passphrase by PBKDF2 with HMAC-SHA512, as FreeBSD's GELI does.
//!
//! It has to be slow, or a passphrase could be guessed. What need not be is doing it twice: disks with one passphrase,
//! one salt and one number of iterations have one key. [`Keyring`] remembers the last key that was derived.

use pbkdf2::pbkdf2_hmac_array;
use pbkdf2::sha2::Sha512;

/// How many bytes of its key a disk keeps, to tell a wrong passphrase.
pub const CHECK_BYTES: usize = 4;
const KEY_BYTES: usize = 64;

/// What an encrypted disk says of its key in its last block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Random, so that one passphrase gives every disk another key.
    pub salt: [u8; 16],
    /// How often the function is applied.
    pub iterations: u32,
    /// What the key begins with.
    pub check: [u8; CHECK_BYTES],
}

/// The last key, and what it was derived from.
pub struct Keyring<'a> {
    passphrase: &'a [u8],
    last: Option<([u8; 16], u32, [u8; KEY_BYTES])>,
    derived: u32,
}

impl<'a> Keyring<'a> {
    /// With one passphrase for all disks, and no key yet.
    pub const fn new(passphrase: &'a [u8]) -> Keyring<'a> {
        Keyring { passphrase, last: None, derived: 0 }
    }

    /// The disk's key; None if the passphrase is not its. Takes as long as its iterations do, unless the last key was
    /// derived from the same.
    pub fn unlock(&mut self, disk: &Metadata) -> Option<[u8; KEY_BYTES]> {
        let key = match self.last {
            Some((salt, iterations, key)) if (salt, iterations) == (disk.salt, disk.iterations) => key,
            _ => self.derive(disk),
        };
        (key[..CHECK_BYTES] == disk.check).then_some(key)
    }

    /// How many keys were derived.
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

    // Of `hashlib.pbkdf2_hmac('sha512', b'correct horse', salt, iterations, 64)`, Python 3.11.
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
        // Other iterations are another key.
        assert_eq!(keyring.unlock(&Metadata { iterations: 3, ..ONE }), None);
        assert_eq!(keyring.derived(), 2);
    }

    #[test]
    fn another_passphrase_opens_nothing() {
        assert_eq!(Keyring::new(b"battery staple").unlock(&Metadata { iterations: 10, ..ONE }), None);
    }
}
