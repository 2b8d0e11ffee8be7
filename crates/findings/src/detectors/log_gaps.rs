//! Gaps between two messages of the kernel, named by the message that ends them.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use timeline::{Mark, NameId, Ns, SpanKind, SpanRow, TrackKind};

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

/// A cause that the line at the end of a gap gives away.
struct Cause {
    /// Words of such lines; all words of one entry stand in the line, in this order.
    lines: &'static [&'static [&'static str]],
    /// The object of the wait, after "for".
    waits_for: &'static str,
    remedy: &'static str,
    /// Words for the kernel's command line, if they are a remedy.
    words: &'static [&'static str],
}

const fn cause(
    lines: &'static [&'static [&'static str]],
    waits_for: &'static str,
    remedy: &'static str,
    words: &'static [&'static str],
) -> Cause {
    Cause { lines, waits_for, remedy, words }
}

/// Sources: the kernel's own texts (drivers/input/serio/i8042.c, drivers/hid/usbhid/hid-core.c, drivers/char/random.c,
/// drivers/ata/libata-*.c, drivers/base/firmware_loader, init/do_mounts.c, net/ipv4/ipconfig.c, lib/raid6/algos.c, kernel/power) and
/// Documentation/admin-guide/kernel-parameters.txt for the options.
const CAUSES: &[Cause] = &[
    cause(
        &[&["i8042"], &["AT Raw Set 2 keyboard"], &["AT Translated Set 2 keyboard"], &["psmouse"], &["serio: "]],
        "for the PS/2 controller",
        "if the machine has no PS/2 keyboard: i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd skip the probes, and a machine \
         without the controller, or a kernel without SERIO_I8042, makes none",
        &["i8042.noaux", "i8042.nomux", "i8042.nopnp", "i8042.dumbkbd"],
    ),
    cause(
        &[
            &["Delay ", " seconds to wait for disk"],
            &["spin up"],
            &["spun up"],
            &["Spinning up disk"],
            &["Starting disk"],
        ],
        "for a disk to spin up",
        "the disk's start is staggered by the box's firmware or kernel: shorten the delay there, or do not wait for disks that the \
         root does not need",
        &[],
    ),
    cause(
        &[
            &["timeout initializing reports"],
            &["usb_submit_urb(ctrl) failed"],
            &["can't set config"],
            &["hid", "timeout"],
        ],
        "for a USB input device that does not answer",
        "usbhid.quirks=0xVENDOR:0xPRODUCT:0x20000000 skips the initial reports of this device; or unplug it, or update its firmware",
        &[],
    ),
    cause(
        &[&["random: crng init done"], &["random: nonblocking pool is initialized"], &["random: crng done"]],
        "for random numbers",
        "give the machine a source of randomness: virtio-rng, a seed that the loader passes, or a CPU's instruction with \
         random.trust_cpu=on random.trust_bootloader=on",
        &["random.trust_cpu=on", "random.trust_bootloader=on"],
    ),
    cause(
        &[
            &["ata", "SATA link down"],
            &["ata", "SATA link up"],
            &["ata", "link is slow to respond"],
            &["ata", "COMRESET failed"],
            &["ata", "SRST failed"],
            &["ata", "qc timeout"],
            &["ata", "hard resetting link"],
            &["ata", "softreset failed"],
            &["ata", "failed to IDENTIFY"],
            &["ata", "No present pin info"],
        ],
        "for a SATA port",
        "ports without a disk can be left out: libata.force=N:disable, or switch them off in the firmware's setup; a reset that \
         fails is the disk's or the cable's",
        &[],
    ),
    cause(
        &[&["Waiting for root device"], &["VFS: Mounted root"], &["VFS: Cannot open root device"], &["rootwait"]],
        "for the root file system",
        "find what supplies the root's device and start that earlier: its driver built in, fewer devices on its bus, no rootdelay=",
        &[],
    ),
    cause(
        &[
            &["EXT4-fs (", "mounted filesystem"],
            &["EXT4-fs (", "recovery complete"],
            &["XFS (", "Ending clean mount"],
            &["BTRFS info"],
            &["EXT4-fs (", "re-mounted"],
        ],
        "for a file system to be mounted",
        "a file system that was not unmounted replays its journal: shut down cleanly; else find what waits before the mount",
        &[],
    ),
    cause(
        &[
            &["Direct firmware load for ", " failed"],
            &["firmware: failed to load"],
            &["Falling back to sysfs fallback"],
            &["firmware", "timed out"],
            &["failed to load firmware"],
        ],
        "for firmware that is not there",
        "put the file into the initrd or the root, or build the kernel without FW_LOADER_USER_HELPER_FALLBACK: its time-out is 60 s",
        &[],
    ),
    cause(
        &[
            &["usb ", "new ", "-speed USB device"],
            &["usb ", "device descriptor read"],
            &["usb ", "device not accepting address"],
            &["hub ", "USB hub found"],
            &["usb ", "New USB device found"],
            &["usb-storage"],
            &["xhci_hcd"],
            &["ehci"],
        ],
        "for USB to find its devices",
        "devices of USB answer when they like: do not wait for those that the boot does not need, or load their drivers later",
        &[],
    ),
    cause(
        &[&["Link is Up"], &["link becomes ready"], &["NIC Link is Up"], &["link up"], &["carrier acquired"]],
        "for a network link",
        "a link's negotiation takes 1 to 3 s: begin it earlier, or do not wait for it before the root is mounted",
        &[],
    ),
    cause(
        &[
            &["IP-Config: Complete"],
            &["IP-Config: Got DHCP"],
            &["IP-Config: Retrying"],
            &["Sending DHCP requests"],
            &["IP-Config: "],
        ],
        "for the kernel's own network configuration",
        "give the address on the command line (ip=ADDRESS::GATEWAY:MASK::eth0:off), or leave ip= out and let user space do it",
        &[],
    ),
    cause(
        &[&["raid6: using algorithm"], &["raid6: "], &["xor: using function"], &["xor: measuring"]],
        "for a benchmark of checksums",
        "a kernel without RAID6_PQ_BENCHMARK takes one without measuring; where no disk is RAID 5 or 6, md and btrfs need not be built \
         in",
        &[],
    ),
    cause(
        &[
            &["PM: Image not found"],
            &["PM: hibernation image not present"],
            &["PM: Starting manual resume"],
            &["PM: hibernation"],
        ],
        "for a hibernation image",
        "noresume skips it, where the machine is never hibernated",
        &["noresume"],
    ),
    cause(
        &[&["tpm", "self test"], &["tpm_tis"], &["tpm tpm0"], &["ima: "]],
        "for the TPM",
        "a TPM's self test takes what it takes: build its driver as a module where nothing measures the boot",
        &[],
    ),
    cause(
        &[&["mmc", "new "], &["mmc", "error -110"], &["mmc", "card"], &["mmcblk"], &["sdhci"]],
        "for an SD card or eMMC",
        "a slot without a card is probed at several speeds: mark it `broken-cd` or `non-removable` as it is, or disable it in the device \
         tree",
        &[],
    ),
    cause(
        &[
            &["Attached SCSI"],
            &["scsi ", "Direct-Access"],
            &["sd ", "logical blocks"],
            &["scsi host"],
            &["Attached scsi"],
        ],
        "for a SCSI disk or its controller",
        "controllers wait for all their targets: lower the driver's settle time, or scan asynchronously (scsi_mod.scan=async)",
        &["scsi_mod.scan=async"],
    ),
    cause(
        &[&["nvme", "queues"], &["nvme nvme"], &["nvme", "timeout"]],
        "for an NVMe disk",
        "a controller becomes ready when it likes; let the boot not wait for disks that the root does not need",
        &[],
    ),
    cause(
        &[&["Calibrating delay loop"], &["Calibrating delay"]],
        "for the calibration of the delay loop",
        "lpj=VALUE, as an earlier boot of this machine printed it, skips it",
        &[],
    ),
    cause(
        &[&["rfkill"], &["cfg80211"], &["regulatory"], &["wlan"], &["brcmfmac"], &["iwlwifi"], &["ath1"], &["mt76"]],
        "for wireless networking",
        "load the driver after the boot, as a module",
        &[],
    ),
    cause(
        &[
            &["fb0: "],
            &["Console: switching to colour frame buffer"],
            &["[drm] Initialized"],
            &["amdgpu"],
            &["nouveau"],
            &["i915"],
        ],
        "for the display",
        "load the display's driver after the root is mounted, as a module",
        &[],
    ),
    cause(
        &[&["smp: Brought up"], &["smpboot: Total of"], &["CPU", "failed to come online"], &["PSCI", "CPU"]],
        "for other CPUs to start",
        "CPUs start one after the other: fewer of them, or a kernel that starts them in parallel (6.5 and newer)",
        &[],
    ),
    cause(
        &[&["ACPI: "], &["ACPI Error"], &["acpi "]],
        "for methods of the firmware's ACPI tables",
        "a newer firmware may be quicker; acpi_osi= changes which methods run",
        &[],
    ),
    cause(
        &[&["nfs: server", "not responding"], &["VFS: Unable to mount root fs via NFS"], &["RPC: "]],
        "for a server of NFS",
        "check the server and its address",
        &[],
    ),
    cause(
        &[
            &["systemd[", "Timed out waiting for"],
            &["systemd[", "start operation timed out"],
            &["systemd[", "Dependency failed"],
        ],
        "for a unit of systemd until its time-out",
        "start what the unit waits for, or take the unit out; JobTimeoutSec= and DefaultTimeoutStartSec= shorten the wait",
        &[],
    ),
];

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
        match known(seen.timeline.names.get(ends_with)) {
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

/// The gaps behind messages, in order of time. The last line of the log ends none.
fn gaps(seen: &Seen) -> Vec<Gap> {
    let mut lines: Vec<Mark> = seen.lines().collect();
    lines.sort_by_key(|line| line.at);
    let is_thread = |row: &SpanRow| seen.timeline.tracks.get(row.track).kind == TrackKind::Thread;
    let rows = seen.spans().map(|(_, row)| row).filter(|row| row.kind == SpanKind::Message && is_thread(row));
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

/// The number of the cause that a line gives away.
fn known(line: &str) -> Option<usize> {
    let has = |words: &[&str]| {
        let mut rest = line;
        words.iter().all(|word| match rest.find(word) {
            Some(at) => {
                rest = &rest[at + word.len()..];
                true
            }
            None => false,
        })
    };
    CAUSES.iter().position(|cause| cause.lines.iter().any(|words| has(words)))
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
    fn every_cause_has_words_and_a_remedy() {
        for cause in CAUSES {
            assert!(!cause.lines.is_empty() && cause.waits_for.starts_with("for ") && !cause.remedy.is_empty());
            assert!(
                cause.words.iter().all(|word| cause.remedy.contains(word.split('=').next().unwrap())),
                "{}",
                cause.waits_for
            );
        }
    }
}
