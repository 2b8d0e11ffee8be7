//! Waits that a thread waits in turns: it looks whether all is there, waits for the next release or a time-out, and looks
//! again.
//!
//! Turns are for one topic and in one function that the thread does not leave in between. What ended one turn need not
//! be what the thread waited for: that ended the last one.

use crate::segments::Segments;
use hashbrown::HashMap;
use timeline::{Ns, Timeline, WaitedOn};

/// Of each wait in the timeline, when the last turn of it ended. Linear.
pub fn poll_ends(timeline: &Timeline, segments: &Segments) -> Vec<Ns> {
    let mut ends: Vec<Ns> = timeline.waits.iter().map(|wait| wait.woken).collect();
    let mut last = HashMap::new();
    for (i, wait) in timeline.waits.iter().enumerate().rev() {
        let (WaitedOn::Holders(topic), Some(function)) = (wait.by, segments.waiting(wait)) else { continue };
        ends[i] = ends[i].max(*last.entry((topic, function)).or_insert(ends[i]));
    }
    ends
}
