//! The journal's export format. It is text, but for fields with control characters: a line with the field's name, eight bytes with the
//! length (little-endian), the value, and a line end (systemd's `JOURNAL_EXPORT_FORMATS`). A token changes the length.

/// The first bytes of a journal that is exported whole.
const START: &[u8] = b"__CURSOR=";
const LENGTH_BYTES: usize = 8;

/// True if bytes are an exported journal that has fields with a length.
pub(crate) fn is_measured(bytes: &[u8]) -> bool {
    bytes.starts_with(START) && bytes.contains(&0)
}

/// The journal with each text changed; `None` if it breaks its format.
pub(crate) fn changed(bytes: &[u8], mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
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
    fn a_field_has_the_length_of_its_token_and_what_is_cut_is_none() {
        let journal = b"__CURSOR=s=1\nMESSAGE\n\x06\0\0\0\0\0\0\0a\x1b\nweb\nX=web\n\n";
        assert!(is_measured(journal) && !is_measured(b"__CURSOR=s=1\n"));
        let tokens = |text: &[u8]| String::from_utf8_lossy(text).replace("web", "host-1").into_bytes();
        let expected = b"__CURSOR=s=1\nMESSAGE\n\x09\0\0\0\0\0\0\0a\x1b\nhost-1\nX=host-1\n\n";
        assert_eq!(changed(journal, tokens).as_deref(), Some(&expected[..]));
        for length in [15, 22, 28, 33, 35] {
            assert_eq!(changed(&journal[..length], tokens), None, "{length}");
        }
    }
}
