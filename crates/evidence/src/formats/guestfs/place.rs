//! Places libguestfs' events on the timeline: phases, marks, and a span from each message to the next of the same
//! level.
//!
//! The kernel's lines are placed like every kernel log ([`Events::kernel_log`]). Here only their beginning is used.

use super::{Event, Events, Level, Source};
use crate::formats::kernel_log::{Cleaner, Prefix};
use crate::input::text::{lossy, shorten};
use memchr::memmem;
use timeline::{Mark, NameId, Ns, Phase, SpanKind, SpanRow, TimeBase, Timeline, TrackId, TrackKind};

/// QEMU hands over a machine's output in bursts. In the lines shown in the notes of libguestfs' talk they are 1.1 ms
/// apart.
const ARRIVAL_ERROR: Ns = Ns(1_100_000);

/// Level and text of the message that begins a phase, and the phase. The first such message counts.
const STEPS: [(Level, &str, Phase); 13] = [
    (Level::Library, "launch", Phase::LibguestfsLaunch),
    (Level::Library, "begin building supermin appliance", Phase::LibguestfsBuild),
    (Level::Library, "finished building supermin appliance", Phase::LibguestfsBuilt),
    (Level::Library, "begin testing qemu features", Phase::LibguestfsAskQemu),
    (Level::Library, "finished testing qemu features", Phase::LibguestfsQemuKnown),
    (Level::Library, "connect to libvirt", Phase::LibvirtConnect),
    (Level::Library, "get libvirt capabilities", Phase::LibvirtCapabilities),
    (Level::Library, "create libvirt XML", Phase::LibguestfsXml),
    (Level::Library, "launch libvirt guest", Phase::LibvirtStart),
    (Level::Appliance, "-no-user-config", Phase::MonitorStart),
    (Level::Firmware, "", Phase::Firmware),
    (Level::Appliance, "supermin: ", Phase::Process1),
    (Level::Appliance, "guestfsd --verbose", Phase::Guestfsd),
];

/// The moments of the boot that the events show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed {
    /// The track that ran before the kernel: the firmware, else libguestfs.
    pub before: Option<TrackId>,
    /// The time of the kernel's first line.
    pub kernel: Option<Ns>,
    /// The end of the launch, and the track that the machine was busy with.
    pub done: Option<(Ns, TrackId)>,
}

/// An event's text as a name. Text that only moves the cursor gives `(no text)`.
fn label(event: &Event) -> String {
    let name = shorten(&lossy(Cleaner::default().clean(&event.text).0));
    if name.is_empty() { "(no text)".to_owned() } else { name }
}

impl Events {
    /// A timeline of these events alone, for tests and examples without a recording.
    pub fn on_a_timeline(&self) -> Timeline {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let name = timeline.names.intern("init");
        let init = timeline.tracks.add(name, TrackKind::Thread, 1);
        self.place(init, &mut timeline);
        timeline
    }
}

/// True for a message of the kernel itself. Its setup code has no log.
fn is_logged(event: &Event) -> bool {
    Prefix::strip(&event.text).0.stamped || event.text.starts_with(b"Linux version ")
}

impl Events {
    /// Places phases, spans and marks for all messages but the kernel's. `init` is the thread that becomes the
    /// appliance's first program.
    pub(crate) fn place(&self, init: TrackId, timeline: &mut Timeline) -> Placed {
        let mut boundary = |phase: Phase, event: Option<&Event>| {
            if let Some(event) = event {
                let evidence = format!("libguestfs heard: “{}”", label(event));
                let error = if event.level == Level::Library { Ns::ZERO } else { ARRIVAL_ERROR };
                timeline.boundary(phase, event.at, error, &evidence);
            }
        };
        for (level, words, phase) in STEPS {
            boundary(phase, self.of(level).find(|event| memmem::find(&event.text, words.as_bytes()).is_some()));
        }
        boundary(Phase::SetupCode, self.of(Level::Kernel).next().filter(|event| !is_logged(event)));
        boundary(Phase::EarlyKernel, self.of(Level::Kernel).find(|event| is_logged(event)));
        let first = |level| self.of(level).map(|event| event.at).next();
        let kernel = first(Level::Kernel);
        let user = self.user_space().next().map(|event| event.at);
        let done = self.events.iter().find(|event| event.source == Source::LaunchDone).map(|event| event.at);
        let end = done.or(self.events.last().map(|event| event.at)).unwrap_or_default();

        let machine = first(Level::Firmware).or(kernel).unwrap_or(end);
        let library = self.spans("libguestfs", TrackKind::Vmm, self.host(), machine, timeline);
        let until = kernel.unwrap_or(end);
        let firmware = self.spans("firmware", TrackKind::Firmware, self.of(Level::Firmware), until, timeline);
        let appliance = self.spans("appliance", TrackKind::Thread, self.user_space(), end, timeline);
        let mut created = |track: Option<TrackId>, at: Option<Ns>, by: Option<TrackId>| {
            if let Some(((track, at), by)) = track.zip(at).zip(by) {
                timeline.tracks.get_mut(track).created = Some((at, by));
            }
        };
        created(firmware, Some(machine), library);
        created(appliance, user, Some(init));
        let done = done.map(|at| (at, appliance.unwrap_or(init)));
        Placed { before: firmware.or(library), kernel, done }
    }

    /// The events on the host: libguestfs, and QEMU before the machine's first output.
    fn host(&self) -> impl Iterator<Item = &Event> {
        let machine = self.events.iter().position(|e| matches!(e.level, Level::Firmware | Level::Kernel));
        let before = machine.unwrap_or(self.events.len());
        let is_host = move |(i, event): &(usize, &Event)| event.level == Level::Library || *i < before;
        self.events.iter().enumerate().filter(is_host).map(|(_, event)| event)
    }

    /// The messages of programs in the appliance.
    fn user_space(&self) -> impl Iterator<Item = &Event> {
        let kernel = self.events.iter().position(|event| event.level == Level::Kernel).unwrap_or(self.events.len());
        self.events[kernel..].iter().filter(|event| event.level == Level::Appliance)
    }

    /// Adds a span from each message to the next one, up to `until`. Later messages become marks. Without messages
    /// there is no track.
    fn spans<'a>(
        &self,
        track: &str,
        kind: TrackKind,
        events: impl Iterator<Item = &'a Event>,
        until: Ns,
        timeline: &mut Timeline,
    ) -> Option<TrackId> {
        let mut events = events.peekable();
        events.peek()?;
        let name = timeline.names.intern(track);
        let track = timeline.tracks.named(name, kind);
        while let Some(event) = events.next() {
            let name = timeline.names.intern(&label(event));
            if event.at >= until {
                timeline.marks.push(Mark { at: event.at, name, track });
                continue;
            }
            let (start, detail) = (event.at, NameId::EMPTY);
            let end = events.peek().map_or(until, |next| next.at.min(until));
            timeline.spans.push(SpanRow { name, detail, start, end, track, kind: SpanKind::Message }, None);
        }
        Some(track)
    }
}
