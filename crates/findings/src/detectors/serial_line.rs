//! The rates of serial lines, and the lines of a log that show one.

use crate::Seen;
use timeline::Mark;

/// The usual rates of serial lines, in baud. A character takes ten bits.
pub(super) const BAUDS: [u32; 9] = [9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600, 1_500_000];
/// Characters before a line's text: `[    0.260204] `.
const STAMP: usize = 15;
/// CR and LF.
const LINE_END: usize = 2;
const MIN_LINES: usize = 40;
/// Bits that a serial line sends for a character.
pub(super) const BITS: f64 = 10.0;
/// A line takes this many times what its characters need if the next one follows at once.
const AT_RATE: (f64, f64) = (0.98, 1.08);

/// The number of characters that are printed for a line.
pub(super) fn characters(text: &str) -> usize {
    text.chars().count() + STAMP + LINE_END
}

/// The shares of lines that take what a serial line of this rate needs, and of those that take less. `None` for few lines.
pub(super) fn at_rate(seen: &Seen, lines: &[Mark], baud: u32) -> Option<(f64, f64)> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let needs = |line: &Mark| characters(text(line)) as f64 * 1e9 * BITS / f64::from(baud);
    let took = |pair: &[Mark]| (pair[1].at - pair[0].at).0 as f64 / needs(&pair[0]);
    let (mut count, mut at, mut faster) = (0_usize, 0_usize, 0_usize);
    for times in lines.windows(2).map(took) {
        count += 1;
        at += usize::from((AT_RATE.0..AT_RATE.1).contains(&times));
        faster += usize::from(times < AT_RATE.0);
    }
    (count >= MIN_LINES).then(|| (at as f64 / count as f64, faster as f64 / count as f64))
}
