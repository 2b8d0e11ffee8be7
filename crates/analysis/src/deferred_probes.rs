//! Devices whose probe the kernel put off: the attempts, and the suppliers that each waited for.

use hashbrown::{HashMap, HashSet};
use timeline::{Deferral, NameId, Names, Ns, SpanKind, SpanRow, Timeline};

/// A longer chain of suppliers is cut.
const MAX_CHAIN: usize = 32;

/// A device whose probe the kernel put off.
#[derive(Clone, Debug, PartialEq)]
pub struct DeferredProbe {
    pub device: NameId,
    /// The attempts that were put off, in order of time. Without the kernel's lengths of probes, no attempt is known.
    pub attempts: Vec<Attempt>,
    /// The suppliers: what the device waits for, what that waits for, and so on. Empty if no message names one.
    pub suppliers: Vec<NameId>,
    /// True if the kernel gave up, and no later attempt is known.
    pub is_pending: bool,
}

/// A probe that was put off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    pub from: Ns,
    pub to: Ns,
    /// Its span; `None` if the timeline has none that ends then.
    pub span: Option<SpanRow>,
}

/// Lists the devices in the order of their first message. Linear in the numbers of probes and messages.
pub fn deferred_probes(timeline: &Timeline) -> Vec<DeferredProbe> {
    if timeline.deferrals.is_empty() {
        return Vec::new();
    }
    let (suppliers, probes) = (Suppliers::of(timeline), Probes::of(timeline));
    let mut numbers: HashMap<NameId, usize> = HashMap::new();
    let mut all: Vec<DeferredProbe> = Vec::new();
    for deferral in &timeline.deferrals {
        let device = deferral.device;
        let number = *numbers.entry(device).or_insert_with(|| {
            let suppliers = suppliers.chain(device);
            all.push(DeferredProbe { device, attempts: Vec::new(), suppliers, is_pending: false });
            all.len() - 1
        });
        all[number].is_pending = deferral.is_pending;
        all[number].attempts.extend(probes.attempt(deferral));
    }
    for probe in &mut all {
        let (put_off, probed) =
            (probe.attempts.last().map(|attempt| attempt.to), probes.last.get(&probe.device).copied());
        probe.is_pending &= probed <= put_off;
    }
    all
}

/// The suppliers of devices, by the name of either.
struct Suppliers<'a> {
    names: &'a Names,
    of: HashMap<&'a str, NameId>,
}

impl<'a> Suppliers<'a> {
    fn of(timeline: &'a Timeline) -> Suppliers<'a> {
        let names = &timeline.names;
        let named =
            timeline.deferrals.iter().filter_map(|deferral| Some((names.get(deferral.device), deferral.supplier?)));
        Suppliers { names, of: named.collect() }
    }

    /// The suppliers that a device waits for, one after the other, each at most once.
    fn chain(&self, device: NameId) -> Vec<NameId> {
        let mut chain: Vec<NameId> = Vec::new();
        let mut next = self.of.get(self.names.get(device)).copied();
        while let Some(supplier) = next.filter(|name| chain.len() < MAX_CHAIN && !chain.contains(name)) {
            chain.push(supplier);
            let name = self.names.get(supplier);
            let called = || devices(name).find_map(|device| self.of.get(device.as_str()).copied());
            next = self.of.get(name).copied().or_else(called);
        }
        chain
    }
}

/// The names that Linux gives the device of a node of the device tree, and those of the nodes around it, the innermost
/// first: `/syscon@fd/io-domains` is `fd.syscon:io-domains`, in `fd.syscon` (`of_device_make_bus_id`).
fn devices(path: &str) -> impl Iterator<Item = String> + '_ {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0).chain([path.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.reverse();
    ends.into_iter().take(MAX_CHAIN).filter_map(|end| {
        let node = &path[..end];
        let (at, name, unit) = node.rmatch_indices('/').map(|(at, _)| at + 1).find_map(|at| {
            let (name, unit) = node[at..].split('/').next()?.split_once('@')?;
            Some((at, name, unit))
        })?;
        let behind =
            node[at..].split_once('/').map_or(String::new(), |(_, rest)| format!(":{}", rest.replace('/', ":")));
        Some(format!("{unit}.{name}{behind}"))
    })
}

/// The probes on a timeline of devices that were put off.
struct Probes {
    by_end: HashMap<(NameId, Ns), SpanRow>,
    /// The end of each device's last probe.
    last: HashMap<NameId, Ns>,
}

impl Probes {
    fn of(timeline: &Timeline) -> Probes {
        let put_off: HashSet<NameId> = timeline.deferrals.iter().map(|deferral| deferral.device).collect();
        let mut probes = Probes { by_end: HashMap::new(), last: HashMap::new() };
        let is_probe = |row: &SpanRow| matches!(row.kind, SpanKind::Probe | SpanKind::Initcall);
        for row in timeline.spans.iter().map(|(_, row)| row).filter(is_probe) {
            // Behind the device is its driver.
            let device =
                timeline.names.get(row.detail).split(' ').next().and_then(|device| timeline.names.find(device));
            if let Some(device) = device.filter(|device| put_off.contains(device)) {
                probes.by_end.insert((device, row.end), row);
                let last = probes.last.entry(device).or_insert(row.end);
                *last = row.end.max(*last);
            }
        }
        probes
    }

    fn attempt(&self, deferral: &Deferral) -> Option<Attempt> {
        let took = deferral.took?;
        let span = self.by_end.get(&(deferral.device, deferral.at)).copied();
        let from = span.map_or(deferral.at - took, |row| row.start);
        Some(Attempt { from, to: deferral.at, span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{TimeBase, TrackKind};

    /// A boot with messages (time, device, supplier, length of the attempt, pending) and probes (device, start, end).
    fn boot(messages: &[(i64, &str, &str, i64, bool)], probes: &[(&str, i64, i64)]) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        for &(at, device, supplier, took, is_pending) in messages {
            let (device, message) = (t.names.intern(device), NameId::EMPTY);
            let supplier = Some(t.names.intern(supplier)).filter(|_| !supplier.is_empty());
            let took = Some(Ns(took)).filter(|took| *took > Ns::ZERO);
            t.deferrals.push(Deferral { at: Ns(at), device, supplier, took, is_pending, message });
        }
        for &(device, start, end) in probes {
            let (name, detail) = (t.names.intern("probe"), t.names.intern(device));
            let (start, end, kind) = (Ns(start), Ns(end), SpanKind::Probe);
            t.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
        }
        t.finalize(Ns::ZERO);
        t
    }

    fn chain(suppliers: &[(&str, &str)]) -> Vec<String> {
        let messages: Vec<_> = suppliers.iter().map(|&(device, supplier)| (0, device, supplier, 0, false)).collect();
        let t = boot(&messages, &[]);
        let found = deferred_probes(&t);
        found[0].suppliers.iter().map(|&supplier| t.names.get(supplier).to_owned()).collect()
    }

    #[test]
    fn suppliers_are_followed_by_name_and_by_path() {
        let io = "/syscon@fdc2/io-domains";
        let pmic = "/i2c@fdd4/pmic@20/regulators/DCDC";
        assert_eq!(chain(&[("fe2b.mmc", io), ("fdc2.syscon:io-domains", pmic)]), [io, pmic]);
        assert_eq!(chain(&[("1c.usb", "/soc/phy@2c/port"), ("2c.phy", "3c.pmic")]), ["/soc/phy@2c/port", "3c.pmic"]);
        assert_eq!(chain(&[("a", "b"), ("b", "a")]), ["b", "a"], "a ring ends");
        assert_eq!(chain(&[("c", "c")]), ["c"]);
        assert_eq!(chain(&[("a", ""), ("b", "c")]), [""; 0]);
    }

    #[test]
    fn attempts_have_the_lengths_of_their_probes() {
        let messages = [
            (20, "mmc", "", 10, false),
            (50, "mmc", "", 8, false),
            (60, "usb", "", 0, false),
            (90, "mmc", "phy", 0, true),
        ];
        let t = boot(&messages, &[("mmc (dw)", 9, 20), ("other", 30, 50)]);
        let found = deferred_probes(&t);
        let attempts: Vec<_> = found[0].attempts.iter().map(|a| (a.from.0, a.to.0, a.span.is_some())).collect();
        assert_eq!(attempts, [(9, 20, true), (42, 50, false)]);
        assert_eq!((t.names.get(found[0].device), found[0].is_pending), ("mmc", true));
        assert_eq!((t.names.get(found[1].device), found[1].attempts.len(), found[1].is_pending), ("usb", 0, false));
    }

    #[test]
    fn a_device_that_was_probed_in_the_end_is_not_pending() {
        let t = boot(
            &[(20, "mmc", "", 10, false), (90, "mmc", "phy", 0, true)],
            &[("mmc (dw)", 9, 20), ("mmc (dw)", 100, 120)],
        );
        assert!(!deferred_probes(&t)[0].is_pending);
        assert_eq!(deferred_probes(&boot(&[], &[("mmc", 0, 9)])), []);
    }
}
