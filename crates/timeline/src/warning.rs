//! What a reader of any figure of a boot must know first: that the evidence ends too early, that times are ticks.
//!
//! A [`crate::Diagnostic`] counts what did not add up, and stands behind the figures. A warning is about the boot as a whole,
//! is said once, and stands before them. Both have a code for programs. Its sentence is in `report`: no text that a person
//! reads is made here.

use crate::{Figures, Ns, RateSource};

/// The last line that a recorder took in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSign {
    /// When it began, by the host's clock.
    pub at: Ns,
    /// The file that has it.
    pub file: String,
}

/// How a kernel's event log ends that has no end mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// When its last record was, after its first.
    pub at: Ns,
    /// That record, as the log has it: `ENTER _sleep`.
    pub record: String,
    /// The number of the thread that logged it.
    pub thread: u64,
    /// What the thread of the boot path was in, the outermost first; empty where nothing was open, or that says nothing.
    pub open: Vec<String>,
}

/// A process, as a process table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessNamed {
    /// Its number.
    pub pid: u64,
    /// What it ran, if that is known.
    pub name: Option<String>,
}

/// Why a recording's manifest says nothing of its boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestFault {
    /// There is none.
    Missing,
    /// It cannot be read.
    Damaged {
        /// What its parser found.
        found: String,
    },
    /// It does not say whether the recording was finished.
    NoState,
}

/// What figures lose with a file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLoss {
    /// What it said, whatever that was.
    WhatItSaid,
    /// Nothing: it is for people.
    NoFigure,
    /// All that an imported file said, maybe also where the boot begins and ends.
    ImportedEvidence,
    /// Events of a kernel's log.
    LogEvents,
    /// The end mark, and what joins the clocks.
    GuestMessages,
    /// The kernel's messages.
    KernelMessages,
    /// When lines of the console arrived.
    ArrivalTimes,
    /// Initcalls, waits and wake-ups.
    TraceEvents,
    /// Calls.
    Calls,
    /// Functions of the early kernel, and the phases before it.
    FirstExecutions,
    /// Names of functions.
    FunctionNames,
    /// The steps of the firmware.
    FirmwareSteps,
    /// The steps of the virtual machine monitor.
    VmmSteps,
    /// The guest's memory.
    GuestMemory,
}

/// A warning, with what its sentence needs. Times are of the boot's log or timeline, in what the timeline counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The recorder is at work: the boot is not over.
    RecordingAtWork {
        /// Since when nothing came; none if nothing came at all.
        last: Option<LastSign>,
    },
    /// The recorder was killed.
    RecordingInterrupted {
        /// Since when nothing came; none if nothing came at all.
        last: Option<LastSign>,
    },
    /// Nothing says how the boot was run, and whether its recording was finished.
    RecordingUnknown {
        /// What is wrong with the manifest.
        why: ManifestFault,
    },
    /// A file that was recorded is not there.
    FileMissing {
        /// Its name.
        file: String,
        /// Its size when it was recorded.
        recorded_bytes: u64,
        /// What figures lose with it.
        loss: FileLoss,
    },
    /// Of a file that was recorded a part is there.
    FileCut {
        /// Its name.
        file: String,
        /// Its size when it was recorded.
        recorded_bytes: u64,
        /// Its size now.
        found_bytes: u64,
        /// What figures lose with the rest.
        loss: FileLoss,
    },
    /// A file is larger than any that is read.
    FileTooLarge {
        /// Its name.
        file: String,
        /// Its size.
        bytes: u64,
        /// The size up to which files are read.
        limit_bytes: u64,
        /// What figures lose with it.
        loss: FileLoss,
    },
    /// Times are ticks of the counter that a trace is stamped with.
    TraceInTicks,
    /// Times are ticks of the counter of a kernel's event log.
    LogInTicks,
    /// The user gave another rate of a log's counter than the evidence has.
    LogRateContradicted {
        /// What the user gave, which is used.
        given_hz: f64,
        /// What the evidence has.
        found_hz: f64,
        /// Where it has that.
        found_in: RateSource,
    },
    /// The end mark that was asked for has no time of the guest's.
    EndMarkWithoutTime,
    /// A thread of the boot path logs nothing for a while.
    ThreadSilent {
        /// Its name.
        thread: String,
        /// Since when, after the log's first record.
        from: Ns,
        /// Until when.
        to: Ns,
        /// The function that it was in all the while, which is charged.
        outer: String,
        /// The innermost function that it had entered.
        inner: String,
    },
    /// The log begins when the boot was over.
    LogAfterBoot {
        /// Whom process 1 had forked by then.
        forked: ProcessNamed,
        /// So long before the log's first record.
        before: Ns,
    },
    /// The log is the boot loader's alone.
    LogOfLoaderAlone(LogEnd),
    /// The log does not have the end of the kernel's part.
    LogWithoutEnd(LogEnd),
    /// There is a process table, and no record of the kernel.
    ProcessTableAlone {
        /// Whose fork is time zero; none: the first one in the table.
        zero: Option<ProcessNamed>,
    },
    /// The log's recorder counted records that found no room.
    LogRecordsDropped {
        /// How many.
        records: u64,
    },
    /// The log has as many records as its buffer has room for.
    LogBufferFull {
        /// How many.
        records: usize,
        /// When the last of them was, after the first.
        last: Option<Ns>,
    },
    /// A part is missing in the middle of the log.
    LogPartMissing {
        /// From when, after the log's first record.
        from: Ns,
        /// Until when, if it goes on.
        to: Option<Ns>,
    },
}

impl Warning {
    /// The name that programs know it by. It never changes. One that is also a diagnostic has the code of that.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::RecordingAtWork { .. } => "recording-at-work",
            Warning::RecordingInterrupted { .. } => "recording-interrupted",
            Warning::RecordingUnknown { .. } => "recording-unknown",
            Warning::FileMissing { .. } => "file-missing",
            Warning::FileCut { .. } => "file-cut",
            Warning::FileTooLarge { .. } => "file-too-large",
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

    /// Which figures are affected; none where no figure rests on what is lost.
    pub fn affects(&self) -> Option<Figures> {
        match self {
            Warning::FileMissing { loss: FileLoss::NoFigure, .. }
            | Warning::FileCut { loss: FileLoss::NoFigure, .. }
            | Warning::FileTooLarge { loss: FileLoss::NoFigure, .. } => None,
            Warning::FileMissing { .. } | Warning::FileCut { .. } | Warning::FileTooLarge { .. } => {
                Some(Figures::OfThisFile)
            }
            Warning::TraceInTicks | Warning::LogInTicks | Warning::LogRateContradicted { .. } => Some(Figures::Times),
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
            | Warning::LogBufferFull { .. } => Some(Figures::Total),
        }
    }
}
