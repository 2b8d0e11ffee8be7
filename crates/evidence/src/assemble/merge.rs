//! A recording's evidence on one timeline: the passes in which it is placed, and what follows from all of it.
//!
//! First the clocks are joined ([`clocks`]). Then each piece of evidence is asked, pass by pass ([`crate::readers::reader`]). Last,
//! each line of execution is chained to the one that started it, so that the boot path can be walked back from the end
//! mark to the moment the virtual machine monitor was executed, and the end mark is chosen.
//!
//! No bytes of a format are read here, and no name that a kernel prints. What it adds itself (the beginning of the machine, the
//! end of a boot without an end mark) follows from the timeline. Rules that hold for Linux only are in
//! [`crate::boot::linux`].

use crate::assemble::detect::Readers;
use crate::assemble::reader_table::{Format, READERS, THREADS, WHOLE_BOOTS};
use crate::assemble::{clocks, condition, files, gaps};
use crate::boot::clocks::log_ticks;
use crate::boot::followed::Followed;
use crate::boot::linux::{self, excerpt};
use crate::boot::offers::Offers;
use crate::boot::ports::{self, Answer};
use crate::boot::regions::Stage;
use crate::boot::subject::Subject;
use crate::boot::{FactKind, Found, Machine, Moment, Placing};
use crate::readers::exits;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use recording::{EndMark, GuestSpec, Oddity, OutcomeKind, Recording};
use timeline::{
    Clock, DiagnosticKind, End, EndEvidence, Mark, Ns, Phase, Ticks, TimeBase, Timeline, TrackId, TrackKind, Unit,
    Warning,
};

/// The diagnostic for a recording that is not as its recorder would leave it.
fn of_recording(oddity: Oddity) -> DiagnosticKind {
    match oddity {
        Oddity::UnfinishedRecording => DiagnosticKind::RecordingUnfinished,
        Oddity::UnfinishedFile => DiagnosticKind::FileUnfinished,
        Oddity::IgnoredEntry => DiagnosticKind::FolderEntryIgnored,
        Oddity::CutArchive => DiagnosticKind::ArchiveCut,
        Oddity::MissingManifest => DiagnosticKind::ManifestMissing,
        Oddity::DamagedManifest => DiagnosticKind::ManifestDamaged,
    }
}

/// A recording's evidence, read once.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Everything that it says about its boot, finalized.
    pub timeline: Timeline,
    /// The machine and its system.
    pub subject: Subject,
    /// Its calls, if they were followed.
    pub calls: Option<Followed>,
    /// The kernel's panic message, in evidence taken elsewhere that has no other end of the boot.
    pub panic: Option<String>,
}

/// Everything that a recording says about its boot, as a finalized timeline.
///
/// # Errors
/// As [`read`].
pub fn load(recording: &Recording) -> Result<Timeline, recording::Error> {
    read(recording).map(|loaded| loaded.timeline)
}

/// Everything that a recording says.
///
/// # Errors
/// If a file of the recording cannot be read. What is in the files never is an error: what does not
/// add up is in [`Timeline::diagnostics`].
pub fn read(recording: &Recording) -> Result<Loaded, recording::Error> {
    read_some(recording, None)
}

/// The same without the trace and without the kernel's own event log: only the call trace then shows which thread ran. The
/// caller gives the end mark, `until`.
///
/// # Errors
/// As [`read`].
pub fn read_by_calls(recording: &Recording, until: Ns) -> Result<Loaded, recording::Error> {
    read_some(recording, Some(until))
}

fn read_some(recording: &Recording, by_calls_until: Option<Ns>) -> Result<Loaded, recording::Error> {
    let mut timeline = Timeline::new(match recording.manifest().time_base {
        recording::TimeBase::Host => TimeBase::Host,
        recording::TimeBase::GuestVirtual => TimeBase::GuestVirtual,
        recording::TimeBase::Evidence => TimeBase::Evidence,
    });
    for odd in &recording.diagnostics {
        timeline.diagnostics.note(of_recording(odd.kind), || odd.detail.clone());
    }
    condition::warn(recording, &mut timeline)?;
    let manifest = condition::manifest(recording, &mut timeline.diagnostics);
    let mut readers = files::read(recording, &mut timeline.diagnostics)?;
    if by_calls_until.is_some() {
        readers.retain(|(format, _)| !THREADS.contains(format));
    }
    let mut found = Found::new(&manifest);
    let mut evidence = read_all(&mut readers, &mut found, &mut timeline);
    let counted = found.exits.take();
    let mut boot = Placing::new(&found, timeline);
    place(&mut evidence, &mut boot);
    counted.into_iter().for_each(|counted| exits::name(counted, &mut boot));
    let calls = evidence.into_iter().find_map(Evidence::into_calls);
    let panic = panic_line(&boot).map(|mark| boot.timeline.names.get(mark.name).to_owned());
    let Placing { mut timeline, .. } = boot;
    let subject = found.subject.take();
    samples_alone(&mut timeline);
    if let Some((end, until)) = timeline.end.as_mut().zip(by_calls_until) {
        (end.at, end.evidence) = (until, EndEvidence::OfAllEvidence);
    }
    let tolerance = timeline.clocks.iter().map(|c| c.residual).max().unwrap_or_default();
    timeline.finalize(tolerance.max(Ns::from_us(50)));
    Ok(Loaded { timeline, subject, calls, panic })
}

/// If there is nothing but samples, the sampled time is the whole: from the first one, or from when sampling
/// began, to the last.
fn samples_alone(timeline: &mut Timeline) {
    let is_all = timeline.end.is_none() && timeline.boundaries.is_empty() && timeline.spans.is_empty();
    let sampled = timeline.sampled.as_ref().filter(|_| is_all);
    let Some((began, (first, last))) = sampled.and_then(|sampled| Some((sampled.began, sampled.within()?))) else {
        return;
    };
    let began = began.map_or(first, |began| began.min(first));
    let evidence = EndEvidence::LastSample;
    timeline.end = Some(End { at: last - began, error: Ns::ZERO, track: None, evidence });
    timeline.boundary(Phase::Sampled, Ns::ZERO, Ns::ZERO, "the first sample");
}

/// Lets the readers read their files, in the order of the table, without those that another one makes needless.
fn read_all<'f>(
    readers: &'f mut Readers,
    found: &mut Found<'f>,
    timeline: &mut Timeline,
) -> Vec<Box<dyn Evidence + 'f>> {
    let mut unread = Vec::new();
    for rule in &WHOLE_BOOTS {
        let has_boot = |of| readers.iter().any(|(format, reader)| *format == of && reader.has_boot());
        if has_boot(rule.used) {
            if rule.unread.iter().any(|format| has_boot(*format)) {
                timeline.diagnostics.note(rule.note, String::new);
            }
            unread.extend_from_slice(rule.unread);
        }
    }
    let (unused, used): (Vec<_>, Vec<_>) = readers.iter_mut().partition(|(format, _)| unread.contains(format));
    unused.into_iter().for_each(|(_, reader)| reader.read_beside(timeline));
    let read = |(format, reader): &'f mut (Format, Box<dyn Reader>)| {
        let evidence = reader.read(found, timeline);
        debug_assert_eq!(undeclared(*format, found), [], "{format:?} uses facts that its row does not have");
        evidence
    };
    used.into_iter().filter_map(read).collect()
}

/// The facts that a reader used just now, and that its row in the table does not have; with true if it changed them.
fn undeclared(format: Format, found: &mut Found<'_>) -> Vec<(FactKind, bool)> {
    let Some(row) = READERS.iter().find(|row| row.format == format) else { return Vec::new() };
    let may = |(fact, changed): &(FactKind, bool)| row.provides.contains(fact) || !changed && row.needs.contains(fact);
    found.uses().into_iter().filter(|used| !may(used)).collect()
}

pub(crate) type AllEvidence<'f> = [Box<dyn Evidence + 'f>];

/// Places evidence that was read on the boot's timeline.
pub(crate) fn place(evidence: &mut AllEvidence<'_>, boot: &mut Placing<'_>) {
    let mut offers = Offers::new(boot.manifest);
    evidence.iter().for_each(|evidence| evidence.offer(&mut offers));
    boot.clocks = clocks::join(&offers, &mut boot.timeline.diagnostics);
    boot.kernel_clock_after = offers.kernel_clock_from.unwrap_or_default();
    if let Some(whole) = evidence.iter_mut().find_map(|evidence| evidence.whole_boot(boot)) {
        // What came before the kernel is as with any other.
        let Some(first) = whole.first else { return };
        boot.logged_from = whole.begins;
        before_the_kernel(evidence, boot);
        chain(boot, first, boot.logged_from);
        return;
    }
    if boot.clocks.only_ticks {
        boot.timeline.unit = Unit::Ticks;
        boot.timeline.warnings.push(Warning::TraceInTicks);
    }
    // An event is stamped a few µs after what it reports began.
    let late = if boot.clocks.only_ticks { Ns::ZERO } else { Ns::from_us(10) };
    boot.trace_error = boot.clocks.trace.as_ref().map_or(Ns::ZERO, |c| c.residual) + late;

    evidence.iter_mut().for_each(|evidence| evidence.threads(boot));
    let first = boot.first_thread();
    evidence.iter_mut().for_each(|evidence| evidence.place(boot));
    process_1_track(boot);
    linux::levels(boot);
    evidence.iter_mut().for_each(|evidence| evidence.phases(boot));
    if !boot.calls_placed {
        excerpt::initcalls_without_levels(boot);
    }
    excerpt::only_initcalls(boot);
    before_the_kernel(evidence, boot);
    let early = boot.stages.iter().find(|r| r.stage == Stage::EarlyKernel).map(|r| r.at);
    let early = early.or(boot.kernel_heard).or_else(|| boot.start_of(Phase::EarlyKernel));
    chain(boot, first, early);
    end(evidence, boot);
    gaps::place(boot);
    linux::deferrals::find(&mut boot.timeline);
    linux::name_the_kernel(boot);
    linux::name_the_initrd(boot);
    evidence.iter_mut().for_each(|evidence| evidence.finish(boot));
    // A clock that shows ticks as ticks says nothing of time.
    let clocks = std::mem::take(&mut boot.clocks);
    let trace = clocks.trace.filter(|_| !clocks.only_ticks);
    boot.timeline.clocks.extend([clocks.counter, trace, clocks.printk].into_iter().flatten());
}

/// Process 1's track, chained to the thread that the kernel started in.
fn process_1_track(boot: &mut Placing<'_>) {
    let (first, placed) = (boot.first_thread(), boot.init());
    let timeline = &mut boot.timeline;
    let init = if placed == first { timeline.tracks.find(TrackKind::Thread, 1).unwrap_or(first) } else { placed };
    // Initcalls of process 1 prove that it was there before another account of user space begins.
    let begins = timeline.spans.iter().filter(|(_, span)| span.track == init).map(|(_, span)| span.start).min();
    let created = &mut timeline.tracks.get_mut(init).created;
    if let (Some(begins), Some((at, _))) = (begins.filter(|_| init != first), created) {
        *at = begins.min(*at);
    }
    if init != first && timeline.tracks.get(init).created.is_none() {
        // Nothing says when it was created; before the first thing it is known to have done it was not needed. Where not even
        // that is known: the first thread makes it, and goes over to it.
        let spans = timeline.spans.iter().filter(|(_, s)| s.track == init);
        let begins = spans.map(|(_, s)| s.start).min();
        let alone = timeline.running.is_empty();
        if let Some(at) = begins.or(boot.first_switch.filter(|_| alone)) {
            timeline.tracks.get_mut(init).created = Some((at, first));
        }
    }
    let track = timeline.tracks.get_mut(init);
    if std::mem::take(&mut track.is_unnamed) {
        track.name = timeline.names.intern("init");
    }
    boot.init = Some(init);
}

/// Places what goes on before the kernel and around it, and the first instruction of a recorded machine.
fn before_the_kernel(evidence: &mut AllEvidence<'_>, boot: &mut Placing<'_>) {
    if !boot.is_imported() {
        let is_made = boot.board_error().is_none();
        let mut track = |name: &str, kind| {
            let name = boot.timeline.names.intern(name);
            boot.timeline.tracks.named(name, kind)
        };
        let vmm = GuestSpec::of(&boot.found.manifest.how).unwrap_or_default().target.vmm().unwrap_or_default();
        let monitor = is_made.then(|| track(vmm.name(), TrackKind::Vmm));
        let firmware = track("firmware", TrackKind::Firmware);
        boot.machine = Some(Machine { monitor, firmware, first_instruction: first_instruction(boot) });
    }
    evidence.iter_mut().for_each(|evidence| evidence.around(boot));
    boot.before = boot.machine.map(|machine| machine.firmware).or(boot.before);
}

/// By the code that ran; else by the host, which only hears of it; else by the guest's counter.
fn first_instruction(boot: &mut Placing<'_>) -> Option<Ns> {
    if let Some(first) = boot.stages.first() {
        return Some(first.at);
    }
    let by_counter = |counter: &Clock| Moment {
        at: counter.to_ns(Ticks(0)),
        error: counter.residual,
        evidence: format!("the {} is 0", counter.name),
    };
    let heard = boot.cpus_started.clone();
    let Moment { at, error, evidence } = heard.or_else(|| boot.clocks.counter.as_ref().map(by_counter))?;
    // Without a word of the firmware's nothing says what runs until the kernel's first message.
    let phase = if *boot.firmware_spoke { Phase::Firmware } else { Phase::Unexplained };
    boot.timeline.boundary(phase, at, error, &evidence);
    Some(at)
}

/// The kernel's first thread follows the firmware, from `at` on, if nothing says it better.
fn chain(boot: &mut Placing<'_>, first: TrackId, at: Option<Ns>) {
    let tracks = &mut boot.timeline.tracks;
    let known = boot.timeline.cpus_followed_until.is_some() && tracks.get(first).created.is_some();
    if let Some((before, at)) = boot.before.zip(at).filter(|_| !known) {
        tracks.get_mut(first).created = Some((at, before));
    }
}

/// The end mark: what was asked for, and what the evidence says; where nothing does, how the boot went out.
fn end(evidence: &AllEvidence<'_>, boot: &mut Placing<'_>) {
    let asked = asked(boot);
    let said: Vec<EndCandidate> = evidence.iter().filter_map(|evidence| evidence.end(boot)).collect();
    let candidates = asked.into_iter().chain(said).chain(heard_init(boot)).chain(process_1_started(boot));
    let found = candidates.min_by_key(|candidate| (candidate.rank, candidate.error));
    let found = found.or_else(|| panicked(boot)).or_else(|| last_sign(evidence, boot));
    let Some(EndCandidate { at, error, evidence, track, .. }) = found else { return };
    // Without a scheduler's word, process 1 is wherever user space ran.
    let user = boot.user_space.filter(|_| boot.is_by_calls_alone()).map(|(_, track)| track);
    let track = track.or(user).or_else(|| never_left(boot)).or(boot.init);
    boot.timeline.end = Some(End { at, error, track, evidence });
}

/// The track before the kernel, if a boot loader never started one.
fn never_left(boot: &Placing<'_>) -> Option<TrackId> {
    let timeline = &boot.timeline;
    let is_threads = |track: TrackId| timeline.tracks.get(track).kind == TrackKind::Thread;
    let came = [Phase::EarlyKernel, Phase::Kernel].into_iter().any(|phase| boot.start_of(phase).is_some())
        || timeline.spans.iter().any(|(_, span)| is_threads(span.track));
    boot.before.filter(|_| !came && boot.start_of(Phase::Loader).is_some())
}

fn candidate(rank: EndRank, at: Ns, error: Ns, evidence: EndEvidence) -> EndCandidate {
    EndCandidate { rank, at, error, evidence, track: None }
}

/// The end mark that the recording's user asked for.
fn asked(boot: &mut Placing<'_>) -> Option<EndCandidate> {
    let asked = boot.manifest.end.as_ref()?;
    let evidence = match asked.mark() {
        EndMark::Init => return None,
        EndMark::PowerOff => EndEvidence::PowerOff,
        EndMark::Reset => EndEvidence::Reset,
        EndMark::Line => EndEvidence::Asked(boot.timeline.names.intern(&asked.what)),
        EndMark::Answer => EndEvidence::Answered(boot.timeline.names.intern(&asked.what)),
        EndMark::Process => EndEvidence::ProcessRan(boot.timeline.names.intern(&asked.what)),
    };
    // The recorder found it between two looks; the trace knows when it was forked.
    if let Some(forked) = boot.timeline.process_named(&asked.what).filter(|_| asked.mark() == EndMark::Process) {
        let (at, error, track) = (forked.at, boot.trace_error, forked.track);
        return Some(EndCandidate { track, ..candidate(EndRank::Asked, at, error, evidence) });
    }
    // Found in the kernel's log in memory: its own stamp is nearer to it than when the host looked.
    if let Some((stamp, clock)) = asked.printk_ns.zip(boot.clocks.printk.as_ref()) {
        let (at, error) = (clock.to_ns(log_ticks(Ns(stamp))), clock.residual + Ns::from_us(500));
        return Some(candidate(EndRank::Asked, at, error, evidence));
    }
    // The recorder stamped it by the host's clock, which is no time of a deterministic boot.
    if !boot.is_hosted() {
        if evidence != EndEvidence::PowerOff {
            boot.timeline.warnings.push(Warning::EndMarkWithoutTime);
        }
        return None;
    }
    let (at, error) = (Ns(asked.at_ns), asked.error_ns.map_or(Ns::from_ms(1), Ns));
    let is_answer = matches!(evidence, EndEvidence::Answered(_));
    let guest = GuestSpec::of(&boot.manifest.how).filter(|_| is_answer);
    let answer = Answer { at, absent: at - error, trace_error: boot.trace_error };
    let track = guest.and_then(|guest| ports::answered(&boot.ports, &guest.until, answer, &mut boot.timeline));
    Some(EndCandidate { track, ..candidate(EndRank::Asked, at, error, evidence) })
}

/// The arrival of the first sign of bootscope's process 1. Without a channel, its only sign is a line on the console.
fn heard_init(boot: &Placing<'_>) -> Option<EndCandidate> {
    let init = boot.manifest.end.as_ref().filter(|end| end.mark() == EndMark::Init && boot.is_hosted())?;
    let error = init.error_ns.map_or(Ns::from_ms(1), Ns).max(boot.arrival_error());
    Some(candidate(EndRank::UserSpaceRan, Ns(init.at_ns), error, EndEvidence::Process1Arrived))
}

/// The start of process 1, in evidence taken elsewhere that does not show what followed.
fn process_1_started(boot: &Placing<'_>) -> Option<EndCandidate> {
    let at = boot.start_of(Phase::Process1).filter(|_| boot.is_imported() && !boot.is_start_of_process_1_unknown)?;
    let error = Ns::from_ms(1).max(boot.line_error());
    Some(candidate(EndRank::ProcessOneStarted, at, error, EndEvidence::Process1Started))
}

/// The line on which the kernel of imported evidence panicked.
fn panic_line<'b>(boot: &'b Placing<'_>) -> Option<&'b Mark> {
    let said = linux::fatal_panics(&boot.timeline).min_by_key(|mark| mark.at);
    said.filter(|_| boot.is_imported() && boot.manifest.outcome.is_none())
}

/// No end mark, because the kernel panicked: what it does after having said so is no boot.
fn panicked(boot: &Placing<'_>) -> Option<EndCandidate> {
    let error = boot.clocks.printk.as_ref().map_or(Ns::ZERO, |clock| clock.residual).max(boot.line_error());
    if let Some(said) = panic_line(boot) {
        return Some(candidate(EndRank::Panicked, said.at, error, EndEvidence::Panicked));
    }
    let outcome = boot.manifest.outcome.as_ref().filter(|o| o.kind == OutcomeKind::Panic)?;
    let said = linux::panics(&boot.timeline).map(|mark| mark.at);
    let watched = outcome.at_ns.filter(|_| boot.is_hosted()).map_or(Ns::MAX, Ns);
    let at = said.min().map(|at| at.min(watched))?;
    Some(candidate(EndRank::Panicked, at, error, EndEvidence::Panicked))
}

/// No end mark: the boot is shown up to the last thing that the kernel is known to have done; if it was then watched on,
/// because it hung, that is a phase of its own.
fn last_sign(evidence: &AllEvidence<'_>, boot: &mut Placing<'_>) -> Option<EndCandidate> {
    let timeline = &boot.timeline;
    let marks = timeline.marks.iter().map(|m| m.at).filter(|at| boot.booted_at.is_none_or(|booted| *at <= booted));
    let ran = timeline.running.iter().map(|r| r.to);
    let spans = timeline.spans.iter().map(|(_, s)| s.end);
    let signs = evidence.iter().filter_map(|evidence| evidence.last_sign(boot));
    let last = marks.chain(signs).chain(ran).chain(spans).max()?;
    let outcome = boot.manifest.outcome.as_ref().filter(|_| boot.is_hosted());
    let watched = outcome.and_then(|o| o.at_ns).map_or(last, Ns).max(last);
    if !outcome.is_some_and(|o| matches!(o.kind, OutcomeKind::Hang | OutcomeKind::Timeout)) {
        let error = (watched - last).max(boot.line_error());
        return Some(candidate(EndRank::LastSign, last, error, EndEvidence::LastSign));
    }
    let shown = "the last sign of the kernel: message, console, trace, code that ran for the first time";
    boot.timeline.boundary(Phase::NoFurtherSign, last, Ns::ZERO, shown);
    Some(candidate(EndRank::LastSign, watched, Ns::ZERO, EndEvidence::GivenUp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_no_row_declares_is_found() {
        let manifest = recording::Manifest::default();
        let mut found = Found::new(&manifest);
        assert!(found.stages.is_empty());
        assert_eq!(undeclared(Format::Calls, &mut found), [], "calls need the stages");
        *found.process_1_spoke = true;
        assert_eq!(undeclared(Format::Calls, &mut found), [(FactKind::Process1, true)]);
        found.stages.clear();
        assert_eq!(
            undeclared(Format::Calls, &mut found),
            [(FactKind::FirstExecutions, true)],
            "but do not provide them"
        );
        assert_eq!(undeclared(Format::Calls, &mut found), [], "a use counts once");
    }
}
