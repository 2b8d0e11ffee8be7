//! Parses Firecracker's log, at the level `Debug` and with `--show-level`:
//! ```text
//! 2026-01-31T12:00:00.173933246 [anonymous-instance:main:DEBUG] event_end: boot microvm
//! ```
//! Its stamps are the host's wall clock. bootscope uses the arrival instead, which is on the clock of all other evidence. If another
//! version words a line differently, the line is not recognized, and only the answers of the API remain.

/// A step of the machine that a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEvent<'a> {
    /// The API can be used.
    Listens,
    /// All devices are made, and the kernel is loaded.
    Complete,
    /// The vCPUs run.
    Started,
    /// The guest reports through the boot timer device that it has booted.
    Booted(&'a str),
    /// A vCPU cannot go on, for this reason.
    Failed(&'a str),
}

/// The step that this line reports. Most lines report no step.
pub(super) fn parse_line(line: &str) -> Option<LogEvent<'_>> {
    let (_, rest) = line.split_once(" [")?;
    let (origin, text) = rest.split_once("] ")?;
    let mut origin = origin.rsplit(':');
    let (level, thread) = (origin.next()?, origin.next()?);
    let is_vcpu = thread.starts_with("fc_vcpu");
    Some(match text {
        "API server started." => LogEvent::Listens,
        "event_end: build microvm for boot" => LogEvent::Complete,
        "event_end: boot microvm" => LogEvent::Started,
        _ if is_vcpu && level == "INFO" && text.starts_with("Guest-boot-time") => LogEvent::Booted(text),
        _ if is_vcpu && level == "ERROR" => LogEvent::Failed(text),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_start_are_recognized() {
        let check = |line: &str, expected: Option<LogEvent<'_>>| assert_eq!(parse_line(line), expected, "{line}");
        let stamp = "2026-01-31T12:00:00.173933246";
        check(&format!("{stamp} [anonymous-instance:fc_api:INFO] API server started."), Some(LogEvent::Listens));
        check(&format!("{stamp} [a:main:DEBUG] event_end: build microvm for boot"), Some(LogEvent::Complete));
        check(&format!("{stamp} [a:main:DEBUG] event_end: boot microvm"), Some(LogEvent::Started));
        let booted = "Guest-boot-time =  12345 us 12 ms,   6789 CPU us 6 CPU ms";
        check(&format!("{stamp} [a:fc_vcpu 0:INFO] {booted}"), Some(LogEvent::Booted(booted)));
        let failed = "Received KVM_EXIT_INTERNAL_ERROR signal";
        check(&format!("{stamp} [a:fc_vcpu 0:ERROR] {failed}"), Some(LogEvent::Failed(failed)));
        // Guests can cause warnings.
        check(&format!("{stamp} [a:fc_vcpu 0:WARN] vcpu: IO write @ 0xcf8:0x4 failed"), None);
        check(&format!("{stamp} [a:main:ERROR] something"), None);
        for other in ["", " [", " [] ", "x [a] y", "Guest-boot-time = 1 us"] {
            check(other, None);
        }
    }
}
