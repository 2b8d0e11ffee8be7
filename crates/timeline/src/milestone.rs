//! Milestones: points of a boot, beside its end mark, that a user may wait for.

use crate::{NameId, Names, Ns, TrackId};
use std::borrow::Cow;

/// A point of a boot, and the time at which the boot passed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Milestone {
    pub kind: MilestoneKind,
    pub at: Ns,
    /// The largest error of `at`.
    pub error: Ns,
    /// The track that passed it; `None` means process 1.
    pub track: Option<TrackId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MilestoneKind {
    /// The kernel hands over to process 1, which may be the initrd's.
    Process1,
    /// A file system on a device is mounted for the first time.
    RootMounted,
    /// Process 1 leaves the initrd: it becomes the root's init.
    InitrdLeft,
    /// The console shows a login prompt.
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
    /// The name that users and programs use for it. `names` are those of its timeline.
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
