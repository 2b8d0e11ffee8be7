//! The chain of threads that wait for each other: nearly always one thread alone. A path has millions of chains.

use std::fmt;
use std::ops::Deref;
use timeline::{SpanId, TrackId};

/// A thread and its innermost span at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub track: TrackId,
    /// The innermost span that the evidence shows.
    pub span: Option<SpanId>,
}

/// The frames of a stretch, never empty. A single frame is stored in place, without an allocation.
#[derive(Clone, PartialEq)]
pub struct Chain(Frames);

#[derive(Clone, PartialEq)]
enum Frames {
    One([Frame; 1]),
    More(Box<[Frame]>),
}

impl Chain {
    /// Returns a chain of these waiters, with the owner last.
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
