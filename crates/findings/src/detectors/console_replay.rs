//! The console's replay: what the kernel has logged so far is printed when the real console is switched on.

use super::serial_line::{BAUDS, at_rate, characters};
use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use timeline::{Mark, NameId, Ns, Os, TrackKind};

pub const DETECTOR: Detector = Detector {
    id: "console-replay",
    title: "the boot waits until the console has printed all earlier messages",
    rule: "A kernel keeps its messages until it has a driver for its console. When that driver registers, the kernel prints all of \
           them at once, and the boot waits for the last character. The log shows it by the gap at `console [ttyS0] enabled`: all \
           characters before that line, with stamps and line ends, divided by the gap, are the rate of a serial line. A console \
           that replaces an early console prints nothing again, unless another console switched the early one off before.",
    source: "kernel/printk/printk.c, register_console: CON_PRINTBUFFER; agnos-builder PR 115: 10 s become 5.9 s with quiet",
    threshold: "50 ms, at a rate within 15 % of a serial line's usual one; up to 40 % above it where later lines show the rate",
    price: "all of the gap goes; at the worst a tenth of it stays, which is the driver's own work",
    needs: &[Need::BootPath, Need::Printing],
    look,
};

const SHORTEST: Ns = Ns::from_ms(50);
/// The rate of a log may be off by this part: other work is in the gap, and some messages are not printed.
const MAX_OFF: f64 = 0.15;
/// More messages may be too detailed for the console, if later lines show the rate: this share of them.
const MAX_NOT_PRINTED: f64 = 0.4;
const MIN_SHOWN: f64 = 0.1;

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux && seen.machine.os.is_known() {
        return Vec::new();
    }
    let mut lines: Vec<Mark> = seen.lines().collect();
    lines.sort_by_key(|line| line.at);
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let mut has_early = false;
    for (at, line) in lines.iter().enumerate() {
        if let Some(is_on) = switches_early_console(text(line)) {
            has_early = is_on;
        } else if !has_early && is_enabled(text(line)) {
            if let Some(draft) = draft(seen, &lines, at) {
                return vec![draft];
            }
        }
    }
    Vec::new()
}

/// True if a line switches an early console on, false if it switches one off: `bootconsole [uart0] disabled`.
fn switches_early_console(text: &str) -> Option<bool> {
    match text.split_once("bootconsole [")?.1.split_once(']')?.1.trim_start() {
        rest if rest.starts_with("enabled") => Some(true),
        rest if rest.starts_with("disabled") => Some(false),
        _ => None,
    }
}

/// `console [ttyS0] enabled`, also behind `printk: ` or `legacy `. A screen is no serial line.
fn is_enabled(text: &str) -> bool {
    let Some((before, rest)) = text.split_once("console [") else { return false };
    let Some((name, rest)) = rest.split_once(']') else { return false };
    let is_screen = name.strip_prefix("tty").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    !before.ends_with("boot") && !is_screen && rest.trim_start().starts_with("enabled")
}

fn draft(seen: &Seen, lines: &[Mark], at: usize) -> Option<Draft> {
    let before = (lines.get(at.checked_sub(1)?)?.at, lines[at].at);
    let after = lines.get(at + 1).map(|next| (lines[at].at, next.at));
    // The driver prints the line before or after it replays the others.
    let gaps = [Some((before, at)), after.map(|after| (after, at + 1))];
    let ((from, to), printed) = gaps.into_iter().flatten().max_by_key(|((from, to), _)| *to - *from)?;
    let gap = to - from;
    // A kernel's first messages, at 0.000000, have no place on the timeline.
    let unplaced = seen.timeline.unplaced.iter().filter(|message| message.before.is_some_and(|before| before <= from));
    let names = unplaced.map(|message| message.name).chain(lines[..printed].iter().map(|line| line.name));
    let characters: usize = names.map(|name| characters(seen.timeline.names.get(name))).sum();
    let per_s = characters as f64 / (gap.0 as f64 / 1e9);
    let is_a_rate = |baud: &u32| {
        let off = per_s * 10.0 / f64::from(*baud) - 1.0;
        let is_shown = || at_rate(seen, &lines[printed..], *baud).is_some_and(|(share, _)| share >= MIN_SHOWN);
        off.abs() <= MAX_OFF || (0.0..=MAX_NOT_PRINTED).contains(&off) && is_shown()
    };
    if gap < SHORTEST || !BAUDS.iter().any(is_a_rate) {
        return None;
    }
    let open = seen.spans().map(|(_, row)| row).filter(|row| row.start <= from && row.end >= to);
    let row =
        open.filter(|row| seen.timeline.tracks.get(row.track).kind == TrackKind::Thread).max_by_key(|row| row.start)?;
    let stretch = Stretch { track: row.track, from, to, name: lines[at].name, detail: NameId::EMPTY, purpose: "" };
    Some(Draft {
        about: (lines[at].name, NameId::EMPTY),
        figures: vec![
            Figure { of: "characters", value: Value::Count(characters as u64) },
            Figure { of: "each", value: Value::Time(Ns::rounded(gap.0 as f64 / characters as f64)) },
        ],
        parts: vec![Part { stretch, left: Left { most: 0.1, ..Left::NOTHING } }],
        confidence: Confidence::High,
        remedy: Remedy::append(
            "quiet, or loglevel= with a number below 7, prints less; a faster line (console=ttyS0,921600) prints it sooner; where \
             nobody reads the console, leave console= out",
            &["quiet"],
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};
    use timeline::SpanKind;

    /// A hundred lines of 63 characters with stamp and line end, then the console, at this many µs a character.
    fn boot(each_us: i64, enabled: &str, early: bool) -> Log {
        let mut log = Log::linux();
        let mut line = |text: &str, lasts: Ns| {
            log.line(text);
            log.step(SpanKind::Message, text, "", |log| log.call("waits", lasts));
        };
        if early {
            line("bootconsole [earlycon0] enabled", ms(1));
        }
        for number in 0..99 {
            line(&format!("message {number:038}"), ms(1));
        }
        line("serial8250: ttyS0 at I/O 0x3f8 (irq = 4)", Ns(6300 * each_us * 1000));
        line(enabled, ms(2));
        line("Run /sbin/init as init process", ms(1));
        log
    }

    #[test]
    fn all_that_was_logged_is_printed_at_the_rate_of_the_line() {
        let found = boot(87, "printk: console [ttyS0] enabled", false).found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!(only.figures[0].of, "characters");
        assert_eq!(only.price.likely, ms(548) + Ns(100_000));
    }

    #[test]
    fn another_rate_a_screen_and_an_early_console_are_no_replay() {
        for log in [
            boot(150, "console [ttyS0] enabled", false),
            boot(87, "console [tty0] enabled", false),
            boot(87, "bootconsole [ttyS0] enabled", false),
            boot(87, "console [ttyS0] enabled", true),
        ] {
            assert!(log.found_by(&[DETECTOR]).findings.is_empty());
        }
    }

    #[test]
    fn a_console_prints_all_if_another_one_switched_the_early_console_off() {
        let lines = |between: &[&str]| {
            let mut log = Log::linux();
            log.line("bootconsole [uart0] enabled");
            for line in between {
                log.step(SpanKind::Message, line, "", |log| log.work("x", ms(1)));
                log.line(line);
            }
            for number in 0..99 {
                log.line(&format!("message {number:038}"));
                log.step(SpanKind::Message, "message", "", |log| log.work("x", ms(1)));
            }
            log.line("3100000.serial: ttyS0 at MMIO 0x3100000 is a Tegra");
            log.step(SpanKind::Message, "serial", "", |log| log.call("waits", Ns(6400 * 87_000)));
            log.line("console [ttyS0] enabled");
            log.step(SpanKind::Message, "enabled", "", |log| log.work("x", ms(2)));
            log.line("Run /sbin/init as init process");
            log.found_by(&[DETECTOR]).findings.len()
        };
        let off = "bootconsole [uart0] disabled";
        assert_eq!(lines(&["console [tty0] enabled", off, "console [pstore-1] enabled"]), 1);
        assert_eq!(lines(&["console [tty0] enabled"]), 0);
    }

    #[test]
    fn messages_may_be_too_detailed_for_the_console_if_later_lines_show_its_rate() {
        let found = |later_us: i64| {
            let mut log = Log::linux();
            for number in 0..100 {
                log.line(&format!("message {number:038}"));
                let lasts = if number == 99 { Ns(6300 * 868_000) } else { Ns(1000) };
                log.step(SpanKind::Message, "message", "", |log| log.call("waits", lasts));
            }
            log.line("printk: console [ttyS0] enabled");
            for number in 0..60 {
                let text = format!("message {number:038}");
                log.line(&text);
                log.step(SpanKind::Message, &text, "", |log| log.work("x", Ns(63 * later_us * 1000 + 5000)));
            }
            log.line("Run /sbin/init as init process");
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!((found(1042), found(600)), (1, 0));
    }
}
