//! What cloud-hypervisor logs, at its usual level:
//! ```text
//! cloud-hypervisor:  51.040859s: <vcpu0> ERROR:vmm/src/cpu.rs:1487 -- VCPU generated error: VcpuRun(Failed to run vcpu
//! ```
//! The level `info` would tell each step of the start. It would also log each access of the guest's to an address where nothing is,
//! and slow such a guest. What another version words otherwise is not found: its events say then that the machine was switched off.

/// What a line tells of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// A vCPU cannot go on, for this reason.
    Failed(&'a str),
    /// Why, in more words: the line behind `Caused by:`.
    Because(&'a str),
    /// The guest wrote to port 0x80, by which it says how far it is.
    Reported(&'a str),
}

/// What this line tells; none of most.
pub(super) fn told(line: &str) -> Option<Told<'_>> {
    if let Some(reason) = line.strip_prefix("    ") {
        return reason.starts_with("Unexpected exit reason").then_some(Told::Because(reason));
    }
    let (head, text) = line.split_once(" -- ")?;
    let (_, origin) = head.split_once(": <")?;
    let (thread, level) = origin.split_once("> ")?;
    if !thread.starts_with("vcpu") {
        return None;
    }
    let is_end = text.starts_with("VCPU generated error") || text.starts_with("vCPU thread panicked");
    match level.split(':').next()? {
        "ERROR" if is_end => Some(Told::Failed(text)),
        "WARN" if text.starts_with("[Debug I/O port: ") => Some(Told::Reported(text)),
        _ => None,
    }
}

/// Whether a line of it says what is wrong.
pub(super) fn is_complaint(line: &str) -> bool {
    !(line.contains("> WARN:") || line.contains("> INFO:") || line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_boot_are_known() {
        let check = |line: &str, told_is: Option<Told<'_>>| assert_eq!(told(line), told_is, "{line}");
        let failed = "VCPU generated error: VcpuRun(Failed to run vcpu";
        check(
            &format!("cloud-hypervisor:  51.040859s: <vcpu0> ERROR:vmm/src/cpu.rs:1487 -- {failed}"),
            Some(Told::Failed(failed)),
        );
        let because = "Unexpected exit reason on vcpu run: InternalError";
        check(&format!("    {because}"), Some(Told::Because(because)));
        let reported = "[Debug I/O port: Kernel code 0x41] 0.018312 seconds";
        check(
            &format!("cloud-hypervisor:   0.018312s: <vcpu0> WARN:devices/src/legacy/debug_port.rs:76 -- {reported}"),
            Some(Told::Reported(reported)),
        );
        // Guests provoke these, and go on.
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
