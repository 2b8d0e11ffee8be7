//! Which boot a recording is of, and tokens of machines' names.

use recording::{Key, Recording};
use sha2::{Digest, Sha256};

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

/// The token of a machine's name: `machine-` and 32 hexadecimal digits (HMAC-SHA-256, RFC 2104). Without the key, nobody can
/// find the name by trying all.
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
