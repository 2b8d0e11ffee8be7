//! Who waits for whom: nearly always one thread alone, of which there are millions.

use std::fmt;
use std::ops::Deref;
use timeline::{SpanId, TrackId};

/// A thread and its innermost span at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The thread.
    pub track: TrackId,
    /// What it was doing, as far as the evidence says.
    pub span: Option<SpanId>,
}

/// Frames of a stretch, in place where there is only one. Never empty.
#[derive(Clone, PartialEq)]
pub struct Chain(Frames);

#[derive(Clone, PartialEq)]
enum Frames {
    One([Frame; 1]),
    More(Box<[Frame]>),
}

impl Chain {
    /// The waiters, and the owner last.
    pub(crate) fn new(waiters: &[Frame], owner: Frame) -> Chain {
        Chain(match waiters {
            [] => Frames::One([owner]),
            _ => Frames::More(waiters.iter().copied().chain([owner]).collect()),
        })
    }
}

impl Deref for Chain {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        match &self.0 {
            Frames::One(one) => one,
            Frames::More(more) => more,
        }
    }
}

impl<'a> IntoIterator for &'a Chain {
    type Item = &'a Frame;
    type IntoIter = std::slice::Iter<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
