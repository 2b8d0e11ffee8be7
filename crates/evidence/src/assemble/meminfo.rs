//! The guest's memory, from `/proc/meminfo`: a small file with one fact per line, and no evidence of times.

use crate::assemble::files::content;
use recording::Recording;
use timeline::Diagnostics;

/// The contents of `/proc/meminfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestMemory(String);

impl GuestMemory {
    /// The amount in one of its lines, in bytes: `MemTotal`, `Cached`, …
    pub fn bytes(&self, line: &str) -> Option<u64> {
        self.0.lines().find_map(|text| kib(text.strip_prefix(line)?.strip_prefix(':')?))
    }
}

/// The file with the guest's memory at the end mark.
const AT_END_MARK: &str = "meminfo.txt";

/// Reads the memory at the end mark, from `meminfo.txt`; empty if the recording has no such file.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, AT_END_MARK)
}

/// Reads the memory after the workload; empty if there was none.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo_after_workload(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, guest_init::files::AFTER_WORKLOAD.name)
}

/// True if this module reads the file of this name.
pub(crate) fn is_read(file: &str) -> bool {
    [AT_END_MARK, guest_init::files::AFTER_WORKLOAD.name].contains(&file)
}

fn read(recording: &Recording, name: &str) -> Result<GuestMemory, recording::Error> {
    // A file that is too large has a warning among those of the recording's other files.
    let bytes = content(recording, name, &mut Diagnostics::default())?.unwrap_or_default();
    Ok(GuestMemory(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads `         487936 kB`.
fn kib(amount: &str) -> Option<u64> {
    let number: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}
