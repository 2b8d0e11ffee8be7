//! The kind of machine of a boot. Boots of different kinds are not compared, so it has everything that affects the length of a
//! boot, except the machine's software.

use crate::Subject;
use recording::{Manifest, TimeBase};

/// The kind of machine, if it is known.
pub fn hardware(subject: &Subject, manifest: &Manifest) -> Option<String> {
    let counted = manifest.time_base == TimeBase::GuestVirtual;
    let memory = memory_bytes(subject, manifest);
    let parts = [
        subject.machine.clone(),
        if counted { "counted".to_owned() } else { subject.accelerator.clone() },
        if subject.cpus == 0 { String::new() } else { format!("cpus={}", subject.cpus) },
        if subject.memory_bytes == 0 { String::new() } else { format!("memory={}M", memory >> 20) },
        // A deterministic boot takes the same guest time on any host.
        if counted { String::new() } else { manifest.host.cpu.clone() },
    ];
    let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if known.is_empty() { None } else { Some(known.join(" ")) }
}

/// Memory of the machine in bytes. A running kernel reports less, and the difference varies from kernel to kernel. So its value
/// is rounded up to a multiple of an eighth of a power of two, the sizes in which memory is sold.
fn memory_bytes(subject: &Subject, manifest: &Manifest) -> u64 {
    let reported = subject.memory_bytes;
    let is_of_kernel = manifest.time_base == TimeBase::Evidence;
    match reported.checked_ilog2() {
        Some(log) if is_of_kernel && log > 3 => reported.checked_next_multiple_of(1 << (log - 3)).unwrap_or(reported),
        _ => reported,
    }
}
