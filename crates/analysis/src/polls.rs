//! Waits in turns. A thread checks whether everything is there, waits for the next release or a time-out, and checks
//! again.
//!
//! The turns of one wait are for one topic, in one function that the thread does not leave in between. The end of one
//! turn need not be what the thread waited for. That event ended the last turn.

use crate::segments::Segments;
use hashbrown::HashMap;
use timeline::{Ns, Timeline, WaitedOn};

/// Returns the end of the last turn for each wait in the timeline. Linear.
pub fn poll_ends(timeline: &Timeline, segments: &Segments) -> Vec<Ns> {
    let mut ends: Vec<Ns> = timeline.waits.iter().map(|wait| wait.woken).collect();
    let mut last = HashMap::new();
    for (i, wait) in timeline.waits.iter().enumerate().rev() {
        let (WaitedOn::Holders(topic), Some(function)) = (wait.by, segments.waiting(wait)) else { continue };
        ends[i] = ends[i].max(*last.entry((topic, function)).or_insert(ends[i]));
    }
    ends
}
