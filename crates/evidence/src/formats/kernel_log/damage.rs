//! Time stamps that a serial line damaged: it loses characters, doubles them and makes others of them.
//!
//! A stamp that was damaged stands between others that were not. So the stamps that rise from line to line, as many of them as
//! there can be, are the kernel's. The others are taken off their messages, which are then placed by their arrival. Two CPUs'
//! clocks that differ a little also make stamps step back: those are left.

use super::KernelLog;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Clocks of CPUs differ by less than this, and a message waits for another one at most this long.
const APART_MAX: Ns = Ns::from_ms(50);

/// Takes off the stamps that do not fit.
pub(super) fn unstamp(file: &str, log: &mut KernelLog, diagnostics: &mut Diagnostics) {
    let stamped: Vec<(usize, Ns)> =
        log.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.stamp?))).collect();
    let fits = longest_rise(&stamped.iter().map(|(_, stamp)| *stamp).collect::<Vec<Ns>>());
    // The last that fits before each, and the first behind it.
    let mut before = None;
    for (place, &(at, stamp)) in stamped.iter().enumerate() {
        if fits[place] {
            before = Some(stamp);
            continue;
        }
        let after = (place..stamped.len()).find(|&later| fits[later]).map(|later| stamped[later].1);
        let near = |other: Option<Ns>| other.is_some_and(|other| (other - stamp).abs() <= APART_MAX);
        if !near(before) && !near(after) {
            let number = log.lines[at].number;
            log.lines[at].stamp = None;
            diagnostics.note(DiagnosticKind::LogStampDamaged, || format!("{file}:{number}"));
        }
    }
}

/// True for each stamp that is in one longest run that never falls. `O(n log n)`.
fn longest_rise(stamps: &[Ns]) -> Vec<bool> {
    // The last stamp of the lowest run of each length, and for each stamp the one before it in its run.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(stamps.len());
    for (at, stamp) in stamps.iter().enumerate() {
        let length = ends.partition_point(|&end| stamps[end] <= *stamp);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut fits = vec![false; stamps.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        fits[at] = true;
        next = previous[at];
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> (Vec<Option<i64>>, u64) {
        let mut diagnostics = Diagnostics::default();
        let mut log = KernelLog::read("console.log", text.as_bytes(), &mut diagnostics).unwrap();
        unstamp("console.log", &mut log, &mut diagnostics);
        let stamps = log.lines.iter().map(|line| line.stamp.map(|stamp| stamp.0 / 1_000_000)).collect();
        (stamps, diagnostics.count(DiagnosticKind::LogStampDamaged))
    }

    #[test]
    fn a_stamp_between_others_that_it_cannot_be_is_taken_off() {
        let text = "[    0.100000] a\n[    1.200000] b\n[   11.400000] c\n[    1.500000] d\n[    0.000006] e\n[    1.600000] f\n";
        assert_eq!(left(text), (vec![Some(100), Some(1200), None, Some(1500), None, Some(1600)], 2));
    }

    #[test]
    fn clocks_that_differ_a_little_are_left() {
        let text = "[    0.100000] a\n[    0.200000] b\n[    0.180000] c\n[    0.300000] d\nno stamp\n";
        assert_eq!(left(text), (vec![Some(100), Some(200), Some(180), Some(300), None], 0));
        assert_eq!(left("no stamp\n"), (vec![None], 0));
    }
}
