//! The journal with the wall clock's times alone: `journalctl` unasked, `-o short-precise`, `short-iso`, `short-full`, `short-unix`, a
//! file of syslog, or JSON without the other clock's times.
//!
//! systemd says at the end of a boot how long it took. That is where the kernel's clock was 0, and all entries are placed from there.
//! Without it the first message of a program is the beginning. journald stamps messages when it gets them: what was printed before it
//! ran, by the kernel or by systemd, has no time.
//!
//! The wall clock may be set during a boot, and systemd or another program says so. The step is no time of the boot: it counts as 0.

use super::{Entry, Kind};
use crate::formats::kernel_log::date_of;
use crate::input::text::Lines;
use std::collections::BTreeMap;
use timeline::Ns;

/// Lines that are looked at to find the resolution.
const LOOKED_AT: usize = 100;
const JOURNALD: &str = "systemd-journald";
const SECOND: Ns = Ns::from_ms(1000);
/// Parts of messages that say that a program has set the clock, or is about to.
const SETS_THE_CLOCK: [&str; 12] = [
    // systemd, its resolver, and its time client.
    "Time has been changed",
    "Clock change detected",
    "dvancing clock",
    "lock time advanced",
    "lock time unset",
    "umped backwards",
    // chrony, ntpd, ntpdate, BusyBox, hwclock.
    "clock was stepped",
    "clock wrong by",
    "clock_step",
    "time reset",
    "step time server",
    "setting time to",
];
/// A shorter step is not told from a wait.
const STEP_MIN: Ns = Ns::from_ms(2000);
/// Such a message stands at most this number of entries before or behind the step.
const NEAR: usize = 1;

/// The outcome of [`place`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// False if times count from the first message of a program, because the zero of the kernel's clock is unknown.
    pub is_zero_known: bool,
    /// The number of times that the wall clock was set.
    pub times_set: u64,
}

/// The largest error of a stamp: without a fraction it is cut to seconds.
pub(super) fn resolution(bytes: &[u8]) -> Ns {
    let mut stamps = Lines::new(bytes).take(LOOKED_AT).filter_map(|line| date_of(line.bytes));
    if stamps.any(|(ns, _)| ns % SECOND.0 != 0) { Ns::from_us(1) } else { SECOND }
}

/// The length in a message about a step: `System clock was stepped by 16.044301 seconds`. It is the last number with a fraction.
fn stated_step(message: &str) -> Option<Ns> {
    let words = message.split([' ', ',', '(', ')', 's']).filter(|word| word.matches('.').count() == 1);
    let seconds = words.filter_map(|word| word.parse::<f64>().ok()).next_back()?;
    // A cast of a float saturates.
    #[allow(clippy::cast_possible_truncation)]
    Some(Ns((seconds * 1e9) as i64))
}

/// Takes the steps of the wall clock out of its times: for each message that says that the clock was set, the step near it
/// that has the stated length, or else the longest one.
/// Returns their number.
fn join_steps(entries: &mut [Entry], resolution: Ns) -> u64 {
    let says = |entry: &&Entry| SETS_THE_CLOCK.iter().any(|words| entry.message.contains(words));
    let step = |place: usize| match entries.get(place.wrapping_sub(1)..=place) {
        Some([before, entry]) => entry.wall.zip(before.wall).map_or(Ns::ZERO, |(wall, before)| wall - before),
        _ => Ns::ZERO,
    };
    let messages = entries.iter().enumerate().filter(|(_, entry)| says(entry));
    let found = messages.filter_map(|(at, entry)| {
        let near = at.saturating_sub(NEAR)..=at + NEAR;
        match stated_step(&entry.message) {
            Some(stated) => near.min_by_key(|&place| (step(place) - stated).0.unsigned_abs()),
            None => near.max_by_key(|&place| step(place).0.unsigned_abs()),
        }
    });
    let steps: BTreeMap<usize, Ns> = found.map(|place| (place, step(place))).collect();
    let is_long = |step: Ns| step >= STEP_MIN || step < -resolution;
    let (mut moved, mut times) = (Ns::ZERO, 0);
    for (place, entry) in entries.iter_mut().enumerate() {
        if let Some(step) = steps.get(&place).filter(|step| is_long(**step)) {
            moved -= *step;
            times += 1;
        }
        entry.wall = entry.wall.map(|wall| wall + moved);
    }
    times
}

/// Replaces the wall clock's times of a boot's entries by times since the zero of the kernel's clock, or since the first message of a
/// program.
pub(super) fn place(entries: &mut [Entry], resolution: Ns) -> Placed {
    let times_set = join_steps(entries, resolution);
    let finished = entries.iter().position(|entry| entry.kind == Some(Kind::StartupFinished));
    let took = finished.and_then(|at| Some((at, entries[at].took[0]?, entries[at].took[1].unwrap_or_default())));
    let before = finished.unwrap_or(entries.len());
    let is_back = |pair: &[Entry]| matches!((pair[0].wall, pair[1].wall), (Some(a), Some(b)) if b < a - resolution);
    let mut from = entries[..before].windows(2).rposition(is_back).map_or(0, |at| at + 1);
    let first = |is_wanted: fn(&Entry) -> bool| {
        entries.iter().skip(from).find(|entry| is_wanted(entry)).and_then(|entry| entry.wall)
    };
    let has_programs = entries.iter().any(|entry| !entry.is_kernels);
    let first = first(|entry| !entry.is_kernels).or_else(|| first(|_| true));
    let sum = took.and_then(|(at, kernel, initrd)| Some(kernel + initrd + entries[at].took[2]?));
    let zero = match (took, sum) {
        (Some((at, ..)), Some(sum)) => entries[at].wall.map(|wall| wall - sum),
        _ => first,
    };
    let Some(zero) = zero else { return Placed { is_zero_known: false, times_set } };
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
        programs_run |= match has_journald {
            true => entry.identifier == JOURNALD,
            false => place >= from && (!entry.is_kernels || !has_programs),
        };
        let is_placed = programs_run && (from..set_later).contains(&place);
        entry.at = entry.wall.filter(|_| is_placed).map(|wall| wall - zero).filter(|at| *at >= Ns::ZERO);
        entry.is_kernels &= entry.at.is_none();
    }
    Placed { is_zero_known: sum.is_some(), times_set }
}
