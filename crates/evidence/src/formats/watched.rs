//! `watch.txt`: the values of a variable of the guest when functions were entered, as the recorder read them.
//!
//! Each line is a stop: `AT STOOD VALUE FUNCTION`. AT is its time, and STOOD is how long the vCPUs stood still for it,
//! both in ns of the host, AT since time zero. VALUE is a number without a sign, or `-` if nothing is mapped there. A
//! FUNCTION's name may contain spaces. Lines with `#` come first: `# variable NAME`, `# function NAME` for each
//! requested function, `# note SENTENCE`. With `# signed` the number has a sign, and VALUE is its two's complement in
//! 64 bits.

use crate::input::text::Lines;
use timeline::{DiagnosticKind, Diagnostics, Ns, Reading, Watched};

/// A recorder writes at most a seventh of this; further readings are left out and counted.
const READINGS_MAX: usize = 1 << 14;

/// A CPU can stop at four functions.
const FUNCTIONS_MAX: usize = 64;

/// A recorder writes one note.
const NOTES_MAX: usize = 64;

/// The part of a line that is read.
const LINE_BYTES_MAX: usize = 4096;

/// Reads the text. Lines that cannot be read are counted.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Watched {
    let mut found = Watched::default();
    for line in Lines::new(bytes) {
        let text = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(LINE_BYTES_MAX)]);
        if take(&text, &mut found).is_none() {
            diagnostics.note(DiagnosticKind::LinesUnreadable, || format!("{file}:{}", line.number));
        }
    }
    found.readings.sort_by_key(|reading| reading.at);
    found
}

/// Reads a line. Returns `None` if it is malformed.
fn take(text: &str, found: &mut Watched) -> Option<()> {
    let text = text.trim_end();
    if let Some(remark) = text.strip_prefix("# ") {
        return take_remark(remark, found);
    }
    let mut fields = text.splitn(4, ' ');
    let (at, stood, value) = (ns(fields.next()?)?, ns(fields.next()?)?, fields.next()?);
    let value = if value == "-" { None } else { Some(value.parse().ok()?) };
    let function = fields.next()?.to_owned();
    if found.readings.len() == READINGS_MAX {
        return None;
    }
    found.readings.push(Reading { at, stood, value, function });
    Some(())
}

fn take_remark(remark: &str, found: &mut Watched) -> Option<()> {
    let (word, rest) = remark.split_once(' ')?;
    let rest = rest.to_owned();
    match word {
        "variable" if found.variable.is_empty() => found.variable = rest,
        "signed" => found.is_signed = true,
        "function" if found.functions.len() < FUNCTIONS_MAX => found.functions.push(rest),
        "note" if found.notes.len() < NOTES_MAX => found.notes.push(rest),
        "variable" | "function" | "note" => return None,
        // The first line, the line that explains the columns, or a remark of a later version.
        _ => {}
    }
    Some(())
}

fn ns(digits: &str) -> Option<Ns> {
    digits.parse().ok().filter(|ns| *ns >= 0).map(Ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by hand in the recorder's form.
    const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/watch/vmem-hash.txt"));

    #[test]
    fn a_recorders_file_is_read() {
        let mut diagnostics = Diagnostics::default();
        let found = read("watch.txt", TEXT.as_bytes(), &mut diagnostics);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 0);
        assert_eq!((&*found.variable, found.notes.len()), ("lab::vmem::ARENA+0x410:8", 1));
        assert_eq!(found.functions, ["lab::em::stop", "<lab::em::Em as Drop>::drop"]);
        let values: Vec<Option<u64>> = found.readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values, [Some(0), Some(25_675_776), None, Some(u64::MAX)]);
        let first = &found.readings[0];
        assert_eq!((first.at, first.stood, &*first.function), (Ns(1_900_000_000), Ns(2_100_000), "lab::em::stop"));
        assert_eq!(found.readings[2].function, "<lab::em::Em as Drop>::drop");
    }

    #[test]
    fn malformed_lines_are_counted() {
        let text = "# variable a\n# variable b\n5 1 7 f\n3 1 8 f\n-1 1 7 f\n5 -1 7 f\n5 1 -7 f\n5 1 7\n5 1 f\n\nhello\n#\n\
                    9 1 18446744073709551616 f\n";
        let mut diagnostics = Diagnostics::default();
        let found = read("watch.txt", text.as_bytes(), &mut diagnostics);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 10);
        assert_eq!(found.variable, "a");
        assert_eq!(found.readings.iter().map(|reading| reading.at).collect::<Vec<_>>(), [Ns(3), Ns(5)]);
    }

    #[test]
    fn all_lists_are_bounded() {
        let text = "1 1 1 f\n".repeat(READINGS_MAX + 3) + &"# function f\n# note n\n".repeat(1_000);
        let mut diagnostics = Diagnostics::default();
        let found = read("watch.txt", text.as_bytes(), &mut diagnostics);
        assert_eq!((found.readings.len(), found.functions.len(), found.notes.len()), (READINGS_MAX, 64, 64));
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 3 + 2 * (1_000 - 64));
    }

    proptest! {
        #[test]
        fn a_text_cut_or_changed_anywhere_is_read(at in 0..TEXT.len(), byte: u8, cut: bool) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            bytes.truncate(if cut { at } else { bytes.len() });
            let found = read("watch.txt", &bytes, &mut Diagnostics::default());
            prop_assert!(found.readings.is_sorted_by_key(|reading| reading.at));
        }
    }
}
