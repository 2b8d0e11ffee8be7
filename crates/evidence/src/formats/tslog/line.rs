//! Parses one line of the log: `0x<thread> <ticks> <what> <name>[ <detail>]`.

use crate::input::text::number;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    Enter,
    Exit,
    Thread,
    Event,
}

impl What {
    /// The type's word in the log.
    pub(super) fn word(self) -> &'static str {
        match self {
            What::Enter => "ENTER",
            What::Exit => "EXIT",
            What::Thread => "THREAD",
            What::Event => "EVENT",
        }
    }
}

/// A record; its text still points into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub thread: u64,
    pub ticks: u64,
    pub what: What,
    /// Name and detail.
    pub tail: &'a [u8],
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Record(Record<'a>),
    /// Thread and ticks, but no known word.
    Unknown,
    /// Begins like a record but ends too early, or has a malformed number.
    Cut,
    /// Not like a record.
    Other,
}

/// Parses a line.
#[inline]
pub(super) fn entry(line: &[u8]) -> Entry<'_> {
    let Some(rest) = line.strip_prefix(b"0x") else { return Entry::Other };
    let Some((thread, rest)) = hex(rest) else { return Entry::Other };
    let Some(rest) = rest.strip_prefix(b" ") else { return if rest.is_empty() { Entry::Cut } else { Entry::Other } };
    match after_thread(rest) {
        Some((ticks, what, tail)) => Entry::Record(Record { thread, ticks, what, tail }),
        None => damaged(rest),
    }
}

/// Parses a record behind its thread: ticks, type, and name with detail.
#[inline]
pub(super) fn after_thread(rest: &[u8]) -> Option<(u64, What, &[u8])> {
    let (ticks, what, tail) = up_to_name(rest)?;
    let tail = trim_end(tail);
    (!tail.is_empty()).then_some((ticks, what, tail))
}

/// Parses a record behind its thread at the beginning of `rest`, before the end of its line is known: the newline is
/// searched only behind the type. Returns the length too. The line must end with a newline.
#[inline]
pub(super) fn next_after_thread(rest: &[u8]) -> Option<(u64, What, &[u8], usize)> {
    // None of these parts can contain a newline.
    let (ticks, what, more) = up_to_name(rest)?;
    let length = newline(more)?;
    let tail = trim_end(&more[..length]);
    (!tail.is_empty()).then_some((ticks, what, tail, rest.len() - more.len() + length))
}

#[inline]
fn up_to_name(rest: &[u8]) -> Option<(u64, What, &[u8])> {
    let (ticks, rest) = ticks(rest)?;
    let (what, tail) = what(rest.strip_prefix(b" ")?)?;
    Some((ticks, what, tail))
}

/// Finds the first newline. Names are short: it tests eight bytes at a time, and leaves longer texts to memchr.
#[inline]
fn newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    for (i, chunk) in bytes.chunks_exact(8).take(3).enumerate() {
        let word = u64::from_le_bytes(chunk.try_into().ok()?) ^ (ONES * b'\n' as u64);
        // Sets the highest bit of each zero byte. Only the lowest set bit is certain: those above it can be false.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(i * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    memchr::memchr(b'\n', bytes)
}

/// Classifies a line that has a thread but is not a record.
fn damaged(rest: &[u8]) -> Entry<'_> {
    let Some((_, rest)) = number(rest) else {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        return if digits == rest.len() || rest[digits] == b' ' && digits > 0 { Entry::Cut } else { Entry::Other };
    };
    let Some(rest) = rest.strip_prefix(b" ") else { return if rest.is_empty() { Entry::Cut } else { Entry::Other } };
    if what(rest).is_some() || begins_a_word(rest) { Entry::Cut } else { Entry::Unknown }
}

/// Parses a number, its first eight digits at once: ticks have about ten digits.
#[inline]
fn ticks(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes.first_chunk::<8>().and_then(|chunk| eight_digits(u64::from_le_bytes(*chunk))) {
        Some(high) => {
            let (mut value, mut rest) = (high, &bytes[8..]);
            while let [digit @ b'0'..=b'9', after @ ..] = rest {
                value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
                rest = after;
            }
            Some((value, rest))
        }
        None => number(bytes),
    }
}

/// Converts eight ASCII digits, the first in the lowest byte. It adds up pairs, then fours, then all, within one word.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    // A byte is a digit if its high half is 3, and stays 3 when 6 is added.
    let digits = word & HIGH == ZEROS && word.wrapping_add(0x0606_0606_0606_0606) & HIGH == ZEROS;
    digits.then(|| {
        let word = word & !HIGH;
        let pairs = (word.wrapping_mul(10) + (word >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
        (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
    })
}

#[inline]
fn what(rest: &[u8]) -> Option<(What, &[u8])> {
    // Tests the two words that nearly all records have first, with one comparison each.
    if let Some(chunk) = rest.first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        if word & 0xffff_ffff_ffff == u64::from_le_bytes(*b"ENTER \0\0") {
            return Some((What::Enter, &rest[6..]));
        }
        if word & 0xff_ffff_ffff == u64::from_le_bytes(*b"EXIT \0\0\0") {
            return Some((What::Exit, &rest[5..]));
        }
    }
    match rest {
        [b'E', b'N', b'T', b'E', b'R', b' ', tail @ ..] => Some((What::Enter, tail)),
        [b'E', b'X', b'I', b'T', b' ', tail @ ..] => Some((What::Exit, tail)),
        [b'E', b'V', b'E', b'N', b'T', b' ', tail @ ..] => Some((What::Event, tail)),
        [b'T', b'H', b'R', b'E', b'A', b'D', b' ', tail @ ..] => Some((What::Thread, tail)),
        _ => None,
    }
}

/// True if the text is empty, or is a known word or its beginning.
fn begins_a_word(rest: &[u8]) -> bool {
    let rest = trim_end(rest);
    [What::Enter, What::Exit, What::Event, What::Thread].iter().any(|what| what.word().as_bytes().starts_with(rest))
}

/// Parses up to 16 hexadecimal digits. Returns the rest too.
#[inline]
fn hex(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        let digit = match b {
            b'0'..=b'9' => b - b'0',
            b'a'..=b'f' => b - b'a' + 10,
            b'A'..=b'F' => b - b'A' + 10,
            _ => break,
        };
        if at == 16 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        at += 1;
    }
    (at > 0).then(|| (value, &bytes[at..]))
}

/// Finds a record behind other text: a prompt, half of a message.
pub(super) fn behind_other_text(line: &[u8]) -> Option<Record<'_>> {
    const LOOKED_AT: usize = 200;
    let starts = memchr::memmem::find_iter(&line[..line.len().min(LOOKED_AT)], b"0x");
    starts.skip_while(|&at| at == 0).find_map(|at| match entry(&line[at..]) {
        Entry::Record(record) => Some(record),
        _ => None,
    })
}

/// True if the first line is a record.
pub(super) fn is_record(bytes: &[u8]) -> bool {
    let line = &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())];
    matches!(entry(line), Entry::Record(_))
}

/// Removes what consoles and sysctls leave at a line's ends: NULs, returns, spaces.
pub(super) fn trim(line: &[u8]) -> &[u8] {
    let begin = line.iter().take_while(|b| matches!(b, 0 | b'\r' | b' ')).count();
    trim_end(&line[begin..])
}

#[inline]
fn trim_end(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., 0 | b'\r' | b' '] = line {
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, thread: u64, ticks: u64, what: What, tail: &str) {
        assert_eq!(entry(line.as_bytes()), Entry::Record(Record { thread, ticks, what, tail: tail.as_bytes() }));
    }

    #[test]
    fn records() {
        check(
            "0xffffffff8251db00 14119002 ENTER hammer_time",
            0xffff_ffff_8251_db00,
            14119002,
            What::Enter,
            "hammer_time",
        );
        check("0x0 1 EXIT SYSINIT announce\r\r", 0, 1, What::Exit, "SYSINIT announce");
        check("0x1 18446744073709551615 THREAD swi4: clock (0)\0", 1, u64::MAX, What::Thread, "swi4: clock (0)");
        check("0x1 2 EVENT WAIT root mount", 1, 2, What::Event, "WAIT root mount");
        check("0xA 2 ENTER (null)", 10, 2, What::Enter, "(null)");
    }

    #[test]
    fn damaged_unknown_and_other_lines() {
        for cut in [
            "0x1",
            "0xfffff80005445000 ",
            "0x1 12",
            "0x1 12 ",
            "0x1 12 EN",
            "0x1 12 ENTER",
            "0x1 12 ENTER ",
            "0x1 99999999999999999999 ENTER x",
        ] {
            assert_eq!(entry(cut.as_bytes()), Entry::Cut, "{cut}");
        }
        for unknown in ["0x1 12 FROB x", "0x1 12 name", "0x1 12 enter x", "0x1 12 ENTERx"] {
            assert_eq!(entry(unknown.as_bytes()), Entry::Unknown, "{unknown}");
        }
        for other in [
            "",
            "0",
            "0x",
            "0x1, 2",
            "0x11112222333344445 1 ENTER x",
            "0x1 x ENTER y",
            "KDB: debugger",
            "0x1 12.5 ENTER x",
        ] {
            assert_eq!(entry(other.as_bytes()), Entry::Other, "{other}");
        }
    }

    #[test]
    fn numbers_of_any_length() {
        for value in [0, 7, 12_345_678, 123_456_789, 1_234_567_890, 99_999_999, 100_000_000, u64::MAX] {
            let text = format!("{value} x");
            assert_eq!(ticks(text.as_bytes()), Some((value, &b" x"[..])));
            assert_eq!(ticks(&text.as_bytes()[..text.len() - 2]), Some((value, &b""[..])));
        }
        assert_eq!(ticks(b"18446744073709551616 "), None);
        for not in [b"1234567:", b"1234567/", b"1234567\xb1"] {
            assert_eq!(eight_digits(u64::from_le_bytes(*not)), None);
        }
    }

    #[test]
    fn the_first_newline_is_found() {
        for length in 0..40 {
            for at in 0..length {
                // 0x0b is one above the newline and must not be taken for one.
                let mut text = vec![0x0b; length];
                text[at] = b'\n';
                assert_eq!(newline(&text), Some(at), "{length}");
                text[length - 1] = b'\n';
                assert_eq!(newline(&text), Some(at), "{length}");
            }
            assert_eq!(newline(&vec![0x8a; length]), None);
        }
    }

    #[test]
    fn the_next_line_parses_like_a_line_alone() {
        for line in [
            "1 ENTER x",
            "12345678 EXIT a_name_of_many_letters",
            "9 EVENT WAIT x\r",
            "9 THREAD t\0",
            "123456789012 EXIT f",
        ] {
            let (ticks, what, name) = after_thread(line.as_bytes()).unwrap();
            let text = format!("{line}\n0x1 2 ENTER another one\n");
            assert_eq!(next_after_thread(text.as_bytes()), Some((ticks, what, name, line.len())));
            assert_eq!(next_after_thread(line.as_bytes()), None, "nothing says that it is whole");
        }
        for no_record in
            ["\n1 ENTER x\n", "1\n ENTER x\n", "1 ENTER\nx\n", "1 ENTER \nx\n", "1 ENTER \r\n", "1 FROB x\n"]
        {
            assert_eq!(next_after_thread(no_record.as_bytes()), None, "{no_record:?}");
        }
    }

    #[test]
    fn a_record_behind_a_prompt() {
        let record = behind_other_text(b"login: 0x5 0x1 12 ENTER x").unwrap();
        assert_eq!((record.thread, record.tail), (1, &b"x"[..]));
        assert_eq!(behind_other_text(b"irq 0x1 at 0x12 on isa0"), None);
    }
}
