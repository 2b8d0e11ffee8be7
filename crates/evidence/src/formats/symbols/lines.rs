//! Reads the lines of a list of symbols: `ffffffff81000000 T _stext`.

use super::aliases::Kind;
use crate::input::records_max;
use timeline::{DiagnosticKind, Diagnostics};

/// The bytes of memory for a line, while it is read and in the list.
const ROW_BYTES: usize = 160;

/// A line of a list that is code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub address: u64,
    pub kind: Kind,
    pub name: &'a str,
    /// The line's index.
    pub line: usize,
}

/// Reads the code of a list, in order of address. The sort is stable: rows of one address keep the list's order.
pub(super) fn rows<'a>(place: &str, text: &'a [u8], diagnostics: &mut Diagnostics) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = Vec::new();
    let (most, mut beyond) = (records_max(text.len(), ROW_BYTES), 0);
    lines(place, text, diagnostics, |line, address, kind, name| match rows.len() < most {
        true => rows.push(Row { address, kind, name, line }),
        false => beyond += 1,
    });
    diagnostics.add(DiagnosticKind::EntriesBeyondBound, place, beyond, None, || place.to_owned());
    rows.sort_by_key(|row| row.address);
    rows
}

/// Returns the row at which a kernel's image begins: the first line of that name.
pub(super) fn begins<'r, 'a>(rows: &'r [Row<'a>]) -> Option<&'r Row<'a>> {
    let named = |wanted: &str| rows.iter().filter(|row| row.name == wanted).min_by_key(|row| row.line);
    named("_text").or_else(|| named("_stext"))
}

/// Calls `function` for each line that is code. Counts malformed lines.
fn lines<'a>(
    place: &str,
    text: &'a [u8],
    diagnostics: &mut Diagnostics,
    mut function: impl FnMut(usize, u64, Kind, &'a str),
) {
    let ends = memchr::memchr_iter(b'\n', text).chain([text.len()]);
    let mut start = 0;
    for (i, end) in ends.enumerate() {
        let line = &text[start..end];
        start = (end + 1).min(text.len());
        match parse(line) {
            Some((0, ..)) if i > 8 => {
                diagnostics.note(DiagnosticKind::SymbolAddressHidden, || format!("{place}:{}", i + 1))
            }
            Some((address, b't' | b'T', name)) if address != 0 => function(i, address, Kind::Code, name),
            Some((address, b'w' | b'W', name)) if address != 0 => function(i, address, Kind::Weak, name),
            Some(_) => {}
            None if line.is_empty() => {}
            None => diagnostics.note(DiagnosticKind::SymbolLineUnreadable, || format!("{place}:{}", i + 1)),
        }
    }
}

fn parse(line: &[u8]) -> Option<(u64, u8, &str)> {
    let mut address = 0u64;
    let mut digits = 0;
    let kind_and_name = loop {
        match *line.get(digits)? {
            b' ' => break &line[digits..],
            byte => address = address << 4 | u64::from(hexadecimal(byte)?),
        }
        digits += 1;
    };
    let [b' ', kind, b' ', name @ ..] = kind_and_name else { return None };
    let name = name.split(|b| b.is_ascii_whitespace()).next()?;
    let fits = (1..=16).contains(&digits) && !name.is_empty();
    fits.then_some((address, *kind, std::str::from_utf8(name).ok()?))
}

/// The value of a hexadecimal digit.
pub(super) fn hexadecimal(digit: u8) -> Option<u8> {
    HEX[usize::from(digit)]
}

/// The value of each byte as a hexadecimal digit.
const HEX: [Option<u8>; 256] = {
    let mut worth = [None; 256];
    let mut digit = 0;
    while digit < 16 {
        let character = b"0123456789abcdef"[digit as usize];
        worth[character as usize] = Some(digit);
        worth[character.to_ascii_uppercase() as usize] = Some(digit);
        digit += 1;
    }
    worth
};
