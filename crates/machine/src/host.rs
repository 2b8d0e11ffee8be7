//! The machine that a boot is recorded on. Facts that cannot be read are left empty: they serve only for comparison.

use std::fs::{self, File};

use recording::Host;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::Error;

/// Facts about this host now.
pub(crate) fn host() -> Host {
    let online = std::thread::available_parallelism();
    Host {
        cpu: cpu_model(),
        cores: online.map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        kernel: first_word("/proc/sys/kernel/osrelease"),
        load1: first_word("/proc/loadavg").parse().unwrap_or_default(),
        tsc_hz: None,
    }
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim().to_owned()).unwrap_or_default()
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Size of the host's memory in bytes.
pub(crate) fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text.strip_prefix("MemTotal:")?.trim_start().split(' ').next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A file that exists only in memory and vanishes with its last user.
pub(crate) fn memory_file(name: &str) -> Result<File, Error> {
    memfd_create(name, MemfdFlags::CLOEXEC).map(File::from).map_err(Error::host("make a file in memory"))
}
