//! `silence.txt`: the vCPUs' stacks while the console was silent, which the recorder took by stopping the vCPUs.
//!
//! Each line is a fact. `silence FROM UNTIL` begins a silence, `stop AT STOOD` a stop in it, `cpu NUMBER MODE HOW` a
//! vCPU in that. Then follows the vCPU's stack, innermost first: ` ADDRESS FUNCTION+OFFSET`. A line `? …` is a word on
//! the stack that turned out not to be a return address of a caller. Lines with `#` describe how the file was made.
//! Times are ns of the host since time zero.

use crate::formats::symbols::plain_name;
use crate::input::records_max;
use crate::input::text::Lines;
use timeline::{DiagnosticKind, Diagnostics, Ns, Silence, Silences, Stop, StoppedCpu, StoppedIn};

/// A recorder writes at most two thirds of this; further entries are left out and counted.
const ENTRIES_MAX: usize = 1 << 20;

/// Memory of a line, in bytes, here and in a view.
const ENTRY_COST: usize = 200;
/// The part of a line that is read.
const LINE_BYTES_MAX: usize = 4096;

/// No recorded machine has more CPUs, no kernel has deeper stacks, and no boot has more silences. A recorder writes few
/// notes.
const CPUS_MAX: usize = 1_024;
const FRAMES_MAX: usize = 1_024;
const SILENCES_MAX: usize = 1 << 14;
const NOTES_MAX: usize = 64;

/// Reads the text. Lines that cannot be read are counted.
pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Silences {
    let mut found = Silences::default();
    let (mut entries, most) = (0, ENTRIES_MAX.min(records_max(bytes.len(), ENTRY_COST)));
    for line in Lines::new(bytes) {
        let text = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(LINE_BYTES_MAX)]);
        entries += 1;
        if entries > most || take(&text, &mut found).is_none() {
            diagnostics.note(DiagnosticKind::LinesUnreadable, || format!("{file}:{}", line.number));
        }
    }
    found
}

/// Reads a line. Returns `None` if it is malformed.
fn take(text: &str, found: &mut Silences) -> Option<()> {
    let text = text.trim_end();
    if let Some(remark) = text.strip_prefix("# ") {
        match remark.split_once(' ')? {
            ("silent-after-ns", ns) => found.after = Ns(ns.parse().ok()?),
            ("names", sentence) if found.names.len() < NOTES_MAX => found.names.push(sentence.to_owned()),
            ("note", sentence) if found.notes.len() < NOTES_MAX => found.notes.push(sentence.to_owned()),
            ("names" | "note", _) => return None,
            // The first line, or a remark of a later version.
            _ => {}
        }
        return Some(());
    }
    if let Some(word) = text.strip_prefix("? ") {
        return address(word).map(drop);
    }
    let mut words = text.split_ascii_whitespace();
    let (first, second, third) = (words.next()?, words.next(), words.next());
    let ns = |word: Option<&str>| Some(Ns(word?.parse().ok().filter(|ns| *ns >= 0)?));
    match first {
        "silence" if found.silences.len() == SILENCES_MAX => return None,
        "silence" => {
            let (from, until) = (ns(second)?, ns(third)?);
            found.silences.push(Silence { from, until: until.max(from), stops: Vec::new() });
        }
        "stop" => {
            let stop = Stop { at: ns(second)?, stood: ns(third)?, cpus: Vec::new() };
            found.silences.last_mut()?.stops.push(stop);
        }
        "cpu" => {
            let ran = match third? {
                "in-kernel" => StoppedIn::Kernel,
                "in-process" => StoppedIn::User,
                "in-firmware" => StoppedIn::Boot,
                _ => return None,
            };
            let is_guess = words.next() == Some("words");
            let stop = found.silences.last_mut()?.stops.last_mut()?;
            if stop.cpus.len() == CPUS_MAX {
                return None;
            }
            stop.cpus.push(StoppedCpu { ran, is_guess, stack: Vec::new() });
        }
        _ => {
            let name = function(text)?;
            let stack = &mut found.silences.last_mut()?.stops.last_mut()?.cpus.last_mut()?.stack;
            (stack.len() < FRAMES_MAX).then(|| stack.push(name))?;
        }
    }
    Some(())
}

/// The function in a line of a stack; the address if the line has no function.
fn function(text: &str) -> Option<String> {
    let (address, name) = (address(text)?, text.split_ascii_whitespace().nth(1));
    Some(match name {
        Some(name) => plain_name(name.rsplit_once("+0x").map_or(name, |(name, _)| name)).into_owned(),
        None => format!("{address:#x}"),
    })
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.split_ascii_whitespace().next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
# bootscope silence 1
# silent-after-ns 50000000
# names lab: 9 of 9 calls seen on the stacks lead to the start of one of its functions
# note there is no stop after 400 ms: the gdbstub closed the connection
silence 100 900
stop 200 30
cpu 0 in-kernel frame-pointers
  0000000000218210 _ZN3lab5clock8delay_us17hb8614a34c358e5f5E+0xf0
  000000000022d1b6 kmain+0x16
cpu 1 in-kernel words
  ffffffff81000004
? ffffffff81000123 stale+0x3
stop 400 20
cpu 0 in-firmware none
  00000000000f1234
";

    #[test]
    fn a_recorders_file_is_read() {
        let mut diagnostics = Diagnostics::default();
        let found = read("silence.txt", TEXT.as_bytes(), &mut diagnostics);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 0);
        assert_eq!((found.after, found.names.len(), found.notes.len(), found.stood()), (Ns(50_000_000), 1, 1, Ns(50)));
        let [silence] = found.silences.as_slice() else { panic!("{found:?}") };
        assert_eq!((silence.from, silence.until, silence.stops.len()), (Ns(100), Ns(900), 2));
        let [first, second] = silence.stops[0].cpus.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (&*first.stack, first.is_guess),
            (&["lab::clock::delay_us".to_owned(), "kmain".to_owned()][..], false)
        );
        assert_eq!((&*second.stack, second.is_guess), (&["0xffffffff81000004".to_owned()][..], true));
        assert_eq!(silence.stops[1].cpus[0].ran, StoppedIn::Boot);
    }

    #[test]
    fn malformed_lines_are_counted() {
        let text = "stop 1 2\ncpu 0 in-kernel words\n  12 f+0x1\nsilence 5 1\nsilence -1 2\nstop x y\nstop 1 1\ncpu 0 nowhere\n\nhello\n";
        let mut diagnostics = Diagnostics::default();
        let found = read("silence.txt", text.as_bytes(), &mut diagnostics);
        assert_eq!(diagnostics.count(DiagnosticKind::LinesUnreadable), 8);
        assert_eq!((found.silences[0].until, found.silences[0].stops.len()), (Ns(5), 1));
    }

    proptest! {
        #[test]
        fn a_text_cut_or_changed_anywhere_is_read(at in 0..TEXT.len(), byte: u8, cut: bool) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            bytes.truncate(if cut { at } else { bytes.len() });
            let found = read("silence.txt", &bytes, &mut Diagnostics::default());
            found.silences.iter().for_each(|silence| drop(silence.mostly_at()));
        }
    }
}
