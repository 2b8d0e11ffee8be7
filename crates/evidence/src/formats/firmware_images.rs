//! The programs of UEFI firmware that a recorder saw in guest memory (`firmware-images.txt`), one per line: first address and number of
//! bytes, hexadecimal, the name if it is known, and the word `application` for a program that the firmware does not carry itself: a loader.
//!
//! A program is there for a part of the boot. Ask only for addresses of code that ran before the kernel.

use crate::input::records_max;
use crate::input::text::Lines;
use timeline::{DiagnosticKind, Diagnostics, Phase};

/// The name of the file in a recording.
pub(crate) const FILE: &str = "firmware-images.txt";

/// The modules of EDK2 that begin a phase (Platform Initialization Specification 1.8, volumes 1 and 2), and the word for a loader.
const BEGIN_PHASES: [(&str, Phase); 3] =
    [("PeiCore", Phase::UefiPei), ("DxeCore", Phase::UefiDxe), ("BdsDxe", Phase::UefiBds)];
const IN_NO_VOLUME: &str = "application";

/// The bytes of memory for a program, with the name of a nameless one.
const ROW_COST: usize = 128;

/// Programs by address, without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirmwareImages {
    /// In ascending order.
    rows: Vec<Row>,
}

/// A program.
#[derive(Clone, Debug)]
struct Row {
    first: u64,
    last: u64,
    name: String,
    /// The phase that begins when the program first runs.
    begins: Option<Phase>,
}

impl FirmwareImages {
    /// Reads the file. Counts lines of another form, and those that overlap one above them.
    pub(crate) fn read(place: &str, text: &[u8], diagnostics: &mut Diagnostics) -> FirmwareImages {
        let mut rows: Vec<Row> = Vec::new();
        let (most, mut beyond) = (records_max(text.len(), ROW_COST), 0);
        for line in Lines::new(text) {
            if rows.len() >= most {
                beyond += 1;
                continue;
            }
            let is_behind = |row: &Row| rows.last().is_none_or(|last| last.last < row.first);
            match row(line.bytes).filter(is_behind) {
                Some(row) => rows.push(row),
                None => diagnostics.note(DiagnosticKind::SymbolLineUnreadable, || format!("{place}:{}", line.number)),
            }
        }
        diagnostics.add(DiagnosticKind::EntriesBeyondBound, place, beyond, None, || place.to_owned());
        FirmwareImages { rows }
    }

    /// Returns the name of the program that has an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        self.row(address).map(|row| &*row.name)
    }

    /// Returns the phase that begins when the code at an address first runs.
    pub(crate) fn begins(&self, address: u64) -> Option<Phase> {
        self.row(address)?.begins
    }

    fn row(&self, address: u64) -> Option<&Row> {
        let row = &self.rows[self.rows.partition_point(|row| row.first <= address).checked_sub(1)?];
        (address <= row.last).then_some(row)
    }
}

fn row(line: &[u8]) -> Option<Row> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let number = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
    let (first, bytes) = (number(words.next())?, number(words.next())?);
    let last = first.checked_add(bytes.checked_sub(1)?)?;
    let name = words.next().map_or_else(|| format!("firmware's image at {first:#x}"), str::to_owned);
    let is_loader = match words.next() {
        None => false,
        Some(IN_NO_VOLUME) => true,
        Some(_) => return None,
    };
    let module = || BEGIN_PHASES.iter().find(|(module, _)| *module == name).map(|(_, phase)| *phase);
    let begins = if is_loader { Some(Phase::Loader) } else { module() };
    (!name.is_empty() && words.next().is_none()).then_some(Row { first, last, name, begins })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_program_around_it() {
        let text = b"0000000000820000 1000 PeiCore\n000000007e000000 20\nnonsense\n0000000000820fff 1 Late\n";
        let mut diagnostics = Diagnostics::default();
        let images = FirmwareImages::read("f", text, &mut diagnostics);
        let found = [0x81_ffff, 0x82_0000, 0x82_0fff, 0x82_1000, 0x7e00_001f, 0x7e00_0020].map(|a| images.find(a));
        let nameless = Some("firmware's image at 0x7e000000");
        assert_eq!(found, [None, Some("PeiCore"), Some("PeiCore"), None, nameless, None]);
        let begins = images.begins(0x82_0000);
        assert_eq!((begins, images.begins(0x7e00_0000)), (Some(Phase::UefiPei), None));
        assert_eq!(diagnostics.count(DiagnosticKind::SymbolLineUnreadable), 2);
    }

    #[test]
    fn memory_follows_the_input() {
        let lines = (0..1_000_000u64).map(|number| format!("{:x} 1\n", number * 2));
        let (text, mut diagnostics) = (lines.collect::<String>(), Diagnostics::default());
        let images = FirmwareImages::read("f", text.as_bytes(), &mut diagnostics);
        assert_eq!(images.rows.len() as u64 + diagnostics.count(DiagnosticKind::EntriesBeyondBound), 1_000_000);
        assert!(images.rows.len() * ROW_COST <= 8 * text.len() + (64 << 20) && images.find(0).is_some());
    }

    #[test]
    fn no_text_panics() {
        for text in [&b""[..], b"\n", b"0 0 a", b"ffffffffffffffff 2 a", b"0 1 ", b"0 1 a b", b"\xff 1 a"] {
            let images = FirmwareImages::read("f", text, &mut Diagnostics::default());
            assert_eq!(images.find(0), None);
        }
    }
}
