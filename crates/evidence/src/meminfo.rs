//! Small facts from small files: the guest's memory, and which kernel it was.

use crate::kernel_log::KernelLog;
use recording::Recording;
use timeline::Diagnostics;

/// What `/proc/meminfo` said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestMemory(String);

impl GuestMemory {
    /// A line's amount in bytes: `MemTotal`, `Cached`, …
    pub fn bytes(&self, line: &str) -> Option<u64> {
        self.0.lines().find_map(|text| kib(text.strip_prefix(line)?.strip_prefix(':')?))
    }
}

/// At the end mark: reads `meminfo.txt`; unknown where there is none.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, "meminfo.txt")
}

/// The same after the workload; unknown where there was none.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo_after_workload(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, guest_init::files::AFTER_WORKLOAD.name)
}

fn read(recording: &Recording, name: &str) -> Result<GuestMemory, recording::Error> {
    let bytes = recording.read(name)?.unwrap_or_default();
    Ok(GuestMemory(String::from_utf8_lossy(&bytes).into_owned()))
}

/// `         487936 kB`
fn kib(amount: &str) -> Option<u64> {
    let number: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

/// The kernel's banner is in so much of its log.
const HEAD_BYTES: usize = 64 << 10;

/// The kernel's release, from its own banner (`Linux version 6.1.0-47-cloud-amd64 …`), wherever that was logged.
///
/// # Errors
/// If a file cannot be read.
pub fn kernel_release(recording: &Recording) -> Result<Option<String>, recording::Error> {
    let mut candidates = ["kmsg.log", "kmsg-memory.log", "console.log"].map(str::to_owned).to_vec();
    candidates.extend(crate::files::imported(recording));
    for name in candidates {
        // The banner is one of the first messages.
        let Some(head) = recording.read_head(&name, HEAD_BYTES)? else { continue };
        let head = crate::files::beginning(head, HEAD_BYTES as u64);
        if memchr::memmem::find(&head, b"Linux").is_none() {
            continue;
        }
        let Ok(log) = KernelLog::read(&name, &head, &mut Diagnostics::default()) else { continue };
        let banner = log.lines.iter().find_map(|line| log.text(line).strip_prefix("Linux version "));
        if let Some(release) = banner.and_then(|b| b.split_whitespace().next()) {
            return Ok(Some(release.to_owned()));
        }
    }
    Ok(None)
}
