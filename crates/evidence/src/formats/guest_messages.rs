//! `guest.log`: the messages that process 1 (guest-init) sent, one [`Message`] a line.
//!
//! guest-init defines the messages ([`guest_init::messages`]); this gives each the time at which its first byte
//! arrived. That stamp is never early and sometimes late.

use crate::boot::Boot;
use crate::boot::offers::{Compared, Marked, Offers};
use crate::input::Input;
use crate::input::index::Index;
use crate::input::text::{Lines, lossy};
use crate::readers::reader::EndRank;
use crate::readers::reader::{EndCandidate, Evidence, Own, Reader};
use guest_init::messages::{LINE_BYTES_MAX, Message, SyncPlace};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, FileLoss, Ns, SyncPoint, Ticks};

/// A message, when it arrived and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The message.
    pub message: Message,
    /// When its first byte arrived, if the index says.
    pub arrival: Option<Ns>,
    /// Its line, from 1.
    pub line: u32,
}

/// What diagnostics call it.
const NAME: &str = "guest.log";
/// A guest sends some hundred.
const MESSAGES_MAX: usize = 1 << 16;

/// Reads `guest.log` with its index. What is no message is counted.
pub fn read(file: &str, bytes: &[u8], index: &Index, diagnostics: &mut Diagnostics) -> Vec<Received> {
    let mut said = Vec::new();
    for line in Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty()) {
        let place = || format!("{file}:{}", line.number);
        let text = Some(line.bytes.trim_ascii_end()).filter(|text| line.whole && text.len() <= LINE_BYTES_MAX);
        match text.and_then(|text| Message::parse(&lossy(text))) {
            Some(_) if said.len() == MESSAGES_MAX => {
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            }
            Some(word) => {
                said.push(Received { message: word, arrival: index.arrival(line.offset as u64), line: line.number })
            }
            None => diagnostics.note(DiagnosticKind::GuestMessageUnreadable, place),
        }
    }
    said
}

/// What process 1 of a recorded guest said.
#[derive(Default)]
pub(crate) struct Files {
    stream: Option<Input>,
}

impl Reader for Files {
    fn own(&self) -> &'static [Own] {
        &[Own::Stream("guest")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::GuestMessages
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.stream.get_or_insert(input);
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let Input { file, index } = self.stream.as_ref()?;
        let diagnostics = &mut boot.timeline.diagnostics;
        let said = read(&file.name, &file.bytes, index, diagnostics);
        note_lacks(&said, diagnostics);
        boot.process_1_spoke = !said.is_empty();
        Some(Box::new(Messages(said)))
    }
}

fn note_lacks(said: &[Received], diagnostics: &mut Diagnostics) {
    // A kernel that does not tell its own configuration, as Debian's do not, lacks nothing.
    let untold = |what: &str, why: &str| what == "config.gz" && why.starts_with("No such file");
    for said in said {
        if let Some((what, why)) = lack(&said.message).filter(|(what, why)| !untold(what, why)) {
            let place = || format!("guest.log:{}", said.line);
            diagnostics.note_about(DiagnosticKind::EvidenceNotGathered, &format!("{what}: {why}"), place);
        }
    }
}

/// What process 1 could not gather, and why.
fn lack(word: &Message) -> Option<(&str, &str)> {
    match word {
        Message::Lack { what, why } => Some((what.word(), why)),
        _ => None,
    }
}

struct Messages(Vec<Received>);

impl Evidence for Messages {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        // Once process 1 has handed over, anybody may write to its port. It says that it runs once, and first.
        let own = self.0.iter().take_while(|said| !matches!(said.message, Message::End { .. })).enumerate();
        let readings = own.filter(|(i, said)| *i == 0 || !matches!(said.message, Message::Init { .. }));
        let heard = readings.filter_map(|(_, said)| match said.message {
            Message::Init { tsc } | Message::Tick { tsc } => Some(SyncPoint { ticks: Ticks(tsc), at: said.arrival? }),
            _ => None,
        });
        offers.counter_heard.extend(heard);
        offers.counter_hz = self.0.iter().find_map(|said| match said.message {
            Message::Rate { hz } => Some(hz as f64),
            _ => None,
        });
        offers.counter_is_kernels = is_kernels(self.0.iter().map(|said| &said.message));
        offers.process_1_read = self.0.iter().find_map(|said| match said.message {
            Message::Init { tsc } => Some(Ticks(tsc)),
            _ => None,
        });
        offers.marked.extend(self.0.iter().filter_map(|said| marked(&said.message)));
    }

    /// By the guest's counter, which it read just before; else by when the host heard of it.
    fn end(&self, boot: &mut Boot<'_>) -> Option<EndCandidate> {
        let (ticks, arrival) = self.0.iter().find_map(|said| match said.message {
            Message::Init { tsc } => Some((Ticks(tsc), said.arrival)),
            _ => None,
        })?;
        let (at, error, evidence) = match (&boot.clocks.counter, arrival) {
            (Some(counter), _) => (counter.to_ns(ticks), counter.residual, EndEvidence::Process1Sent),
            (None, Some(arrival)) => (arrival, Ns::from_ms(1), EndEvidence::Process1Arrived),
            (None, None) => return None,
        };
        let rank = EndRank::ProcessOneSaid;
        Some(EndCandidate { rank, at, error, evidence, track: None })
    }
}

/// Whether the counter is the kernel's monotonic clock: each time that process 1 read both, they were the same. A CPU without a
/// counter for programs has no other.
fn is_kernels<'m>(said: impl Iterator<Item = &'m Message>) -> bool {
    let mut compared = said.filter_map(|message| match *message {
        Message::Clock { before, after, monotonic_ns, .. } => Some((before..=after).contains(&monotonic_ns)),
        _ => None,
    });
    compared.next().is_some_and(|first| first && compared.all(|same| same))
}

/// The line that a message is about, if it compares clocks.
fn marked(message: &Message) -> Option<Marked> {
    let Message::Sync { place, before, after, seq } = *message else { return None };
    let clock = match place {
        SyncPlace::Trace => Compared::Trace,
        SyncPlace::Kmsg => Compared::Printk,
    };
    Some(Marked { clock, number: seq.into(), before: Ticks(before), after: Ticks(after) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_arrival_of_their_lines() {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("guest.idx", b"0 1000\n6 2000\n", &mut diagnostics);
        let said = read("guest.log", b"I 123\nT 456\nE poweroff\n", &index, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let found: Vec<_> = said.iter().map(|s| (s.message.to_string(), s.arrival, s.line)).collect();
        let word = |text: &str, at, line| (text.to_owned(), Some(Ns(at)), line);
        assert_eq!(found, [word("I 123", 1000, 1), word("T 456", 2000, 2), word("E poweroff", 2000, 3)]);
    }

    #[test]
    fn a_counter_that_is_the_kernels_clock_is_known_by_being_the_same() {
        let clock = |before, after, monotonic_ns| Message::Clock { before, after, monotonic_ns, boottime_ns: 0 };
        assert!(is_kernels([clock(10, 30, 20), Message::Rate { hz: 1 }, clock(40, 60, 60)].iter()));
        assert!(!is_kernels([clock(10, 30, 20), clock(40, 60, 61)].iter()));
        assert!(!is_kernels([clock(40, 60, 9), clock(10, 30, 20)].iter()));
        assert!(!is_kernels([Message::Rate { hz: 1 }].iter()));
    }

    #[test]
    fn what_is_no_word_is_counted() {
        let mut diagnostics = Diagnostics::default();
        let text = b"I 12x\nHello\n\nS trace 1\nS clock 1 2 3 4 5\n\xff\xfe\nT 99999999999999999999\nI 5";
        assert_eq!(read("guest.log", text, &Index::default(), &mut diagnostics), []);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::GuestMessageUnreadable), 7);
    }
}
