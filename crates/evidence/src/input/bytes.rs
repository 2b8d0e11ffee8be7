//! Reads consecutive numbers and texts, little-endian. At the end of the file, each method returns `None`.

/// The bytes that have not been read yet.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The bytes of a file from an offset on.
    pub(crate) fn from(file: &'a [u8], at: u64) -> Option<Bytes<'a>> {
        file.get(usize::try_from(at).ok()?..).map(Bytes)
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next text up to a NUL, which is skipped.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.0)?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Some(text)
    }

    fn number(&mut self, length: u64) -> Option<u64> {
        Some(self.take(length)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.number(2).and_then(|value| u16::try_from(value).ok())
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.number(4).and_then(|value| u32::try_from(value).ok())
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    /// The bytes after their length. The length itself takes `length_bytes` bytes: four or eight.
    pub(crate) fn sized(&mut self, length_bytes: u64) -> Option<&'a [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }

    /// Reads `text`, which must come next.
    pub(crate) fn expect(&mut self, text: &[u8]) -> Option<()> {
        (self.take(text.len() as u64)? == text).then_some(())
    }
}
