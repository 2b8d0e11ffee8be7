//! The kernel's release, from its banner. Reads only the part of a log that contains the banner.

use crate::formats::kernel_log::KernelLog;
use crate::formats::linux_words;
use recording::Recording;
use timeline::Diagnostics;

/// The kernel's banner is within this number of bytes of its log.
const HEAD_BYTES: usize = 64 << 10;

/// The kernel's release from its banner (`Linux version 6.1.0-47-cloud-amd64 …`), from any log of the recording.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn kernel_release(recording: &Recording) -> Result<Option<String>, recording::Error> {
    let mut candidates = crate::readers::kernel_log::FILES.map(str::to_owned).to_vec();
    candidates.extend(crate::assemble::files::imported(recording));
    for name in candidates {
        // The banner is one of the first messages.
        let Some(head) = recording.read_head(&name, HEAD_BYTES)? else { continue };
        let head = crate::assemble::files::beginning(head, HEAD_BYTES as u64);
        if memchr::memmem::find(&head, b"Linux").is_none() {
            continue;
        }
        let Ok(log) = KernelLog::read(&name, &head, &mut Diagnostics::default()) else { continue };
        if let Some(release) = log.lines.iter().find_map(|line| linux_words::release(log.text(line))) {
            return Ok(Some(release.to_owned()));
        }
    }
    Ok(None)
}
