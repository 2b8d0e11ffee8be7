//! Drivers that cannot probe a device yet, because another device that it needs is missing.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Stretch, Value};
use crate::{Figure, Need, Remedy, Seen};
use hashbrown::{HashMap, HashSet};
use timeline::{Mark, NameId, Ns, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "deferred-probes",
    title: "drivers probe a device again and again, because its supplier is missing",
    rule: "A driver that needs a clock, a regulator or another device first puts its probe off (-EPROBE_DEFER, -517), and \
           Linux tries again after each probe that succeeds. With initcall_debug the log has each attempt with its length. \
           Other lines name the supplier: `supplier X not ready`, `wait for supplier /x`. The rule follows them from device to supplier, and \
           what waits for the same last supplier is one finding. Where the boot waits for its root until deferred probes time \
           out, that wait is a finding too.",
    source: "Linux, Documentation/driver-api/driver-model/driver.rst: -EPROBE_DEFER; \
             Documentation/admin-guide/kernel-parameters.txt: deferred_probe_timeout, fw_devlink",
    threshold: "any time in attempts that were put off, or in that wait",
    price: "all attempts but the last go, and the wait for the time-out goes; at the worst all stays, as others may be needed first",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

/// A longer chain of suppliers is cut.
const MAX_CHAIN: usize = 32;
const LEFT: Left = Left { most: 1.0, ..Left::NOTHING };
const TIMED_OUT: [&str; 2] =
    [": deferred probe timeout, ignoring dependency", ": ignoring dependency for device, assuming no driver"];
const WAITS: &str = "Waiting for root device ";
const MOUNTED: &str = "VFS: Mounted root ";

/// A line that says that a probe was put off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deferral<'a> {
    /// The device, or the initcall that returned the error.
    pub(super) device: &'a str,
    /// The missing supplier, if the line names it.
    pub(super) supplier: Option<&'a str>,
    /// Duration of the attempt, if the line has it.
    pub(super) took: Option<Ns>,
    /// True if the kernel has given up.
    is_last: bool,
}

fn look(seen: &Seen) -> Vec<Draft> {
    let Some(process_1) = seen.process_1().filter(|_| seen.machine.os == Os::Linux) else { return Vec::new() };
    let lines: Vec<Mark> = seen.lines().collect();
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let at = |line: &Mark, from: Ns, to: Ns| {
        let (from, to) = (from.max(Ns::ZERO), to.min(seen.end));
        Stretch { track: process_1, from, to, name: line.name, detail: NameId::EMPTY, purpose: "" }
    };
    let mut drafts = Vec::new();
    if let Some((line, until)) = waits_for_time_out(&lines, text) {
        // A shorter time-out is not tried unseen. It also gives up on a supplier whose driver is a module; a device then runs without its
        // IOMMU or its power domain.
        let remedy = Remedy::code(
            "build the driver of the missing supplier in, or switch the device off in the device tree; a shorter \
             deferred_probe_timeout= also gives up on suppliers whose driver is a module",
        );
        drafts.extend(Draft::of(&[at(&line, line.at, until)], remedy).map(|draft| draft.leaving(1.0).less_sure()));
    }
    let deferrals: Vec<(Mark, Deferral)> =
        lines.iter().filter_map(|line| Some((*line, deferral(text(line))?))).collect();
    let suppliers: HashMap<&str, &str> =
        deferrals.iter().filter_map(|(_, deferral)| Some((deferral.device, deferral.supplier?))).collect();
    let mut groups: HashMap<&str, Vec<(Mark, Deferral)>> = HashMap::new();
    for &(line, deferral) in &deferrals {
        let last = *chain(&suppliers, deferral.device).last().unwrap_or(&deferral.device);
        groups.entry(last).or_default().push((line, deferral));
    }
    let mut groups: Vec<Vec<(Mark, Deferral)>> = groups.into_values().collect();
    groups.sort_by_key(|group| group[0].0.at);
    let attempts = Attempts::of(seen);
    drafts.extend(groups.iter().filter_map(|group| {
        let stretch = |(line, deferral): &(Mark, Deferral)| {
            let took = deferral.took?;
            Some(attempts.find(deferral.device, line.at).unwrap_or_else(|| at(line, line.at - took, line.at)))
        };
        let tried: Vec<Stretch> = group.iter().filter_map(stretch).collect();
        let longest = group.iter().map(|(_, deferral)| chain(&suppliers, deferral.device).len()).max()?;
        let mut draft = Draft::of(&tried, remedy(seen, group))?.leaving(LEFT.most).counting("attempts").less_sure();
        let devices: HashSet<&str> = group.iter().map(|(_, deferral)| deferral.device).collect();
        draft.figures.insert(0, Figure { of: "devices", value: Value::Count(devices.len() as u64) });
        if longest > 0 {
            draft
                .figures
                .insert(1, Figure { of: "suppliers one after the other", value: Value::Count(longest as u64) });
        }
        // The chain of devices and suppliers, in the kernel's words.
        let mut named = HashSet::new();
        let links =
            group.iter().filter(|(_, link)| link.supplier.is_some() && named.insert((link.device, link.supplier)));
        draft.parts.extend(links.map(|(line, _)| Part { stretch: at(line, line.at, line.at), left: Left::ALL }));
        draft.confidence = Confidence::Medium;
        Some(draft)
    }));
    drafts
}

/// The line after which the boot waits for its root until deferred probes time out, and the end of that wait.
fn waits_for_time_out<'a>(lines: &[Mark], text: impl Fn(&Mark) -> &'a str) -> Option<(Mark, Ns)> {
    let from = lines.iter().position(|line| text(line).starts_with(WAITS))?;
    let to = from + lines[from..].iter().position(|line| text(line).starts_with(MOUNTED))?;
    let is_time_out = |line: &&Mark| TIMED_OUT.iter().any(|known| text(line).ends_with(known));
    let timed_out = lines[from..to].iter().find(is_time_out)?;
    (lines[from].at < timed_out.at).then_some((lines[from], timed_out.at))
}

/// The remedy for devices that wait for the same supplier.
fn remedy(seen: &Seen, group: &[(Mark, Deferral)]) -> Remedy {
    let by_links = |(_, deferral): &(Mark, Deferral)| deferral.is_last && deferral.supplier.is_some();
    if group.iter().any(by_links) && !given(seen, "fw_devlink=") {
        return Remedy::append(
            "let drivers probe although a supplier that the firmware names has no driver: fw_devlink=permissive; or build that \
             driver in",
            &["fw_devlink=permissive"],
        );
    }
    Remedy::code(
        "register the supplier's driver earlier: build it in, or link it before its consumers; switch off devices that the board \
         does not have",
    )
}

fn given(seen: &Seen, key: &str) -> bool {
    seen.machine.command_line.iter().flatten().any(|word| word.starts_with(key))
}

/// The suppliers that a device waits for, one after the other, each at most once.
fn chain<'a>(suppliers: &HashMap<&'a str, &'a str>, device: &'a str) -> Vec<&'a str> {
    let mut chain = Vec::new();
    let mut next = suppliers.get(device).copied();
    while let Some(supplier) = next.filter(|name| chain.len() < MAX_CHAIN && !chain.contains(name)) {
        chain.push(supplier);
        next = suppliers.get(supplier).copied().or_else(|| {
            // A path of the device tree: the device of `/soc/phy@ff7c0000/port` is called `ff7c0000.phy`.
            let devices = supplier.rsplit('/').filter_map(|node| node.split_once('@'));
            devices.filter_map(|(name, unit)| suppliers.get(format!("{unit}.{name}").as_str()).copied()).next()
        });
    }
    chain
}

/// Parses a line about a probe that was put off.
pub(super) fn deferral(text: &str) -> Option<Deferral<'_>> {
    let last_word = |text: &'_ str| text.rfind(' ').map_or(0, |at| at + 1);
    let device_before = |before: &'static str| {
        let at = text.find(before)?;
        let device = &text[last_word(&text[..at])..at];
        Some((device, text[at + before.len()..].trim_start_matches(": "))).filter(|_| !device.is_empty())
    };
    let deferral = |(device, why), is_last| Deferral { device, supplier: supplier(why), took: None, is_last };
    if let Some(rest) = text.split_once("probe of ").or_else(|| text.split_once("initcall ")).map(|(_, rest)| rest) {
        // `1d84000.ufshc with driver ufshcd-qcom returned -517 after 6 usecs`
        let (device, rest) = rest.split_once(" returned ")?;
        let (error, rest) = rest.split_once(" after ")?;
        let us: i64 = rest.strip_suffix(" usecs")?.parse().ok()?;
        let device = device.split([' ', '+']).next()?;
        return ["-517", "517"].contains(&error).then_some(Deferral {
            device,
            supplier: None,
            took: Some(Ns(us.checked_mul(1_000)?)),
            is_last: false,
        });
    }
    if let Some(pending) = device_before(": deferred probe pending") {
        return Some(deferral(pending, true));
    }
    let put_off = device_before(": probe deferral - ").or_else(|| device_before(": error -EPROBE_DEFER: "));
    let put_off = put_off.or_else(|| device_before(": Driver ").filter(|_| text.ends_with(" requests probe deferral")));
    put_off.or_else(|| device_before(": ").filter(|_| text.ends_with(" -517"))).map(|put_off| deferral(put_off, false))
}

/// The name in `supplier 2-0042 not ready`, or in `platform: wait for supplier /phy@ff7c0000/usb3-port`.
fn supplier(why: &str) -> Option<&str> {
    let (before, rest) = why.split_once("supplier ")?;
    let name = rest.split(' ').next().filter(|name| !name.is_empty())?;
    (before.ends_with("wait for ") || rest.ends_with(" not ready")).then_some(name)
}

/// The attempts in the timeline, by device and end.
struct Attempts(HashMap<(NameId, Ns), Stretch>, HashMap<String, NameId>);

impl Attempts {
    fn of(seen: &Seen) -> Attempts {
        let mut attempts = Attempts(HashMap::new(), HashMap::new());
        for (_, row) in seen.spans().filter(|(_, row)| [SpanKind::Probe, SpanKind::Initcall].contains(&row.kind)) {
            let device = seen.timeline.names.get(row.detail).split(' ').next().unwrap_or_default();
            let id = *attempts.1.entry(device.to_owned()).or_insert(row.detail);
            attempts.0.insert((id, row.end), seen.stretch(&row));
        }
        attempts
    }

    fn find(&self, device: &str, end: Ns) -> Option<Stretch> {
        self.0.get(&(*self.1.get(device)?, end)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    fn append(word: &str) -> Vec<Change> {
        vec![Change::AppendWords(vec![word.to_owned()])]
    }

    /// Probes each device, and prints a line with the result.
    fn boot(words: &[&str], probes: &[(&str, i64, &str)], then: &[&str]) -> Found {
        let mut log = Log::linux();
        log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
        log.call("works", ms(500));
        for &(device, took, returned) in probes {
            log.step(SpanKind::Probe, "probe", device, |log| log.call("works", ms(took)));
            log.line(&format!("probe of {device} returned {returned} after {} usecs", took * 1_000));
        }
        then.iter().for_each(|line| log.line(line));
        log.call("works", ms(500));
        log.found_by(&[DETECTOR])
    }

    const SOC: [(&str, i64, &str); 5] = [
        ("1c.usb", 30, "-517"),
        ("2c.phy", 20, "-517"),
        ("1c.usb", 10, "-517"),
        ("3c.pmic", 5, "0"),
        ("1c.usb", 40, "0"),
    ];
    const CHAIN: [&str; 2] = [
        "platform 1c.usb: probe deferral - wait for supplier /soc@0/phy@2c/usb3-port",
        "platform 2c.phy: probe deferral - supplier 3c.pmic not ready",
    ];

    #[test]
    fn devices_that_wait_for_the_same_last_supplier_are_one_finding() {
        let found = boot(&[], &SOC, &CHAIN);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.low, only.price.likely), ("probe 1c.usb", ms(0), ms(60)));
        let figures: Vec<(&str, Value)> = only.figures.iter().map(|figure| (figure.of, figure.value)).collect();
        assert_eq!(figures[0], ("devices", Value::Count(2)));
        assert_eq!(figures[1], ("suppliers one after the other", Value::Count(2)));
        assert_eq!(figures[2..], [("attempts", Value::Count(3)), ("in all", Value::Time(ms(60)))]);
        assert_eq!(
            (only.evidence_count, only.remedy.changes.len()),
            (5, 0),
            "three attempts, and the two lines of the chain"
        );
        assert_eq!(boot(&[], &SOC, &[]).findings.len(), 2, "no line says that they belong together");
    }

    #[test]
    fn what_is_probed_once_is_not_found() {
        assert!(boot(&[], &[("1c.usb", 30, "0"), ("2c.phy", 30, "-19"), ("1c.usb", 30, "1")], &[]).findings.is_empty());
        assert!(boot(&[], &[], &CHAIN).findings.is_empty(), "how long it took, no line says");
    }

    #[test]
    fn a_supplier_that_never_comes_need_not_be_waited_for() {
        const PENDING: &str =
            "platform 1c.usb: deferred probe pending: platform: wait for supplier /soc@0/phy@2c/usb3-port";
        let changes = |words: &[&str]| boot(words, &SOC[..1], &[PENDING]).findings[0].remedy.changes.clone();
        assert_eq!(changes(&[]), append("fw_devlink=permissive"));
        assert_eq!(changes(&["fw_devlink=on"]), [], "somebody chose");
    }

    #[test]
    fn a_wait_for_the_root_until_probes_time_out_is_found() {
        let boot = |words: &[&str], last: &str| {
            let mut log = Log::linux();
            log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
            log.call("works", ms(500));
            log.line("Waiting for root device /dev/mmcblk0p2...");
            log.call("works", ms(9_000));
            log.line(last);
            log.call("works", ms(300));
            log.line("VFS: Mounted root (ext4 filesystem) readonly on device 179:2.");
            log.call("works", ms(500));
            let found = log.found_by(&[DETECTOR]);
            found.findings.into_iter().map(|f| (f.price.low, f.price.likely, f.remedy.changes)).collect::<Vec<_>>()
        };
        const TIME_OUT: &str = "sdhci-arasan fe330000.mmc: deferred probe timeout, ignoring dependency";
        assert_eq!(boot(&[], TIME_OUT), [(ms(0), ms(9_000), Vec::new())]);
        assert_eq!(boot(&[], "mmcblk0: mmc0:0001 SD16G 14.4 GiB"), []);
    }

    #[test]
    fn lines_of_all_kernels_are_read() {
        let parts_of = |text| deferral(text).map(|found| (found.device, found.supplier, found.took, found.is_last));
        let us = |us: i64| Some(Ns(us * 1_000));
        assert_eq!(
            parts_of("probe of 1d84000.ufshc with driver ufshcd-qcom returned -517 after 6 usecs"),
            Some(("1d84000.ufshc", None, us(6), false))
        );
        assert_eq!(
            parts_of("probe of fa20000.mmc returned 517 after 17380 usecs"),
            Some(("fa20000.mmc", None, us(17_380), false))
        );
        assert_eq!(
            parts_of("initcall imx219_init+0x0/0x1000 [imx219] returned -517 after 9 usecs"),
            Some(("imx219_init", None, us(9), false))
        );
        assert_eq!(
            parts_of("platform fdab0000.npu: deferred probe pending: platform: supplier 2-0042 not ready"),
            Some(("fdab0000.npu", Some("2-0042"), None, true))
        );
        assert_eq!(
            parts_of("platform cpufreq-dt: deferred probe pending: (reason unknown)"),
            Some(("cpufreq-dt", None, None, true))
        );
        assert_eq!(parts_of("i2c 1-0008: deferred probe pending"), Some(("1-0008", None, None, true)));
        assert_eq!(
            parts_of("platform 1c.usb: error -EPROBE_DEFER: supplier 3c.pmic not ready"),
            Some(("1c.usb", Some("3c.pmic"), None, false))
        );
        assert_eq!(parts_of("platform x: Driver foo requests probe deferral"), Some(("x", None, None, false)));
        assert_eq!(parts_of("panfrost fde60000.gpu: get clock failed -517"), Some(("fde60000.gpu", None, None, false)));
        for other in [
            "probe of 00:03 returned 0 after 4297 usecs",
            "probe of x returned -517 after",
            "probe of x returned -517 after 99999999999999999999 usecs",
            "initcall deferred_probe_initcall+0x0/0x90 returned 0 after 32 usecs",
            "imx219 2-0010: supply VANA not found, using dummy regulator",
            "regulator: supplier of nothing",
            ": deferred probe pending",
        ] {
            assert_eq!(parts_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_chain_that_bites_its_tail_ends() {
        let suppliers: HashMap<&str, &str> = [("a", "b"), ("b", "a"), ("c", "c")].into_iter().collect();
        assert_eq!((chain(&suppliers, "a"), chain(&suppliers, "c")), (vec!["b", "a"], vec!["c"]));
    }
}
