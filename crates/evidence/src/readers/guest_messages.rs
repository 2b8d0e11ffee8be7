//! The reader of [`guest_messages`](crate::formats::guest_messages).

use crate::boot::offers::{Compared, Marked, Offers};
use crate::boot::{Found, Placing};
use crate::formats::guest_messages::{Received, is_kernels, read};
use crate::input::Input;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Own, Reader};
use guest_init::messages::{Message, SyncPlace};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, FileLoss, Ns, SyncPoint, Ticks, Timeline};

/// The messages of process 1 in a recorded guest.
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

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let Input { file, index } = self.stream.as_ref()?;
        let diagnostics = &mut timeline.diagnostics;
        let messages = read(&file.name, &file.bytes, index, diagnostics);
        note_lacks(&messages, diagnostics);
        *found.process_1_spoke = !messages.is_empty();
        Some(Box::new(Messages(messages)))
    }
}

fn note_lacks(messages: &[Received], diagnostics: &mut Diagnostics) {
    // Some kernels, such as Debian's, do not provide their configuration. That is not reported.
    let is_expected = |what: &str, why: &str| what == "config.gz" && why.starts_with("No such file");
    for received in messages {
        if let Some((what, why)) = lack(&received.message).filter(|(what, why)| !is_expected(what, why)) {
            let place = || format!("guest.log:{}", received.line);
            diagnostics.note_about(DiagnosticKind::EvidenceNotGathered, &format!("{what}: {why}"), place);
        }
    }
}

/// The evidence that process 1 could not gather, and the reason.
fn lack(message: &Message) -> Option<(&str, &str)> {
    match message {
        Message::Lack { what, why } => Some((what.word(), why)),
        _ => None,
    }
}

struct Messages(Vec<Received>);

impl Evidence for Messages {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        // After process 1 has handed over, any program may write to its port. Process 1 sends `Init` only once, as its
        // first message.
        let before_hand_over =
            self.0.iter().take_while(|received| !matches!(received.message, Message::End { .. })).enumerate();
        let readings =
            before_hand_over.filter(|(i, received)| *i == 0 || !matches!(received.message, Message::Init { .. }));
        let arrivals = readings.filter_map(|(_, received)| match received.message {
            Message::Init { tsc } | Message::Tick { tsc } => {
                Some(SyncPoint { ticks: Ticks(tsc), at: received.arrival? })
            }
            _ => None,
        });
        offers.counter_heard.extend(arrivals);
        offers.counter_hz = self.0.iter().find_map(|received| match received.message {
            Message::Rate { hz } => Some(hz as f64),
            _ => None,
        });
        offers.counter_is_kernels = is_kernels(self.0.iter().map(|received| &received.message));
        offers.process_1_read = self.0.iter().find_map(|received| match received.message {
            Message::Init { tsc } => Some(Ticks(tsc)),
            _ => None,
        });
        offers.marked.extend(self.0.iter().filter_map(|received| marked(&received.message)));
    }

    /// The time is from the guest's counter, which process 1 read just before it sent the message; else from the
    /// message's arrival.
    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (ticks, arrival) = self.0.iter().find_map(|received| match received.message {
            Message::Init { tsc } => Some((Ticks(tsc), received.arrival)),
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

/// The mark that a message is about, if it compares clocks.
fn marked(message: &Message) -> Option<Marked> {
    let Message::Sync { place, before, after, seq } = *message else { return None };
    let clock = match place {
        SyncPlace::Trace => Compared::Trace,
        SyncPlace::Kmsg => Compared::Printk,
    };
    Some(Marked { clock, number: seq.into(), before: Ticks(before), after: Ticks(after) })
}
