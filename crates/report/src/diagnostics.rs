//! The sentences of diagnostics, one for each kind.
//!
//! A sentence says what could not be used, how much of it, what that does to the result, and what to do. Programs must
//! not parse sentences: they compare the codes of [`DiagnosticKind`].

use crate::text::thousands;
use serde::{Deserialize, Serialize};
use timeline::DiagnosticKind as K;
use timeline::{Diagnostic, DiagnosticKind, Figures, Severity, Unit};

/// One kind of trouble in the evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiagnosticLine {
    /// The kind's name for programs: it never changes.
    #[serde(default)]
    pub code: String,
    /// The problem, without its count.
    pub kind: String,
    /// The file or the evidence that it is about, if the evidence names it; else empty.
    #[serde(default)]
    pub about: String,
    /// The number of occurrences.
    pub count: u64,
    /// The place of the first occurrence, as `file:line`; empty if there is no place.
    pub first: String,
    /// `harmless`, `figures affected` or `unusable`.
    #[serde(default)]
    pub severity: String,
    /// The affected figures. Empty if no figure is affected, or if a whole piece of evidence is not used.
    #[serde(default)]
    pub affects: String,
    /// The effect on the result, and what to do.
    #[serde(default)]
    pub effect: String,
    /// The affected time; `null` if it is not known.
    #[serde(default)]
    pub cost_ns: Option<i64>,
    /// The whole sentence, without the place.
    #[serde(default)]
    pub text: String,
}

impl DiagnosticLine {
    /// Makes the line of a diagnostic, for a timeline that counts in `unit`.
    pub fn new(d: &Diagnostic, unit: Unit) -> DiagnosticLine {
        let (what, effect) = sentence(d.kind);
        let cost = d.cost.map_or(String::new(), |cost| format!(" ({})", unit.show_at(cost)));
        let name = |text: String| text.replace("{name}", &d.about);
        let effect = name(worded(effect, d.count));
        let what_counted = name(worded(what, d.count).replace("{n}", &thousands(d.count)));
        DiagnosticLine {
            code: d.kind.code().to_owned(),
            kind: name(worded(what, u64::MAX).replace("{n} ", "")),
            about: d.about.clone(),
            count: d.count,
            first: d.first.clone(),
            severity: severity(d.kind.severity()).to_owned(),
            affects: d.kind.severity().affects().map_or("", figures).to_owned(),
            text: format!("{what_counted}{cost}; {effect}"),
            effect,
            cost_ns: d.cost.map(|cost| cost.0),
        }
    }

    /// True if the trouble changes no figure.
    pub fn is_harmless(&self) -> bool {
        self.severity == severity(Severity::Harmless)
    }

    /// The sentence, the affected figures and the place, on one line.
    pub(crate) fn line(&self) -> String {
        let affects = if self.affects.is_empty() { String::new() } else { format!("affects {}", self.affects) };
        let place = if self.first.is_empty() { String::new() } else { format!("first at {}", self.first) };
        let more: Vec<String> = [affects, place].into_iter().filter(|text| !text.is_empty()).collect();
        if more.is_empty() { self.text.clone() } else { format!("{} ({})", self.text, more.join("; ")) }
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Harmless => "harmless",
        Severity::Affects(_) => "figures affected",
        Severity::Unusable => "unusable",
    }
}

pub(crate) fn figures(figures: Figures) -> &'static str {
    match figures {
        Figures::Total => "total",
        Figures::Times => "times",
        Figures::Phases => "phases",
        Figures::Functions => "functions",
        Figures::Initcalls => "initcalls",
        Figures::Waits => "waits",
        Figures::Threads => "threads",
        Figures::Processes => "processes",
        Figures::Messages => "messages",
        Figures::OfThisFile => "all that this file shows",
    }
}

/// Chooses the endings in brackets for a count: `[one|several]`. Without a bar, the ending is for several.
fn worded(text: &str, count: u64) -> String {
    let mut worded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('[') {
        let Some((inside, after)) = from.split_once(']') else { break };
        let (one, many) = inside.split_once('|').unwrap_or(("", inside));
        worded.push_str(before);
        worded.push_str(if count == 1 { one } else { many });
        rest = after;
    }
    worded.push_str(rest);
    worded
}

/// The remedy for figures that contradict each other.
const REPORT: &str = "do not rely on [it|them], and report this recording";

/// The trouble, and its effect on the result. `{n}` stands for the count, `{name}` for the name in the evidence.
#[rustfmt::skip]
fn sentence(kind: DiagnosticKind) -> (&'static str, &'static str) {
    match kind {
        // Any reader.
        K::EntryWithoutExit => ("the evidence does not say when {n} call[s] returned", "[it is|they are] shown until [its caller|their callers] returned"),
        K::ExitWithoutEntry => ("{n} exit[s] [has|have] no entry", "[this call is|these calls are] left out"),
        K::ClockBack => ("{n} time stamp[s] [is|are] earlier than the one before", "the clock counts as standing still until it catches up"),
        K::CallsCross => ("{n} call[s] [crosses|cross] another call", "[it is|they are] not drawn, and the time stays with the caller[|; time that several share counts once]"),
        K::SpanEndsAfterItsParent => ("{n} span[s] [ends|end] later than the span that contains [it|them]", "[it is|they are] cut at the end of that span"),
        // The recording itself.
        K::RecordingUnfinished => ("the recording is unfinished", "the boot is shown as far as it goes"),
        K::FileUnfinished => ("{n} file[s] of the recording [is|are] unfinished", "[it is|they are] read as far as [it goes|they go]"),
        K::FolderEntryIgnored => ("{n} entr[y|ies] of the folder [is not a file|are not files]", "[it is|they are] not used"),
        K::ArchiveCut => ("{n} archive[s] [is|are] cut", "the files after the cut are missing"),
        K::ManifestMissing => ("recording.json is missing", "how the boot was run, and how it ended, is unknown"),
        K::ManifestDamaged => ("recording.json is damaged", "how the boot was run, and how it ended, is unknown"),
        K::FileMissing => ("{n} file[s] of the recording [is|are] missing ({name})", "what [it|they] showed is not in the result"),
        K::FileCut => ("{n} file[s] of the recording [is|are] cut ({name})", "what [it|they] showed after the cut is not in the result"),
        K::FileTooLarge => ("{n} file[s] of the recording [is|are] larger than 1 GiB ({name})", "[it is|they are] not read; the rest of the recording is"),
        K::ArchiveEntryIgnored => ("{n} entr[y|ies] of {name} [is not a file|are not files]", "[it is|they are] not used"),
        K::FileHole => ("{n} byte[s] of {name} [is|are] zero, one after another", "what stood there is missing, and what is beside the hole may be shown too long"),
        K::EvidenceNotGathered => ("process 1 could not gather {n} piece[s] of evidence ({name})", "the result is without [it|them]"),
        K::FormatUnknown => ("{n} file[s] [has|have] an unknown format", "[it is|they are] not used; `bootscope import --help` lists the formats"),
        K::GzipDamaged => ("{n} compressed file[s] [is|are] damaged", "[it is|they are] read up to the damage"),
        K::GzipTooLarge => (
            "{n} compressed file[s] [unpacks|unpack] to more than 256 MiB, or 200 times [its|their] size",
            "the rest is not read",
        ),
        K::LinesUnreadable => ("{n} line[s] of {name} [is|are] cut or not readable", "[it is|they are] left out"),
        K::NamesBeyondBound => (
            "{n} name[s] [comes|come] after as many different ones as are told apart",
            "[it is|they are] shown as (others)",
        ),
        K::RowsBeyondBound => ("{name} has {n} row[s] more than the 32,768 that are shown", "[it is|they are] not listed"),
        K::EntriesBeyondBound => ("{name} [has|have] {n} entr[y|ies] more than are kept", "[it is|they are] left out"),
        K::SecondStatement => ("{name} says {n} thing[s] twice", "the first counts; import one boot alone"),
        K::TermsAreNotTheSum => ("{n} line[s] of {name} [has|have] terms that are not [its|their] sum", "phases are as long as the terms say"),
        K::LengthsWithoutTimes => ("of {n} unit[s] only the length is known, not when [it was|they were] started (the longest: {name})", "[it is|they are] not on the timeline; import what says when [it was|they were] started too"),
        K::SystemdDroppedMessages => ("systemd wrote as many messages as it may in 5 s, {n} time[s], and dropped further ones", "starts and ends of units are missing then; systemd 254 and later do not with systemd.log_ratelimit_kmsg=0"),
        K::UnitTimesInSeconds => ("{n} unit[s] [is|are] known by whole seconds of the wall clock", "[its time is|their times are] up to 1 s off; import `systemctl show '*'` in place of the dump"),
        K::LongSumWithoutPlace => ("{name} took time in all", "nothing says when, so it is in the rows of the steps around it"),
        K::SumWithoutPlace => ("{name} says the length of {n} thing[s] in all and not when [it|they] happened", "[it is|they are] not placed on the timeline"),
        K::HandOverUnknown => ("{name} does not say when it started the kernel", "the time from its last stamp to the kernel's first is missing"),
        K::FpdtChecksumWrong => ("the checksum of {n} ACPI table[s] is wrong", "[its|their] content is doubtful; read [it|them] from the machine again"),
        K::FpdtOfResume => ("{n} table[s] of UEFI times [is|are] of a resume from sleep (S3PT)", "[it is|they are] no part of a boot; import the table FBPT"),
        K::ReadingsUnused => ("{n} file[s] with readings of {name} [is|are] not shown", "the timeline has no amounts over time"),
        K::FpdtWithoutTimes => ("{n} FPDT [has|have] only the addresses of times", "import /sys/firmware/acpi/fpdt/boot of that machine, or the table FBPT"),
        K::BootchartSampled => ("bootchart took {n} sample[s] of the processes ({name})", "starts, ends and waits are known to that interval; a process between two samples is missing"),
        K::BootchartOtherClock => ("{n} process[es] began after bootchart saw [it|them]", "its collector counted from its own start (-r), so its times are too early"),
        K::BootchartPartUnused => ("{n} part[s] of the boot chart [is|are] not shown: {name}", "[it says|they say] nothing of when a process ran"),
        K::TraceFileUnreadable => ("{n} trace.dat file[s] cannot be read", "[it is|they are] not used"),
        K::TracePartUnused => ("{n} part[s] of a trace.dat [is|are] beside the kernel's own trace", "[it is|they are] not shown"),
        K::TracePageDamaged => ("{n} page[s] of a trace [contradicts itself|contradict themselves] or [is|are] missing", "what they held is not shown"),
        K::SecondTrace => ("{n} more trace[s] [lies|lie] beside the first", "[it is|they are] not used; import [it|them] alone"),
        K::SecondKernelLog => ("{n} more kernel log[s] [lies|lie] beside the first", "[it is|they are] not used; import [it|them] alone"),
        K::SecondSamples => ("{n} more file[s] of samples [lies|lie] beside the first", "[it is|they are] not used; import [it|them] alone"),
        K::SamplesUnreadable => ("{n} perf.data file[s] cannot be read", "[it is|they are] not used"),
        K::SampleUnreadable => ("{n} line[s] of the samples [is|are] not readable", "[it is|they are] left out of their stacks"),
        K::CpuUnsampled => ("{n} CPU[s] [was|were] not sampled: the kernel had no memory for [its|their] samples", "no sampled share has [it|them] in it; give the machine more memory"),
        K::SecondLibguestfs => ("{n} more file[s] of libguestfs events [lies|lie] beside the first", "[it is|they are] not used; import [it|them] alone"),
        K::KernelLogBesideLibguestfs => ("{n} kernel log[s] [lies|lie] beside libguestfs events", "[it is|they are] not used; import [it|them] alone"),
        K::LinuxEvidenceBesideTslog => ("a Linux trace or log lies beside a TSLOG log", "only the TSLOG log is used"),
        K::IndexLineUnreadable => ("{n} index line[s] [is|are] cut or not readable", "the output that [it|they] stamped counts as arrived with the line before"),
        K::IndexLineOutOfOrder => ("{n} index line[s] [is|are] out of order", "the output that [it|they] stamped counts as arrived with the line before"),
        K::ArrivalClockBack => ("{n} line[s] of output arrived before the line above, by the host's clock", "[it counts|they count] as arrived with that line"),
        K::GuestMessageUnreadable => ("{n} guest message[s] [is|are] cut or not readable", "what [it|they] said is left out"),
        K::VmmMarksUnreadable => ("{n} file[s] of the VMM's marks [is|are] not readable", "the VMM's start-up is one phase without steps"),
        K::VmmMarkUnknown => ("{n} mark[s] of the VMM [has|have] a name that this version does not know ({name})", "[it is|they are] left out, so a step of the VMM's start-up may be shown as part of the next"),
        K::FirmwareLineWithoutTime => ("{n} firmware line[s] [has|have] no time", "[it is|they are] not shown"),
        // Clocks.
        K::TraceClockUnknown => ("nothing joins the clock of {n} trace[s] to the boot's time", "[it is|they are] not used"),
        K::TraceRateUnknown => ("nothing joins the ticks of {n} trace[s] to the log's time", "[it is|they are] not used; record `printk:console` events in [it|them], or import [it|them] alone with --tsc-frequency"),
        K::CounterRateImplausible => ("{n} counter rate[s] [is|are] outside 1 kHz to 100 GHz", "[it is|they are] not used; give the rate with --tsc-frequency"),
        // The kernel's log.
        K::LogClockBack => ("{n} kernel message[s] [is|are] stamped earlier than the message before", "[it keeps its stamp|they keep their stamps]; two CPUs' clocks differ, or the log holds two boots"),
        K::LogStampDamaged => ("the time stamp[s] of {n} kernel message[s] [does|do] not fit the others", "[it is|they are] placed where [it|they] arrived on the console; the serial line lost or added characters"),
        K::LogOtherBoot => ("{n} line[s] [is|are] of another boot ({name})", "[it is|they are] not used; show FILE --boot NUMBER shows that boot"),
        K::LogSuspended => ("{n} line[s] of the log [is|are] of a suspend and what follows it ({name})", "[it is|they are] no part of the boot, and not used"),
        K::LogLater => ("{n} line[s] of the log [comes|come] 30 s or more after the last line that says anything new", "the boot was over by then; [it is|they are] not used; show FILE --up-to line:REGEX goes on to a line"),
        K::WallClockSet => ("a program set the wall clock {n} time[s] during the boot", "the time across [this step|these steps] is unknown and counts as 0; print the journal with `journalctl -b -o short-monotonic`"),
        K::LogBootMissing => ("{n} log[s] [has|have] no boot {name}", "all that [it has|they have] is shown"),
        K::LogBeginningMissing => ("the beginning of {n} kernel log[s] is missing", "phases and initcalls before the first message are not shown, and the total lacks them; read the log soon after the boot, or with a larger buffer (Linux: log_buf_len=16M)"),
        K::LogControlCharacters => ("{n} control character[s] [stands|stand] in a log", "[it is|they are] taken out"),
        K::LogCut => ("{n} log[s] [is|are] cut in [its|their] last line", "that message may lack its end"),
        K::LogLineWrapped => ("a mail program wrapped {n} line[s] of the log", "[it is|they are] joined to the message before"),
        K::MessagesGlued => ("{n} message[s] [is|are] printed into another", "[its time stamp tells|their time stamps tell] them apart"),
        K::KmsgRecordUnreadable => ("{n} kernel log record[s] [is|are] cut or not readable", "[it is|they are] left out"),
        K::KmsgOverwritten => ("the kernel overwrote {n} log record[s] before the log was read", "the log's beginning is missing; boot with a larger log_buf_len="),
        K::KmsgOutOfOrder => ("{n} kernel log record[s] [is|are] out of order", "[it is|they are] placed by [its stamp|their stamps]"),
        K::KmsgMissing => ("{n} kernel log record[s] [is|are] missing", "what [it|they] said is not in the result"),
        K::MessagesWithoutStamp => ("{n} kernel message[s] [has|have] no time stamp and no arrival time", "[it is|they are] listed but not placed on the timeline"),
        K::MessagesPlacedByArrival => ("{n} kernel message[s] [has|have] no time stamp", "[it is|they are] placed where [it|they] arrived on the console"),
        K::LinesOfOthers => ("{n} line[s] without a time [is|are] of {name}", "[it is|they are] listed but not placed on the timeline"),
        K::LogStartUnknown => ("nothing tells when the kernel log of this deterministic boot begins", "it is placed from the reset vector on, and its times may be off by tens of ms; record with the first-execution trace"),
        // Initcalls.
        K::InitcallLineWithoutTime => ("{n} initcall line[s] [has|have] no time", "[it is|they are] left out"),
        K::InitcallsEndToEnd => ("{n} initcall line[s] [stands|stand] in a log without times", "the initcalls are placed end to end: their lengths are measured, the time between them is not; boot with printk.time=1"),
        K::InitcallWithoutLength => ("{n} initcall[s] [has|have] no beginning and no length", "[it is|they are] left out"),
        K::InitcallWithoutReturn => ("{n} initcall[s] [was|were] called and never seen to return", "[it is|they are] left out; the boot ended in [it|them], or lines are missing"),
        K::InitcallsInTicks => ("the kernel timed {n} initcall[s] in whole ticks of its clock", "[its start is|their starts are] known to one tick ({name}); each begins its length before its return, but not before the message before it"),
        // Traces.
        K::TraceLineOfAnotherClock => ("another clock than the first stamped {n} trace line[s]", "[it is|they are] left out"),
        K::TraceEventDamaged => ("{n} trace event[s] [lacks|lack] the usual fields", "[it is|they are] left out"),
        K::TraceEventsOverwritten => ("{n} trace event[s] [was|were] overwritten in a full buffer", "what [it|they] showed is missing; boot with a larger trace_buf_size="),
        K::TraceEventsLost => ("{n} trace event[s] [was|were] lost", "what [it|they] showed is missing; boot with a larger trace_buf_size="),
        K::TraceCut => ("{n} trace[s] [is|are] cut in [its|their] last line", "that line is left out"),
        K::TrackEventsUnread => ("{n} event[s] of tracks [is a counter's value or an asynchronous event|are counters' values or asynchronous events]", "[it is|they are] not shown"),
        K::TracksOnAnUnknownClock => ("the tracks of {n} trace[s] name no clock of the kernel's", "they are not placed beside other evidence; import [it|them] alone"),
        K::TraceEndsEarly => ("the trace ends {name} after time zero, before the end mark", "nothing shows which threads ran after it: that time of the boot path is charged to whole phases; record again, or use the whole trace"),
        K::InitcallLevelMissing => ("initcall level {name} is not in the trace", "its initcalls are in the phase of the level before it"),
        K::TraceLineUnreadable => ("{n} trace line[s] [is|are] not readable", "[it is|they are] left out"),
        K::TraceEmpty => ("{n} trace[s] [has|have] no event", "[it is|they are] not used"),
        K::TracedInitcallWithoutReturn => ("the return of {n} initcall[s] is not in the trace", "[it is|they are] shown until the next event, and not in the list of initcalls"),
        K::TracedWorkWithoutEnd => ("the end of {n} work item[s] is not in the trace", "[it is|they are] shown until [its|their] worker went idle, or until the next work item"),
        K::ThreadSwitchMissing => ("{n} thread switch[es] [is|are] missing from the trace", "the thread counts as running from its next event"),
        // The call trace.
        K::CallTraceWithoutHeader => ("{n} call trace[s] [has|have] no header", "[it is|they are] not used"),
        K::CallTraceVersionUnknown => ("{n} call trace[s] [has|have] a format that this version does not know", "[it is|they are] not used; read [it|them] with the version of bootscope that recorded [it|them]"),
        K::CallTraceCut => ("{n} record[s] of the call trace [is|are] cut off", "the calls after the cut are missing"),
        K::CallTraceMalformed => ("{n} record[s] of the call trace [is|are] malformed", "the rest of [its chunk|their chunks] is not read"),
        K::CallTraceChunkMissing => ("no chunk begins at {n} place[s] of the call trace where one should", "the rest of the file is not read"),
        K::CallTraceSyncBack => ("{n} sync point[s] of the call trace [steps|step] back", "[it is|they are] not used; the others give the clock"),
        K::CallPathUndefined => ("no chunk defines {n} call path[s]", "the time of [its|their] calls stays with the caller"),
        K::CallPathTableFull => ("{n} call[s] came after the plugin's table of call paths was full", "[it is|they are] counted under [its caller|their callers]"),
        K::CallsTooDeep => ("{n} call[s] [was|were] too deep for the plugin", "[it is|they are] counted under [its caller|their callers]"),
        K::BlocksNotFollowed => ("{n} block[s] of code came after the plugin's memory was full", "the calls made there are missing"),
        K::StackChangesNotFollowed => ("{n} change[s] of stack came after the plugin's memory was full", "calls may stand with the wrong thread"),
        K::CallTraceFull => ("{n} record[s] of single calls, sleeps and changes of stack came after the call trace had reached its limit", "[it is|they are] missing from the timeline, and the table of functions was written more seldom; record with a larger --min-call"),
        K::InitcallsTooShort => ("{n} initcall[s] [is|are] shorter than --min-call", "[it is|they are] counted in the profile, not in the list of initcalls; record with a smaller --min-call to list [it|them]"),
        K::CallOnTwoStacks => ("{n} call[s] began and returned on the stacks of two threads", "[it is|they are] counted but not drawn"),
        K::ExitsWithoutHeader => ("{n} count[s] of accesses [has|have] no header", "[it is|they are] not used"),
        K::ExitsVersionUnknown => ("{n} count[s] of accesses [has|have] a format that this version does not know", "[it is|they are] not used; read [it|them] with the version of bootscope that recorded [it|them]"),
        K::ExitMalformed => ("{n} record[s] of accesses [is|are] cut off or malformed", "the accesses after [it|them] are missing"),
        K::ExitTableFull => ("{n} access[es] came after the table of accesses was full", "[it is|they are] counted by kind alone"),
        K::CallTraceOfAnotherClock => ("{n} call trace[s] [runs|run] on another clock than the recording", "[it is|they are] not used; record [it|them] anew"),
        // The first-execution trace, and symbols.
        K::FirstExecutionWithoutHeader => ("{n} first-execution trace[s] [has|have] no header", "[it is|they are] not used"),
        K::FirstExecutionVersionUnknown => ("{n} first-execution trace[s] [has|have] a format that this version does not know", "[it is|they are] not used; read [it|them] with the version of bootscope that recorded [it|them]"),
        K::FirstExecutionCut => ("{n} record[s] of the first-execution trace [is|are] cut off", "what ran after the cut is missing"),
        K::FirstExecutionMalformed => ("{n} record[s] of the first-execution trace [is|are] malformed", "the rest of the file is not read"),
        K::FirstExecutionTableFull => ("{n} block[s] first ran after the plugin's table was full", "functions that ran first in [it|them] are missing"),
        K::FirstExecutionsStop => ("{n} first-execution trace[s] [stops|stop] in user space", "functions of the kernel that ran first after that are missing"),
        K::FirstCallReturnedElsewhere => ("{n} first call[s] returned on another vCPU", "[it is|they are] not drawn"),
        K::FirstCallsCross => ("{n} first call[s] [crosses|cross] another before there are threads", "[it is|they are] not drawn, and the time stays with the caller[|; time that several share counts once]"),
        K::FirstCallOfUnknownThread => ("{n} call[s] of the first-execution trace [has|have] no known thread", "[it is|they are] not drawn[|; time that several share counts once]"),
        K::KernelNotReached => ("no function of {n} kernel image[s] was called", "the boot did not reach this kernel"),
        K::SymbolsUnused => ("no function of {n} symbol list[s] was called", "[it is|they are] not used; give the kernel's own list, and its base if it was moved"),
        K::SymbolsOfAnotherBuild => ("{n} symbol list[s] [is|are] of another build, or at a wrong base", "[it is|they are] not used; give the list of the kernel that was booted"),
        K::SymbolsDoubtful => ("{n} symbol list[s] [lacks|lack] most of the functions called, or [is|are] of another build", "names may be wrong; give the list of the kernel that was booted"),
        K::SymbolAddressHidden => ("the kernel hides the address of {n} symbol[s]", "[this function has|these functions have] no name; read /proc/kallsyms as root"),
        K::SymbolLineUnreadable => ("{n} line[s] of a symbol list [is|are] not readable", "[it is|they are] left out"),
        // libguestfs.
        K::LibguestfsEventUnreadable => ("{n} libguestfs event[s] [is|are] cut or not readable", "[it is|they are] left out"),
        K::LibguestfsEventsMissing => ("{n} libguestfs event[s] [is|are] missing, by [its number|their numbers]", "what [it|they] showed is not in the result; import the whole file"),
        K::LibguestfsLaterLaunch => ("{n} libguestfs event[s] [belongs|belong] to a later launch", "only the first launch is shown; import the others alone"),
        K::LibguestfsClockBack => ("{n} libguestfs event[s] [is|are] stamped earlier than the one before", "[it counts|they count] as heard with the one before"),
        // TSLOG.
        K::TslogControlCharacters => ("{n} TSLOG name[s] [has|have] control characters", "[it is|they are] shown without them"),
        K::TslogTypeUnknown => ("{n} TSLOG record[s] [has|have] an unknown type", "[it is|they are] left out"),
        K::TslogLineUnreadable => ("{n} TSLOG line[s] [is|are] cut or not readable", "[it is|they are] left out"),
        K::TslogCut => ("{n} TSLOG log[s] [is|are] cut in [its|their] last line", "that record is left out"),
        K::TslogBehindText => ("{n} TSLOG record[s] [stands|stand] behind other text on [its line|their lines]", "[it is|they are] used like any other"),
        K::TslogLinesBetween => ("{n} other line[s] [stands|stand] between TSLOG records", "[it is|they are] not part of the log"),
        K::TslogCpuCountUnknown => ("{n} holder[s] may have waited for the CPU", "[it is|they are] charged with that time, for nothing says how many CPUs there are; import again with the output of `sysctl hw.ncpu`"),
        K::TslogNameNotUtf8 => ("{n} TSLOG name[s] [is|are] not UTF-8", "[it is|they are] shown as far as [it is|they are]"),
        K::WaitWithoutBeginning => ("{n} wait[s] [has|have] an end but no beginning", "[it is|they are] left out"),
        K::WaitLastsUntilReturn => ("{n} wait[s] [has|have] no end", "bootscope lets [it|them] last until the function around returned"),
        K::WaitLastsUntilCall => ("{n} wait[s] [has|have] no end", "bootscope lets [it|them] last until the thread called a function that does not sleep"),
        K::WaitLastsUntilLogEnd => ("{n} wait[s] [has|have] no end", "bootscope lets [it|them] last until the log's end"),
        K::HoldPassedOn => ("{n} hold[s] [was|were] released by another thread than took [it|them], as GEOM events are", "[it lasts|they last] until then"),
        K::HoldNeverReleased => ("{n} hold[s] [was|were] never released", "bootscope lets [it|them] last until the log's end"),
        K::ReleaseWithoutHold => ("{n} release[s] [has|have] no hold", "bootscope lets [it|them] begin with the log"),
        K::TslogOtherHeaders => ("{n} more TSLOG header[s] [lies|lie] in memory beside the fullest log's", "[it is|they are] not used"),
        K::TslogNameUnresolved => ("{n} TSLOG name[s] [is|are] missing from the image of memory", "[it is shown as an address|they are shown as addresses]; the recorder's add_range says where names lie"),
        K::TslogNameCut => ("{n} TSLOG name[s] [is|are] cut", "[it is|they are] shown as far as [it goes|they go]"),
        K::TslogNameBeyondImage => ("{n} TSLOG name[s] [lies|lie] beyond the end of the image", "[it is|they are] left out"),
        K::TslogHalfWritten => ("{n} TSLOG record[s] [is|are] half written", "[it is|they are] left out; an interrupt came while [it was|they were] written"),
        K::TslogMalformed => ("{n} TSLOG record[s] [is|are] malformed", "[it is|they are] left out"),
        K::TslogRecordBeyondImage => ("{n} TSLOG record[s] [is|are] missing from the image of memory", "[it is|they are] left out"),
        K::TslogStartedLate => ("{n} event[s] came before the TSLOG was started", "[it was|they were] not recorded; start the TSLOG earlier"),
        K::TslogNoteUnknown => ("{n} TSLOG note[s] [is|are] of an unknown kind", "[it is|they are] left out"),
        K::TslogTickOutOfRange => ("{n} TSLOG tick[s] [is|are] more than 2^56 after the first", "[it is|they are] placed with the record before, so times around [it|them] are wrong"),
        K::ProcessTickOutOfRange => ("{n} process[es] [has|have] ticks more than 2^56 after the first", "[it is|they are] left out"),
        K::KernelCounterEarly => ("{n} kernel counter[s] [begins|begin] before the loader's end", "the kernel counts as following at once, so any time between the two is missing"),
        K::CounterRestarted => ("{n} counter[s] began again", "[it counts|they count] as going on, so any time before the restart is missing"),
        K::ThreadRenamed => ("{n} thread[s] got another name while running", "[it is|they are] shown under the first"),
        K::TslogSecondDump => ("{n} TSLOG record[s] [is|are] of a second dump", "[it is|they are] not used; the longer dump says the same"),
        K::TslogGap => ("the TSLOG log has {n} gap[s]", "functions and waits in [it|them] are missing"),
        K::ProcessWithoutFork => ("{n} process[es] [has|have] no fork", "[it is|they are] not shown"),
        K::ProcessEndsBeforeItsStart => ("{n} process[es] [ends|end] before [its|their] beginning", "[it is|they are] shown with no length"),
        K::ProcessListedTwice => ("{n} process[es] [is|are] listed twice", "the first line counts"),
        // Analyses.
        K::WaitsTooDeep => ("{n} wait[s] [is|are] nested too deep or in a circle", "the time stays with the thread that waits"),
        K::ImpossibleWorkOutside => ("{n} impossible figure[s]: work outside of what it is shown in", REPORT),
        K::ImpossibleInitcallOverlap => ("{n} impossible figure[s]: two initcalls on one thread at once", REPORT),
        K::ImpossiblePhaseGap => ("{n} impossible figure[s]: phases with a gap or an overlap between them", REPORT),
        K::ImpossiblePathGap => ("{n} impossible figure[s]: a boot path with a gap or an overlap", REPORT),
        K::ImpossibleSum => ("{n} impossible figure[s]: rows that do not sum to their table's total", REPORT),
        K::ImpossibleRowLongerThanBoot => ("{n} impossible figure[s]: a row longer than the whole boot path", REPORT),
        K::ImpossibleSelfOverTotal => ("{n} impossible figure[s]: a row with more self time than total time", REPORT),
        K::ImpossibleCpuShared => ("{n} impossible figure[s]: two threads on one CPU at once", REPORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Diagnostics, Ns};

    fn line(kind: DiagnosticKind, about: &str, count: u64, cost: Option<Ns>, first: &str) -> DiagnosticLine {
        let mut all = Diagnostics::default();
        all.add(kind, about, count, cost, || first.to_owned());
        DiagnosticLine::new(all.iter().next().unwrap(), Unit::Nanoseconds)
    }

    #[test]
    fn one_and_several_have_different_endings() {
        let many = line(K::MessagesWithoutStamp, "", 1500, None, "");
        assert_eq!(
            many.line(),
            "1 500 kernel messages have no time stamp and no arrival time; they are listed but not placed on the timeline \
             (affects messages)"
        );
        assert_eq!(many.kind, "kernel messages have no time stamp and no arrival time");
        assert_eq!(many.code, "messages-without-stamp");
        let one = line(K::TraceEventsLost, "", 1, None, "trace.txt:9");
        assert_eq!(
            one.line(),
            "1 trace event was lost; what it showed is missing; boot with a larger trace_buf_size= (affects functions; \
             first at trace.txt:9)"
        );
    }

    /// Brackets and placeholders in a name from the guest are not replaced.
    #[test]
    fn brackets_in_a_name_are_kept() {
        let diagnostic = line(K::EvidenceNotGathered, "a[b|c]{n}{name}: full", 1, None, "guest.log:3");
        let expected =
            "process 1 could not gather 1 piece of evidence (a[b|c]{n}{name}: full); the result is without it";
        assert_eq!((diagnostic.text.as_str(), diagnostic.about.as_str()), (expected, "a[b|c]{n}{name}: full"));
    }

    #[test]
    fn the_time_follows_its_subject() {
        let cost = Some(Ns::from_us(400));
        let diagnostic = line(K::CallsCross, "", 6, cost, "");
        assert_eq!(
            diagnostic.line(),
            "6 calls cross another call (400 µs); they are not drawn, and the time stays with the caller; time that several \
             share counts once (affects functions)"
        );
    }

    /// Each kind has a sentence with its count, with closed brackets, and with a name if the kind has one.
    #[test]
    fn every_sentence_is_whole() {
        for &kind in DiagnosticKind::ALL {
            for count in [1, 2] {
                let diagnostic = line(kind, "A NAME", count, None, "");
                let text = &diagnostic.text;
                assert!(!text.contains(['[', ']', '|', '{', '}']) && !text.contains("  "), "{kind:?}: {text}");
                assert!(!diagnostic.effect.is_empty() && !diagnostic.kind.is_empty(), "{kind:?}: {text}");
            }
            let (what, effect) = sentence(kind);
            for text in [what, effect] {
                assert_eq!(text.matches('[').count(), text.matches(']').count(), "{kind:?}");
                assert!(
                    worded(text, 2).split([';', ':']).all(|part| part.split(' ').count() <= 26),
                    "{kind:?}: {text}"
                );
            }
        }
    }
}
