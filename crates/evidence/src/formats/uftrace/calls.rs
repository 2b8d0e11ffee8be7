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

/// Reads all entries and exits in a file. Counts the words that are not part of a record.
pub(crate) fn all(bytes: &[u8], file: &str, diagnostics: &mut Diagnostics) -> Vec<Call> {
    const EVENT: u64 = 3;
    let mut calls = Vec::new();
    let (mut place, mut last, mut unreadable) = (0, 0, 0u64);
    let mut has_arguments = false;
    while place < bytes.len() {
        let Some((stamp, word)) = at(bytes, place, last) else {
            unreadable += u64::from(!has_arguments);
            place += 8;
            continue;
        };
        (last, has_arguments) = (stamp, word >> 2 & 1 == 1);
        place += RECORD_BYTES;
        let edge = match word & 3 {
            0 => Edge::Entry,
            1 => Edge::Exit,
            EVENT => continue,
            _ => Edge::Lost,
        };
        calls.push(Call { at: Ns(i64::try_from(stamp).unwrap_or(i64::MAX)), edge, address: word >> 16 });
    }
    if unreadable > 0 {
        diagnostics.add(DiagnosticKind::LinesUnreadable, NAME, unreadable, None, || file.to_owned());
    }
    calls
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
        let calls = all(&file, "1.dat", &mut diagnostics);
        let rows: Vec<_> = calls.iter().map(|call| (call.at.0, call.edge, call.address)).collect();
        assert_eq!(rows, [(10, Edge::Entry, 0x1000), (20, Edge::Exit, 0x1000), (30, Edge::Lost, 0)]);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 2);
        assert!(recognise(&file) && !recognise(b"PERFILE2PERFILE2"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let calls = all(&bytes, "1.dat", &mut Diagnostics::default());
            proptest::prop_assert!(calls.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }
}
