//! The journal's export format. It is text, except for fields with control characters. Such a field is a line with its
//! name, eight bytes with the length (little-endian), the value, and a line end (systemd's `JOURNAL_EXPORT_FORMATS`). A
//! token changes the length.

/// The first bytes of a whole exported journal.
const START: &[u8] = b"__CURSOR=";
const LENGTH_BYTES: usize = 8;

/// True for an exported journal that has fields with a length.
pub(crate) fn has_lengths(bytes: &[u8]) -> bool {
    bytes.starts_with(START) && bytes.contains(&0)
}

/// Changes each text of the journal. Returns `None` if the journal is malformed.
pub(crate) fn change_texts(bytes: &[u8], mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n')? + 1;
        let (line, behind) = rest.split_at(end);
        rest = behind;
        if line.len() == 1 || line.contains(&b'=') {
            out.extend(change(line));
            continue;
        }
        let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length < behind.len())?;
        let (value, behind) = behind.split_at(length);
        let value = change(value);
        out.extend_from_slice(line);
        out.extend((value.len() as u64).to_le_bytes());
        out.extend(value);
        rest = behind.strip_prefix(b"\n")?;
        out.push(b'\n');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_length_of_its_token_and_a_cut_journal_is_malformed() {
        let journal = b"__CURSOR=s=1\nMESSAGE\n\x06\0\0\0\0\0\0\0a\x1b\nweb\nX=web\n\n";
        assert!(has_lengths(journal) && !has_lengths(b"__CURSOR=s=1\n"));
        let tokens = |text: &[u8]| String::from_utf8_lossy(text).replace("web", "host-1").into_bytes();
        let expected = b"__CURSOR=s=1\nMESSAGE\n\x09\0\0\0\0\0\0\0a\x1b\nhost-1\nX=host-1\n\n";
        assert_eq!(change_texts(journal, tokens).as_deref(), Some(&expected[..]));
        for length in [15, 22, 28, 33, 35] {
            assert_eq!(change_texts(&journal[..length], tokens), None, "{length}");
        }
    }
}
