//! `.idx` files: the arrival time of each line of a stream.
//!
//! ```text
//! 0 1523400          <byte offset of the line's first byte> <ns since time zero>
//! 57 1604211
//! ```
//! Offsets and times rise. If the recorder was killed while it wrote a line, that line is cut and counted; the lines
//! before it are used.

use crate::input::text::{Lines, number, skip_spaces};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Arrival times of a stream's lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// Offset of a line's first byte, and the time when that byte arrived. Sorted by offset.
    lines: Vec<(u64, Ns)>,
}

impl Index {
    /// Reads an index. Lines that cannot be read are counted and left out.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Index {
        let mut lines: Vec<(u64, Ns)> = Vec::with_capacity(bytes.len() / 16);
        for line in Lines::new(bytes) {
            let place = || format!("{file}:{}", line.number);
            match entry(line.bytes).filter(|_| line.whole) {
                None => diagnostics.note(DiagnosticKind::IndexLineUnreadable, place),
                Some((offset, _)) if lines.last().is_some_and(|&(last, _)| offset <= last) => {
                    diagnostics.note(DiagnosticKind::IndexLineOutOfOrder, place);
                }
                Some((offset, mut at)) => {
                    if let Some(&(_, last)) = lines.last().filter(|&&(_, last)| at < last) {
                        diagnostics.note(DiagnosticKind::ArrivalClockBack, place);
                        at = last;
                    }
                    lines.push((offset, at));
                }
            }
        }
        Index { lines }
    }

    /// The arrival time of the line that contains the byte at `offset`.
    pub(crate) fn arrival(&self, offset: u64) -> Option<Ns> {
        let after = self.lines.partition_point(|&(start, _)| start <= offset);
        after.checked_sub(1).map(|i| self.lines[i].1)
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if it has no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All lines: the offset of the first byte, and its arrival.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Ns)> + '_ {
        self.lines.iter().copied()
    }
}

fn entry(bytes: &[u8]) -> Option<(u64, Ns)> {
    let (offset, rest) = number(bytes)?;
    let (at, rest) = number(skip_spaces(rest.strip_prefix(b" ")?))?;
    rest.is_empty().then_some((offset, Ns(i64::try_from(at).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_belongs_to_the_line_it_is_in() {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("console.idx", b"0 100\n57 250\n90 250\n", &mut diagnostics);
        assert!(diagnostics.is_empty());
        assert_eq!(index.len(), 3);
        let at = |offset| index.arrival(offset);
        assert_eq!((at(0), at(56), at(57), at(1000)), (Some(Ns(100)), Some(Ns(100)), Some(Ns(250)), Some(Ns(250))));
        assert_eq!(Index::default().arrival(5), None);
    }

    #[test]
    fn malformed_and_disordered_lines_are_counted() {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("a.idx", b"0 100\n0 200\nxyz\n20 50\n30 300\n40 4", &mut diagnostics);
        assert_eq!(index.iter().collect::<Vec<_>>(), [(0, Ns(100)), (20, Ns(100)), (30, Ns(300))]);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::IndexLineUnreadable), 2);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::IndexLineOutOfOrder), 1);
        assert_eq!(diagnostics.count(DiagnosticKind::ArrivalClockBack), 1);
        assert_eq!(diagnostics.iter().next().unwrap().first, "a.idx:2");
    }
}
