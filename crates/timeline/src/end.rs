//! When the boot was done, and what shows it. The words of that are in `report`.

use crate::{MilestoneKind, NameId, Ns, TrackId};

/// The instant at which the boot counts as done, and what showed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// When.
    pub at: Ns,
    /// How far off `at` may be.
    pub error: Ns,
    /// The track that reached it: the boot path is walked back from here.
    pub track: Option<TrackId>,
    /// What shows it.
    pub evidence: EndEvidence,
}

/// What shows the end of a boot: an end mark, or where there is none, how far the boot is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndEvidence {
    /// What the recording's user asked for: the line that matched.
    Asked(NameId),
    /// The guest answered the host on its network, as the user asked: what it was asked.
    Answered(NameId),
    /// A process of this name ran, as the user asked.
    ProcessRan(NameId),
    /// The guest powered the machine off, as the user asked.
    PowerOff,
    /// The guest reset the machine, for it cannot power it off, as the user asked.
    Reset,
    /// Process 1 sent its first byte, and read the guest's counter just before.
    Process1Sent,
    /// Process 1's first byte arrived at the host.
    Process1Arrived,
    /// User space was seen to run.
    UserSpaceRan,
    /// The kernel said that it starts process 1.
    Process1Started,
    /// libguestfs was done with its launch.
    LibguestfsLaunched,
    /// systemd said that startup is finished.
    SystemdFinished,
    /// systemd reached this unit.
    SystemdReached(NameId),
    /// This unit of systemd's was active.
    SystemdActive(NameId),
    /// bootchart's collector stopped: its user, or what it waited for, said that the boot is done.
    BootchartStopped,
    /// A kernel's event log has the return of `start_init`.
    StartInitReturned,
    /// Process 1 forked: by then it was in user space.
    Forked(ProcessOf),
    /// The process that starts user space exited.
    Exited(ProcessOf),
    /// A milestone that somebody asked for, in place of the end mark.
    Milestone(MilestoneKind),
    /// The end mark that all of the evidence gave, where a part of it is looked at.
    OfAllEvidence,
    /// No end mark: the kernel panicked.
    Panicked,
    /// No end mark: the boot is shown up to the last sign of the kernel.
    LastSign,
    /// No end mark: the recorder gave up waiting for it.
    GivenUp,
    /// No end mark: a kernel's event log ends with this record.
    LogEnds(NameId),
    /// No end mark: the process that starts user space had not exited where the process table ends.
    TableEndsBeforeExit(ProcessOf),
    /// No end mark: the process table ends.
    TableEnds,
    /// Nothing but samples: the last of them.
    LastSample,
}

/// A process of a kernel's event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessOf {
    /// Its number.
    pub pid: u64,
    /// What it ran; empty where nothing says it.
    pub name: NameId,
}

impl EndEvidence {
    /// The name that programs know it by. It never changes.
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
            EndEvidence::LibguestfsLaunched => "libguestfs-launched",
            EndEvidence::SystemdFinished => "systemd-finished",
            EndEvidence::SystemdReached(_) => "systemd-reached",
            EndEvidence::SystemdActive(_) => "systemd-active",
            EndEvidence::BootchartStopped => "bootchart-stopped",
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
            EndEvidence::LastSample => "last-sample",
        }
    }

    /// Whether it is an end mark; else it only says how far the boot is shown.
    pub fn is_mark(self) -> bool {
        use EndEvidence as E;
        !matches!(
            self,
            E::Panicked
                | E::LastSign
                | E::GivenUp
                | E::LogEnds(_)
                | E::TableEndsBeforeExit(_)
                | E::TableEnds
                | E::LastSample
        )
    }
}
