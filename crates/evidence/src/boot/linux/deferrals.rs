//! Finds the messages of Linux about probes that it put off (`-EPROBE_DEFER`, -517), in the messages of all logs.
//!
//! Messages after the end mark count, too: the kernel lists what is still missing, with its supplier, seconds after
//! process 1 has started. Initcalls that returned the error are listed as devices.

use timeline::{Deferral, DiagnosticKind, Ns, Timeline, TrackKind};

/// A kernel that tries 100 devices 100 times prints fewer.
const DEFERRALS_MAX: usize = 1 << 14;

/// The parts of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Message<'a> {
    device: &'a str,
    supplier: Option<&'a str>,
    took: Option<Ns>,
    is_pending: bool,
}

/// Lists the messages of a boot in order of time. Linear in the number of its messages.
pub(crate) fn find(timeline: &mut Timeline) {
    let (mut found, mut beyond) = (Vec::new(), 0);
    for mark in timeline.marks.iter().filter(|mark| timeline.tracks.get(mark.track).kind == TrackKind::Console) {
        let text = timeline.names.get(mark.name);
        match message(text) {
            Some(_) if found.len() == DEFERRALS_MAX => beyond += 1,
            Some(_) => found.push((mark.at, mark.name, text.to_owned())),
            None => {}
        }
    }
    timeline.diagnostics.add(
        DiagnosticKind::EntriesBeyondBound,
        "the list of deferred probes",
        beyond,
        None,
        String::new,
    );
    let names = &mut timeline.names;
    let deferrals = found.iter().filter_map(|(at, name, text)| {
        let Message { device, supplier, took, is_pending } = message(text)?;
        let (device, supplier) = (names.intern(device), supplier.map(|supplier| names.intern(supplier)));
        Some(Deferral { at: *at, device, supplier, took, is_pending, message: *name })
    });
    timeline.deferrals.extend(deferrals);
    timeline.deferrals.sort_by_key(|deferral| deferral.at);
}

/// Parses a message about a probe that was put off.
fn message(text: &str) -> Option<Message<'_>> {
    let put_off = |(device, why), is_pending| Message { device, supplier: supplier(why), took: None, is_pending };
    if let Some(rest) = text.split_once("probe of ").or_else(|| text.split_once("initcall ")).map(|(_, rest)| rest) {
        return attempt(rest);
    }
    if let Some(pending) = about_device(text, ": deferred probe pending") {
        return Some(put_off(pending, true));
    }
    let found = about_device(text, ": probe deferral - ").or_else(|| about_device(text, ": error -EPROBE_DEFER: "));
    let asks = || about_device(text, ": Driver ").filter(|_| text.ends_with(" requests probe deferral"));
    let failed = || about_device(text, ": ").filter(|_| text.ends_with(" -517"));
    found.or_else(asks).or_else(failed).map(|found| put_off(found, false))
}

/// `1d84000.ufshc with driver ufshcd-qcom returned -517 after 6 usecs`; some kernels print the number without its sign.
fn attempt(rest: &str) -> Option<Message<'_>> {
    let (device, rest) = rest.split_once(" returned ")?;
    let (error, rest) = rest.split_once(" after ")?;
    let us: i64 = rest.strip_suffix(" usecs")?.parse().ok()?;
    let took = Some(Ns(us.checked_mul(1_000)?));
    let device = device.split([' ', '+']).next()?;
    ["-517", "517"].contains(&error).then_some(Message { device, supplier: None, took, is_pending: false })
}

/// The device before `words`, and what comes behind them.
fn about_device<'a>(text: &'a str, words: &str) -> Option<(&'a str, &'a str)> {
    let (before, why) = text.split_once(words)?;
    let device = before.rsplit(' ').next().filter(|device| !device.is_empty())?;
    Some((device, why.trim_start_matches(": ")))
}

/// The name in `supplier 2-0042 not ready`, or in `platform: wait for supplier /phy@ff7c0000/usb3-port`.
pub(crate) fn supplier(why: &str) -> Option<&str> {
    let (before, rest) = why.split_once("supplier ")?;
    let name = rest.split(' ').next().filter(|name| !name.is_empty())?;
    (before.ends_with("wait for ") || rest.ends_with(" not ready")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Mark, TimeBase};

    #[test]
    fn messages_are_in_order_of_time_and_of_all_logs_alone() {
        let mut t = Timeline::new(TimeBase::Host);
        let name = t.names.intern("console");
        let (log, other) = (t.tracks.named(name, TrackKind::Console), t.tracks.named(name, TrackKind::Thread));
        for (at, text, track) in [
            (30, "platform 2c.phy: probe deferral - supplier 3c.pmic not ready", log),
            (20, "probe of 1c.usb returned -517 after 6 usecs", log),
            (40, "usb 1-1: new device", log),
            (50, "probe of 1c.usb returned -517 after 6 usecs", other),
        ] {
            let name = t.names.intern(text);
            t.marks.push(Mark { at: Ns(at), name, track });
        }
        find(&mut t);
        let name = |id| t.names.get(id);
        let found: Vec<_> =
            t.deferrals.iter().map(|d| (d.at.0, name(d.device), d.supplier.map(name), d.took)).collect();
        assert_eq!(found, [(20, "1c.usb", None, Some(Ns(6_000))), (30, "2c.phy", Some("3c.pmic"), None)]);
    }

    #[test]
    fn messages_beyond_the_bound_are_counted() {
        let mut t = Timeline::new(TimeBase::Host);
        let (name, log) = (t.names.intern("i2c 1-0008: deferred probe pending"), t.names.intern("kernel log"));
        let track = t.tracks.named(log, TrackKind::Console);
        t.marks.extend((0..).take(DEFERRALS_MAX + 3).map(|at| Mark { at: Ns(at), name, track }));
        find(&mut t);
        assert_eq!((t.deferrals.len(), t.diagnostics.count(DiagnosticKind::EntriesBeyondBound)), (DEFERRALS_MAX, 3));
    }

    #[test]
    fn messages_of_all_kernels_are_read() {
        let parts_of = |text| message(text).map(|found| (found.device, found.supplier, found.took, found.is_pending));
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
}
