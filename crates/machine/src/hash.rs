//! The hash that identifies a file's content.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// The number of digits that tell files of one folder apart.
const DIGITS_IN_NAME: usize = 16;

/// The part of a hash that a file name contains.
pub(crate) fn in_name(hash: &str) -> &str {
    &hash[..DIGITS_IN_NAME]
}

/// SHA-256, in hexadecimal digits.
pub(crate) fn hash(mut bytes: impl Read) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match bytes.read(&mut piece)? {
            0 => return Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect()),
            n => hash.update(&piece[..n]),
        }
    }
}
