//! Drivers whose probes the boot runs one after the other, although it does not need their devices yet.

mod needed;

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use analysis::{probed, share_beside, synchronous_probes};
use hashbrown::HashSet;
use needed::Needed;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use timeline::{Mark, Ns, Os, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "async-probe",
    title: "the boot waits for its probe, and needs the device only later",
    rule: "Linux probes devices on process 1's thread, one after the other. A driver can instead be probed by another thread: the boot \
           goes on, and waits only before it mounts the root itself or starts process 1. The rule takes the drivers whose probes \
           last longest. It leaves out drivers that the root file system or the console needs, that supply other devices \
           (clocks, regulators, pins, buses), that answer on a bus with one transfer at a time (I2C, SPI), and those for which \
           another device waits by the kernel's own lines. The evidence lists them with the reason.",
    source: "Linux, drivers/base/dd.c: driver_async_probe= (2019, 1ea61b68d0f8); Kannan 2022, default async probing for DT based \
             systems; flipperone-linux-build-scripts PR 163 (2026): 4.30 to 3.13 s with driver_async_probe=rk_gmac-dwmac,leds-gpio",
    threshold: "1 ms or more for a driver; 5 ms or more for all of them, and half a per cent of the boot",
    price: "the time of these probes that overlaps with the boot: they begin where they did, share the CPUs with it, and are waited for \
            before process 1 starts. Without a scheduler's trace they are taken to need a CPU all the time, and two CPUs are \
            reckoned with if their number is unknown. At the worst nothing is saved, because they take a lock that the boot needs",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

const MIN_DRIVER: Ns = Ns::from_ms(1);
const MIN_SAVED: Ns = Ns::from_ms(5);
const MIN_SHARE: f64 = 0.005;
const PARAMETER: &str = "driver_async_probe=";
/// The kernel keeps at most this number of bytes of the parameter, with its terminating zero.
const MAX_NAMES: usize = 255;
/// The first kernel with the parameter.
const SINCE: (u32, u32) = (5, 1);
const WHAT: &str = "probe them beside the boot: driver_async_probe= with their names on the command line, PROBE_PREFER_ASYNCHRONOUS in the \
                    driver, or a module that is loaded later. Names that follow the order of probing, such as eth0, may change";

/// The probes of one driver.
struct Driver<'a> {
    /// Its name; `None` if the log does not have it.
    name: Option<&'a str>,
    probes: Vec<SpanRow>,
    length: Ns,
    /// The reason why it is left out.
    needed: Option<Needed>,
}

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    let drivers = drivers(seen);
    let (needed, free): (Vec<&Driver>, Vec<&Driver>) = drivers.iter().partition(|driver| driver.needed.is_some());
    draft(seen, &free, &needed).into_iter().collect()
}

/// The drivers with probes that are long enough, the longest first.
fn drivers<'a>(seen: &Seen<'a>) -> Vec<Driver<'a>> {
    let lines: Vec<Mark> = seen.lines().collect();
    let text = |line: &Mark| -> &'a str { seen.timeline.names.get(line.name) };
    let (deferrals, names) = (&seen.timeline.deferrals, &seen.timeline.names);
    let attempts = deferrals.iter().filter(|deferral| deferral.took.is_some());
    let put_off: HashSet<(&str, Ns)> = attempts.map(|attempt| (names.get(attempt.device), attempt.at)).collect();
    let suppliers = deferrals.iter().filter_map(|deferral| Some(names.get(deferral.supplier?))).collect();
    let rule = needed::Rule::new(seen.machine.command_line.as_deref(), lines.iter().map(text), suppliers);
    let asked = given(seen);
    let mut by_name: BTreeMap<&str, Driver> = BTreeMap::new();
    for row in synchronous_probes(seen.timeline) {
        let (device, name) = probed(seen.timeline.names.get(row.detail));
        let is_asked = name.is_some_and(|name| asked.contains(&name));
        if put_off.contains(&(device, row.end)) || is_asked {
            continue;
        }
        let driver = by_name.entry(name.unwrap_or(device)).or_insert(Driver {
            name,
            probes: Vec::new(),
            length: Ns::ZERO,
            needed: None,
        });
        driver.needed =
            driver.needed.or_else(|| inner(seen, &row).find_map(|(device, name)| rule.needed(device, name)));
        driver.length += row.end - row.start;
        driver.probes.push(row);
    }
    let mut drivers: Vec<Driver> = by_name.into_values().filter(|driver| driver.length >= MIN_DRIVER).collect();
    drivers.sort_by_key(|driver| Reverse(driver.length));
    drivers
}

/// The device and driver of a probe, and of the probes within it.
fn inner<'a>(seen: &Seen<'a>, outer: &SpanRow) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
    let (outer, spans) = (*outer, &seen.timeline.spans);
    let from = spans.open_at(outer.track, outer.start - Ns(1)).1;
    let rows = spans.iter_from(from).map(|(_, row)| row);
    let within = rows.take_while(move |row| row.track == outer.track && row.start < outer.end);
    within.filter(move |row| row.kind == outer.kind).map(|row| probed(seen.timeline.names.get(row.detail)))
}

/// The drivers that the command line asks to probe asynchronously. The kernel takes the last list.
fn given<'a>(seen: &Seen<'a>) -> Vec<&'a str> {
    let words = seen.machine.command_line.iter().flatten();
    let last = words.filter_map(|word| word.strip_prefix(PARAMETER)).next_back();
    last.map_or(Vec::new(), |names| names.split(',').collect())
}

fn draft(seen: &Seen, free: &[&Driver], needed: &[&Driver]) -> Option<Draft> {
    let probes: Vec<SpanRow> = free.iter().flat_map(|driver| driver.probes.iter().copied()).collect();
    let whole: Ns = free.iter().map(|driver| driver.length).sum();
    let share = |busy| share_beside(seen.timeline, &probes, seen.machine.cpus, busy);
    let left = Left { beside: true, ..Left::of(share(0.0), share(1.0), 1.0) };
    let saved = Ns::rounded(whole.0 as f64 * (1.0 - left.likely));
    if saved < MIN_SAVED || (saved.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let longest = probes.iter().max_by_key(|row| (row.end - row.start, Reverse(row.start)))?;
    let mut parts: Vec<Part> = probes.iter().map(|row| Part { stretch: seen.stretch(row), left }).collect();
    parts.extend(needed.iter().flat_map(|driver| {
        let purpose = driver.needed.map_or("", Needed::reason);
        let listed = move |row: &SpanRow| Part { stretch: Stretch { purpose, ..seen.stretch(row) }, left: Left::ALL };
        driver.probes.iter().map(listed)
    }));
    Some(Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "drivers", value: Value::Count(free.len() as u64) },
            Figure { of: "probes", value: Value::Count(probes.len() as u64) },
            Figure { of: "in all", value: Value::Time(whole) },
            Figure { of: "left out", value: Value::Count(needed.len() as u64) },
        ],
        parts,
        confidence: Confidence::Medium,
        remedy: remedy(seen, free),
    })
}

/// The word for the command line, with the drivers that it asked for already; no word if the kernel has no such parameter,
/// or if the log does not name all drivers.
fn remedy(seen: &Seen, free: &[&Driver]) -> Remedy {
    let mut names = given(seen);
    let is_word = |name: &&str| !name.contains([',', ' ', '"']);
    names.extend(free.iter().filter_map(|driver| driver.name).filter(is_word));
    let word = format!("{PARAMETER}{}", names.join(","));
    let has_all = free.iter().all(|driver| driver.name.as_ref().is_some_and(is_word));
    if !has_all || !seen.is_since(SINCE, false) || word.len() - PARAMETER.len() > MAX_NAMES {
        return Remedy::code(WHAT);
    }
    Remedy { what: WHAT, changes: vec![Change::AppendWords(vec![word])] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};
    use timeline::SpanKind;

    /// The boot of a board: each probe with 50 ms before it. The suppliers are waited for by other devices.
    fn boot(cpus: u32, words: &str, probes: &[(&str, i64)], suppliers: &[&str]) -> Found {
        let mut log = Log::linux();
        log.timed_by_the_host();
        log.machine.cpus = cpus;
        log.machine.command_line = Some(words.split(' ').map(str::to_owned).collect());
        for &(device, took) in probes {
            log.call("works", ms(50));
            log.step(SpanKind::Probe, "probe", device, |log| log.call("works", ms(took)));
        }
        suppliers.iter().for_each(|supplier| log.put_off("y", Some(supplier), None, false));
        log.hands_over();
        log.call("works", ms(500));
        log.found_by(&[DETECTOR])
    }

    const FLIPPER: &[(&str, i64)] = &[
        ("fe220000.ethernet (rk_gmac-dwmac)", 274),
        ("fe2a0000.ethernet (rk_gmac-dwmac)", 272),
        ("2-0047 (hd3ss3220)", 208),
        ("leds (leds-gpio)", 640),
        ("2a2d0000.ufshc (ufshcd-rockchip)", 410),
        ("works", 400),
    ];

    fn word(found: &Found) -> String {
        match &found.findings[0].remedy.changes[..] {
            [Change::AppendWords(words)] => words.join(" "),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn drivers_that_are_not_needed_yet_are_probed_beside_the_boot() {
        let found = boot(8, "root=UUID=aa console=ttyS0", &FLIPPER[..5], &[]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!(only.about, "probe leds (leds-gpio)");
        assert_eq!(word(&found), "driver_async_probe=leds-gpio,rk_gmac-dwmac");
        // The LEDs have 460 ms until process 1 starts, and are then waited for.
        assert_eq!((only.price.low, only.price.likely), (ms(0), ms(274 + 272 + 640 - (640 - 460))));
        let reasons: Vec<(Ns, bool)> =
            only.evidence.iter().map(|s| (s.length(), s.purpose.starts_with("left out, because "))).collect();
        assert_eq!(reasons, [640, 410, 274, 272, 208].map(|took| (ms(took), took == 410 || took == 208)));
    }

    #[test]
    fn the_cpus_are_shared() {
        let likely = |cpus| {
            boot(cpus, "root=/dev/sda1 console=ttyS0", &FLIPPER[..2], &[]).findings.first().map(|f| f.price.likely)
        };
        assert_eq!(likely(1), None, "nothing shows that they sleep");
        assert_eq!(likely(4), Some(ms(274)), "of two that end at process 1, the longer is waited for");
    }

    #[test]
    fn no_word_is_tried_without_the_drivers_names_or_on_old_kernels() {
        let found = boot(8, "root=/dev/sda1 console=ttyS0", &[("leds", 200), ("x.mmc (mmc)", 300)], &[]);
        assert_eq!(found.findings[0].remedy.changes, []);
        let asked = boot(8, "driver_async_probe=a driver_async_probe=b,leds-gpio", &FLIPPER[..5], &[]);
        assert_eq!(word(&asked), "driver_async_probe=b,leds-gpio,rk_gmac-dwmac");
    }

    #[test]
    fn a_supplier_and_what_was_put_off_are_left_out() {
        let probes = [("x.foo (foo)", 100), ("works (works)", 300)];
        let about =
            |suppliers: &[&str]| boot(8, "console=ttyS0", &probes, suppliers).findings.first().map(|f| f.about.clone());
        assert_eq!(about(&[]).as_deref(), Some("probe works (works)"));
        assert_eq!(about(&["works"]).as_deref(), Some("probe x.foo (foo)"));
    }

    #[test]
    fn a_bus_whose_child_is_the_root_is_left_out() {
        let boot = |child: &str| {
            let mut log = Log::linux();
            log.timed_by_the_host();
            log.machine.cpus = 4;
            log.step(SpanKind::Probe, "probe", "x.hub (hub)", |log| {
                log.step(SpanKind::Probe, "probe", child, |log| log.call("works", ms(300)));
            });
            log.call("works", ms(400));
            log.hands_over();
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!((boot("x.leds (leds)"), boot("0000:01:00.0 (nvme)")), (1, 0));
    }
}
