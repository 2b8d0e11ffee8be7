//! The last line that says anything new, in a log of a boot that goes on while the machine runs.

use crate::formats::linux_words::user_space;
use hashbrown::HashMap;
use std::hash::Hasher;
use timeline::Ns;

/// A running system that says nothing new for this long has booted.
const BOOTED: Ns = Ns::from_ms(30_000);
/// systemd gives a unit 90 s to start. A wait for it is a little shorter, because other lines come in between.
pub(crate) const TIME_OUT_OF_A_UNIT: std::ops::RangeInclusive<Ns> = Ns::from_ms(80_000)..=Ns::from_ms(91_000);
/// A line of a shape that was there this often says nothing new.
const OFTEN: u8 = 3;

/// The shape of a line: its letters. A line that a running system prints again and again is no sign of a boot.
fn shape(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.bytes().filter(u8::is_ascii_alphabetic).for_each(|letter| hasher.write_u8(letter));
    hasher.finish()
}

/// The number of the line after which the log said nothing new for a long time, while a program ran and nothing was waited for.
/// `runs` returns true for a line, by its time and its number, that shows that a program runs; `ends_wait` for one that was waited for,
/// beside those with known words. Returns `None` if there is no such silence.
pub(crate) fn last_news<'l>(
    lines: impl Iterator<Item = (Ns, &'l str)>,
    runs: impl Fn(Ns, usize) -> bool,
    ends_wait: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut shapes: HashMap<u64, u8> = HashMap::new();
    let (mut is_running, mut last) = (false, None);
    for (number, (at, text)) in lines.enumerate() {
        let silence = last.map_or(Ns::ZERO, |(_, last)| at - last);
        let is_wait = || user_space::ends_a_wait(text) || TIME_OUT_OF_A_UNIT.contains(&silence) || ends_wait(number);
        if is_running && silence > BOOTED && !is_wait() {
            return last.map(|(number, _)| number);
        }
        is_running |= runs(at, number);
        let times = shapes.entry(shape(text)).or_default();
        *times = times.saturating_add(1);
        if *times <= OFTEN || !is_running {
            last = Some((number, at));
        }
    }
    None
}
