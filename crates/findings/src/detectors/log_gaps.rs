//! Gaps between two messages of the kernel, named by the message that ends them.

mod causes;

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use aho_corasick::AhoCorasick;
use causes::{CAUSES, CLOCK_STOOD, Cause, TIME_OUT_OF_A_UNIT};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use timeline::{Mark, NameId, Ns, Phase, SpanKind, SpanRow, TimeBase, TrackKind};

pub const DETECTOR: Detector = Detector {
    id: "log-gaps",
    title: "nothing is printed until this line",
    rule: "The kernel prints nothing for a while, and no other evidence covers that time. The line that ends the gap often says what \
           the kernel waited for: a keyboard's controller, a disk that spins up, a time-out. A table has such lines, with the \
           cause and a remedy. Gaps with one cause are one finding. For a line that the table does not have, the finding names \
           the driver or subsystem, which is the line's first word, and has no remedy.",
    source: "firecracker-demo PR 45 (2019): i8042 probes for 513 ms; Percival 2018: long gaps between lines of the console",
    threshold: "1 % of the boot and 10 ms",
    price: "all of the gap goes; at the worst it stays, because other work may fill it without a message",
    needs: &[Need::BootPath, Need::Printing],
    look,
};

const MIN_SHARE: i64 = 100;
const SHORTEST: Ns = Ns::from_ms(10);
/// Messages of work that goes on beside the boot. One of them ends a gap only if the boot goes on right after it.
const BESIDE: [&str; 4] = ["random: ", "clocksource: Switched", "tsc: Refined", "sched_clock: "];
/// The boot goes on right after such a message if the next gap is shorter than this part of the first.
const MAX_GOES_ON: i64 = 10;

const UNKNOWN: &str = "the line names who printed it. To see the function that waits, boot with initcall_debug, or record with --trace calls";

/// A gap, and the line at its end.
#[derive(Clone, Copy)]
struct Gap {
    stretch: Stretch,
    ends_with: NameId,
}

fn look(seen: &Seen) -> Vec<Draft> {
    let mut by_cause: BTreeMap<Option<usize>, Vec<Gap>> = BTreeMap::new();
    let mut drafts = Vec::new();
    for gaps in joined(seen, gaps(seen)) {
        let ends_with = gaps[gaps.len() - 1].ends_with;
        match cause_of(seen, &gaps) {
            Some(number) => {
                by_cause.entry(Some(number)).or_default().extend(gaps.iter().map(|gap| Gap { ends_with, ..*gap }))
            }
            None => drafts.extend(draft(seen, &gaps, None)),
        }
    }
    drafts.extend(
        by_cause.into_iter().filter_map(|(number, gaps)| draft(seen, &gaps, number.map(|number| &CAUSES[number]))),
    );
    drafts
}

/// The number of the cause of a gap: by the line that ends it, by the line that begins it, or by its length. Where the
/// clock did not run before the gap, the line that ends it only shows that it runs.
fn cause_of(seen: &Seen, gaps: &[Gap]) -> Option<usize> {
    let text = |name: NameId| seen.timeline.names.get(name);
    let (first, last) = (&gaps[0], &gaps[gaps.len() - 1]);
    let begins = || BEGINS.cause(text(first.stretch.name));
    let is_time_out = || is_time_out_of_a_unit(seen, last).then_some(TIME_OUT_OF_A_UNIT);
    let stood = begins().filter(|&cause| cause == CLOCK_STOOD);
    stood.or_else(|| known(text(last.ends_with))).or_else(begins).or_else(is_time_out)
}

/// True if a gap in user space is as long as the time that systemd gives a unit to start, less what passed before the gap.
fn is_time_out_of_a_unit(seen: &Seen, gap: &Gap) -> bool {
    const DEFAULT_TIME_OUT: std::ops::RangeInclusive<i64> = 80_000_000_000..=91_000_000_000;
    let user_space = seen.timeline.boundaries.iter().filter(|b| matches!(b.phase, Phase::Process1 | Phase::UserSpace));
    let begins = user_space.map(|boundary| boundary.at).min();
    begins.is_some_and(|begins| gap.stretch.from >= begins) && DEFAULT_TIME_OUT.contains(&gap.stretch.length().0)
}

/// The gaps behind messages, in order of time. The last line of the log ends none. Loaders' lines are among them where the log
/// was taken elsewhere.
fn gaps(seen: &Seen) -> Vec<Gap> {
    let is_imported = seen.timeline.time_base == TimeBase::Evidence;
    let is_before = |row: &SpanRow| seen.timeline.tracks.get(row.track).kind == TrackKind::Firmware;
    let is_thread = |row: &SpanRow| seen.timeline.tracks.get(row.track).kind == TrackKind::Thread;
    let messages = || seen.spans().map(|(_, row)| row).filter(|row| row.kind == SpanKind::Message);
    let mut lines: Vec<Mark> =
        seen.lines().filter(|line| !seen.timeline.names.get(line.name).trim().is_empty()).collect();
    let before = messages().filter(|row| is_imported && is_before(row));
    lines.extend(before.map(|row| Mark { at: row.start, name: row.name, track: row.track }));
    lines.sort_by_key(|line| line.at);
    let rows = messages().filter(|row| is_thread(row) || is_imported && is_before(row));
    let mut gaps: Vec<Gap> = rows
        .filter_map(|row| {
            let after = &lines[lines.partition_point(|line| line.at < row.end)..];
            Some(Gap { stretch: seen.stretch(&row), ends_with: end_line(seen, &row, after)? })
        })
        .collect();
    gaps.sort_by_key(|gap| gap.stretch.from);
    gaps
}

/// The line that ends a gap: the first one, or the next if that one is of work beside the boot and says nothing of a wait.
fn end_line(seen: &Seen, gap: &SpanRow, after: &[Mark]) -> Option<NameId> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let first = after.first()?;
    if !is_beside(text(first)) || known(text(first)).is_some() {
        return Some(first.name);
    }
    let soon = after.iter().take_while(|line| (line.at - gap.end).0 * MAX_GOES_ON <= gap.length().0);
    Some(soon.skip(1).find(|line| !is_beside(text(line))).unwrap_or(first).name)
}

/// True if a message is of work that goes on beside the boot.
fn is_beside(text: &str) -> bool {
    BESIDE.iter().any(|beside| text.starts_with(beside))
}

/// Gaps that are one wait: a message of work beside the boot stands between them.
fn joined(seen: &Seen, gaps: Vec<Gap>) -> Vec<Vec<Gap>> {
    let mut all: Vec<Vec<Gap>> = Vec::new();
    for gap in gaps {
        let before = all.last_mut().filter(|before| {
            let last = before[before.len() - 1];
            let is_next = last.stretch.to == gap.stretch.from && last.stretch.track == gap.stretch.track;
            is_next
                && is_beside(seen.timeline.names.get(last.ends_with))
                && gap.stretch.length().0 * MAX_GOES_ON > last.stretch.length().0
        });
        match before {
            Some(before) => before.push(gap),
            None => all.push(vec![gap]),
        }
    }
    all
}

/// The number of the cause that the line at the end of a gap gives away. A driver that only registers waited for nothing.
fn known(line: &str) -> Option<usize> {
    let registers = || line.contains("registered new") || line.contains("Registered ");
    LINES.cause(line).filter(|_| !registers())
}

static LINES: LazyLock<Entries> = LazyLock::new(|| Entries::new(|cause| cause.lines));
static BEGINS: LazyLock<Entries> = LazyLock::new(|| Entries::new(|cause| cause.begins));

/// All entries of the table with the numbers of their causes. Only those whose first word stands in a line are looked at: a log may have
/// a million lines.
struct Entries {
    first_words: AhoCorasick,
    all: Vec<(usize, &'static [&'static str])>,
}

impl Entries {
    fn new(entries: fn(&Cause) -> &'static [&'static [&'static str]]) -> Entries {
        let of_cause = |(number, cause)| entries(cause).iter().map(move |words| (number, *words));
        let all: Vec<(usize, &[&str])> = CAUSES.iter().enumerate().flat_map(of_cause).collect();
        let first_words = all.iter().map(|(_, words)| words[0]);
        Entries { first_words: AhoCorasick::new(first_words).expect("the table is small"), all }
    }

    /// The number of the first cause with an entry whose words all stand in the line, in their order.
    fn cause(&self, line: &str) -> Option<usize> {
        let found = self.first_words.find_overlapping_iter(line).map(|word| self.all[word.pattern().as_usize()]);
        found.filter(|(_, words)| has_all(line, words)).map(|(number, _)| number).min()
    }
}

/// True if a line has all these words, in their order.
fn has_all(mut line: &str, words: &[&str]) -> bool {
    words.iter().all(|word| match line.find(word) {
        Some(at) => {
            line = &line[at + word.len()..];
            true
        }
        None => false,
    })
}

/// The draft about gaps with one cause; `None` if they are too short.
fn draft(seen: &Seen, gaps: &[Gap], cause: Option<&'static Cause>) -> Option<Draft> {
    let whole: Ns = gaps.iter().map(|gap| gap.stretch.length()).sum();
    if whole < SHORTEST || whole.0 < seen.end.0 / MIN_SHARE {
        return None;
    }
    let longest = gaps.iter().max_by_key(|gap| (gap.stretch.length(), Reverse(gap.stretch.from)))?;
    let remedy = match cause {
        None => Remedy::code(UNKNOWN),
        Some(cause) if cause.words.is_empty() => Remedy::code(cause.remedy),
        Some(cause) => Remedy::append(cause.remedy, cause.words),
    };
    Some(Draft {
        about: (longest.ends_with, NameId::EMPTY),
        figures: vec![Figure { of: cause.map_or("gap", |cause| cause.waits_for), value: Value::Time(whole) }],
        parts: gaps
            .iter()
            .map(|gap| Part { stretch: gap.stretch, left: Left { most: 1.0, ..Left::NOTHING } })
            .collect(),
        confidence: Confidence::Medium,
        remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    /// A log of these lines, each followed by a gap.
    fn boot(lines: &[(&str, i64)]) -> Log {
        let mut log = Log::linux();
        for &(line, gap_ms) in lines {
            log.line(line);
            log.step(SpanKind::Message, line, "", |log| log.call("waits", ms(gap_ms)));
        }
        log
    }

    #[test]
    fn the_line_at_the_end_names_the_cause() {
        let log = boot(&[
            ("IP-Config: Complete:", 1),
            ("     rootpath=", 513),
            ("input: AT Raw Set 2 keyboard as /devices/platform/i8042/serio0/input/input1", 5),
            ("Run /sbin/init as init process", 1),
        ]);
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert!(only.about.starts_with("input: AT Raw Set 2"), "{only:?}");
        assert_eq!(
            (only.figures[0].of, only.price.likely, only.price.low),
            ("for the PS/2 controller", ms(513), ms(0))
        );
        assert!(matches!(&only.remedy.changes[..], [crate::Change::AppendWords(words)] if words[0] == "i8042.noaux"));
    }

    #[test]
    fn a_link_of_pcie_and_power_resources_are_no_network() {
        for (line, cause) in [
            ("brcm-pcie 1000110000.pcie: link up, 5.0 GT/s PCIe x1 (!SSC)", "for a PCIe link to train"),
            ("rockchip-dw-pcie 3c0000000.pcie: PCIe Gen.3 x4 link up", "for a PCIe link to train"),
            ("r8169 0000:01:00.0 eth0: Link is Up - 1Gbps/Full", "for a network link"),
            ("ACPI: \\_TZ_.FN00: New power resource", "for methods of the firmware's ACPI tables"),
        ] {
            let found = boot(&[("a", 500), (line, 1), ("Run /sbin/init as init process", 1)]).found_by(&[DETECTOR]);
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            assert_eq!(only.figures[0].of, cause, "{line}");
        }
    }

    #[test]
    fn gaps_with_one_cause_are_one_finding() {
        let log = boot(&[
            ("a", 8500),
            ("hid-generic 1: timeout initializing reports", 1),
            ("b", 10_000),
            ("hid-generic 2: timeout initializing reports", 1),
            ("c", 2800),
            ("random: nonblocking pool is initialized", 7200),
            ("hid-generic 3: timeout initializing reports", 1),
            ("Run /sbin/init as init process", 1),
        ]);
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.evidence_count, only.price.likely), (4, ms(28_500)));
    }

    #[test]
    fn random_numbers_are_the_cause_where_the_boot_goes_on_with_them() {
        let log = boot(&[("systemd[1]: Set hostname to <x>.", 2100), ("random: crng init done", 3), ("next", 1)]);
        let found = log.found_by(&[DETECTOR]);
        assert_eq!(found.findings[0].figures[0].of, "for random numbers");
    }

    #[test]
    fn a_message_of_work_beside_the_boot_is_passed_over() {
        let log = boot(&[
            ("a", 11_000),
            ("clocksource: Switched to clocksource tsc", 1),
            ("Delay 11 seconds to wait for disk 2 ready.", 1),
            ("b", 1),
        ]);
        assert_eq!(log.found_by(&[DETECTOR]).findings[0].figures[0].of, "for a disk to spin up");
    }

    #[test]
    fn a_line_that_is_not_known_has_a_finding_without_a_remedy() {
        let log =
            boot(&[("Adding 102396k swap on /var/swap", 84_000), ("8021q: 802.1Q VLAN Support v1.8", 1), ("x", 1)]);
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert!(only.about.starts_with("8021q") && only.remedy.changes.is_empty());
        assert_eq!(only.figures[0].of, "gap");
    }

    #[test]
    fn the_line_at_the_beginning_names_the_cause_where_the_other_does_not() {
        let log = boot(&[("Calibrating delay loop... ", 300), ("pid_max: default: 32768", 1), ("x", 1)]);
        assert_eq!(log.found_by(&[DETECTOR]).findings[0].figures[0].of, "for the calibration of the delay loop");
    }

    #[test]
    fn time_before_the_clock_ran_is_no_silence_of_the_line_after_it() {
        let log = boot(&[
            ("NR_IRQS:64 nr_irqs:64 0 (or an earlier line at 0)", 2561),
            ("mmc0: new high speed card", 1),
            ("Run /sbin/init as init process", 1),
        ]);
        let found = log.found_by(&[DETECTOR]);
        assert_eq!(found.findings[0].figures[0].of, CAUSES[CLOCK_STOOD].waits_for);
        assert!(CAUSES[CLOCK_STOOD].waits_for.contains("stamp 0"));
    }

    #[test]
    fn lines_of_logs_that_people_published_have_their_causes() {
        for (line, cause) in [
            (
                "Initramfs unpacking failed: invalid magic at start of compressed archive",
                "for the initrd to be unpacked",
            ),
            (
                "Memory: 3912404K/4087036K available (10241K kernel code, 963K rwdata)",
                "for all pages of memory to be handed to the allocator",
            ),
            ("floppy0: no floppy controllers found", "for a floppy disk controller"),
            ("kjournald starting.  Commit interval 15 seconds", "for a file system to be mounted"),
            ("Freeing initrd memory: 20008K", "for the initrd to be unpacked"),
            ("pci 0000:c1:00.0: DOE: [2c8] ABORT timed out", "for a PCI device's mailbox (DOE) that does not answer"),
        ] {
            let found = boot(&[("a", 500), (line, 1), ("Run /sbin/init as init process", 1)]).found_by(&[DETECTOR]);
            assert_eq!(found.findings[0].figures[0].of, cause, "{line}");
        }
    }

    #[test]
    fn lines_that_name_no_wait_have_no_cause() {
        for line in [
            "usbcore: registered new interface driver usb-storage",
            "ehci_hcd: USB 2.0 'Enhanced' Host Controller (EHCI) Driver",
            "ACPI: bus type USB registered",
            "RPC: Registered named UNIX socket transport module.",
            "Calibrating delay loop (skipped), value calculated using timer frequency.. 48.00 BogoMIPS (lpj=240000)",
            "PM: hibernation: Registered nosave memory: [mem 0x00000000-0x00000fff]",
            "sdhci: Secure Digital Host Controller Interface driver",
            "rfkill: input handler disabled",
        ] {
            assert_eq!(known(line), None, "{line}");
        }
    }

    #[test]
    fn every_cause_has_words_and_a_remedy() {
        for cause in CAUSES {
            assert!(
                !(cause.lines.is_empty() && cause.begins.is_empty())
                    && cause.waits_for.starts_with("for ")
                    && !cause.remedy.is_empty()
            );
            assert!(
                cause.words.iter().all(|word| cause.remedy.contains(word.split('=').next().unwrap())),
                "{}",
                cause.waits_for
            );
        }
    }
}
