//! Problems in the evidence, counted by kind. Each has the place where it was first seen and the time that it affects.
//!
//! Every kind stands once in the table of [`DiagnosticKind`], with its code and its severity. The `report` crate has
//! its sentence: this crate makes no text for people.

use crate::Ns;

/// The answers that a problem may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// The boot's length and its end mark.
    Total,
    /// The times of events.
    Times,
    /// The boundaries of phases.
    Phases,
    /// The time charged to each function.
    Functions,
    /// The list of initcalls.
    Initcalls,
    /// The threads or devices that each wait waited for.
    Waits,
    /// The thread that each CPU ran, over time.
    Threads,
    /// The list of processes.
    Processes,
    /// The kernel's messages.
    Messages,
    /// Everything that the file in question shows.
    OfThisFile,
}

/// The effect of a problem on the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No figure changes because of it.
    Harmless,
    /// These figures may be wrong.
    Affects(Figures),
    /// A whole piece of evidence is not used.
    Unusable,
}

impl Severity {
    /// The figures affected, if they are known.
    pub fn affects(self) -> Option<Figures> {
        match self {
            Severity::Affects(figures) => Some(figures),
            Severity::Harmless | Severity::Unusable => None,
        }
    }
}

/// Makes [`DiagnosticKind`] from one table of variant, code and severity.
macro_rules! kinds {
    ($($variant:ident = $code:literal, $severity:ident $(($figures:path))?;)*) => {
        /// A kind of problem with evidence. A new kind needs a line here, and its sentence in `report`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DiagnosticKind {
            $(#[doc = concat!("`", $code, "`")] $variant,)*
        }

        impl DiagnosticKind {
            pub const ALL: &[DiagnosticKind] = &[$(DiagnosticKind::$variant),*];

            /// The name that programs use for it. It never changes.
            pub fn code(self) -> &'static str {
                match self {
                    $(DiagnosticKind::$variant => $code,)*
                }
            }

            pub fn severity(self) -> Severity {
                match self {
                    $(DiagnosticKind::$variant => Severity::$severity $(($figures))?,)*
                }
            }
        }
    };
}

kinds! {
    // Any reader.
    EntryWithoutExit = "entry-without-exit", Affects(Figures::Functions);
    ExitWithoutEntry = "exit-without-entry", Affects(Figures::Functions);
    ClockBack = "clock-back", Affects(Figures::Times);
    CallsCross = "calls-cross", Affects(Figures::Functions);
    SpanEndsAfterItsParent = "span-ends-after-its-parent", Affects(Figures::Functions);
    // The recording itself.
    RecordingUnfinished = "recording-unfinished", Affects(Figures::Total);
    FileUnfinished = "file-unfinished", Affects(Figures::OfThisFile);
    FolderEntryIgnored = "folder-entry-ignored", Harmless;
    ArchiveCut = "archive-cut", Affects(Figures::OfThisFile);
    ManifestMissing = "manifest-missing", Affects(Figures::Total);
    ManifestDamaged = "manifest-damaged", Affects(Figures::Total);
    FileMissing = "file-missing", Affects(Figures::OfThisFile);
    FileCut = "file-cut", Affects(Figures::OfThisFile);
    FileTooLarge = "file-too-large", Unusable;
    ArchiveEntryIgnored = "archive-entry-ignored", Harmless;
    FileHole = "file-hole", Affects(Figures::OfThisFile);
    EvidenceNotGathered = "evidence-not-gathered", Unusable;
    FormatUnknown = "format-unknown", Unusable;
    GzipDamaged = "gzip-damaged", Affects(Figures::OfThisFile);
    GzipTooLarge = "gzip-too-large", Affects(Figures::OfThisFile);
    LinesUnreadable = "lines-unreadable", Affects(Figures::OfThisFile);
    EntriesBeyondBound = "entries-beyond-bound", Affects(Figures::OfThisFile);
    NamesBeyondBound = "names-beyond-bound", Affects(Figures::Functions);
    RowsBeyondBound = "rows-beyond-bound", Harmless;
    SecondStatement = "second-statement", Affects(Figures::OfThisFile);
    TermsAreNotTheSum = "terms-are-not-the-sum", Affects(Figures::Phases);
    LengthsWithoutTimes = "lengths-without-times", Affects(Figures::Processes);
    SystemdDroppedMessages = "systemd-dropped-messages", Affects(Figures::Processes);
    UnitTimesInSeconds = "unit-times-in-seconds", Affects(Figures::Times);
    SumWithoutPlace = "sum-without-place", Harmless;
    LongSumWithoutPlace = "long-sum-without-place", Affects(Figures::Functions);
    HandOverUnknown = "hand-over-unknown", Affects(Figures::Total);
    FpdtChecksumWrong = "fpdt-checksum-wrong", Affects(Figures::OfThisFile);
    FpdtOfResume = "fpdt-of-resume", Harmless;
    ReadingsUnused = "readings-unused", Harmless;
    FpdtWithoutTimes = "fpdt-without-times", Unusable;
    BootchartSampled = "bootchart-sampled", Affects(Figures::Processes);
    BootchartOtherClock = "bootchart-other-clock", Affects(Figures::Times);
    BootchartPartUnused = "bootchart-part-unused", Harmless;
    SecondTrace = "second-trace", Unusable;
    TraceFileUnreadable = "trace-file-unreadable", Unusable;
    TracePartUnused = "trace-part-unused", Harmless;
    TracePageDamaged = "trace-page-damaged", Affects(Figures::Threads);
    SecondKernelLog = "second-kernel-log", Unusable;
    SecondLibguestfs = "second-libguestfs", Unusable;
    SecondSamples = "second-samples", Unusable;
    SamplesUnreadable = "samples-unreadable", Unusable;
    SampleUnreadable = "sample-unreadable", Affects(Figures::Functions);
    CpuUnsampled = "cpu-unsampled", Affects(Figures::Functions);
    KernelLogBesideLibguestfs = "kernel-log-beside-libguestfs", Unusable;
    LinuxEvidenceBesideTslog = "linux-evidence-beside-tslog", Unusable;
    IndexLineUnreadable = "index-line-unreadable", Affects(Figures::Times);
    IndexLineOutOfOrder = "index-line-out-of-order", Affects(Figures::Times);
    ArrivalClockBack = "arrival-clock-back", Affects(Figures::Times);
    GuestMessageUnreadable = "guest-message-unreadable", Affects(Figures::Phases);
    VmmMarksUnreadable = "vmm-marks-unreadable", Unusable;
    VmmMarkUnknown = "vmm-mark-unknown", Affects(Figures::Phases);
    FirmwareLineWithoutTime = "firmware-line-without-time", Affects(Figures::Messages);
    // Clocks.
    TraceClockUnknown = "trace-clock-unknown", Unusable;
    TraceRateUnknown = "trace-rate-unknown", Unusable;
    CounterRateImplausible = "counter-rate-implausible", Affects(Figures::Times);
    // The kernel's log.
    LogClockBack = "log-clock-back", Affects(Figures::Messages);
    LogStampDamaged = "log-stamp-damaged", Affects(Figures::Messages);
    LogOtherBoot = "log-other-boot", Unusable;
    WallClockSet = "wall-clock-set", Affects(Figures::Times);
    LogBootMissing = "log-boot-missing", Unusable;
    LogSuspended = "log-suspended", Unusable;
    LogLater = "log-later", Unusable;
    LogBeginningMissing = "log-beginning-missing", Affects(Figures::Total);
    LogControlCharacters = "log-control-characters", Harmless;
    LogCut = "log-cut", Harmless;
    LogLineWrapped = "log-line-wrapped", Harmless;
    MessagesGlued = "messages-glued", Harmless;
    KmsgRecordUnreadable = "kmsg-record-unreadable", Affects(Figures::Messages);
    KmsgOverwritten = "kmsg-overwritten", Affects(Figures::Messages);
    KmsgOutOfOrder = "kmsg-out-of-order", Harmless;
    KmsgMissing = "kmsg-missing", Affects(Figures::Messages);
    MessagesWithoutStamp = "messages-without-stamp", Affects(Figures::Messages);
    MessagesPlacedByArrival = "messages-placed-by-arrival", Affects(Figures::Messages);
    LinesOfOthers = "lines-of-others", Harmless;
    LogStartUnknown = "log-start-unknown", Affects(Figures::Times);
    // Initcalls.
    InitcallLineWithoutTime = "initcall-line-without-time", Affects(Figures::Initcalls);
    InitcallsEndToEnd = "initcalls-end-to-end", Affects(Figures::Times);
    InitcallWithoutLength = "initcall-without-length", Affects(Figures::Initcalls);
    InitcallWithoutReturn = "initcall-without-return", Affects(Figures::Initcalls);
    InitcallsInTicks = "initcalls-in-ticks", Affects(Figures::Initcalls);
    // Traces.
    TraceLineOfAnotherClock = "trace-line-of-another-clock", Affects(Figures::Functions);
    TraceEventDamaged = "trace-event-damaged", Affects(Figures::Functions);
    TraceEventsOverwritten = "trace-events-overwritten", Affects(Figures::Functions);
    TraceEventsLost = "trace-events-lost", Affects(Figures::Functions);
    TraceCut = "trace-cut", Affects(Figures::Functions);
    TraceEndsEarly = "trace-ends-early", Affects(Figures::Threads);
    TrackEventsUnread = "track-events-unread", Affects(Figures::OfThisFile);
    TracksOnAnUnknownClock = "tracks-on-an-unknown-clock", Unusable;
    TraceLineUnreadable = "trace-line-unreadable", Affects(Figures::Functions);
    TraceEmpty = "trace-empty", Unusable;
    InitcallLevelMissing = "initcall-level-missing", Affects(Figures::Phases);
    TracedInitcallWithoutReturn = "traced-initcall-without-return", Affects(Figures::Initcalls);
    TracedWorkWithoutEnd = "traced-work-without-end", Affects(Figures::Functions);
    ThreadSwitchMissing = "thread-switch-missing", Affects(Figures::Threads);
    // The call trace.
    CallTraceWithoutHeader = "call-trace-without-header", Unusable;
    CallTraceVersionUnknown = "call-trace-version-unknown", Unusable;
    CallTraceCut = "call-trace-cut", Affects(Figures::Functions);
    CallTraceMalformed = "call-trace-malformed", Affects(Figures::Functions);
    CallTraceChunkMissing = "call-trace-chunk-missing", Affects(Figures::Functions);
    CallTraceSyncBack = "call-trace-sync-back", Harmless;
    CallPathUndefined = "call-path-undefined", Affects(Figures::Functions);
    CallPathTableFull = "call-path-table-full", Affects(Figures::Functions);
    CallsTooDeep = "calls-too-deep", Affects(Figures::Functions);
    BlocksNotFollowed = "blocks-not-followed", Affects(Figures::Functions);
    StackChangesNotFollowed = "stack-changes-not-followed", Affects(Figures::Threads);
    CallTraceFull = "call-trace-full", Affects(Figures::Functions);
    InitcallsTooShort = "initcalls-too-short", Affects(Figures::Initcalls);
    CallOnTwoStacks = "call-on-two-stacks", Affects(Figures::Functions);
    CallTraceOfAnotherClock = "call-trace-of-another-clock", Unusable;
    // The counts of accesses.
    ExitsWithoutHeader = "exits-without-header", Unusable;
    ExitsVersionUnknown = "exits-version-unknown", Unusable;
    ExitMalformed = "exit-malformed", Affects(Figures::Functions);
    ExitTableFull = "exit-table-full", Affects(Figures::Functions);
    // The first-execution trace, and symbols.
    FirstExecutionWithoutHeader = "first-execution-without-header", Unusable;
    FirstExecutionVersionUnknown = "first-execution-version-unknown", Unusable;
    FirstExecutionCut = "first-execution-cut", Affects(Figures::Functions);
    FirstExecutionMalformed = "first-execution-malformed", Affects(Figures::Functions);
    FirstExecutionTableFull = "first-execution-table-full", Affects(Figures::Functions);
    FirstExecutionsStop = "first-executions-stop", Affects(Figures::Functions);
    FirstCallReturnedElsewhere = "first-call-returned-elsewhere", Affects(Figures::Functions);
    FirstCallsCross = "first-calls-cross", Affects(Figures::Functions);
    FirstCallOfUnknownThread = "first-call-of-unknown-thread", Affects(Figures::Functions);
    KernelNotReached = "kernel-not-reached", Harmless;
    SymbolsUnused = "symbols-unused", Unusable;
    SymbolsOfAnotherBuild = "symbols-of-another-build", Unusable;
    SymbolsDoubtful = "symbols-doubtful", Affects(Figures::Functions);
    SymbolAddressHidden = "symbol-address-hidden", Affects(Figures::Functions);
    SymbolLineUnreadable = "symbol-line-unreadable", Harmless;
    // libguestfs.
    LibguestfsEventUnreadable = "libguestfs-event-unreadable", Affects(Figures::Messages);
    LibguestfsEventsMissing = "libguestfs-events-missing", Affects(Figures::Phases);
    LibguestfsLaterLaunch = "libguestfs-later-launch", Harmless;
    LibguestfsClockBack = "libguestfs-clock-back", Affects(Figures::Times);
    // TSLOG.
    TslogControlCharacters = "tslog-control-characters", Harmless;
    TslogTypeUnknown = "tslog-type-unknown", Affects(Figures::Functions);
    TslogLineUnreadable = "tslog-line-unreadable", Affects(Figures::Functions);
    TslogCut = "tslog-cut", Affects(Figures::Functions);
    TslogBehindText = "tslog-behind-text", Harmless;
    TslogLinesBetween = "tslog-lines-between", Harmless;
    TslogCpuCountUnknown = "tslog-cpu-count-unknown", Affects(Figures::Waits);
    TslogNameNotUtf8 = "tslog-name-not-utf-8", Harmless;
    WaitWithoutBeginning = "wait-without-beginning", Affects(Figures::Waits);
    WaitLastsUntilReturn = "wait-lasts-until-return", Affects(Figures::Waits);
    WaitLastsUntilCall = "wait-lasts-until-call", Affects(Figures::Waits);
    WaitLastsUntilLogEnd = "wait-lasts-until-log-end", Affects(Figures::Waits);
    HoldPassedOn = "hold-passed-on", Harmless;
    HoldNeverReleased = "hold-never-released", Affects(Figures::Waits);
    ReleaseWithoutHold = "release-without-hold", Affects(Figures::Waits);
    TslogOtherHeaders = "tslog-other-headers", Harmless;
    TslogNameUnresolved = "tslog-name-unresolved", Affects(Figures::Functions);
    TslogNameCut = "tslog-name-cut", Harmless;
    TslogNameBeyondImage = "tslog-name-beyond-image", Affects(Figures::Functions);
    TslogHalfWritten = "tslog-half-written", Affects(Figures::Functions);
    TslogMalformed = "tslog-malformed", Affects(Figures::Functions);
    TslogRecordBeyondImage = "tslog-record-beyond-image", Affects(Figures::Functions);
    TslogStartedLate = "tslog-started-late", Affects(Figures::Functions);
    TslogNoteUnknown = "tslog-note-unknown", Affects(Figures::Functions);
    TslogTickOutOfRange = "tslog-tick-out-of-range", Affects(Figures::Times);
    ProcessTickOutOfRange = "process-tick-out-of-range", Affects(Figures::Processes);
    KernelCounterEarly = "kernel-counter-early", Affects(Figures::Times);
    CounterRestarted = "counter-restarted", Affects(Figures::Times);
    ThreadRenamed = "thread-renamed", Harmless;
    TslogSecondDump = "tslog-second-dump", Harmless;
    TslogGap = "tslog-gap", Affects(Figures::Functions);
    ProcessWithoutFork = "process-without-fork", Affects(Figures::Processes);
    ProcessEndsBeforeItsStart = "process-ends-before-its-start", Affects(Figures::Processes);
    ProcessListedTwice = "process-listed-twice", Harmless;
    // Analyses.
    WaitsTooDeep = "waits-too-deep", Affects(Figures::Waits);
    ImpossibleWorkOutside = "impossible-work-outside", Affects(Figures::Functions);
    ImpossibleInitcallOverlap = "impossible-initcall-overlap", Affects(Figures::Initcalls);
    ImpossiblePhaseGap = "impossible-phase-gap", Affects(Figures::Phases);
    ImpossiblePathGap = "impossible-path-gap", Affects(Figures::Total);
    ImpossibleSum = "impossible-sum", Affects(Figures::Functions);
    ImpossibleRowLongerThanBoot = "impossible-row-longer-than-boot", Affects(Figures::Functions);
    ImpossibleSelfOverTotal = "impossible-self-over-total", Affects(Figures::Functions);
    ImpossibleCpuShared = "impossible-cpu-shared", Affects(Figures::Threads);
}

/// One kind of problem, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub kind: DiagnosticKind,
    /// The thing that it is about, where the evidence names one: a file, or evidence that process 1 could not gather.
    /// Each name is counted apart.
    pub about: String,
    /// The number of times.
    pub count: u64,
    /// The time that it is about, if that is known.
    pub cost: Option<Ns>,
    /// The place where it was seen first, usually `file:line`; empty if there is no place.
    pub first: String,
}

/// The largest number of names of one kind that are counted apart. The evidence chooses the names, and could give each
/// problem another one.
const MAX_NAMES_PER_KIND: usize = 256;
/// The name under which all further names are counted.
const OTHERS: &str = "others";
/// Longer names and places are cut.
const MAX_NAME_BYTES: usize = 4096;

/// The part of a name that is kept.
fn kept_name(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// All problems, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Counts one more problem. `place` is called only the first time.
    pub fn note(&mut self, kind: DiagnosticKind, place: impl FnOnce() -> String) {
        self.note_many(kind, 1, place);
    }

    /// Counts `count` more problems.
    pub fn note_many(&mut self, kind: DiagnosticKind, count: u64, place: impl FnOnce() -> String) {
        self.add(kind, "", count, None, place);
    }

    /// Counts one more problem that is about this much time.
    pub fn note_time(&mut self, kind: DiagnosticKind, cost: Ns, place: impl FnOnce() -> String) {
        self.add(kind, "", 1, Some(cost), place);
    }

    /// Counts a problem for each of these stretches of time. They may nest or overlap. Shared time enters the cost
    /// once, so the cost is never more than the boot.
    pub fn note_stretches(&mut self, kind: DiagnosticKind, stretches: Vec<(Ns, Ns)>, place: impl FnOnce() -> String) {
        let count = stretches.len() as u64;
        let cost = crate::merged(stretches).into_iter().map(|(from, to)| to - from).sum();
        self.add(kind, "", count, Some(cost), place);
    }

    /// Counts one more problem, under the name that the evidence gives.
    pub fn note_about(&mut self, kind: DiagnosticKind, about: &str, place: impl FnOnce() -> String) {
        self.add(kind, about, 1, None, place);
    }

    /// Counts `count` more problems; `cost` is their sum.
    pub fn add(
        &mut self,
        kind: DiagnosticKind,
        about: &str,
        count: u64,
        cost: Option<Ns>,
        place: impl FnOnce() -> String,
    ) {
        if count == 0 {
            return;
        }
        let about = kept_name(about);
        let (mut names_of_kind, mut existing) = (0, None);
        for (i, d) in self.0.iter().enumerate().filter(|(_, d)| d.kind == kind) {
            names_of_kind += 1;
            if d.about == about || (names_of_kind > MAX_NAMES_PER_KIND && d.about == OTHERS) {
                existing = Some(i);
                break;
            }
        }
        match existing {
            Some(i) => {
                let entry = &mut self.0[i];
                entry.count = entry.count.saturating_add(count);
                entry.cost = sum(entry.cost, cost);
            }
            None => {
                let about = if names_of_kind < MAX_NAMES_PER_KIND { about } else { OTHERS };
                let (about, first) = (about.to_owned(), kept_name(&place()).to_owned());
                self.0.push(Diagnostic { kind, about, count, cost, first });
            }
        }
    }

    /// Adds all problems of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        for d in other.0 {
            self.add(d.kind, &d.about, d.count, d.cost, || d.first);
        }
    }

    /// The number of problems of this kind.
    pub fn count(&self, kind: DiagnosticKind) -> u64 {
        self.0.iter().filter(|d| d.kind == kind).map(|d| d.count).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// True if there was no problem.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn sum(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Ns(a.0.saturating_add(b.0))),
        (some, None) | (None, some) => some,
    }
}

#[cfg(test)]
mod tests {
    use super::DiagnosticKind::{CallsCross, EntryWithoutExit, FileMissing, HoldPassedOn};
    use super::*;

    #[test]
    fn each_kind_is_counted_with_its_first_place() {
        let mut all = Diagnostics::default();
        all.note(EntryWithoutExit, || "a:1".to_owned());
        all.note(EntryWithoutExit, || "a:2".to_owned());
        let open = all.iter().next().unwrap();
        assert_eq!((open.kind, open.first.as_str(), all.count(EntryWithoutExit)), (EntryWithoutExit, "a:1", 2));
        assert_eq!(all.count(CallsCross), 0);
        let nested_and_apart = [(0, 50), (10, 20), (40, 70), (90, 100)];
        all.note_stretches(CallsCross, nested_and_apart.map(|(from, to)| (Ns(from), Ns(to))).to_vec(), String::new);
        let crossing = all.iter().find(|d| d.kind == CallsCross).unwrap();
        assert_eq!((crossing.count, crossing.cost), (4, Some(Ns(80))));
    }

    #[test]
    fn names_are_counted_apart() {
        let mut all = Diagnostics::default();
        for file in ["a.log", "b.log", "a.log"] {
            all.note_about(FileMissing, file, String::new);
        }
        let found: Vec<_> = all.iter().map(|d| (d.about.as_str(), d.count)).collect();
        assert_eq!((found, all.count(FileMissing)), (vec![("a.log", 2), ("b.log", 1)], 3));
    }

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut all = Diagnostics::default();
        for i in 0..1000 {
            all.note_about(FileMissing, &format!("{i}"), || format!("file:{i}"));
        }
        all.note_about(FileMissing, "3", String::new);
        all.note_about(EntryWithoutExit, &"ä".repeat(MAX_NAME_BYTES), || "b".repeat(2 * MAX_NAME_BYTES));
        let counted = |about: &str| all.iter().find(|d| d.about == about).map(|d| (d.count, d.first.as_str()));
        assert_eq!(
            (counted("3"), counted("others")),
            (Some((2, "file:3")), Some((1000 - MAX_NAMES_PER_KIND as u64, "file:256")))
        );
        assert_eq!((all.iter().count(), all.count(FileMissing)), (MAX_NAMES_PER_KIND + 2, 1001));
        let long = all.iter().last().unwrap();
        assert_eq!((long.about.len(), long.first.len()), (MAX_NAME_BYTES, MAX_NAME_BYTES));
    }

    #[test]
    fn severity_and_cost_are_kept() {
        let mut all = Diagnostics::default();
        all.note_time(HoldPassedOn, Ns(300), String::new);
        let mut more = Diagnostics::default();
        more.note_time(HoldPassedOn, Ns(100), String::new);
        more.note_many(EntryWithoutExit, 0, String::new);
        more.note(EntryWithoutExit, String::new);
        all.extend(more);
        let summary = |d: &Diagnostic| (d.kind.severity(), d.count, d.cost);
        let found: Vec<_> = all.iter().map(summary).collect();
        let functions = Severity::Affects(Figures::Functions);
        assert_eq!(found, [(Severity::Harmless, 2, Some(Ns(400))), (functions, 1, None)]);
    }

    #[test]
    fn a_code_is_its_kinds_name_in_small_letters() {
        let small = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>();
        let codes: std::collections::HashSet<&str> = DiagnosticKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), DiagnosticKind::ALL.len());
        for kind in DiagnosticKind::ALL {
            assert_eq!(small(kind.code()), format!("{kind:?}").to_lowercase());
        }
    }
}
