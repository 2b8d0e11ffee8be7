//! The programs of UEFI firmware that a recorder saw in guest memory (`firmware-images.txt`), one per line: first address and number of
//! bytes, hexadecimal, and the name of the module or loader, if it is known.
//!
//! A program is there for a part of the boot. Ask only for addresses of code that ran before the kernel.

use crate::input::text::Lines;
use timeline::{DiagnosticKind, Diagnostics};

/// The name of the file in a recording.
pub(crate) const FILE: &str = "firmware-images.txt";

/// Programs by address, without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirmwareImages {
    /// First address, last address and name, in ascending order.
    rows: Vec<(u64, u64, String)>,
}

impl FirmwareImages {
    /// Reads the file. Counts lines of another form, and those that overlap one above them.
    pub(crate) fn read(place: &str, text: &[u8], diagnostics: &mut Diagnostics) -> FirmwareImages {
        let mut rows: Vec<(u64, u64, String)> = Vec::new();
        for line in Lines::new(text) {
            let is_behind = |row: &(u64, u64, String)| rows.last().is_none_or(|last| last.1 < row.0);
            match row(line.bytes).filter(is_behind) {
                Some(row) => rows.push(row),
                None => diagnostics.note(DiagnosticKind::SymbolLineUnreadable, || format!("{place}:{}", line.number)),
            }
        }
        FirmwareImages { rows }
    }

    /// Returns the name of the program that has an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let (_, last, name) = self.rows.get(self.rows.partition_point(|row| row.0 <= address).checked_sub(1)?)?;
        (address <= *last).then_some(name)
    }
}

fn row(line: &[u8]) -> Option<(u64, u64, String)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let number = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
    let (first, bytes) = (number(words.next())?, number(words.next())?);
    let last = first.checked_add(bytes.checked_sub(1)?)?;
    let name = words.next().map_or_else(|| format!("firmware's image at {first:#x}"), str::to_owned);
    (!name.is_empty() && words.next().is_none()).then_some((first, last, name))
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
        assert_eq!(diagnostics.count(DiagnosticKind::SymbolLineUnreadable), 2);
    }

    #[test]
    fn no_text_panics() {
        for text in [&b""[..], b"\n", b"0 0 a", b"ffffffffffffffff 2 a", b"0 1 ", b"0 1 a b", b"\xff 1 a"] {
            let images = FirmwareImages::read("f", text, &mut Diagnostics::default());
            assert_eq!(images.find(0), None);
        }
    }
}
