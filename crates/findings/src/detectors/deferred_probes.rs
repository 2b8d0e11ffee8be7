//! Drivers that cannot probe a device yet, because another device that it needs is missing.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Stretch, Value};
use crate::{Figure, Need, Remedy, Seen};
use analysis::{Attempt, DeferredProbe};
use hashbrown::{HashMap, HashSet};
use timeline::{Deferral, Mark, NameId, Ns, Os};

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

const LEFT: Left = Left { most: 1.0, ..Left::NOTHING };
const TIMED_OUT: [&str; 2] =
    [": deferred probe timeout, ignoring dependency", ": ignoring dependency for device, assuming no driver"];
const WAITS: &str = "Waiting for root device ";
const MOUNTED: &str = "VFS: Mounted root ";

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
    drafts.extend(by_last_supplier(seen).iter().filter_map(|group| {
        let stretch = |attempt: &Attempt| match attempt.span {
            Some(row) => seen.stretch(&row),
            None => Stretch {
                track: process_1,
                from: attempt.from.max(Ns::ZERO),
                to: attempt.to,
                name: NameId::EMPTY,
                detail: NameId::EMPTY,
                purpose: "",
            },
        };
        let in_time = |attempt: &&Attempt| attempt.to <= seen.end;
        let tried: Vec<Stretch> = group.iter().flat_map(|probe| &probe.attempts).filter(in_time).map(stretch).collect();
        let longest = group.iter().map(|probe| probe.suppliers.len()).max()?;
        let mut draft = Draft::of(&tried, remedy(seen, group))?.leaving(LEFT.most).counting("attempts").less_sure();
        draft.figures.insert(0, Figure { of: "devices", value: Value::Count(group.len() as u64) });
        if longest > 0 {
            draft
                .figures
                .insert(1, Figure { of: "suppliers one after the other", value: Value::Count(longest as u64) });
        }
        let link = |link: &Deferral| {
            let at = link.at.clamp(Ns::ZERO, seen.end);
            Stretch { track: process_1, from: at, to: at, name: link.message, detail: NameId::EMPTY, purpose: "" }
        };
        draft.parts.extend(chain(seen, group).map(|found| Part { stretch: link(found), left: Left::ALL }));
        draft.confidence = Confidence::Medium;
        Some(draft)
    }));
    drafts
}

/// The devices in groups that wait for the same last supplier.
fn by_last_supplier(seen: &Seen) -> Vec<Vec<DeferredProbe>> {
    let mut groups: Vec<Vec<DeferredProbe>> = Vec::new();
    let mut numbers: HashMap<NameId, usize> = HashMap::new();
    for probe in analysis::deferred_probes(seen.timeline) {
        let last = *probe.suppliers.last().unwrap_or(&probe.device);
        let number = *numbers.entry(last).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.push(probe),
            None => groups.push(vec![probe]),
        }
    }
    groups
}

/// The chain of a group's devices and suppliers, in the kernel's words, each link once.
fn chain<'a>(seen: &Seen<'a>, group: &[DeferredProbe]) -> impl Iterator<Item = &'a Deferral> {
    let devices: HashSet<NameId> = group.iter().map(|probe| probe.device).collect();
    let mut named = HashSet::new();
    seen.timeline.deferrals.iter().filter(move |link| {
        devices.contains(&link.device) && link.supplier.is_some() && named.insert((link.device, link.supplier))
    })
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
fn remedy(seen: &Seen, group: &[DeferredProbe]) -> Remedy {
    if group.iter().any(|probe| probe.is_pending && !probe.suppliers.is_empty()) && !given(seen, "fw_devlink=") {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};
    use timeline::SpanKind;

    fn append(word: &str) -> Vec<Change> {
        vec![Change::AppendWords(vec![word.to_owned()])]
    }

    /// Probes each device, and then says what devices wait for: device, supplier, and whether the kernel gave up.
    fn boot(words: &[&str], probes: &[(&str, i64, bool)], then: &[(&str, &str, bool)]) -> Found {
        let mut log = Log::linux();
        log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
        log.call("works", ms(500));
        for &(device, took, is_put_off) in probes {
            log.step(SpanKind::Probe, "probe", device, |log| log.call("works", ms(took)));
            if is_put_off {
                log.put_off(device, None, Some(ms(took)), false);
            }
        }
        then.iter().for_each(|&(device, supplier, is_pending)| log.put_off(device, Some(supplier), None, is_pending));
        log.call("works", ms(500));
        log.found_by(&[DETECTOR])
    }

    const SOC: [(&str, i64, bool); 5] = [
        ("1c.usb", 30, true),
        ("2c.phy", 20, true),
        ("1c.usb", 10, true),
        ("3c.pmic", 5, false),
        ("1c.usb", 40, false),
    ];
    const CHAIN: [(&str, &str, bool); 2] = [("1c.usb", "/soc@0/phy@2c/usb3-port", false), ("2c.phy", "3c.pmic", false)];

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
        assert!(
            boot(&[], &[("1c.usb", 30, false), ("2c.phy", 30, false), ("1c.usb", 30, false)], &[]).findings.is_empty()
        );
        assert!(boot(&[], &[], &CHAIN).findings.is_empty(), "how long it took, no line says");
    }

    #[test]
    fn a_supplier_that_never_comes_need_not_be_waited_for() {
        const PENDING: (&str, &str, bool) = ("1c.usb", "/soc@0/phy@2c/usb3-port", true);
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
}
