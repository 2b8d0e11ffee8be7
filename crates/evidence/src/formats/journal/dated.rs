//! The journal with the wall clock's times alone: `journalctl` unasked, `-o short-precise`, `short-iso`, `short-full`, `short-unix`.
//!
//! systemd says at the end of a boot how long it took. That is where the kernel's clock was 0, and all entries are placed from there.
//! Without it the first message of a program is the beginning. journald stamps messages when it gets them: what was printed before it
//! ran, by the kernel or by systemd, has no time.
//!
//! The wall clock may be set during a boot. Entries from before that have no time either.

use super::{Entry, Kind};
use crate::formats::kernel_log::date_of;
use crate::input::text::Lines;
use timeline::Ns;

/// Lines that are looked at to find the resolution.
const LOOKED_AT: usize = 100;
const JOURNALD: &str = "systemd-journald";
const SECOND: Ns = Ns::from_ms(1000);

/// The largest error of a stamp: without a fraction it is cut to seconds.
pub(super) fn resolution(bytes: &[u8]) -> Ns {
    let mut stamps = Lines::new(bytes).take(LOOKED_AT).filter_map(|line| date_of(line.bytes));
    if stamps.any(|(ns, _)| ns % SECOND.0 != 0) { Ns::from_us(1) } else { SECOND }
}

/// Replaces the wall clock's times of a boot's entries by times since the zero of the kernel's clock. Returns false if that zero is
/// unknown: then they count from the first message of a program.
pub(super) fn place(entries: &mut [Entry], resolution: Ns) -> bool {
    let finished = entries.iter().position(|entry| entry.kind == Some(Kind::StartupFinished));
    let took = finished.and_then(|at| Some((at, entries[at].took[0]?, entries[at].took[1].unwrap_or_default())));
    let before = finished.unwrap_or(entries.len());
    let is_back = |pair: &[Entry]| matches!((pair[0].wall, pair[1].wall), (Some(a), Some(b)) if b < a - resolution);
    let mut from = entries[..before].windows(2).rposition(is_back).map_or(0, |at| at + 1);
    let first = entries.iter().skip(from).find(|entry| !entry.is_kernels).and_then(|entry| entry.wall);
    let sum = took.and_then(|(at, kernel, initrd)| Some(kernel + initrd + entries[at].took[2]?));
    let zero = match (took, sum) {
        (Some((at, ..)), Some(sum)) => entries[at].wall.map(|wall| wall - sum),
        _ => first,
    };
    let Some(zero) = zero else { return false };
    if let Some((_, kernel, _)) = took {
        // No program ran before the kernel was done.
        let is_early = |entry: &Entry| !entry.is_kernels && entry.wall.is_some_and(|at| at < zero + kernel - SECOND);
        let early = entries[from..before].iter().rposition(is_early);
        from += early.map_or(0, |at| at + 1);
    }
    let set_later = entries[before..].windows(2).position(is_back).map_or(entries.len(), |at| before + at + 1);
    let has_journald = entries.iter().any(|entry| entry.identifier == JOURNALD);
    let mut programs_run = false;
    for (place, entry) in entries.iter_mut().enumerate() {
        programs_run |= if has_journald { entry.identifier == JOURNALD } else { place >= from && !entry.is_kernels };
        let is_placed = programs_run && (from..set_later).contains(&place);
        entry.at = entry.wall.filter(|_| is_placed).map(|wall| wall - zero).filter(|at| *at >= Ns::ZERO);
        entry.is_kernels &= entry.at.is_none();
    }
    sum.is_some()
}
