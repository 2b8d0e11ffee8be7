//! A list of symbols that is read again with other addresses only, in a fraction of the time.

use super::List;
use super::lines::{begins, hexadecimal, rows};
use std::sync::{Arc, OnceLock};
use timeline::Diagnostics;

/// A list that was read once, kept for other boots of the same kernel. If a kernel moves to another address at each
/// boot, its lists differ only in addresses, whose order stays the same.
pub(crate) struct Known {
    text: Arc<Vec<u8>>,
    list: Arc<List>,
    /// The offset at which each line begins; empty if a line has another format.
    starts: Vec<u32>,
    /// The lines that are code, in order of address; true for one with the same address as the line before.
    order: Vec<(u32, bool)>,
    begins: Option<usize>,
    diagnostics: Diagnostics,
}

/// The number of digits that an address must have in a list that may be read again with other addresses.
const DIGITS: usize = 16;

impl Known {
    pub(crate) fn read(place: &str, text: Arc<Vec<u8>>) -> Known {
        let mut diagnostics = Diagnostics::default();
        let rows = rows(place, &text, &mut diagnostics);
        let same = |i: usize| i.checked_sub(1).is_some_and(|before| rows[before].address == rows[i].address);
        let order = rows.iter().enumerate().map(|(i, row)| (timeline::number(row.line), same(i))).collect();
        let begins = begins(&rows).map(|row| row.line);
        let list = Arc::new(List::of_rows(&rows));
        let starts = starts(&text).unwrap_or_default();
        Known { text, list, starts, order, begins, diagnostics }
    }

    /// Reads a text that differs only in addresses, with its diagnostics. `None` if a full reading could give a
    /// different result.
    pub(crate) fn again(&self, text: &Arc<Vec<u8>>) -> Option<(Arc<List>, Diagnostics)> {
        if Arc::ptr_eq(&self.text, text) {
            return Some((self.list.clone(), self.diagnostics.clone()));
        }
        let addresses = self.addresses(text)?;
        let mut kept: Vec<u64> = Vec::with_capacity(self.list.len());
        for &(line, is_same) in &self.order {
            let address = addresses[line as usize];
            match kept.last() {
                Some(&last) if is_same != (address == last) || address < last => return None,
                Some(_) if is_same => {}
                _ => kept.push(address),
            }
        }
        // A list that is too long was read without some lines.
        let fits = kept.len() == self.list.len();
        let begins = self.begins.map(|line| addresses[line]);
        let list = List { addresses: kept, names: self.list.names.clone(), begins, by_page: OnceLock::new() };
        fits.then(|| (Arc::new(list), self.diagnostics.clone()))
    }

    /// Returns the address of each line if all the rest of the text is the same. Zero addresses must stay zero.
    fn addresses(&self, text: &[u8]) -> Option<Vec<u64>> {
        if self.starts.is_empty() || text.len() != self.text.len() {
            return None;
        }
        let ends = self.starts.iter().skip(1).map(|&end| end as usize).chain([text.len()]);
        let line = |(start, end): (usize, usize)| {
            let ((was, rest_was), (is, rest)) = (split(&self.text[start..end])?, split(&text[start..end])?);
            (rest_was == rest && (was == 0) == (is == 0)).then_some(is)
        };
        self.starts.iter().map(|&start| start as usize).zip(ends).map(line).collect()
    }
}

/// Returns the offset of each line. `None` if one does not begin with an address of [`DIGITS`] digits and a space.
fn starts(text: &[u8]) -> Option<Vec<u32>> {
    if text.last() != Some(&b'\n') {
        return None;
    }
    let mut starts = vec![0];
    starts.extend(memchr::memchr_iter(b'\n', text).map(|end| u32::try_from(end + 1).unwrap_or(u32::MAX)));
    starts.pop();
    let is_line = |&start: &u32| text.get(start as usize..).is_some_and(|line| split(line).is_some());
    starts.iter().all(is_line).then_some(starts)
}

/// Splits off an address of [`DIGITS`] digits.
fn split(line: &[u8]) -> Option<(u64, &[u8])> {
    let (digits, rest) = line.split_first_chunk::<DIGITS>()?;
    let mut address = 0;
    for &digit in digits {
        address = address << 4 | u64::from(hexadecimal(digit)?);
    }
    (rest.first() == Some(&b' ')).then_some((address, rest))
}
