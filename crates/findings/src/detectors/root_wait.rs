//! A boot that waits for its root file system, for a fixed time or for a device.

use crate::detector::{Detector, Draft};
use crate::facts::Stretch;
use crate::{Need, Remedy, Seen};
use timeline::{Mark, NameId, Ns, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "root-wait",
    title: "the boot waits for its root file system",
    rule: "With rootdelay= Linux sleeps so many seconds before it mounts the root, whether or not the device is there. With \
           rootwait it looks for the device again and again, from a line that says so until one that names the device, or until \
           the root is mounted. Before it mounts, it also waits for all drivers that are still probing their devices. The log shows the first two, a \
           function the third.",
    source: "Linux, Documentation/admin-guide/kernel-parameters.txt: rootdelay, rootwait; init/do_mounts.c: prepare_namespace",
    threshold: "5 ms or more",
    price: "the wait goes; at the worst all of it stays, because nobody knows when the device is ready",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
const SLEEPS: (&str, &str) = ("Waiting ", " sec before mounting root device...");
const WAITS: &str = "Waiting for root device ";
const MOUNTED: &str = "VFS: Mounted root ";
/// A boot prints this once; a log that repeats it is read in linear time.
const MAX_WAITS: usize = 8;

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    let lines: Vec<Mark> = seen.lines().collect();
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let sleeps = lines.iter().filter_map(|line| {
        let seconds: i64 = text(line).strip_prefix(SLEEPS.0)?.strip_suffix(SLEEPS.1)?.parse().ok()?;
        of_process_1(seen, line, line.at + Ns(seconds.checked_mul(1_000_000_000)?))
    });
    let waits = lines.iter().enumerate().filter(|(_, line)| text(line).starts_with(WAITS)).take(MAX_WAITS);
    let waits = waits.filter_map(|(at, line)| {
        let mounted = lines[at..].iter().find(|later| text(later).starts_with(MOUNTED))?;
        // The mount itself takes time too, which is no wait.
        let device = text(line)[WAITS.len()..].trim_end_matches('.').rsplit('/').next()?;
        let words = |line: &Mark| text(line).split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == device);
        let ready = lines[at + 1..].iter().find(|later| words(later));
        of_process_1(seen, line, ready.map_or(mounted.at, |ready| ready.at.min(mounted.at)))
    });
    let probes = seen.stretches(SpanKind::Call, &["wait_for_device_probe"]);
    [
        draft(
            &sleeps.collect::<Vec<Stretch>>(),
            Remedy::append(
                "wait for the root's device and not for a time: rootwait in place of rootdelay=; rootwait alone waits for ever, so \
                 that panic= reboots no machine whose root is gone (newer kernels have rootwait=SECONDS)",
                &["rootdelay=0", "rootwait"],
            ),
        ),
        draft(
            &waits.collect::<Vec<Stretch>>(),
            Remedy::code(
                "have the root's device ready earlier: build its driver in, and start its probe before others",
            ),
        ),
        draft(
            &probes,
            Remedy::code(
                "look which driver still probes then, and leave it out or let it probe after the root is mounted",
            ),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn draft(stretches: &[Stretch], remedy: Remedy) -> Option<Draft> {
    let whole: Ns = stretches.iter().map(Stretch::length).sum();
    Some(Draft::of(stretches, remedy).filter(|_| whole >= SHORTEST)?.leaving(1.0).less_sure())
}

/// The time of process 1, which mounts the root, from a line on.
fn of_process_1(seen: &Seen, line: &Mark, to: Ns) -> Option<Stretch> {
    let track = seen.process_1()?;
    let to = to.min(seen.end);
    (line.at < to).then_some(Stretch { track, from: line.at, to, name: line.name, detail: NameId::EMPTY, purpose: "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(lines: &[(&str, i64)]) -> Vec<(String, Ns, Ns, usize)> {
        let mut log = Log::linux();
        log.call("works", ms(500));
        for (line, then) in lines {
            log.line(line);
            log.call("works", ms(*then));
        }
        let found = log.found_by(&[DETECTOR]);
        let summary = |f: crate::Finding| (f.about, f.price.low, f.price.likely, f.remedy.changes.len());
        found.findings.into_iter().map(summary).collect()
    }

    const WAIT: &str = "Waiting for root device /dev/vda1...";
    const ROOT: &str = "VFS: Mounted root (ext4 filesystem) readonly on device 254:1.";

    #[test]
    fn a_fixed_time_and_a_wait_for_a_device_are_found() {
        const SLEEP: &str = "Waiting 2 sec before mounting root device...";
        assert_eq!(boot(&[(SLEEP, 2_000), (ROOT, 100)]), [(SLEEP.to_owned(), ms(0), ms(2_000), 1)]);
        assert_eq!(boot(&[(WAIT, 40), ("vda: vda1", 10), (ROOT, 100)]), [(WAIT.to_owned(), ms(0), ms(40), 0)]);
        assert_eq!(boot(&[(WAIT, 40), ("vdb: vdb1", 10), (ROOT, 100)]), [(WAIT.to_owned(), ms(0), ms(50), 0)]);
        assert!(boot(&[(WAIT, 2), (ROOT, 100)]).is_empty(), "short");
        assert!(boot(&[(WAIT, 50)]).is_empty(), "until when, nobody says");
        assert!(boot(&[("Waiting 99999999999999999999 sec before mounting root device...", 50)]).is_empty());
        assert!(boot(&[("Waiting for something", 50), (ROOT, 100)]).is_empty());
    }

    #[test]
    fn drivers_that_still_probe_are_found_by_the_function() {
        let boot = |length: i64| {
            let mut log = Log::linux();
            log.within("prepare_namespace", |log| log.call("wait_for_device_probe", ms(length)));
            log.line(ROOT);
            log.call("works", ms(500));
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!((boot(60), boot(1)), (1, 0));
    }
}
