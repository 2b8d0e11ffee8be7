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
//! (coreboot, `util/cbmem/cbmem.c`; meanings of the ids: `src/commonlib/include/commonlib/timestamp_serialized.h`.) The tool sorts rows by
//! time. Stamps of Intel's management engine (ids 940 to 990) can precede id 0. A row has no brackets if it is the first, or if the stamp
//! of the row before is 0. Stamps are cut to whole microseconds. Payloads add stamps with ids from 1000 on.
//!
//! [`raw`] reads the table as it lies in memory.
//!
//! All of it happens before the kernel. [`crate::readers::before_kernel`] places it.

pub(crate) mod raw;

use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, grouped_number, lossy, number, whole_number};
use memchr::memmem;
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
    /// True for a form that no other format has. A row without brackets needs such a row, or the heading, beside it.
    is_sure: bool,
}

/// Reads a row of `-t` or of `-T`.
fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let line = line.trim_ascii();
    let (id, rest) = number(line).filter(|(id, _)| *id < 100_000)?;
    match rest {
        [b':', rest @ ..] => for_people(id, rest),
        [b'\t', rest @ ..] => for_programs(id, rest),
        _ => None,
    }
}

/// True for a row that needs no neighbour.
pub(crate) fn is_row(line: &[u8]) -> bool {
    entry(line).is_some_and(|entry| entry.is_sure)
}

/// `name   1,234 (56)`
fn for_people(id: u64, rest: &[u8]) -> Option<Entry<'_>> {
    const FIRST_TIMESTAMP: &[u8] = b"1st timestamp";
    let bracket = rest.strip_suffix(b")").and_then(|inside| Some((inside, memchr::memrchr(b'(', inside)?)));
    let (before, us) = match bracket {
        Some((inside, bracket)) => {
            grouped(&inside[bracket + 1..])?;
            last_number(inside[..bracket].trim_ascii_end())?
        }
        None => last_number(rest)?,
    };
    let name = before.trim_ascii();
    // Columns within a name are of another table.
    let is_plain = bracket.is_some() || memmem::find(name, b"  ").is_none();
    (is_name(name) && is_plain).then_some(Entry { id, us, name, is_sure: bracket.is_some() || name == FIRST_TIMESTAMP })
}

/// `absolute<tab>relative<tab>name`
fn for_programs(id: u64, rest: &[u8]) -> Option<Entry<'_>> {
    let mut fields = rest.splitn(3, |byte| *byte == b'\t');
    let us = whole_number(fields.next()?)?;
    whole_number(fields.next()?)?;
    let name = fields.next()?.trim_ascii();
    is_name(name).then_some(Entry { id, us, name, is_sure: true })
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

/// `25 entries total:`
fn is_heading(line: &[u8]) -> bool {
    line.trim_ascii().ends_with(b" entries total:")
}

/// A row of a text, and its place there.
struct Row<'a> {
    entry: Entry<'a>,
    line: u32,
    is_after_heading: bool,
}

/// The rows of a text. Neighbours decide about a row that could be of another format.
fn rows(bytes: &[u8]) -> Vec<Row<'_>> {
    let (mut all, mut neighbours) = (Vec::new(), Vec::new());
    let (mut is_sure, mut is_after_heading) = (false, false);
    for line in Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty()) {
        if let Some(entry) = entry(line.bytes) {
            is_sure |= entry.is_sure;
            neighbours.push(Row { entry, line: line.number, is_after_heading });
            is_after_heading = false;
            continue;
        }
        if is_sure {
            all.append(&mut neighbours);
        }
        neighbours.clear();
        is_after_heading = is_heading(line.bytes);
        is_sure = is_after_heading;
    }
    if is_sure {
        all.append(&mut neighbours);
    }
    all
}

/// True if the text has at least two rows, or the heading. Other programs also print lines of a number, a name and two
/// numbers.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    if raw::is_table(bytes) {
        return true;
    }
    let has_heading = || Lines::new(bytes).any(|line| is_heading(line.bytes));
    rows(bytes).len() >= ENTRIES_MIN || has_heading()
}

/// Reads the first table of a text; other lines are skipped. One boot has one table: a second one is counted.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Steps {
    let mut steps = Steps::new(PROGRAM, Ns::from_us(1));
    let (mut in_payload, mut first) = (false, None);
    let from_memory = raw::text(bytes);
    let text = from_memory.as_deref().unwrap_or(bytes);
    for Row { entry: Entry { id, us, name, .. }, line, is_after_heading } in rows(text) {
        let place = || format!("{file}:{line}");
        let Some(at) = i64::try_from(us).ok().and_then(|us| us.checked_mul(1000)).map(Ns) else {
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, place);
            continue;
        };
        // A table is in order of time, so the next one begins with its first row's id, and time goes back.
        let begins_anew = first == Some(id) && at <= steps.last();
        if first.is_some() && (is_after_heading || begins_anew) {
            diagnostics.note_about(DiagnosticKind::SecondStatement, PROGRAM, place);
            break;
        }
        let starts_payload = !in_payload && (id == PAYLOAD_STARTS || PAYLOADS.contains(&id));
        in_payload |= starts_payload;
        let mut begins = starts_payload.then_some(Phase::Loader);
        if first.is_none() {
            first = Some(id);
            // The time before the first stamp belongs to the firmware too.
            match us {
                0 => begins = Some(Phase::Firmware),
                _ => {
                    let (name, begins) = ("reset".to_owned(), Some(Phase::Firmware));
                    steps.add(Step { at: Ns::ZERO, name, begins }, diagnostics, place);
                }
            }
        }
        steps.add(Step { at, name: lossy(name).into_owned(), begins }, diagnostics, place);
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

    #[test]
    fn rows_without_brackets_need_a_sure_neighbour() {
        let names = |text: &str| -> Vec<u64> { rows(text.as_bytes()).iter().map(|row| row.entry.id).collect() };
        let alone = " 990:CSME ROM started execution    0\n 944:CSE sent 'Boot Stall Done' to PMC   71,000\n";
        assert_eq!(names(alone), [0; 0]);
        assert_eq!(names(&format!("2 entries total:\n\n{alone}")), [990, 944]);
        assert_eq!(
            names(&format!("{alone} 945:CSE started to handle ICC configuration  71,000 (0)\n")),
            [990, 944, 945]
        );
        assert_eq!(names(&format!("{alone}Total Time: 71,000\n   1:x   2 (1)\n")), [1]);
        assert_eq!(names("0:1st timestamp   0\n1:start of bootblock   12\n19:end of bootblock   1,234\n"), [0, 1, 19]);
        assert_eq!(names("1 entries total:\n 3: kernel      400000    800000      0\n"), [0; 0]);
    }

    #[test]
    fn a_second_table_is_told_by_its_heading_or_by_time() {
        let read = |text: &str| {
            let mut diagnostics = Diagnostics::default();
            let steps = read("c", text.as_bytes(), &mut diagnostics);
            (steps.steps.len(), steps.last(), diagnostics.count(DiagnosticKind::SecondStatement))
        };
        let (first, second) =
            (" 990:a   0\n 944:b   7,000\n   0:1st timestamp   9,000 (2,000)\n", "   0:1st timestamp   3\n");
        assert_eq!(read(first), (3, Ns::from_us(9_000), 0));
        assert_eq!(read(&format!("{first}{first}")), (3, Ns::from_us(9_000), 1));
        assert_eq!(read(&format!("{first}1 entries total:\n{second}")), (3, Ns::from_us(9_000), 1));
    }
}
