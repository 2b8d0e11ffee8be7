//! Numbers of variable length: LEB128, with zigzag for signed numbers.

/// The reason why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The bytes end within the record.
    Cut,
    /// The record breaks the format.
    Malformed,
}

/// The same bits as a signed number, such as a difference of two addresses.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "the bits are what counts")]
pub(crate) const fn signed(bits: u64) -> i64 {
    bits as i64
}

/// The same bits as an unsigned number.
#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "the bits are what counts")]
pub(crate) const fn unsigned(bits: i64) -> u64 {
    bits as u64
}

/// The output of a writer of records.
pub trait Sink {
    fn byte(&mut self, byte: u8);

    /// Writes a number.
    #[inline(always)]
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.byte(n.to_le_bytes()[0] | 0x80);
            n >>= 7;
        }
        self.byte(n.to_le_bytes()[0]);
    }

    /// Writes a signed number.
    #[inline(always)]
    fn signed(&mut self, n: i64) {
        self.number(unsigned(n << 1 ^ n >> 63));
    }
}

impl Sink for Vec<u8> {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }
}

/// The input of a reader of records.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, at: 0 }
    }

    /// The number of bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// True if all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next byte.
    ///
    /// # Errors
    /// If all bytes were read.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next number.
    ///
    /// # Errors
    /// If the bytes end, or the number has more bits than 64.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Broken> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Broken::Malformed);
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(Broken::Malformed)
    }

    /// The next signed number.
    ///
    /// # Errors
    /// As for [`Bytes::number`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Broken> {
        let n = self.number()?;
        Ok(signed(n >> 1) ^ -signed(n & 1))
    }

    /// The next number, if it fits `N`.
    ///
    /// # Errors
    /// As for [`Bytes::number`], and if the number is too large.
    #[inline]
    pub fn small<N: TryFrom<u64>>(&mut self) -> Result<N, Broken> {
        N::try_from(self.number()?).map_err(|_| Broken::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_numbers_are_read_back(numbers: Vec<u64>, signed: Vec<i64>) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|&n| bytes.number(n));
            signed.iter().for_each(|&n| bytes.signed(n));
            let mut from = Bytes::new(&bytes);
            for n in numbers {
                prop_assert_eq!(from.number(), Ok(n));
            }
            for n in signed {
                prop_assert_eq!(from.signed(), Ok(n));
            }
            prop_assert!(from.is_at_end() && from.number() == Err(Broken::Cut));
        }
    }

    #[test]
    fn the_bytes_of_numbers() {
        let mut bytes = Vec::new();
        [0, 127, 128, u64::MAX].into_iter().for_each(|n| bytes.number(n));
        [-1, 1, i64::MIN].into_iter().for_each(|n| bytes.signed(n));
        let greatest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(bytes, [&[0, 0x7f, 0x80, 1][..], &greatest, &[1, 2], &greatest].concat());
        assert_eq!(Bytes::new(&[0x80; 11]).number(), Err(Broken::Malformed));
        let more_than_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(Bytes::new(&more_than_64_bits).number(), Err(Broken::Malformed));
        assert_eq!(Bytes::new(&[0x80, 4]).small::<u16>(), Ok(512));
        assert_eq!(Bytes::new(&[0x80, 0x80, 4]).small::<u16>(), Err(Broken::Malformed));
    }
}
