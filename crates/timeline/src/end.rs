//! The end of a boot, and the evidence for it. The `report` crate has the words.

use crate::{MilestoneKind, NameId, Ns, TrackId};

/// The instant at which the boot counts as done, and the evidence for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    pub at: Ns,
    /// The largest error of `at`.
    pub error: Ns,
    /// The track that reached it. The boot path is walked back from here.
    pub track: Option<TrackId>,
    pub evidence: EndEvidence,
}

/// The evidence for the end of a boot: an end mark. Without an end mark, it is the point up to which the boot is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndEvidence {
    /// The line that the recording's user requested appeared; this is the line that matched.
    Asked(NameId),
    /// The guest answered the host on its network, as the user requested; this is the request.
    Answered(NameId),
    /// A process of this name ran, as the user requested.
    ProcessRan(NameId),
    /// The guest powered the machine off, as the user requested.
    PowerOff,
    /// The guest reset the machine, because it cannot power it off, as the user requested.
    Reset,
    /// Process 1 sent its first byte, and read the guest's counter just before.
    Process1Sent,
    /// Process 1's first byte arrived at the host.
    Process1Arrived,
    /// User space was seen to run.
    UserSpaceRan,
    /// The kernel reported that it starts process 1.
    Process1Started,
    /// The log has process 1's first line, which comes after the kernel started it.
    Process1Printed,
    /// libguestfs finished its launch.
    LibguestfsLaunched,
    /// systemd reported that startup is finished.
    SystemdFinished,
    /// systemd reached this unit.
    SystemdReached(NameId),
    /// This unit of systemd's was active.
    SystemdActive(NameId),
    /// init started what serves users.
    MultiUserStarted,
    /// The console asked for a login.
    LoginPrompt,
    /// The console asked for a login at an unknown time after this, its last stamp.
    LoginPromptLater,
    /// No end mark: process 1 ran, and this line ended the last wait that the log shows.
    WaitEnded(NameId),
    /// bootchart's collector stopped: its user, or the event that it waited for, declared the boot done.
    BootchartStopped,
    /// Android showed its first screen, or was about to.
    AndroidShown,
    /// The guest told its VMM through the boot timer that it has booted.
    BootTimer,
    /// A kernel's event log has the return of `start_init`.
    StartInitReturned,
    /// Process 1 forked: by then it was in user space.
    Forked(ProcessOf),
    /// The process that starts user space exited.
    Exited(ProcessOf),
    /// A milestone that the user chose in place of the end mark.
    Milestone(MilestoneKind),
    /// The end mark from all evidence, used where only a part of the evidence is shown.
    OfAllEvidence,
    /// No end mark: the kernel panicked.
    Panicked,
    /// No end mark: the boot is shown up to the last sign of the kernel.
    LastSign,
    /// No end mark: the recorder stopped waiting for it.
    GivenUp,
    /// No end mark: a kernel's event log ends with this record.
    LogEnds(NameId),
    /// No end mark: the process that starts user space had not exited where the process table ends.
    TableEndsBeforeExit(ProcessOf),
    /// No end mark: the process table ends.
    TableEnds,
    /// The last phase that a trace names ended.
    PhasesEnd,
    /// No end mark: a trace's tracks of programs end.
    TracksEnd,
    /// There are only samples; this is the last of them.
    LastSample,
}

/// A process in a kernel's event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessOf {
    pub pid: u64,
    /// The program that it ran; empty where it is unknown.
    pub name: NameId,
}

impl EndEvidence {
    /// The name that programs use for it. It never changes.
    pub fn code(self) -> &'static str {
        match self {
            EndEvidence::Asked(_) => "asked",
            EndEvidence::Answered(_) => "answered",
            EndEvidence::ProcessRan(_) => "process-ran",
            EndEvidence::PowerOff => "power-off",
            EndEvidence::Reset => "reset",
            EndEvidence::Process1Sent => "process-1-sent",
            EndEvidence::Process1Arrived => "process-1-arrived",
            EndEvidence::UserSpaceRan => "user-space-ran",
            EndEvidence::Process1Started => "process-1-started",
            EndEvidence::Process1Printed => "process-1-printed",
            EndEvidence::LibguestfsLaunched => "libguestfs-launched",
            EndEvidence::SystemdFinished => "systemd-finished",
            EndEvidence::SystemdReached(_) => "systemd-reached",
            EndEvidence::SystemdActive(_) => "systemd-active",
            EndEvidence::BootchartStopped => "bootchart-stopped",
            EndEvidence::MultiUserStarted => "multi-user-started",
            EndEvidence::LoginPrompt => "login-prompt",
            EndEvidence::LoginPromptLater => "login-prompt-later",
            EndEvidence::WaitEnded(_) => "wait-ended",
            EndEvidence::AndroidShown => "android-shown",
            EndEvidence::BootTimer => "boot-timer",
            EndEvidence::StartInitReturned => "start-init-returned",
            EndEvidence::Forked(_) => "process-forked",
            EndEvidence::Exited(_) => "process-exited",
            EndEvidence::Milestone(_) => "milestone",
            EndEvidence::OfAllEvidence => "of-all-evidence",
            EndEvidence::Panicked => "panicked",
            EndEvidence::LastSign => "last-sign",
            EndEvidence::GivenUp => "given-up",
            EndEvidence::LogEnds(_) => "log-ends",
            EndEvidence::TableEndsBeforeExit(_) => "table-ends-before-exit",
            EndEvidence::TableEnds => "table-ends",
            EndEvidence::PhasesEnd => "phases-end",
            EndEvidence::TracksEnd => "tracks-end",
            EndEvidence::LastSample => "last-sample",
        }
    }

    /// True for an end mark. False for evidence that only shows how far the boot is shown.
    pub fn is_mark(self) -> bool {
        use EndEvidence as E;
        !matches!(
            self,
            E::Panicked
                | E::LastSign
                | E::GivenUp
                | E::LoginPromptLater
                | E::WaitEnded(_)
                | E::LogEnds(_)
                | E::TableEndsBeforeExit(_)
                | E::TableEnds
                | E::TracksEnd
                | E::LastSample
        )
    }
}
