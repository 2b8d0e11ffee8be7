//! Names the drivers of probes. Older kernels print only the device: `probe of 00:03 returned 0 after 4297 usecs`.
//!
//! A driver's own lines have both, as `rk_gmac-dwmac fe220000.ethernet: PTP uses main clock`. Before the device has a
//! driver, its bus stands there (`platform fe220000.ethernet: Adding to iommu group 2`), and a request to try again later
//! names the driver (`platform x: Driver foo requests probe deferral`).

use super::{Call, Kind};
use crate::formats::kernel_log::{KernelLog, Line};
use hashbrown::HashMap;
use timeline::Ns;

/// Buses and classes of devices, which stand in front of devices without a driver.
const NOT_DRIVERS: &[&str] = &[
    "ACPI",
    "PM:",
    "acpi",
    "amba",
    "auxiliary",
    "bdi",
    "block",
    "clk",
    "drm",
    "gpio",
    "hid",
    "i2c",
    "input",
    "iommu",
    "mdio_bus",
    "mei",
    "memory",
    "mmc",
    "net",
    "nvmem",
    "pci",
    "pci_bus",
    "phy",
    "platform",
    "pnp",
    "power_supply",
    "regulator",
    "rtc",
    "scsi",
    "sdio",
    "serial",
    "serio",
    "soc",
    "spi",
    "thermal",
    "tty",
    "usb",
    "usb_device",
    "vio",
    "virtio",
    "workqueue",
];

/// At most this number of probes of one device is named.
const MAX_PROBES: usize = 16;

/// Sets the drivers of probes whose lines do not name them. One pass over the log.
pub(super) fn name(calls: &mut [Call], log: &KernelLog, place: impl Fn(&Line) -> Option<Ns>) {
    let is_probe = |call: &Call| matches!(call.kind, Kind::Probe | Kind::DeferredProbe) && call.driver.is_empty();
    let mut by_device: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| is_probe(call)) {
        let of_device = by_device.entry(call.name.clone()).or_default();
        if of_device.len() < MAX_PROBES {
            of_device.push(number);
        }
    }
    if by_device.is_empty() {
        return;
    }
    for line in &log.lines {
        let Some((speaker, device, text)) = about_device(log.text(line)) else { continue };
        let Some(probes) = by_device.get(device) else { continue };
        let request = text.strip_prefix("Driver ").and_then(|text| text.strip_suffix(" requests probe deferral"));
        let Some(at) = place(line) else { continue };
        for &number in probes {
            let call = &mut calls[number];
            let is_bound = matches!(call.returned, Some(0 | 1)) || at <= call.end;
            let is_of_probe = call.driver.is_empty() && at >= call.start && is_bound;
            match request {
                Some(driver) if call.driver.is_empty() => call.driver = driver.to_owned(),
                None if is_of_probe && !NOT_DRIVERS.contains(&speaker) => call.driver = speaker.to_owned(),
                _ => {}
            }
        }
    }
}

/// The parts of `SPEAKER DEVICE: TEXT`.
fn about_device(text: &str) -> Option<(&str, &str, &str)> {
    let (speaker, rest) = text.split_once(' ')?;
    let (device, text) = rest.split_once(": ")?;
    (!speaker.is_empty() && !speaker.ends_with(':') && !device.contains(' ')).then_some((speaker, device, text))
}

#[cfg(test)]
mod tests {
    use crate::formats::initcalls;
    use crate::formats::kernel_log::KernelLog;
    use timeline::Diagnostics;

    fn drivers(text: &str) -> Vec<(String, String)> {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        let found = initcalls::read("a.log", &log, |line| line.stamp, &mut diagnostics);
        found.calls.into_iter().map(|call| (call.name, call.driver)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = drivers(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(device, driver)| (&device[..], &driver[..])).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_line_of_a_probe_has_priority() {
        check(
            "[    1.100000] other leds: on\n\
             [    1.200000] probe of leds with driver leds-gpio returned 0 after 200000 usecs\n",
            &[("leds", "leds-gpio")],
        );
    }

    #[test]
    fn the_driver_names_itself_in_its_probe_or_later() {
        check(
            "[    1.010000] platform fe220000.ethernet: Adding to iommu group 2\n\
             [    1.100000] rk_gmac-dwmac fe220000.ethernet: PTP uses main clock\n\
             [    1.200000] probe of fe220000.ethernet returned 0 after 200000 usecs\n\
             [    1.300000] probe of 0000:00:02.0 returned 0 after 20000 usecs\n\
             [    1.400000] e1000e 0000:00:02.0 eth0: registered\n\
             [    1.500000] e1000e 0000:00:02.0: MAC: 3\n\
             [    1.600000] probe of leds returned 0 after 10 usecs\n",
            &[("fe220000.ethernet", "rk_gmac-dwmac"), ("0000:00:02.0", "e1000e"), ("leds", "")],
        );
    }

    #[test]
    fn a_driver_whose_probe_failed_does_not_own_later_lines() {
        check(
            "[    1.200000] probe of x returned -19 after 200000 usecs\n\
             [    1.300000] other x: hello\n\
             [    1.500000] probe of x returned 0 after 100000 usecs\n\
             [    2.000000] probe of y returned -517 after 10 usecs\n\
             [    2.100000] platform y: Driver foo requests probe deferral\n",
            &[("x", ""), ("x", ""), ("y", "foo")],
        );
    }
}
