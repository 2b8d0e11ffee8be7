//! `guest.log`: the messages that process 1 (guest-init) sent, one [`Message`] per line.
//!
//! guest-init defines the messages ([`guest_init::messages`]). This reader adds the time at which the first byte of
//! each message arrived. That time is never early and sometimes late.

use crate::input::index::Index;
use crate::input::text::{Lines, lossy};
use guest_init::messages::{LINE_BYTES_MAX, Message};
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// A message with its arrival time and its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub message: Message,
    /// The arrival of its first byte, if the index has it.
    pub arrival: Option<Ns>,
    /// The number of its line, from 1.
    pub line: u32,
}

/// The name of this evidence in diagnostics.
const NAME: &str = "guest.log";
/// A guest sends some hundred.
const MESSAGES_MAX: usize = 1 << 16;

/// Reads `guest.log` with its index. Lines that are not messages are counted.
pub fn read(file: &str, bytes: &[u8], index: &Index, diagnostics: &mut Diagnostics) -> Vec<Received> {
    let mut messages = Vec::new();
    for line in Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty()) {
        let place = || format!("{file}:{}", line.number);
        let text = Some(line.bytes.trim_ascii_end()).filter(|text| line.whole && text.len() <= LINE_BYTES_MAX);
        match text.and_then(|text| Message::parse(&lossy(text))) {
            Some(_) if messages.len() == MESSAGES_MAX => {
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            }
            Some(message) => {
                messages.push(Received { message, arrival: index.arrival(line.offset as u64), line: line.number });
            }
            None => diagnostics.note(DiagnosticKind::GuestMessageUnreadable, place),
        }
    }
    messages
}

/// True if the counter is the kernel's monotonic clock: each time that process 1 read both, they agreed. This is the
/// case for a CPU without a counter that programs can read.
pub(crate) fn is_kernels<'m>(messages: impl Iterator<Item = &'m Message>) -> bool {
    let mut compared = messages.filter_map(|message| match *message {
        Message::Clock { before, after, monotonic_ns, .. } => Some((before..=after).contains(&monotonic_ns)),
        _ => None,
    });
    compared.next().is_some_and(|first| first && compared.all(|same| same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_arrival_of_their_lines() {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("guest.idx", b"0 1000\n6 2000\n", &mut diagnostics);
        let messages = read("guest.log", b"I 123\nT 456\nE poweroff\n", &index, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let found: Vec<_> = messages.iter().map(|s| (s.message.to_string(), s.arrival, s.line)).collect();
        let word = |text: &str, at, line| (text.to_owned(), Some(Ns(at)), line);
        assert_eq!(found, [word("I 123", 1000, 1), word("T 456", 2000, 2), word("E poweroff", 2000, 3)]);
    }

    #[test]
    fn a_counter_equal_to_the_kernels_clock_is_recognised() {
        let clock = |before, after, monotonic_ns| Message::Clock { before, after, monotonic_ns, boottime_ns: 0 };
        assert!(is_kernels([clock(10, 30, 20), Message::Rate { hz: 1 }, clock(40, 60, 60)].iter()));
        assert!(!is_kernels([clock(10, 30, 20), clock(40, 60, 61)].iter()));
        assert!(!is_kernels([clock(40, 60, 9), clock(10, 30, 20)].iter()));
        assert!(!is_kernels([Message::Rate { hz: 1 }].iter()));
    }

    #[test]
    fn lines_that_are_not_messages_are_counted() {
        let mut diagnostics = Diagnostics::default();
        let text = b"I 12x\nHello\n\nS trace 1\nS clock 1 2 3 4 5\n\xff\xfe\nT 99999999999999999999\nI 5";
        assert_eq!(read("guest.log", text, &Index::default(), &mut diagnostics), []);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::GuestMessageUnreadable), 7);
    }
}
