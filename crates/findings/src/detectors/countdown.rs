//! A boot loader that counts down the seconds in which a key stops it.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use timeline::{Ns, SpanKind, SpanRow, TrackKind};

pub const DETECTOR: Detector = Detector {
    id: "boot-countdown",
    title: "the boot loader waits for a key that nobody presses",
    rule: "Before it loads the kernel, a boot loader gives people some seconds to stop it, and says so on the console. A machine \
           that nobody watches waits them out at each boot. Which loader it is, and how long it waits, its line says.",
    source: "U-Boot, doc/usage/environment.rst: bootdelay; its default of 2 s is that of CONFIG_BOOTDELAY",
    threshold: "0.1 s or more",
    price: "the seconds that the line counts go; what else the loader did until its next line stays",
    needs: &[Need::BootPath],
    look,
};

const SHORTEST: Ns = Ns::from_ms(100);
/// The texts of U-Boot and barebox before the seconds that are left: `Hit any key to stop autoboot:  2`,
/// `Hit m for menu or any to stop autoboot:    3`.
const COUNTS: (&str, &str) = ("Hit ", " to stop autoboot:");

fn look(seen: &Seen) -> Vec<Draft> {
    seen.spans().filter_map(|(_, row)| draft(seen, row)).collect()
}

fn draft(seen: &Seen, row: SpanRow) -> Option<Draft> {
    if row.kind != SpanKind::Message || seen.timeline.tracks.get(row.track).kind != TrackKind::Firmware {
        return None;
    }
    let waits = counted(seen.timeline.names.get(row.name))?.min(row.length());
    if waits < SHORTEST {
        return None;
    }
    let others = row.length() - waits;
    Some(Draft {
        about: (row.name, row.detail),
        figures: vec![Figure { of: "waits", value: Value::Time(waits) }],
        parts: vec![Part { stretch: seen.stretch(&row), left: Left::time(row.length(), others, others, others) }],
        confidence: Confidence::High,
        remedy: Remedy::code(
            "in U-Boot: `setenv bootdelay 0; saveenv`, or CONFIG_BOOTDELAY=0 where it is built: then a key that is pressed before \
             still stops it, and with -2 none does; in barebox: `nv autoboot_timeout=0`",
        ),
    })
}

/// Duration of the countdown: the first number of the line, in seconds. Later numbers overwrite it on a terminal.
fn counted(line: &str) -> Option<Ns> {
    let (_, counts) = line.strip_prefix(COUNTS.0)?.split_once(COUNTS.1)?;
    let seconds = counts.split_whitespace().next()?;
    Some(Ns(seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(line: &str, lasts: Ns) -> Log {
        let mut log = Log::linux();
        log.firmware_line(line, lasts);
        log.initcall("works", |log| log.call("works", ms(400)));
        log
    }

    #[test]
    fn a_countdown_costs_its_seconds_and_nothing_else() {
        let found = boot("Hit any key to stop autoboot:  2  1  0", ms(2040)).found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(2000), ms(2000), ms(2000)));
        let cut = boot("Hit any key to stop autoboot:  2", ms(900)).found_by(&[DETECTOR]);
        assert_eq!(cut.findings[0].price.likely, ms(900), "somebody pressed one");
    }

    #[test]
    fn barebox_says_it_in_other_words() {
        for line in
            ["Hit m for menu or any to stop autoboot:    3", "Hit m for menu or any other key to stop autoboot:    3"]
        {
            let found = boot(line, ms(3010)).found_by(&[DETECTOR]);
            assert_eq!(found.findings[0].price.likely, ms(3000), "{line}");
        }
    }

    #[test]
    fn what_counts_nothing_is_no_countdown() {
        for line in ["Hit any key to stop autoboot:  0", "Hit any key to stop autoboot: soon", "Starting kernel ..."] {
            let found = boot(line, ms(2040)).found_by(&[DETECTOR]);
            assert!(found.findings.is_empty(), "{line}: {found:?}");
        }
    }
}
