//! Reads the records of a thread: entries and exits.

use super::NAME;
use crate::input::bytes::Bytes;
use timeline::{DiagnosticKind, Diagnostics, Ns};

const RECORD_BYTES: usize = 16;
/// The value of three fixed bits in each record.
const MARK: u64 = 5;
/// A gap of this length between two records, in ns, is damage: threads are silent for less.
const SILENT_MAX: u64 = 24 * 3600 * 1_000_000_000;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Entry,
    Exit,
    /// Records are missing here.
    Lost,
}

/// An entry, an exit or a loss, with its time and function address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub at: Ns,
    pub edge: Edge,
    pub address: u64,
}

/// True if the bytes begin with a record.
pub(crate) fn recognise(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_BYTES && bytes.len() % 8 == 0 && at(bytes, 0, 0).is_some()
}

/// Returns a stamp and its word if they can be a record that is not before `last`.
fn at(bytes: &[u8], place: usize, last: u64) -> Option<(u64, u64)> {
    let mut bytes = Bytes(bytes.get(place..)?);
    let (stamp, word) = (bytes.u64()?, bytes.u64()?);
    let follows = stamp >= last && (last == 0 || stamp - last < SILENT_MAX);
    (word >> 3 & 7 == MARK && follows && i64::try_from(stamp).is_ok()).then_some((stamp, word))
}

/// The time of the first record.
pub(crate) fn first(bytes: &[u8]) -> Option<Ns> {
    at(bytes, 0, 0).and_then(|(stamp, _)| i64::try_from(stamp).ok()).map(Ns)
}

/// The entries and exits in a file, read one by one.
pub(crate) struct Calls<'b> {
    bytes: &'b [u8],
    place: usize,
    last: u64,
    has_arguments: bool,
    /// The words that are not part of a record.
    unreadable: u64,
}

impl<'b> Calls<'b> {
    pub(crate) fn of(bytes: &'b [u8]) -> Calls<'b> {
        Calls { bytes, place: 0, last: 0, has_arguments: false, unreadable: 0 }
    }

    /// Counts the words that were not part of a record.
    pub(crate) fn count_unreadable(&self, file: &str, diagnostics: &mut Diagnostics) {
        if self.unreadable > 0 {
            diagnostics.add(DiagnosticKind::LinesUnreadable, NAME, self.unreadable, None, || file.to_owned());
        }
    }
}

impl Iterator for Calls<'_> {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        const EVENT: u64 = 3;
        while self.place < self.bytes.len() {
            let Some((stamp, word)) = at(self.bytes, self.place, self.last) else {
                self.unreadable += u64::from(!self.has_arguments);
                self.place += 8;
                continue;
            };
            (self.last, self.has_arguments) = (stamp, word >> 2 & 1 == 1);
            self.place += RECORD_BYTES;
            let edge = match word & 3 {
                0 => Edge::Entry,
                1 => Edge::Exit,
                EVENT => continue,
                _ => Edge::Lost,
            };
            return Some(Call { at: Ns(i64::try_from(stamp).unwrap_or(i64::MAX)), edge, address: word >> 16 });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stamp: u64, kind: u64, more: bool, address: u64) -> Vec<u8> {
        let word = address << 16 | MARK << 3 | u64::from(more) << 2 | kind;
        [stamp.to_le_bytes(), word.to_le_bytes()].concat()
    }

    #[test]
    fn arguments_are_skipped_and_damage_is_counted() {
        let file = [
            record(10, 0, true, 0x1000),
            b"text of an argument 1234".to_vec(),
            record(20, 1, false, 0x1000),
            vec![0; 16],
            record(30, 2, false, 0),
            record(31, 3, false, 7),
        ]
        .concat();
        let mut diagnostics = Diagnostics::default();
        let mut calls = Calls::of(&file);
        let rows: Vec<_> = calls.by_ref().map(|call| (call.at.0, call.edge, call.address)).collect();
        calls.count_unreadable("1.dat", &mut diagnostics);
        assert_eq!(rows, [(10, Edge::Entry, 0x1000), (20, Edge::Exit, 0x1000), (30, Edge::Lost, 0)]);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 2);
        assert!(recognise(&file) && !recognise(b"PERFILE2PERFILE2"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let calls: Vec<Call> = Calls::of(&bytes).collect();
            proptest::prop_assert!(calls.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }
}
