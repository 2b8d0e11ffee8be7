//! Places libguestfs' events on the timeline: phases, marks, and a span from each message to the next of the same level.
//!
//! The kernel's lines go the way of every kernel log ([`Events::kernel_log`]); only where it begins is said here.

use super::{Event, Events, Level, Source};
use crate::formats::kernel_log::{Cleaner, Prefix};
use crate::input::text::lossy;
use crate::input::text::shorten;
use memchr::memmem;
use timeline::{Mark, NameId, Ns, Phase, SpanKind, SpanRow, TimeBase, Timeline, TrackId, TrackKind};

/// QEMU hands over what a machine prints in bursts: in the lines that the notes of libguestfs' talk show, 1.1 ms apart.
const ARRIVAL_ERROR: Ns = Ns(1_100_000);

/// Whose message begins a phase, what is in it, and the phase. The first such message counts.
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

/// What the events say of the boot as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed {
    /// Who ran before the kernel: the firmware, else libguestfs.
    pub before: Option<TrackId>,
    /// When the kernel printed its first line.
    pub kernel: Option<Ns>,
    /// When the launch was over, and who the machine was busy with.
    pub done: Option<(Ns, TrackId)>,
}

/// An event's text as a name; what only moves a terminal's cursor is none.
fn label(event: &Event) -> String {
    let name = shorten(&lossy(Cleaner::default().clean(&event.text).0));
    if name.is_empty() { "(no text)".to_owned() } else { name }
}

impl Events {
    /// The events alone on a timeline, for who wants to see what they give without a recording.
    pub fn on_a_timeline(&self) -> Timeline {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let name = timeline.names.intern("init");
        let init = timeline.tracks.add(name, TrackKind::Thread, 1);
        self.place(init, &mut timeline);
        timeline
    }
}

/// A message of the kernel itself; its setup code has no log.
fn is_logged(event: &Event) -> bool {
    Prefix::strip(&event.text).0.stamped || event.text.starts_with(b"Linux version ")
}

impl Events {
    /// Phases, spans and marks of all but the kernel. `init` is the thread that becomes the appliance's first program.
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

    /// What happened on the host: libguestfs, and QEMU before the machine says anything.
    fn host(&self) -> impl Iterator<Item = &Event> {
        let machine = self.events.iter().position(|e| matches!(e.level, Level::Firmware | Level::Kernel));
        let before = machine.unwrap_or(self.events.len());
        let is_host = move |(i, event): &(usize, &Event)| event.level == Level::Library || *i < before;
        self.events.iter().enumerate().filter(is_host).map(|(_, event)| event)
    }

    /// What programs in the appliance printed.
    fn user_space(&self) -> impl Iterator<Item = &Event> {
        let kernel = self.events.iter().position(|event| event.level == Level::Kernel).unwrap_or(self.events.len());
        self.events[kernel..].iter().filter(|event| event.level == Level::Appliance)
    }

    /// A span from each message to the next one until `until`; later ones are marks. Without a message no track.
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
