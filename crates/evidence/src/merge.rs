//! A recording's evidence on one timeline: which clock is which, who follows whom, where phases begin.
//!
//! The order matters. First the clocks ([`clocks`]). Then the trace (threads, waits, initcalls), then
//! what ran for the first time, which needs to know which thread ran where, then the kernel's
//! messages, then what came before the kernel. Last, each line of execution is chained to the one
//! that started it, so that the boot path can be walked back from process 1 to the moment the
//! virtual machine monitor was executed.

mod arrivals;
mod excerpt;
mod printed;

use crate::calls::{self as followed, CallClock, Calls, Followed};
use crate::clocks::{self, Clocks, log_ticks};
use crate::files::Files;
use crate::first_run::regions::Region;
use crate::first_run::symbols::Symbols;
use crate::first_run::{FirstRun, RunClock, calls, regions};
use crate::ftrace::{Event, Laid, Stamps, Trace};
use crate::guest_words::Said;
use crate::kernel_log::{KernelLog, Line};
use crate::{Subject, condition, firmware, initcalls, tslog, vmm};
use arrivals::Arrivals;
use guest_init::cpio::ROOT_PATH;
use guest_init::words::Word;
use hashbrown::HashMap;
use printed::Printed;
use recording::{Manifest, Oddity, OutcomeKind, Recording};
use timeline::{
    Clock, DiagnosticKind, Diagnostics, End, Mark, NameId, Ns, SpanKind, SyncPoint, Ticks, TimeBase, Timeline, TrackId,
    TrackKind, UNEXPLAINED, Unit,
};

/// What is wrong with a recording that is not as its recorder would leave it.
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

/// First calls shorter than this are not spans: they would be most of the spans and little of the time.
const FIRST_CALL_MIN: Ns = Ns(20_000);

/// What bootscope's process 1 does before the end mark where there is a root: loads its modules, mounts it.
const ROOT_PHASE: &str = "modules and root";

/// What one must know before believing a trace's ticks.
const ONLY_TICKS: &str = "nothing says how fast the counter runs that the trace is stamped with, so times are in ticks: \
                          import it again with --tsc-frequency (the kernel's log says `tsc: Refined TSC clocksource \
                          calibration: 2445.406 MHz` or so), or with that log, if the trace has `printk:console` events";

/// A recording's evidence, read once.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Everything that it says about its boot, settled.
    pub timeline: Timeline,
    /// What it says about the machine.
    pub subject: Subject,
    /// Its calls, if they were followed.
    pub calls: Option<Followed>,
}

/// Everything that a recording says about its boot, as a settled timeline.
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

/// The same without a trace, and without the log that a kernel kept itself: who did what rests on followed calls alone, as
/// of a boot of which there is nothing else. It ends where all of the evidence says: `until`.
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
    let mut files = Files::read(recording, &mut timeline.diagnostics)?;
    let mut log = std::mem::take(&mut files.tslog);
    if by_calls_until.is_some() {
        log = tslog::Log::default();
        files.forget_traces();
    }
    let subject = Subject::of(log.facts());
    let calls = if log.is_empty() {
        merge(&manifest, &files, &mut timeline)
    } else {
        merge_tslog(&manifest, log, &files, &mut timeline);
        Followed::read(&files, None, &[], &mut timeline.diagnostics)
    };
    if let Some((end, until)) = timeline.end.as_mut().zip(by_calls_until) {
        (end.at, end.evidence) = (until, timeline.names.intern("the end mark by all of the evidence"));
    }
    let tolerance = timeline.clocks.iter().map(|c| c.residual).max().unwrap_or_default();
    timeline.settle(tolerance.max(Ns::from_us(50)));
    Ok(Loaded { timeline, subject, calls })
}

/// Returns the calls, if they were followed.
fn merge(manifest: &Manifest, files: &Files, timeline: &mut Timeline) -> Option<Followed> {
    let words = files.guest_words(&mut timeline.diagnostics);
    for said in &words {
        // A kernel that does not tell its own configuration, as Debian's do not, lacks nothing.
        let untold = |what: &str, why: &str| what == "config.gz" && why.starts_with("No such file");
        if let Some((what, why)) = lack(&said.word).filter(|(what, why)| !untold(what, why)) {
            let place = || format!("guest.log:{}", said.line);
            timeline.diagnostics.note_about(DiagnosticKind::EvidenceNotGathered, &format!("{what}: {why}"), place);
        }
    }
    let trace = files.trace(&mut timeline.diagnostics);
    let guestfs = files.guestfs(&mut timeline.diagnostics);
    let log = files.kernel_log(guestfs.as_ref(), &mut timeline.diagnostics);
    let console = files.console_log(&mut timeline.diagnostics);
    let first_run = files.first_run(&mut timeline.diagnostics);
    let regions = first_run.as_ref().map(regions::regions).unwrap_or_default();
    let seen = first_run.as_ref().zip(trace.as_ref()).map(|(run, trace)| {
        let symbols = files.symbols(run.called(), regions::entered_at(&regions), &mut Diagnostics::default());
        seen(run, trace, &symbols)
    });
    let found = clocks::Evidence {
        manifest,
        words: &words,
        trace: trace.as_ref(),
        log: log.as_ref().map(|(_, log)| log),
        console: console.as_ref().map(|(log, index)| (log, *index)),
        started: started(manifest, files, first_run.as_ref()),
        seen: seen.unwrap_or_default(),
    };
    let mut clocks = clocks::join(&found, &mut timeline.diagnostics);
    if clocks.only_ticks {
        timeline.unit = Unit::Ticks;
        timeline.warnings.push(ONLY_TICKS.to_owned());
    }
    // An event is stamped a few µs after what it reports began.
    let late = if clocks.only_ticks { Ns::ZERO } else { Ns::from_us(10) };
    let trace_error = clocks.trace.as_ref().map_or(Ns::ZERO, |c| c.residual) + late;
    let heard = guestfs.is_some();
    let mut merge = Merge {
        manifest,
        files,
        timeline,
        trace_error,
        initcall_error: Ns::ZERO,
        logged_from: None,
        first_switch: None,
        heard,
    };

    let laid = match (&trace, &clocks.trace) {
        (Some(trace), Some(clock)) => Some(trace.lay(clock, merge.timeline)),
        _ => None,
    };
    let boot = merge.boot_thread(laid.as_ref());
    let init = laid.as_ref().and_then(|laid| laid.thread(1)).unwrap_or(boot);
    let logged = log.is_some() || console.is_some();
    if logged && clocks.printk.is_none() && manifest.time_base == recording::TimeBase::GuestVirtual {
        clocks.printk = Some(merge.printk_alone(&regions));
    }
    let calls = Followed::read(files, first_run.as_ref(), &regions, &mut merge.timeline.diagnostics);
    let usable = calls.as_ref().filter(|followed| merge.is_on_the_clock(&followed.calls));
    let followed = usable.map(|found| followed::lay(found, boot, merge.timeline));
    if let (Some(run), None) = (&first_run, &followed) {
        let printed = merge.first_calls(run, &regions, boot);
        if let (Some((_, log)), Some(set), Some(printed)) = (&log, &clocks.printk, printed) {
            clocks.printk = printed.clock(log, set).or(clocks.printk);
        }
    }
    let init = match followed.as_ref().and_then(|followed| followed.init) {
        Some(found) if init == boot => found,
        _ => init,
    };
    let traced = merge.timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Initcall);
    let arrivals = match (&log, &console) {
        _ if manifest.time_base == recording::TimeBase::GuestVirtual => Arrivals::Unknown,
        (Some(_), Some((console, index))) => Arrivals::by_text(console, index),
        (None, Some((_, index))) => Arrivals::ByOffset(index),
        (_, None) => Arrivals::Unknown,
    };
    let log = match (&log, &console) {
        (Some((file, log)), _) => Some(Log { file, log, arrivals }),
        (None, Some((log, _))) => Some(Log { file: "console.log", log, arrivals }),
        (None, None) => None,
    };
    if let Some(log) = &log {
        merge.kernel_log(log, clocks.printk.as_ref(), traced);
    }
    let init = merge.process_1_track(init, boot);
    merge.levels();
    if let (Some(log), Some(clock)) = (&log, &clocks.printk) {
        merge.log_boundaries(log.log, clock);
    }
    if let Some(followed) = &followed {
        merge.steps(init, followed.error);
    }
    merge.process_1(init);
    if followed.is_none() {
        merge.initcalls_without_levels(init, !words.is_empty());
    }
    merge.only_initcalls();
    let heard = guestfs.map(|events| events.place(init, merge.timeline)).unwrap_or_default();
    let firmware = merge.before_the_kernel(&regions, &clocks).or(heard.before);
    let early = regions.iter().find(|r| r.stage == regions::Stage::EarlyKernel).map(|r| r.at);
    let early = early.or(heard.kernel).or_else(|| merge.start_of("early kernel"));
    merge.chain(firmware, boot, early);
    merge.end(&words, &clocks, first_run.as_ref(), init, followed.as_ref());
    if let Some((at, track)) = heard.done {
        let evidence = merge.timeline.names.intern("libguestfs: the launch is done");
        merge.timeline.end = Some(End { at, error: Ns::ZERO, track: Some(track), evidence });
    }
    merge.after_messages(init);
    merge.name_the_kernel();
    let counted = |followed: &&Followed| followed.calls.clock == CallClock::Virtual && followed_alone(merge.timeline);
    if manifest.time_base == recording::TimeBase::Evidence && calls.as_ref().filter(counted).is_some() {
        // Calls of a deterministic boot, taken elsewhere: they say themselves what a nanosecond is.
        merge.timeline.time_base = TimeBase::GuestVirtual;
    }
    // A clock that shows ticks as ticks is none.
    let trace = clocks.trace.filter(|_| !clocks.only_ticks);
    merge.timeline.clocks.extend([clocks.counter, trace, clocks.printk].into_iter().flatten());
    calls
}

/// What process 1 could not gather, and why.
fn lack(word: &Word) -> Option<(&str, &str)> {
    match word {
        Word::Lack { what, why } => Some((what, why)),
        _ => None,
    }
}

/// Whether nothing but calls says what ran when.
fn followed_alone(timeline: &Timeline) -> bool {
    timeline.cpus_followed_until == Some(Ns::MAX)
}

/// A kernel that kept an event log says all there is to say of its threads; what came before it is as with any other.
fn merge_tslog(manifest: &Manifest, log: tslog::Log, files: &Files, timeline: &mut Timeline) {
    let words = files.guest_words(&mut timeline.diagnostics);
    if files.has_linux_evidence() {
        timeline.diagnostics.note(DiagnosticKind::LinuxEvidenceBesideTslog, String::new);
    }
    let started = started(manifest, files, None);
    let found =
        clocks::Evidence { manifest, words: &words, trace: None, log: None, console: None, started, seen: Vec::new() };
    let clocks = clocks::join(&found, &mut timeline.diagnostics);
    let counter = match (clocks.counter.clone().or_else(|| counter_from_the_start(manifest, files)), manifest.ticks_hz)
    {
        (Some(counter), _) => tslog::Counter::Clock(counter),
        (None, Some(hz)) => tslog::Counter::Rate(hz, "given by the user".to_owned()),
        (None, None) => tslog::Counter::Unknown,
    };
    let joined = matches!(counter, tslog::Counter::Clock(_));
    if !joined {
        // Nothing says when on the host its first record was: so that is time zero, and what the host saw is left out.
        timeline.time_base = TimeBase::Evidence;
    }
    timeline.cpu_count = manifest.subject.cpus;
    let laid = tslog::lay(log, counter, timeline);
    let Some(first) = laid.loader.or(laid.main).filter(|_| joined) else { return };
    let spans = timeline.spans.iter().filter(|(_, span)| span.track == first);
    let begun = spans.map(|(_, span)| span.start).min();
    let mut merge = Merge {
        manifest,
        files,
        timeline,
        trace_error: Ns::ZERO,
        initcall_error: Ns::ZERO,
        logged_from: begun,
        first_switch: None,
        heard: false,
    };
    let firmware = merge.before_the_kernel(&[], &clocks);
    merge.chain(firmware, first, begun);
}

/// When the machine's first instruction ran, or the host heard that the virtual CPUs were started.
fn started(manifest: &Manifest, files: &Files, first_run: Option<&FirstRun>) -> Option<Ns> {
    if manifest.time_base != recording::TimeBase::Host {
        return None;
    }
    let first = first_run.filter(|run| run.clock == RunClock::Host && !run.blocks.is_empty());
    let marks = || files.vmm_marks.as_ref().map(|m| vmm::steps(&m.name, &m.bytes, &mut Diagnostics::default()));
    first.map(|run| run.blocks.get(0).at).or_else(|| vmm::let_go(&marks()?).map(|step| step.end))
}

/// When initcalls ran for the first time, which is just after the trace says that each is called, if that is stamped with the
/// guest's counter. A name that several functions have is none of one.
fn seen(run: &FirstRun, trace: &Trace<'_>, symbols: &Symbols) -> Vec<SyncPoint> {
    if run.clock != RunClock::Host || trace.stamps != Stamps::Counter {
        return Vec::new();
    }
    let mut called: HashMap<u64, Ticks> = HashMap::new();
    let addresses = symbols.unique();
    for record in trace.records() {
        if let Event::InitcallStart(function) = record.event {
            if let Some(&address) = std::str::from_utf8(function.name).ok().and_then(|name| addresses.get(name)) {
                called.entry(address).or_insert(record.ticks);
            }
        }
    }
    run.blocks
        .iter()
        .filter_map(|block| Some(SyncPoint { ticks: called.remove(&block.address)?, at: block.at }))
        .collect()
}

/// Under TCG the guest's counter is the host's, and 0 when the CPUs are let go: process 1's own stamps say so to 0.1 ms.
fn counter_from_the_start(manifest: &Manifest, files: &Files) -> Option<Clock> {
    let hz = manifest.host.tsc_hz.filter(|hz| *hz > 0.0 && manifest.subject.accelerator == "tcg")?;
    let marks = files.vmm_marks.as_ref()?;
    let steps = vmm::steps(&marks.name, &marks.bytes, &mut Diagnostics::default());
    let let_go = vmm::let_go(&steps)?;
    let from = "measured on the host; 0 when the CPUs were let go";
    let mut clock = Clock::linear(clocks::COUNTER, hz, Ticks(0), let_go.end, from);
    clock.residual = let_go.error;
    Some(clock)
}

/// The kernel's log, and when its lines arrived on the console.
struct Log<'a> {
    file: &'a str,
    log: &'a KernelLog,
    arrivals: Arrivals<'a>,
}

struct Merge<'a> {
    manifest: &'a Manifest,
    files: &'a Files,
    timeline: &'a mut Timeline,
    /// How far off the time of a trace's event may be.
    trace_error: Ns,
    /// How far off the first initcall's start may be, by the kernel's log.
    initcall_error: Ns,
    /// The first record of a kernel that keeps an event log.
    logged_from: Option<Ns>,
    /// libguestfs heard the kernel's lines: it knows when the first one came.
    heard: bool,
    /// When the kernel first went from one thread to another.
    first_switch: Option<Ns>,
}

impl Merge<'_> {
    /// The thread that the kernel starts in: process id 0, before it becomes the idle loop.
    fn boot_thread(&mut self, laid: Option<&Laid>) -> TrackId {
        let tracks = &self.timeline.tracks;
        let creator = laid.and_then(|laid| laid.thread(1)).and_then(|init| tracks.get(init).created);
        let known = creator.map(|(_, by)| by).or_else(|| {
            tracks.iter().find(|(_, t)| t.kind == TrackKind::Thread && t.id == 0 && !t.idle).map(|(id, _)| id)
        });
        known.unwrap_or_else(|| {
            let name = self.timeline.names.intern("swapper/0");
            self.timeline.tracks.add(name, TrackKind::Thread, 0)
        })
    }

    /// printk's clock where only its own stamps are known, and that a deterministic boot's.
    fn printk_alone(&mut self, regions: &[Region]) -> Clock {
        let kernel = regions.iter().find(|region| region.stage == regions::Stage::EarlyKernel);
        if kernel.is_none() {
            self.timeline.diagnostics.note(DiagnosticKind::LogStartUnknown, String::new);
        }
        clocks::printk_alone(kernel.map_or(Ns::ZERO, |region| region.at))
    }

    /// Process 1's track, chained to the thread that the kernel started in.
    fn process_1_track(&mut self, traced: TrackId, boot: TrackId) -> TrackId {
        let init =
            if traced == boot { self.timeline.tracks.find(TrackKind::Thread, 1).unwrap_or(boot) } else { traced };
        if init != boot && self.timeline.tracks.get(init).created.is_none() {
            // Nothing says when it was created; before the first thing it is known to have done it was not needed. Where not even
            // that is known: the first thread makes it, and goes over to it.
            let spans = self.timeline.spans.iter().filter(|(_, s)| s.track == init);
            let first = spans.map(|(_, s)| s.start).min();
            let alone = self.timeline.running.is_empty();
            if let Some(at) = first.or(self.first_switch.filter(|_| alone)) {
                self.timeline.tracks.get_mut(init).created = Some((at, boot));
            }
        }
        if self.timeline.names.get(self.timeline.tracks.get(init).name) == "<...>" {
            self.timeline.tracks.get_mut(init).name = self.timeline.names.intern("init");
        }
        init
    }

    /// Returns when functions ran that print a known message.
    fn first_calls(&mut self, run: &FirstRun, regions: &[Region], boot: TrackId) -> Option<Printed> {
        let entered = regions::entered_at(regions);
        let symbols = self.files.symbols(run.called(), entered, &mut self.timeline.diagnostics);
        if symbols.is_empty() {
            return None;
        }
        let found = calls::calls(run, &symbols, FIRST_CALL_MIN, &mut self.timeline.diagnostics);
        self.first_switch = found.first_switch;
        calls::add(&found, &symbols, boot, self.timeline);
        Some(Printed::find(run, &symbols))
    }

    /// Whether calls can be laid on this timeline: a deterministic boot's are on no host's clock.
    fn is_on_the_clock(&mut self, calls: &Calls) -> bool {
        let fits = match self.manifest.time_base {
            recording::TimeBase::Host => calls.clock == CallClock::Host,
            recording::TimeBase::GuestVirtual => calls.clock == CallClock::Virtual,
            recording::TimeBase::Evidence => self.timeline.running.is_empty(),
        };
        if !fits {
            self.timeline.diagnostics.note(DiagnosticKind::CallTraceOfAnotherClock, String::new);
        }
        fits && !calls.switches.is_empty()
    }

    /// Messages become marks; initcalls that the kernel printed become spans where the trace has none.
    fn kernel_log(&mut self, log: &Log<'_>, clock: Option<&Clock>, traced: bool) {
        let Log { file, log, arrivals } = log;
        let name = self.timeline.names.intern("kernel log");
        let track = self.timeline.tracks.named(name, TrackKind::Console);
        let place = |line: &Line| match (line.stamp, clock) {
            (Some(stamp), Some(clock)) => Some(clock.to_ns(log_ticks(stamp))),
            _ => arrivals.of(log, line).or(line.host_stamp),
        };
        for line in &log.lines {
            let place_in_file = || format!("{file}:{}", line.number);
            let Some(at) = place(line) else {
                self.timeline.diagnostics.note(DiagnosticKind::MessagesWithoutStamp, place_in_file);
                continue;
            };
            if line.stamp.is_none() {
                self.timeline.diagnostics.note(DiagnosticKind::MessagesPlacedByArrival, place_in_file);
            }
            let name = self.timeline.names.intern(log.text(line));
            self.timeline.marks.push(Mark { at, name, track });
        }
        let mut found = initcalls::read(file, log, place, &mut self.timeline.diagnostics);
        if traced {
            found.calls.retain(|call| call.kind != initcalls::Kind::Initcall);
            found.levels.clear();
        }
        let initcalls = found.calls.iter().filter(|call| call.kind == initcalls::Kind::Initcall);
        self.initcall_error = initcalls.min_by_key(|call| call.start).map_or(Ns::ZERO, |call| call.start_error);
        if !found.is_empty() {
            found.lay(self.timeline);
        }
    }

    /// What the kernel's messages say about phases; the trace says it sharper where there is one.
    fn log_boundaries(&mut self, log: &KernelLog, clock: &Clock) {
        // Until the kernel has a good clocksource its clock loses ticks: a tenth of the time was seen under TCG, more on a
        // busy host. Where the clock was only compared near process 1, that is the error of what is far from it; where it
        // goes through messages on the way, what it lost between the two around.
        let last = log.lines.iter().filter_map(|line| line.stamp).max().unwrap_or_default();
        let near_process_1 = clock.rate_from == clocks::NEAR_PROCESS_1;
        let by_first_runs = clock.rate_from.starts_with(printed::RATE_FROM);
        let by_itself = clock.rate_from == clocks::FROM_FIRST_INSTRUCTION;
        let error = |stamp: Ns| {
            let lost = match (near_process_1, by_first_runs) {
                (true, _) => Ns((last - stamp).0 / 5),
                (_, true) => clock.lost_around(log_ticks(stamp), 1e9),
                _ if by_itself => Ns(stamp.0 / 5),
                _ => Ns::ZERO,
            };
            clock.residual.max(Ns::from_us(500)) + lost
        };
        let handed_over = self.start_of("hand-over").is_some();
        let mut boundary = |phase: &str, find: &dyn Fn(&str) -> bool| {
            if let Some(line) = log.lines.iter().find(|l| l.stamp.is_some() && find(log.text(l))) {
                let stamp = line.stamp.unwrap_or_default();
                let at = clock.to_ns(log_ticks(stamp));
                let text: String = log.text(line).chars().take(60).collect();
                self.timeline.boundary(phase, at, error(stamp), &format!("kernel log: “{text}”"));
            }
        };
        // A kernel says so when it has freed its own beginning, which takes long: the end of the last level says it better,
        // however exactly the message is placed.
        if !handed_over {
            boundary("hand-over", &|text| text.starts_with("Freeing unused kernel"));
        }
        let run =
            |text: &str| text.strip_prefix("Run ")?.strip_suffix(" as init process").map(|path| path == ROOT_PATH);
        boundary(ROOT_PHASE, &|text| run(text) == Some(true));
        boundary("process 1", &|text| run(text) == Some(false));
        if !self.heard {
            boundary("early kernel", &|_| true);
        }
    }

    /// Phases by level of initcalls. Console initcalls run in the middle of the early kernel and are no phase.
    fn levels(&mut self) {
        let error = self.trace_error;
        let mut levels: Vec<(Ns, Ns, NameId)> = Vec::new();
        for (_, span) in self.timeline.spans.iter().filter(|(_, s)| s.kind == SpanKind::Level) {
            if self.timeline.names.get(span.detail) != "console" {
                levels.push((span.start, span.end, span.detail));
            }
        }
        levels.sort_by_key(|level| level.0);
        for (i, &(start, end, name)) in levels.iter().enumerate() {
            let name = self.timeline.names.get(name).to_owned();
            self.timeline.boundary(&format!("initcalls: {name}"), start, error, "trace: initcall_level");
            let evidence = format!("trace: last initcall of level {name} returned");
            if name == "early" && i + 1 < levels.len() {
                self.timeline.boundary("start other CPUs", end, error, &evidence);
            }
            if i + 1 == levels.len() {
                self.timeline.boundary("hand-over", end, error, &evidence);
            }
        }
    }

    /// Phases of initcalls from followed calls, where other CPUs are started between two of the levels.
    fn steps(&mut self, init: TrackId, error: Ns) {
        let names = &self.timeline.names;
        let (smp, run) = (names.find("smp_init"), names.find("run_init_process"));
        let of_init: Vec<_> = self.timeline.spans.iter().map(|(_, s)| s).filter(|s| s.track == init).collect();
        let call = |name: Option<NameId>| of_init.iter().find(|s| Some(s.name) == name).copied();
        let (smp, run) = (call(smp), call(run));
        if let Some(run) = run {
            self.timeline.boundary("process 1", run.start, error, "calls: run_init_process");
        }
        if self.timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Level) {
            return;
        }
        let initcalls = || of_init.iter().filter(|s| s.kind == SpanKind::Initcall);
        let (first, last) = (initcalls().map(|s| s.start).min(), initcalls().map(|s| s.end).max());
        let (Some(first), Some(last)) = (first, last) else { return };
        let later = smp.and_then(|smp| initcalls().map(|s| s.start).filter(|start| *start >= smp.end).min());
        match (smp, later) {
            (Some(smp), Some(later)) if first < smp.start => {
                self.timeline.boundary("initcalls: early", first, error, "calls: the first initcall");
                self.timeline.boundary("start other CPUs", smp.start, error, "calls: smp_init");
                let evidence = "calls: the first initcall after smp_init";
                self.timeline.boundary("initcalls: pure to late", later, error, evidence);
            }
            _ => self.timeline.boundary("initcalls: all levels", first, error, "calls: the first initcall"),
        }
        self.timeline.boundary("hand-over", last, error, "calls: the last initcall returned");
    }

    fn process_1(&mut self, init: TrackId) {
        let names = &self.timeline.names;
        let execs = self.timeline.marks.iter().filter(|m| m.track == init && names.get(m.name).starts_with("exec "));
        let mut execs: Vec<Mark> = execs.copied().collect();
        execs.sort_by_key(|exec| exec.at);
        let mounts = execs.first().is_some_and(|exec| names.get(exec.name).ends_with(ROOT_PATH));
        let phases: &[&str] = if mounts { &[ROOT_PHASE, "process 1"] } else { &["process 1"] };
        for (exec, phase) in execs.iter().zip(phases) {
            let evidence = format!("trace: {}", self.timeline.names.get(exec.name));
            self.timeline.boundary(phase, exec.at, self.trace_error, &evidence);
        }
    }

    /// The monitor's set-up, firmware, loader, decompressor. Returns the track of what ran before the kernel.
    fn before_the_kernel(&mut self, regions: &[Region], clocks: &Clocks) -> Option<TrackId> {
        if self.manifest.time_base == recording::TimeBase::Evidence {
            return None;
        }
        let mut track = |name: &str, kind| {
            let name = self.timeline.names.intern(name);
            self.timeline.tracks.named(name, kind)
        };
        let (vmm_track, firmware_track) = (track("QEMU", TrackKind::Vmm), track("firmware", TrackKind::Firmware));
        regions::add(regions, firmware_track, self.timeline);

        let hosted = self.manifest.time_base == recording::TimeBase::Host;
        let steps = match &self.files.vmm_marks {
            Some(marks) if hosted => vmm::steps(&marks.name, &marks.bytes, &mut self.timeline.diagnostics),
            _ => Vec::new(),
        };
        let counter_zero =
            |counter: &Clock| (counter.to_ns(Ticks(0)), counter.residual, "the guest's TSC is 0".to_owned());
        let first_instruction = match (regions.first(), vmm::let_go(&steps), &clocks.counter) {
            (Some(first), ..) => Some(first.at),
            (None, let_go, counter) => {
                let heard = let_go.map(|step| (step.end, step.error, step.evidence.clone()));
                heard.or_else(|| counter.as_ref().map(counter_zero)).map(|(at, error, evidence)| {
                    // Without a word of the firmware's nothing says what runs until the kernel's first message.
                    let phase = if self.files.firmware.is_some() { "firmware" } else { UNEXPLAINED };
                    self.timeline.boundary(phase, at, error, &evidence);
                    at
                })
            }
        };
        if hosted {
            vmm::lay(&steps, first_instruction, vmm_track, self.timeline);
            if let Some(at) = first_instruction {
                self.timeline.tracks.get_mut(firmware_track).created = Some((at, vmm_track));
            }
        }
        // Calls say better what was done.
        let followed = self.timeline.cpus_followed_until.is_some();
        if !followed {
            self.stages(regions, firmware_track);
        }
        self.firmware_lines(regions, followed);
        Some(firmware_track)
    }

    /// Loader, setup code and decompressor are one piece of work each.
    fn stages(&mut self, regions: &[Region], track: TrackId) {
        use regions::Stage;
        let decompressing = regions::decompressing(&self.files.compression);
        let lasting: Vec<&Region> = regions.iter().filter(|r| r.lasts() && r.stage != Stage::Kernel).collect();
        for pair in lasting.windows(2) {
            let what = match pair[0].stage {
                Stage::Loader => "load the kernel",
                Stage::SetupCode => "real-mode setup",
                Stage::Decompressor => &decompressing,
                _ => continue,
            };
            let name = self.timeline.names.intern(what);
            let (start, end) = (pair[0].at, pair[1].at);
            let row = timeline::SpanRow { name, detail: NameId::EMPTY, start, end, track, kind: SpanKind::Stage };
            self.timeline.spans.push(row, None);
        }
    }

    /// What the firmware printed: spans from line to line, or only marks.
    fn firmware_lines(&mut self, regions: &[Region], only_marks: bool) {
        let Some(log) = &self.files.firmware else { return };
        if self.manifest.time_base == recording::TimeBase::Host {
            let until = regions.iter().find(|r| r.stage > regions::Stage::OptionRom).map(|r| r.at);
            // On a busy host a line can be read when the kernel has long begun.
            let until = until.or_else(|| self.start_of("early kernel")).or(self.logged_from);
            let said = firmware::read(&log.file.bytes, &log.index);
            // What its last line begins has no end where nothing is known to have followed.
            let last = || said.iter().filter_map(|s| s.at).next_back().unwrap_or(Ns::MIN);
            firmware::lay(&said, if only_marks { Ns::MIN } else { until.unwrap_or_else(last) }, self.timeline);
            let until = until.unwrap_or(Ns::MAX);
            // Nothing says when the firmware was done but that it said nothing more.
            let last = said.iter().filter_map(|s| Some((s.at?, s))).rfind(|(at, _)| *at < until);
            if let Some((at, line)) = last.filter(|_| regions.is_empty()) {
                let evidence = format!("last line of the firmware: “{}”", line.text);
                self.timeline.boundary(UNEXPLAINED, at, Ns::from_ms(1), &evidence);
            }
        }
    }

    /// The kernel's first thread follows the firmware, from `at` on, if nothing says it better.
    fn chain(&mut self, firmware: Option<TrackId>, boot: TrackId, at: Option<Ns>) {
        let known = self.timeline.cpus_followed_until.is_some() && self.timeline.tracks.get(boot).created.is_some();
        if let Some((firmware, at)) = firmware.zip(at).filter(|_| !known) {
            self.timeline.tracks.get_mut(boot).created = Some((at, firmware));
        }
    }

    fn start_of(&self, phase: &str) -> Option<Ns> {
        let phase = self.timeline.names.find(phase)?;
        self.timeline.boundaries.iter().find(|b| b.phase == phase).map(|b| b.at)
    }

    fn end(
        &mut self,
        words: &[Said],
        clocks: &Clocks,
        run: Option<&FirstRun>,
        init: TrackId,
        followed: Option<&followed::Laid>,
    ) {
        // Without a scheduler's word, process 1 is wherever user space ran.
        let alone = followed_alone(self.timeline);
        let user = followed.and_then(|followed| followed.end).filter(|_| alone);
        let init = user.map_or(init, |(_, track)| track);
        let init_word = words.iter().find_map(|said| match said.word {
            Word::Init { tsc } => Some((Ticks(tsc), said.arrival)),
            _ => None,
        });
        let imported = self.start_of("process 1").filter(|_| self.manifest.time_base == recording::TimeBase::Evidence);
        let mut set = |at: Ns, error: Ns, evidence: &str| {
            let evidence = self.timeline.names.intern(evidence);
            self.timeline.end = Some(End { at, error, track: Some(init), evidence });
        };
        let asked = self.manifest.end.as_ref().filter(|end| end.what != "init");
        // Found in the kernel's log in memory: its own stamp is nearer to it than when the host looked.
        let stamped = asked.and_then(|end| Some((end, end.printk_ns?, clocks.printk.as_ref()?)));
        if let Some((end, stamp, clock)) = stamped {
            return set(clock.to_ns(log_ticks(Ns(stamp))), clock.residual + Ns::from_us(500), &end.what);
        }
        // The recorder stamped it by the host's clock, which is no time of a deterministic boot.
        let hosted = self.manifest.time_base == recording::TimeBase::Host;
        if asked.is_some_and(|end| end.what != "power-off") && !hosted {
            let told =
                "the end mark that was asked for has no time of the guest's: the boot is shown up to another one";
            self.timeline.warnings.push(told.to_owned());
        }
        match (asked.filter(|_| hosted), init_word, &clocks.counter) {
            (Some(end), ..) => set(Ns(end.at_ns), end.error_ns.map_or(Ns::from_ms(1), Ns), &end.what),
            (None, Some((ticks, _)), Some(counter)) => {
                set(counter.to_ns(ticks), counter.residual, "process 1 sent its first byte");
            }
            (None, Some((_, Some(arrival))), None) => set(arrival, Ns::from_ms(1), "process 1's first byte arrived"),
            _ if user.is_some() => {
                set(user.map_or(Ns::ZERO, |(at, _)| at), Ns::ZERO, "user space first wrote to a port, or first ran");
            }
            _ if imported.is_some() => {
                set(imported.unwrap_or_default(), Ns::from_ms(1), "the kernel started process 1")
            }
            _ if self.panicked(clocks, init) => {}
            _ => self.last_sign(run, init),
        }
    }

    /// No end mark, because the kernel panicked: what it does after having said so is no boot.
    fn panicked(&mut self, clocks: &Clocks, init: TrackId) -> bool {
        let Some(outcome) = self.manifest.outcome.as_ref().filter(|o| o.kind == OutcomeKind::Panic) else {
            return false;
        };
        let names = &self.timeline.names;
        let said = self.timeline.marks.iter().filter(|m| names.get(m.name).starts_with("Kernel panic")).map(|m| m.at);
        let hosted = self.manifest.time_base == recording::TimeBase::Host;
        let watched = outcome.at_ns.filter(|_| hosted).map_or(Ns::MAX, Ns);
        let Some(at) = said.min().map(|at| at.min(watched)) else { return false };
        let error = clocks.printk.as_ref().map_or(Ns::ZERO, |clock| clock.residual);
        let evidence = self.timeline.names.intern("no end mark: the kernel panicked");
        self.timeline.end = Some(End { at, error, track: Some(init), evidence });
        true
    }

    /// No end mark: the boot is shown up to the last thing that the kernel is known to have done; if it was then
    /// watched on, because it hung, that is a phase of its own.
    fn last_sign(&mut self, run: Option<&FirstRun>, init: TrackId) {
        let hosted = self.manifest.time_base == recording::TimeBase::Host;
        let console = self.files.console.as_ref().filter(|_| hosted).and_then(|c| c.index.iter().last());
        let block = run.and_then(|run| run.blocks.iter().next_back()).map(|block| block.at);
        let marks = self.timeline.marks.iter().map(|m| m.at);
        let ran = self.timeline.running.iter().map(|r| r.to);
        let spans = self.timeline.spans.iter().map(|(_, s)| s.end);
        let signs = marks.chain(console.map(|(_, at)| at)).chain(block).chain(ran).chain(spans);
        let Some(last) = signs.max() else { return };
        let outcome = self.manifest.outcome.as_ref().filter(|_| hosted);
        let watched = outcome.and_then(|o| o.at_ns).map_or(last, Ns).max(last);
        let silent = outcome.is_some_and(|o| matches!(o.kind, OutcomeKind::Hang | OutcomeKind::Timeout));
        let (at, error) = if silent { (watched, Ns::ZERO) } else { (last, watched - last) };
        if silent {
            let evidence = "the last sign of the kernel: message, console, trace, code that ran for the first time";
            self.timeline.boundary("no further sign", last, Ns::ZERO, evidence);
        }
        let evidence = self.timeline.names.intern(if silent {
            "no end mark: given up"
        } else {
            "no end mark: the last sign of the kernel"
        });
        self.timeline.end = Some(End { at, error, track: Some(init), evidence });
    }

    /// Where a boot was recorded and nothing but the kernel's messages says what it did once it had threads, its time is what
    /// followed each message.
    fn after_messages(&mut self, init: TrackId) {
        let t = &*self.timeline;
        let recorded = self.manifest.time_base != recording::TimeBase::Evidence;
        let told =
            !t.running.is_empty() || t.cpus_followed_until.is_some() || t.spans.iter().any(|(_, s)| s.track == init);
        let log = t.names.find("kernel log").and_then(|log| t.tracks.iter().find(|(_, track)| track.name == log));
        let (Some(end), Some((log, _)), true) = (t.end, log, recorded && !told) else { return };
        let created = t.tracks.get(init).created.map_or(Ns::MIN, |(at, _)| at);
        let mut messages: Vec<(Ns, NameId)> =
            t.marks.iter().filter(|m| m.track == log).map(|m| (m.at, m.name)).collect();
        messages.sort_by_key(|message| message.0);
        let ends = messages.iter().skip(1).map(|next| next.0).chain([end.at]).map(|at| at.min(end.at));
        let (detail, track, kind) = (NameId::EMPTY, init, SpanKind::Message);
        let spans: Vec<_> = messages.iter().zip(ends).map(|(&(at, name), end)| (at.max(created), end, name)).collect();
        for (start, end, name) in spans.into_iter().filter(|(start, end, _)| start < end) {
            self.timeline.spans.push(timeline::SpanRow { name, detail, start, end, track, kind }, None);
        }
    }

    /// Where nothing says when initcalls ran, what is called the early kernel is all of it.
    fn name_the_kernel(&mut self) {
        let names = &mut self.timeline.names;
        let Some(early) = names.find("early kernel") else { return };
        let told_apart = self.timeline.boundaries.iter().any(|b| names.get(b.phase).starts_with("initcalls: "));
        if !told_apart {
            let kernel = names.intern("kernel, initcalls not told apart");
            self.timeline.boundaries.iter_mut().filter(|b| b.phase == early).for_each(|b| b.phase = kernel);
        }
    }
}
