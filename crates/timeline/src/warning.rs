//! Facts that a reader of any figure of a boot needs first, such as that the evidence ends too early, or that times are
//! ticks.
//!
//! A [`crate::Diagnostic`] counts an inconsistency, and views show it after the figures. A warning is about the boot as
//! a whole, and views show it once, before the figures. Both have a code for programs. The `report` crate has the
//! sentences: this crate makes no text for people.

use crate::{Figures, Ns, RateSource};

/// The last line that a recorder received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSign {
    /// The start of the line, by the host's clock.
    pub at: Ns,
    /// The file that contains it.
    pub file: String,
}

/// The end of a kernel's event log without an end mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The time of its last record, since its first.
    pub at: Ns,
    /// That record, as in the log: `ENTER _sleep`.
    pub record: String,
    /// The number of the thread that logged it.
    pub thread: u64,
    /// The functions that the thread of the boot path was in, the outermost first. Empty where no function was open, or
    /// where that shows nothing.
    pub open: Vec<String>,
}

/// A process in a process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessNamed {
    pub pid: u64,
    /// The program that it ran, if that is known.
    pub name: Option<String>,
}

/// The reason why a recording's manifest shows nothing of its boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestFault {
    /// There is no manifest.
    Missing,
    /// The manifest cannot be parsed.
    Damaged {
        /// The parser's error.
        found: String,
    },
    /// The manifest does not record whether the recording was finished.
    NoState,
}

/// The loss of a recording's file, as figures see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLoss {
    /// All that it contained, whatever that was.
    WhatItSaid,
    /// Nothing: the file is only for people.
    NoFigure,
    /// All evidence of an imported file, maybe also the start and the end of the boot.
    ImportedEvidence,
    /// Events of a kernel's log.
    LogEvents,
    /// The end mark, and what joins the clocks.
    GuestMessages,
    /// The kernel's messages.
    KernelMessages,
    /// Arrival times of console lines.
    ArrivalTimes,
    /// Initcalls, waits and wake-ups.
    TraceEvents,
    Calls,
    /// Counts of accesses that leave the guest.
    Exits,
    /// Functions of the early kernel, and the phases before it.
    FirstExecutions,
    FunctionNames,
    FirmwareSteps,
    /// The steps of the virtual machine monitor.
    VmmSteps,
    /// The guest's memory.
    GuestMemory,
}

/// A warning, with the data for its sentence. Times are on the boot's log or timeline, in the timeline's unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The recorder is still running: the boot is not over.
    RecordingAtWork {
        /// The last line received; `None` if there was no line at all.
        last: Option<LastSign>,
    },
    /// The recorder was killed.
    RecordingInterrupted {
        /// The last line received; `None` if there was no line at all.
        last: Option<LastSign>,
    },
    /// All times are prices of a machine model.
    Priced {
        model: String,
        /// True if accesses were counted. Otherwise only instructions and timed waits have a price.
        has_accesses: bool,
        /// The number of accesses without a price, because their time or function was not recorded.
        not_placed: u64,
    },
    /// Nothing shows how the boot was run, or whether its recording was finished.
    RecordingUnknown {
        /// The fault of the manifest.
        why: ManifestFault,
    },
    /// A recorded file is missing.
    FileMissing {
        file: String,
        /// Its size when it was recorded.
        recorded_bytes: u64,
        loss: FileLoss,
    },
    /// Only a part of a recorded file is there.
    FileCut {
        file: String,
        /// Its size when it was recorded.
        recorded_bytes: u64,
        /// Its size now.
        found_bytes: u64,
        /// The loss of the rest.
        loss: FileLoss,
    },
    /// A file is larger than the reader's limit.
    FileTooLarge {
        file: String,
        bytes: u64,
        /// The largest size that is read.
        limit_bytes: u64,
        loss: FileLoss,
    },
    /// Times are ticks of the counter that stamps a trace.
    TraceInTicks,
    /// Times are ticks of the counter that stamps a kernel's event log.
    LogInTicks,
    /// The user specified a rate of a log's counter that differs from the evidence.
    LogRateContradicted {
        /// The user's rate, which is used.
        given_hz: f64,
        /// The rate in the evidence.
        found_hz: f64,
        /// The source of that rate.
        found_in: RateSource,
    },
    /// The requested end mark has no guest time.
    EndMarkWithoutTime,
    /// A thread of the boot path logs nothing for some time.
    ThreadSilent {
        /// Its name.
        thread: String,
        /// The start of that time, since the log's first record.
        from: Ns,
        /// The end of that time.
        to: Ns,
        /// The function that it was in all that time. This function is charged.
        outer: String,
        /// The innermost function that it had entered.
        inner: String,
    },
    /// The log begins after the boot was over.
    LogAfterBoot {
        /// The process that process 1 had forked by then.
        forked: ProcessNamed,
        /// The time from the fork to the log's first record.
        before: Ns,
    },
    /// The log contains only the boot loader's records.
    LogOfLoaderAlone(LogEnd),
    /// The log lacks the end of the kernel's part.
    LogWithoutEnd(LogEnd),
    /// There is a process table, and the kernel has no records.
    ProcessTableAlone {
        /// The process whose fork is time zero; `None`: the first one in the table.
        zero: Option<ProcessNamed>,
    },
    /// The log's recorder counted records that it had no room for.
    LogRecordsDropped { records: u64 },
    /// The log fills its buffer.
    LogBufferFull {
        /// The number of records.
        records: usize,
        /// The time of the last record, since the first.
        last: Option<Ns>,
    },
    /// Process 1 reported that it waited for a job, in lines without times.
    JobWithoutTime {
        /// The job, in the words of process 1.
        job: String,
        /// Its longest time that was reported. It may have run on.
        at_least: Ns,
    },
    /// The messages of the boot are gone from the log: no line shows that the kernel boots.
    LogWithoutBoot {
        /// The time of its first line, since the zero of the kernel's clock.
        from: Ns,
    },
    /// A part is missing in the middle of the log.
    LogPartMissing {
        /// The start of the gap, since the log's first record.
        from: Ns,
        /// The end of the gap, if the log goes on.
        to: Option<Ns>,
    },
}

impl Warning {
    /// The name that programs use for it. It never changes. A warning that is also a diagnostic has the diagnostic's
    /// code.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::RecordingAtWork { .. } => "recording-at-work",
            Warning::RecordingInterrupted { .. } => "recording-interrupted",
            Warning::RecordingUnknown { .. } => "recording-unknown",
            Warning::Priced { .. } => "priced",
            Warning::FileMissing { .. } => "file-missing",
            Warning::FileCut { .. } => "file-cut",
            Warning::FileTooLarge { .. } => "file-too-large",
            Warning::JobWithoutTime { .. } => "job-without-time",
            Warning::LogWithoutBoot { .. } => "log-without-boot",
            Warning::TraceInTicks => "trace-in-ticks",
            Warning::LogInTicks => "log-in-ticks",
            Warning::LogRateContradicted { .. } => "log-rate-contradicted",
            Warning::EndMarkWithoutTime => "end-mark-without-time",
            Warning::ThreadSilent { .. } => "thread-silent",
            Warning::LogAfterBoot { .. } => "log-after-boot",
            Warning::LogOfLoaderAlone(_) => "log-of-loader-alone",
            Warning::LogWithoutEnd(_) => "log-without-end",
            Warning::ProcessTableAlone { .. } => "process-table-alone",
            Warning::LogRecordsDropped { .. } => "log-records-dropped",
            Warning::LogBufferFull { .. } => "log-buffer-full",
            Warning::LogPartMissing { .. } => "log-part-missing",
        }
    }

    /// The figures affected; `None` if no figure depends on the loss.
    pub fn affects(&self) -> Option<Figures> {
        match self {
            Warning::FileMissing { loss: FileLoss::NoFigure, .. }
            | Warning::FileCut { loss: FileLoss::NoFigure, .. }
            | Warning::FileTooLarge { loss: FileLoss::NoFigure, .. } => None,
            Warning::FileMissing { .. } | Warning::FileCut { .. } | Warning::FileTooLarge { .. } => {
                Some(Figures::OfThisFile)
            }
            Warning::TraceInTicks
            | Warning::LogInTicks
            | Warning::LogRateContradicted { .. }
            | Warning::Priced { .. } => Some(Figures::Times),
            Warning::ThreadSilent { .. } | Warning::LogPartMissing { .. } => Some(Figures::Functions),
            Warning::RecordingAtWork { .. }
            | Warning::RecordingInterrupted { .. }
            | Warning::RecordingUnknown { .. }
            | Warning::EndMarkWithoutTime
            | Warning::LogAfterBoot { .. }
            | Warning::LogOfLoaderAlone(_)
            | Warning::LogWithoutEnd(_)
            | Warning::ProcessTableAlone { .. }
            | Warning::LogRecordsDropped { .. }
            | Warning::LogBufferFull { .. }
            | Warning::JobWithoutTime { .. }
            | Warning::LogWithoutBoot { .. } => Some(Figures::Total),
        }
    }
}
