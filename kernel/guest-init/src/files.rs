//! The files that a guest can transfer: their names in the recording, and their places in the guest.
//!
//! The host accepts no other name, so a guest cannot overwrite what the host itself recorded.

/// The place of a file inside the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Below the mount of procfs.
    Proc(&'static str),
    /// Below the mount of tracefs.
    Tracing(&'static str),
    /// The kernel log, record by record.
    Kmsg,
    /// The test pattern of [`payload`].
    Payload,
}

/// One file of evidence.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// Its name in the recording.
    pub name: &'static str,
    /// The place where the guest reads it.
    pub source: Source,
}

const fn file(name: &'static str, source: Source) -> Evidence {
    Evidence { name, source }
}

/// Files that are read first, because gathering changes their content.
pub const FIRST: &[Evidence] = &[
    file("meminfo.txt", Source::Proc("meminfo")),
    file("vmstat.txt", Source::Proc("vmstat")),
    file("self-stat.txt", Source::Proc("self/stat")),
    file("self-status.txt", Source::Proc("self/status")),
    file("interrupts.txt", Source::Proc("interrupts")),
    file("stat.txt", Source::Proc("stat")),
];

/// The other files, the most important first: the slow way may be cut short.
pub const REST: &[Evidence] = &[
    file("kmsg.log", Source::Kmsg),
    file("trace-clock.txt", Source::Tracing("trace_clock")),
    file("trace.txt", Source::Tracing("trace")),
    file("cmdline.txt", Source::Proc("cmdline")),
    file("version.txt", Source::Proc("version")),
    file("cpuinfo.txt", Source::Proc("cpuinfo")),
    file("iomem.txt", Source::Proc("iomem")),
    file("modules.txt", Source::Proc("modules")),
    file("config.gz", Source::Proc("config.gz")),
    file("kallsyms", Source::Proc("kallsyms")),
];

/// The file that is read after the workload.
pub const AFTER_WORKLOAD: Evidence = file("meminfo-after.txt", Source::Proc("meminfo"));

/// The samples of a kernel with bootscope's own sampler. Linux has no such file.
pub const SAMPLES: Evidence = file("samples.txt", Source::Payload);

/// The test pattern, transferred on the host's request, to measure and to test the transfer.
pub const PAYLOAD: Evidence = file("payload.bin", Source::Payload);

/// All files.
fn all() -> impl Iterator<Item = &'static Evidence> {
    FIRST.iter().chain(REST).chain([&AFTER_WORKLOAD, &PAYLOAD, &SAMPLES])
}

/// The known file of that name, if there is one.
pub fn find(name: &str) -> Option<&'static Evidence> {
    all().find(|evidence| evidence.name == name)
}

/// Writes the part of the test pattern at `offset` bytes from its start. It has 8-byte words, each the product of its
/// number and an odd constant. So no two pages are equal, and a swapped or repeated frame is noticed.
pub fn payload(offset: u64, out: &mut [u8]) {
    let word = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let from = (offset % 8) as usize;
    let (head, rest) = out.split_at_mut(((8 - from) % 8).min(out.len()));
    head.copy_from_slice(&word(offset / 8)[from..][..head.len()]);
    let mut number = offset.div_ceil(8);
    let mut pieces = rest.chunks_exact_mut(8);
    for piece in &mut pieces {
        piece.copy_from_slice(&word(number));
        number += 1;
    }
    let tail = pieces.into_remainder();
    tail.copy_from_slice(&word(number)[..tail.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::NAME_BYTES_MAX;

    #[test]
    fn names_are_plain_unique_and_fit_their_field() {
        let all: Vec<&str> = all().map(|evidence| evidence.name).collect();
        for (index, name) in all.iter().enumerate() {
            assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'.'), "{name}");
            assert!(!all[..index].contains(name), "{name} twice");
            assert_eq!(find(name).map(|evidence| evidence.name), Some(*name));
        }
    }

    #[test]
    fn the_pattern_is_the_same_however_it_is_cut() {
        let mut whole = [0u8; 100];
        payload(0, &mut whole);
        let mut cut = [0u8; 100];
        payload(0, &mut cut[..13]);
        payload(13, &mut cut[13..14]);
        payload(14, &mut cut[14..]);
        assert_eq!(whole, cut);
    }
}
