//! The guest's memory, from `/proc/meminfo`: a small file with a fact a line, no evidence of when anything was.

use crate::assemble::files::content;
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

/// What a guest's memory at the end mark is in.
const AT_END_MARK: &str = "meminfo.txt";

/// At the end mark: reads `meminfo.txt`; unknown where there is none.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, AT_END_MARK)
}

/// The same after the workload; unknown where there was none.
///
/// # Errors
/// If the file cannot be read.
pub fn meminfo_after_workload(recording: &Recording) -> Result<GuestMemory, recording::Error> {
    read(recording, guest_init::files::AFTER_WORKLOAD.name)
}

/// Whether a file of this name is read here.
pub(crate) fn is_read(file: &str) -> bool {
    [AT_END_MARK, guest_init::files::AFTER_WORKLOAD.name].contains(&file)
}

fn read(recording: &Recording, name: &str) -> Result<GuestMemory, recording::Error> {
    // One that is too large is warned of with the recording's other files.
    let bytes = content(recording, name, &mut Diagnostics::default())?.unwrap_or_default();
    Ok(GuestMemory(String::from_utf8_lossy(&bytes).into_owned()))
}

/// `         487936 kB`
fn kib(amount: &str) -> Option<u64> {
    let number: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}
