//! The reader of [`boottrace`](crate::formats::boottrace).

use crate::boot::{Found, Placing};
use crate::formats::boottrace::{Event, Events, MULTI_USER};
use crate::input::Input;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader, Taken};
use timeline::{Diagnostics, EndEvidence, Mark, Ns, Os, Phase, Timeline, TrackKind};

/// The resolution of the table.
const ERROR: Ns = Ns::from_ms(1);

/// The table of one boot.
#[derive(Default)]
pub(crate) struct Files(Events);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["FreeBSD's boottrace"]
    }

    /// `take` has already read the lines.
    fn wants_files(&self) -> bool {
        false
    }

    fn take(&mut self, name: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Taken {
        let (rows, table) = self.0.take(name, bytes, diagnostics);
        if rows == 0 {
            return Taken::Nothing;
        }
        let kinds = vec![format!("{} ({rows} events)", self.kinds()[0])];
        Taken::Lines { kinds, of_a_boot: true, others: vec![0..table.start, table.end..bytes.len()] }
    }

    fn add(&mut self, _own: Option<usize>, _input: Input, _diagnostics: &mut Diagnostics) {}

    fn has_boot(&self) -> bool {
        !self.0.events.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, _timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let events = std::mem::take(&mut self.0);
        if events.events.is_empty() {
            return None;
        }
        if !found.subject.os.is_known() {
            found.subject.os = Os::FreeBsd;
        }
        Some(Box::new(events))
    }
}

/// True for an event of a process that the kernel started.
fn is_of_a_process(event: &&Event) -> bool {
    event.pid > 0
}

impl Evidence for Events {
    fn place(&mut self, boot: &mut Placing<'_>) {
        let first = boot.first_thread();
        let timeline = &mut boot.timeline;
        let name = timeline.names.intern("boottrace");
        let track = timeline.tracks.named(name, TrackKind::Console);
        for event in &self.events {
            let name = timeline.names.intern(&event.name);
            timeline.marks.push(Mark { at: event.at, name, track });
        }
        let Some(begins) = self.events.iter().find(is_of_a_process) else { return };
        let name = timeline.names.intern("init");
        let init = timeline.tracks.add(name, TrackKind::Thread, 1);
        timeline.tracks.get_mut(init).created = Some((begins.at, first));
        boot.init = Some(init);
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let mut begins = |phase: Phase, event: Option<&Event>| {
            let Some(event) = event else { return };
            let evidence = format!("boottrace: {}: {}", event.process, event.name);
            boot.timeline.boundary(phase, event.at, ERROR, &evidence);
        };
        begins(Phase::EarlyKernel, self.events.first().filter(|event| event.pid == 0));
        begins(Phase::Process1, self.events.iter().find(is_of_a_process));
        begins(Phase::UserSpace, self.events.iter().find(|event| event.pid > 1));
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        if let Some(event) = self.events.iter().find(|event| event.name.starts_with(MULTI_USER)) {
            let evidence = EndEvidence::MultiUserStarted;
            return Some(EndCandidate {
                rank: EndRank::BootDone,
                at: event.at,
                error: ERROR,
                evidence,
                track: boot.init,
            });
        }
        let last = self.events.last()?;
        let evidence = EndEvidence::LogEnds(boot.timeline.names.intern(&last.name));
        Some(EndCandidate { rank: EndRank::LastSign, at: last.at, error: ERROR, evidence, track: boot.init })
    }
}
