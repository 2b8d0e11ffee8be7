//! Identities of boots, and tokens for machines' names.

use recording::{Key, Recording};
use sha2::{Digest, Sha256};

/// Number of bytes kept of a hash. In a lake of 2⁴⁰ boots, the chance that two have the same identity is 10⁻¹⁵.
const KEPT_BYTES: usize = 16;

/// Identity of a recording's boot: 32 hexadecimal digits made from its evidence. So its folder, its packed file and copies of
/// them count as one boot.
///
/// For a boot that bootscope recorded, the hash includes the time, because two deterministic boots may leave the same evidence.
/// For other evidence it includes the machine, if known, because two machines may leave the same evidence. Returns `None` for a
/// recording without evidence. Reads all of the evidence.
///
/// # Errors
/// If a file of the recording cannot be read.
pub fn identity(recording: &Recording, machine: Option<&str>) -> Result<Option<String>, recording::Error> {
    let manifest = recording.manifest();
    // The manifest lists no files that were added later. A killed recorder leaves no list.
    let mut names: Vec<&str> = manifest.evidence.iter().map(|listed| listed.file.as_str()).collect();
    if names.is_empty() {
        names = recording.names().collect();
    }
    names.sort_unstable();
    let mut all = Sha256::new();
    let mut bytes = 0;
    for name in names {
        // Hash the decompressed content, so that `NAME` and `NAME.zst` give the same identity.
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

/// The token of a machine's name: `machine-` and 32 hexadecimal digits (HMAC-SHA-256, RFC 2104). Without the key, the name
/// cannot be found by trying all names.
pub fn token(key: &Key, name: &str) -> String {
    format!("machine-{}", hex(&key.mac(&[name.as_bytes()])))
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().take(KEPT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 6: a key longer than a block.
    #[test]
    fn tokens_are_hmac_sha_256() {
        let token = token(&Key::from_bytes(vec![0xaa; 131]), "Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(token, "machine-60e431591ee0b67f0d8a26aacbf5b77f");
    }
}
