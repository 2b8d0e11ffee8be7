//! Milestones: points of a boot that somebody may wait for, beside its end mark.

use crate::{NameId, Names, Ns, TrackId};
use std::borrow::Cow;

/// A point of a boot, and when the boot passed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Milestone {
    /// Which.
    pub kind: MilestoneKind,
    /// When.
    pub at: Ns,
    /// How far off `at` may be.
    pub error: Ns,
    /// The track that passed it; process 1's where nothing else is said.
    pub track: Option<TrackId>,
}

/// Which point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MilestoneKind {
    /// The kernel hands over to process 1, be it the initrd's.
    Process1,
    /// A file system on a device is mounted for the first time.
    RootMounted,
    /// Process 1 leaves the initrd: it becomes the root's init.
    InitrdLeft,
    /// The console asks who logs in.
    LoginPrompt,
    /// A unit is active.
    Unit(NameId),
    /// A process of this name begins.
    Process(NameId),
    /// The kernel logs this line.
    Line(NameId),
    /// The end mark.
    End,
}

impl MilestoneKind {
    /// The name by which programs and people ask for it. `names` are those of its timeline.
    pub fn name(self, names: &Names) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            MilestoneKind::Process1 => "process-1",
            MilestoneKind::RootMounted => "root-mounted",
            MilestoneKind::InitrdLeft => "initrd-left",
            MilestoneKind::LoginPrompt => "login",
            MilestoneKind::End => "end",
            MilestoneKind::Unit(name) => return Cow::Owned(format!("unit:{}", names.get(name))),
            MilestoneKind::Process(name) => return Cow::Owned(format!("process:{}", names.get(name))),
            MilestoneKind::Line(text) => return Cow::Owned(format!("line:{}", names.get(text))),
        })
    }
}
