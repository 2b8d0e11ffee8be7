//! What Firecracker logs, at the level `Debug` and with `--show-level`:
//! ```text
//! 2026-01-31T12:00:00.173933246 [anonymous-instance:main:DEBUG] event_end: boot microvm
//! ```
//! Its stamps are the host's wall clock. bootscope takes the arrival instead, which is on the clock of everything else. What
//! another version words otherwise is not found, and then the answers of the API have to do.

/// What a line tells of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// The API can be used.
    Listens,
    /// All devices are made, the kernel is loaded.
    Complete,
    /// The vCPUs run.
    Started,
    /// The guest says by the boot timer device that it has booted.
    Booted(&'a str),
    /// A vCPU cannot go on, for this reason.
    Failed(&'a str),
}

/// What this line tells; none of most.
pub(super) fn told(line: &str) -> Option<Told<'_>> {
    let (_, rest) = line.split_once(" [")?;
    let (origin, text) = rest.split_once("] ")?;
    let mut origin = origin.rsplit(':');
    let (level, thread) = (origin.next()?, origin.next()?);
    let is_vcpu = thread.starts_with("fc_vcpu");
    Some(match text {
        "API server started." => Told::Listens,
        "event_end: build microvm for boot" => Told::Complete,
        "event_end: boot microvm" => Told::Started,
        _ if is_vcpu && level == "INFO" && text.starts_with("Guest-boot-time") => Told::Booted(text),
        _ if is_vcpu && level == "ERROR" => Told::Failed(text),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_start_are_known() {
        let check = |line: &str, told_is: Option<Told<'_>>| assert_eq!(told(line), told_is, "{line}");
        let stamp = "2026-01-31T12:00:00.173933246";
        check(&format!("{stamp} [anonymous-instance:fc_api:INFO] API server started."), Some(Told::Listens));
        check(&format!("{stamp} [a:main:DEBUG] event_end: build microvm for boot"), Some(Told::Complete));
        check(&format!("{stamp} [a:main:DEBUG] event_end: boot microvm"), Some(Told::Started));
        let booted = "Guest-boot-time =  12345 us 12 ms,   6789 CPU us 6 CPU ms";
        check(&format!("{stamp} [a:fc_vcpu 0:INFO] {booted}"), Some(Told::Booted(booted)));
        let failed = "Received KVM_EXIT_INTERNAL_ERROR signal";
        check(&format!("{stamp} [a:fc_vcpu 0:ERROR] {failed}"), Some(Told::Failed(failed)));
        // Guests provoke warnings.
        check(&format!("{stamp} [a:fc_vcpu 0:WARN] vcpu: IO write @ 0xcf8:0x4 failed"), None);
        check(&format!("{stamp} [a:main:ERROR] something"), None);
        for other in ["", " [", " [] ", "x [a] y", "Guest-boot-time = 1 us"] {
            check(other, None);
        }
    }
}
