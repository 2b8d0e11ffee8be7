//! Describes the machine: copies files of `/proc` and `/sys` for people.

use super::container::Container;
use crate::bounded::{self, Cut};
use crate::gather::{Collected, File};
use recording::Subject;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const MAX_BYTES: usize = 1 << 20;

/// Files of `/proc`, and their names in the recording.
const PROC: [(&str, &str); 10] = [
    ("/proc/version", "proc-version.txt"),
    ("/proc/cmdline", "proc-cmdline.txt"),
    ("/proc/cpuinfo", "proc-cpuinfo.txt"),
    ("/proc/meminfo", "proc-meminfo.txt"),
    ("/proc/stat", "proc-stat.txt"),
    ("/proc/uptime", "proc-uptime.txt"),
    ("/proc/modules", "proc-modules.txt"),
    ("/proc/interrupts", "proc-interrupts.txt"),
    ("/proc/mounts", "proc-mounts.txt"),
    ("/etc/os-release", "os-release.txt"),
];

/// The firmware's description of the machine; serial numbers are replaced by tokens (see [`crate::scrub`]).
const DMI: [&str; 17] = [
    "sys_vendor",
    "product_name",
    "product_version",
    "product_family",
    "product_sku",
    "product_serial",
    "product_uuid",
    "board_vendor",
    "board_name",
    "board_version",
    "board_serial",
    "chassis_type",
    "chassis_serial",
    "bios_vendor",
    "bios_version",
    "bios_date",
    "ec_firmware_release",
];

pub(crate) fn collect() -> Collected {
    let mut collected = Collected::default();
    for (path, name) in PROC {
        match bounded::read(path, MAX_BYTES) {
            Ok(content) => collected.put(File::for_people(name, content.bytes, path), content.cut),
            // A kernel without modules has no list of modules.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => collected.missing(path, e.to_string()),
        }
    }
    let mut text = String::new();
    let mut refused = Vec::new();
    for name in DMI {
        let path = Path::new("/sys/class/dmi/id").join(name);
        match bounded::line(&path) {
            Some(value) => _ = writeln!(text, "{name}: {value}"),
            None if path.exists() && fs::File::open(&path).is_err() => refused.push(name),
            None => {}
        }
    }
    if let Some(model) = bounded::line("/proc/device-tree/model") {
        let _ = writeln!(text, "model: {model}");
    }
    if !refused.is_empty() {
        collected
            .missing("hardware description", format!("{} cannot be read{}", refused.join(", "), bounded::root_hint()));
    }
    collected.put(File::for_people("hardware.txt", text.into_bytes(), "/sys/class/dmi/id"), Cut::No);
    collected
}

/// The hash of this boot's ID.
pub(crate) fn boot_key() -> String {
    recording::boot_key(&bounded::line("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

/// The machine that the recording is about.
pub(crate) fn subject(container: Option<&Container>) -> Subject {
    let cpuinfo = bounded::read("/proc/cpuinfo", MAX_BYTES).unwrap_or_default().bytes;
    let cpus = String::from_utf8_lossy(&cpuinfo).lines().filter(|line| line.starts_with("processor")).count();
    let meminfo = bounded::read("/proc/meminfo", 1 << 16).unwrap_or_default().bytes;
    let total = String::from_utf8_lossy(&meminfo).lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?;
        kib.parse::<u64>().ok()?.checked_mul(1024)
    });
    let line = |path| bounded::line(path).unwrap_or_default();
    let container = container.map(ToString::to_string).unwrap_or_default();
    let product = [container, line("/sys/class/dmi/id/product_name"), line("/proc/device-tree/model")];
    Subject {
        os: "Linux".to_owned(),
        kernel: line("/proc/sys/kernel/osrelease"),
        machine: product.into_iter().find(|name| !name.is_empty()).unwrap_or_default(),
        accelerator: String::new(),
        cpus: u32::try_from(cpus).unwrap_or(0),
        memory_bytes: total.unwrap_or(0),
    }
}
