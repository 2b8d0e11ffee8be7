//! U-Boot's record of its stages: the output of its command `bootstage report`, or the node that it leaves in the
//! device tree.
//!
//! ```text
//! Timer summary in microseconds (10 records):
//!        Mark    Elapsed  Stage
//!           0          0  reset                      µs since reset, µs since the line before, name
//!     142,234    142,234  board_init_f
//!   5,381,751    162,157  start_kernel
//!
//! Accumulated time:
//!                  5,389  dm_f                       a sum over all calls, without a place in time
//! ```
//! (U-Boot, `common/bootstage.c`.) In the device tree, `/bootstage` has a node for each record, with its `name` and
//! either `mark` or `accum`, in µs; `dtc -I fs /proc/device-tree` writes that as text, and `/sys/firmware/fdt` is the
//! tree itself. U-Boot's timer may begin later than the machine: time before that is in none of the figures. The marks
//! of several U-Boots (TPL, SPL, proper) are in one list.
//!
//! All of it happens before the kernel. [`crate::readers::before_kernel`] places it. The sums are reported, not placed.

pub(crate) mod blob;

use crate::formats::steps::{Step, Steps};
use crate::input::text::{Lines, grouped_number, lossy, skip_spaces};
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// The program's name in views.
pub(crate) const PROGRAM: &str = "U-Boot";
/// U-Boot proper's first mark. Earlier marks are the ROM's, or a smaller U-Boot's.
const U_BOOT_STARTS: &[u8] = b"board_init_f";
/// U-Boot proper's last mark.
const KERNEL_STARTS: &[u8] = b"start_kernel";
/// The heading of the report, and below that the heading of its sums.
pub(crate) const HEADING: &[u8] = b"Timer summary in microseconds";
const SUMS: &[u8] = b"Accumulated time:";
/// The first line of the node in a device tree as text.
pub(crate) const NODE: &[u8] = b"bootstage {";

/// A mark or a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record<'a> {
    us: u64,
    name: &'a [u8],
    /// True for a sum, which has no place in time.
    is_sum: bool,
}

/// Reads `  142,234    142,234  board_init_f`; a mark may have no name.
fn mark(line: &[u8]) -> Option<Record<'_>> {
    let (us, rest) = grouped_number(skip_spaces(line))?;
    let (_, rest) = grouped_number(skip_spaces(rest.strip_prefix(b" ")?))?;
    let name = if rest.is_empty() { rest } else { rest.strip_prefix(b"  ")? };
    Some(Record { us, name, is_sum: false })
}

/// Reads `  5,389  dm_f`.
fn sum(line: &[u8]) -> Option<Record<'_>> {
    let (us, rest) = grouped_number(skip_spaces(line))?;
    Some(Record { us, name: rest.strip_prefix(b"  ")?, is_sum: true })
}

/// The part of a text that is being read.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Nothing,
    Marks,
    Sums,
    Tree { depth: u32 },
}

/// Reads the first report of a text, or the node of a device tree.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Steps {
    let mut steps = Steps::new(PROGRAM, Ns::from_us(1));
    if blob::is_tree(bytes) {
        let (mut records, is_whole) = blob::records(bytes);
        if !is_whole {
            diagnostics.note_about(DiagnosticKind::FileCut, file, || file.to_owned());
        }
        // U-Boot stores the last record first, so that Linux shows them in order.
        records.sort_by_key(|(record, _)| record.us);
        for (record, at) in records {
            add(record, &mut steps, diagnostics, || format!("{file}: byte {at}"));
        }
    } else {
        read_text(file, bytes, &mut steps, diagnostics);
    }
    steps.report_sums(diagnostics);
    steps
}

/// Reads what U-Boot prints.
fn read_text(file: &str, bytes: &[u8], steps: &mut Steps, diagnostics: &mut Diagnostics) {
    let (mut within, mut node) = (Within::Nothing, Record { us: 0, name: b"", is_sum: true });
    let mut tree: Vec<(Record<'_>, u32)> = Vec::new();
    for line in Lines::new(bytes) {
        let text = line.bytes.trim_ascii_end();
        let place = || format!("{file}:{}", line.number);
        if text.trim_ascii_start().starts_with(HEADING) {
            if within != Within::Nothing {
                diagnostics.note_about(DiagnosticKind::SecondStatement, PROGRAM, place);
                break;
            }
            within = Within::Marks;
            continue;
        }
        match within {
            Within::Nothing if text.ends_with(NODE) => within = Within::Tree { depth: 1 },
            Within::Nothing => {}
            Within::Marks if text.trim_ascii() == SUMS => within = Within::Sums,
            Within::Marks => {
                if let Some(record) = mark(text) {
                    add(record, steps, diagnostics, place);
                }
            }
            Within::Sums => {
                if let Some(record) = sum(text) {
                    add(record, steps, diagnostics, place);
                }
            }
            Within::Tree { depth } => {
                if text.ends_with(b"{") {
                    (within, node) =
                        (Within::Tree { depth: depth.saturating_add(1) }, Record { us: 0, name: b"", is_sum: true });
                } else if text.ends_with(b"};") {
                    if depth == 2 {
                        tree.push((node, line.number));
                    }
                    within = if depth <= 1 { Within::Sums } else { Within::Tree { depth: depth - 1 } };
                } else {
                    property(text.trim_ascii(), &mut node);
                }
            }
        }
    }
    // U-Boot stores the last record first, so that Linux shows them in order.
    tree.sort_by_key(|(record, _)| record.us);
    for (record, number) in tree {
        add(record, steps, diagnostics, || format!("{file}:{number}"));
    }
}

/// Reads `name = "board_init_f";` or `mark = <0x2b5>;`.
fn property<'a>(text: &'a [u8], node: &mut Record<'a>) {
    let Some(text) = text.strip_suffix(b";") else { return };
    let cell = |text: &[u8]| {
        let digits = std::str::from_utf8(text.strip_prefix(b"<")?.strip_suffix(b">")?).ok()?;
        digits.strip_prefix("0x").map_or_else(|| digits.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
    };
    if let Some(name) = text.strip_prefix(b"name = \"").and_then(|rest| rest.strip_suffix(b"\"")) {
        node.name = name;
    } else if let Some(us) = text.strip_prefix(b"mark = ").and_then(cell) {
        (node.us, node.is_sum) = (us, false);
    } else if let Some(us) = text.strip_prefix(b"accum = ").and_then(cell) {
        (node.us, node.is_sum) = (us, true);
    }
}

/// Adds a record as a step or as a sum.
pub(crate) fn add(record: Record<'_>, steps: &mut Steps, diagnostics: &mut Diagnostics, place: impl Fn() -> String) {
    let Some(at) = i64::try_from(record.us).ok().and_then(|us| us.checked_mul(1000)).map(Ns) else {
        diagnostics.note_about(DiagnosticKind::LinesUnreadable, PROGRAM, place);
        return;
    };
    let name = lossy(record.name);
    if record.is_sum {
        steps.add_sum(&name, at, diagnostics, place);
        return;
    }
    let begins = match record.name {
        _ if steps.steps.is_empty() && at == Ns::ZERO => Some(Phase::Firmware),
        U_BOOT_STARTS if !steps.steps.iter().any(|step| step.begins == Some(Phase::Loader)) => Some(Phase::Loader),
        _ => None,
    };
    let name = if name.is_empty() { "without a name".into() } else { name };
    steps.add(Step { at, name: name.into_owned(), begins }, diagnostics, place);
    steps.hands_over = record.name == KERNEL_STARTS;
}

/// The offset of a text's first report, in bytes.
pub(crate) fn report_at(bytes: &[u8]) -> Option<usize> {
    let heading = memchr::memmem::find(bytes, HEADING)?;
    Some(memchr::memrchr(b'\n', &bytes[..heading]).map_or(0, |end| end + 1))
}
