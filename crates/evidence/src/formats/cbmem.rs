//! coreboot's timestamps, as its tool prints them: `cbmem -t` for people, `cbmem -T` for programs.
//!
//! ```text
//! 27 entries total:
//!
//!    0:1st timestamp                                     2,229 (0)      id, name, µs since reset, µs since the line before
//!   11:start of bootblock                                64,231 (62,002)
//!   99:selfboot jump                                     18,937,670 (2,115)
//!
//! 11<tab>64231<tab>62002<tab>start of bootblock                          -T: id, µs since reset, µs since the line before, name
//! ```
//! (coreboot, `util/cbmem/cbmem.c`; meanings of the ids: `src/commonlib/include/commonlib/timestamp_serialized.h`.) Old
//! versions print no brackets after the first stamp. Stamps are cut to whole microseconds. Payloads add stamps with ids
//! from 1000 on.
//!
//! All of it happens before the kernel. [`crate::readers::before_kernel`] places it.

use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, grouped_number, lossy, number, whole_number};
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// The program's name in views.
pub(crate) const PROGRAM: &str = "coreboot";
/// The stamp at which coreboot starts its payload.
const PAYLOAD_STARTS: u64 = 99;
/// The stamps of payloads.
const PAYLOADS: std::ops::Range<u64> = 1000..2000;
/// The stamps at which depthcharge starts the kernel, or the code that unpacks it.
const KERNEL_STARTS: std::ops::RangeInclusive<u64> = 1101..=1102;

/// A row of the table.
pub(crate) struct Entry<'a> {
    id: u64,
    us: u64,
    name: &'a [u8],
}

/// Reads a row of `-t` or of `-T`.
pub(crate) fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let line = line.trim_ascii();
    let (id, rest) = number(line).filter(|(id, _)| *id < 100_000)?;
    match rest {
        [b':', rest @ ..] => for_people(id, rest),
        [b'\t', rest @ ..] => for_programs(id, rest),
        _ => None,
    }
}

/// `name   1,234 (56)`
fn for_people(id: u64, rest: &[u8]) -> Option<Entry<'_>> {
    let (before, us) = match rest.strip_suffix(b")") {
        Some(inside) => {
            let bracket = memchr::memrchr(b'(', inside)?;
            grouped(&inside[bracket + 1..])?;
            last_number(inside[..bracket].trim_ascii_end())?
        }
        // In old versions, only the first row has no brackets. Any other line without them could be of another format.
        None if id == 0 => last_number(rest)?,
        None => return None,
    };
    let name = before.trim_ascii();
    is_name(name).then_some(Entry { id, us, name })
}

/// `absolute<tab>relative<tab>name`
fn for_programs(id: u64, rest: &[u8]) -> Option<Entry<'_>> {
    let mut fields = rest.splitn(3, |byte| *byte == b'\t');
    let us = whole_number(fields.next()?)?;
    whole_number(fields.next()?)?;
    let name = fields.next()?.trim_ascii();
    is_name(name).then_some(Entry { id, us, name })
}

/// True for coreboot's names of stamps: all but two begin with a letter.
fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_alphabetic) || [&b"1st timestamp"[..], b"<unknown>"].contains(&name)
}

/// The number at the end of a text, and the text before it.
fn last_number(text: &[u8]) -> Option<(&[u8], u64)> {
    let start = text.iter().rposition(u8::is_ascii_whitespace)? + 1;
    Some((&text[..start], grouped(&text[start..])?))
}

/// Reads a whole text as a number with commas.
fn grouped(text: &[u8]) -> Option<u64> {
    grouped_number(text).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Smallest number of rows in a table without a heading.
const ENTRIES_MIN: usize = 2;

/// True if the text has at least two rows, or the heading (`25 entries total:`). Other programs also print lines of a
/// number, a name and two numbers.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    let rows = Lines::new(bytes).filter(|line| entry(line.bytes).is_some());
    rows.take(ENTRIES_MIN).count() == ENTRIES_MIN || memchr::memmem::find(bytes, b" entries total:").is_some()
}

/// Reads the first table of a text; other lines are skipped. One boot has one table: a second one is counted.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Steps {
    let mut steps = Steps::new(PROGRAM, Ns::from_us(1));
    let mut in_payload = false;
    for line in Lines::new(bytes) {
        let Some(Entry { id, us, name }) = entry(line.bytes) else { continue };
        let place = || format!("{file}:{}", line.number);
        if id == 0 && !steps.steps.is_empty() {
            diagnostics.note_about(DiagnosticKind::SecondStatement, PROGRAM, place);
            break;
        }
        let Some(at) = i64::try_from(us).ok().and_then(|us| us.checked_mul(1000)) else {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, place);
            continue;
        };
        let starts_payload = !in_payload && (id == PAYLOAD_STARTS || PAYLOADS.contains(&id));
        in_payload |= starts_payload;
        let begins = match steps.steps.is_empty() {
            true => Some(Phase::Firmware),
            false => starts_payload.then_some(Phase::Loader),
        };
        // The time before the first stamp belongs to the firmware too.
        if us > 0 && steps.steps.is_empty() {
            let reset = Step { at: Ns::ZERO, name: "reset".to_owned(), begins: Some(Phase::Firmware) };
            steps.add(reset, diagnostics, place);
        }
        let begins = begins.filter(|phase| *phase != Phase::Firmware || us == 0);
        steps.add(Step { at: Ns(at), name: lossy(name).into_owned(), begins }, diagnostics, place);
        steps.hands_over = KERNEL_STARTS.contains(&id);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_not_a_table() {
        let partition = b"   0: bootloader                         0            400000                  0\n";
        assert!(!is_table(partition));
        let table = b"   0:1st timestamp                                     0\n  11:start of bootblock    1,054,000 (1,054,000)\n";
        assert!(is_table(table));
    }
}
