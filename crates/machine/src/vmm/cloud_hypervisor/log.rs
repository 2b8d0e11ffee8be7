//! Parses cloud-hypervisor's log, at its default level:
//! ```text
//! cloud-hypervisor:  51.040859s: <vcpu0> ERROR:vmm/src/cpu.rs:1487 -- VCPU generated error: VcpuRun(Failed to run vcpu
//! ```
//! The level `info` would also contain each step of the start. But it would log each access of the guest to an unmapped address, and
//! slow such a guest. If another version words a line differently, the line is not recognized. Then the events report only that
//! the machine was switched off.

/// An incident that a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEvent<'a> {
    /// A vCPU cannot go on, for this reason.
    Failed(&'a str),
    /// The reason in more detail: the line after `Caused by:`.
    Because(&'a str),
    /// The guest wrote to port 0x80, with which it reports its progress.
    Reported(&'a str),
}

/// The incident that this line reports. Most lines report none.
pub(super) fn parse_line(line: &str) -> Option<LogEvent<'_>> {
    if let Some(reason) = line.strip_prefix("    ") {
        return reason.starts_with("Unexpected exit reason").then_some(LogEvent::Because(reason));
    }
    let (head, text) = line.split_once(" -- ")?;
    let (_, origin) = head.split_once(": <")?;
    let (thread, level) = origin.split_once("> ")?;
    if !thread.starts_with("vcpu") {
        return None;
    }
    let is_end = text.starts_with("VCPU generated error") || text.starts_with("vCPU thread panicked");
    match level.split(':').next()? {
        "ERROR" if is_end => Some(LogEvent::Failed(text)),
        "WARN" if text.starts_with("[Debug I/O port: ") => Some(LogEvent::Reported(text)),
        _ => None,
    }
}

/// True if a line of the log reports an error.
pub(super) fn is_complaint(line: &str) -> bool {
    !(line.contains("> WARN:") || line.contains("> INFO:") || line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_boot_are_recognized() {
        let check = |line: &str, expected: Option<LogEvent<'_>>| assert_eq!(parse_line(line), expected, "{line}");
        let failed = "VCPU generated error: VcpuRun(Failed to run vcpu";
        check(
            &format!("cloud-hypervisor:  51.040859s: <vcpu0> ERROR:vmm/src/cpu.rs:1487 -- {failed}"),
            Some(LogEvent::Failed(failed)),
        );
        let because = "Unexpected exit reason on vcpu run: InternalError";
        check(&format!("    {because}"), Some(LogEvent::Because(because)));
        let reported = "[Debug I/O port: Kernel code 0x41] 0.018312 seconds";
        check(
            &format!("cloud-hypervisor:   0.018312s: <vcpu0> WARN:devices/src/legacy/debug_port.rs:76 -- {reported}"),
            Some(LogEvent::Reported(reported)),
        );
        // Guests can cause these lines, and go on.
        check(
            "cloud-hypervisor:   0.967990s: <vcpu0> ERROR:hypervisor/src/kvm/mod.rs:2587 -- Guest likely triple-faulted",
            None,
        );
        check(
            "cloud-hypervisor:   0.010023s: <vcpu0> WARN:vmm/src/cpu.rs:278 -- Kernel lacks CONFIG_SCHED_CORE support",
            None,
        );
        check(&format!("cloud-hypervisor:   1.0s: <vmm> ERROR:vmm/src/cpu.rs:1 -- {failed}"), None);
        for other in ["", " -- ", ": <> -- ", "    at ./vmm/src/cpu.rs:1487:91", "x: <vcpu0> -- VCPU generated error"] {
            check(other, None);
        }
    }
}
