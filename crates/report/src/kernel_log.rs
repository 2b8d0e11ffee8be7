//! The kernel's log by its own stamps, as the page's *Console* lists it.

use crate::{Boot, ConsoleLine};
use timeline::{Ns, TrackKind};

/// The messages of a boot. They include lines that a quiet guest did not print. A message without a stamp keeps its place.
pub fn kernel_log<'a>(boot: &Boot<'a>) -> Vec<ConsoleLine<'a>> {
    let timeline = boot.timeline;
    let text = |name| timeline.names.get(name).as_bytes();
    let unplaced = timeline.unplaced.iter().map(|message| {
        let place = message.before.unwrap_or(Ns::MAX);
        (place, ConsoleLine { at: None, text: text(message.name) })
    });
    let is_message = |track: timeline::TrackId| timeline.tracks.get(track).kind == TrackKind::Console;
    let marks = timeline.marks.iter().filter(|mark| is_message(mark.track));
    let placed = marks.map(|mark| (mark.at, ConsoleLine { at: Some(mark.at), text: text(mark.name) }));
    let mut all: Vec<(Ns, ConsoleLine)> = unplaced.chain(placed).collect();
    // The sort is stable: messages without a stamp stay in order, before the message that follows them.
    all.sort_by_key(|&(place, _)| place);
    all.into_iter().map(|(_, line)| line).collect()
}
