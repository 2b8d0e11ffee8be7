//! Memory that a boot sets up and leaves unused.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Stretch, Value};
use crate::remedy::Change;
use crate::{Figure, Need, Remedy, Seen};
use timeline::{Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "unused-memory",
    title: "the kernel sets up memory that the boot leaves unused",
    rule: "Linux makes a structure for each page of the machine's memory, and tables whose size grows with it. At the end mark \
           the guest says how much memory is available (MemAvailable). Where the machine has at least four times what the boot \
           took, most of that work is for nothing, unless what runs after the boot needs the memory.",
    source: "Linux, mm/mm_init.c: deferred_init_memmap; mm/mm_init.c or mm/page_alloc.c: alloc_large_system_hash",
    threshold: "a machine that has at least twice the memory of the proposed one. Proposed is the power of two that follows twice what \
                the boot took, and at least 512 MiB",
    price: "what grows with memory gets as short as its part in the proposed machine. Structures of the first 256 MiB are made \
            early in any machine: where the others are made by a thread, these do not count there. Of freeing memory to the \
            allocator, and of TCP's tables, half is taken to grow",
    needs: &[Need::BootPath, Need::System, Need::Memory, Need::MemoryLeft],
    look,
};

const MIB: u64 = 1 << 20;
/// The smallest machine that is proposed: kernels and their initrds must fit in while they are unpacked.
const MIN_PROPOSED: u64 = 512 * MIB;
/// Linux makes the structures of these pages before it has threads. Measured with 0.5 and 2 GiB and three kernels of Debian's, 5.10 to
/// 6.12.
const EARLY: u64 = 256 * MIB;
/// The thread of each NUMA node that makes the structures of the other pages.
const THREADS: [&str; 4] = ["pgdatinit0", "pgdatinit1", "pgdatinit2", "pgdatinit3"];
/// Functions that these threads call, perhaps on other threads.
const DEFERRED: &[&str] = &["deferred_init_memmap", "deferred_init_memmap_chunk"];
/// Functions that make all structures if there is no such thread.
const AT_ONCE: &[&str] = &["memmap_init", "memmap_init_zone_range", "memmap_init_zone"];
/// Tables of the file systems, the devices in /sys that are blocks of memory, and the pages that hold structures.
const GROWING: &[&str] = &["vfs_caches_init_early", "memory_dev_init", "register_page_bootmem_info_node"];
/// Functions of which half grows with memory.
const HALF: &[&str] = &["memblock_free_all", "free_all_bootmem", "tcp_init"];
/// A function that fills a growing table for this caller; other callers request few bytes.
const FILLS: (&str, &[&str]) = ("ip_rt_init", &["get_random_bytes", "prandom_bytes"]);

fn look(seen: &Seen) -> Vec<Draft> {
    let (memory, available) = (seen.machine.memory_bytes, seen.machine.memory_available.unwrap_or_default());
    let is_limited = seen.machine.command_line.iter().flatten().any(|word| word.starts_with("mem="));
    if seen.machine.os != Os::Linux || is_limited || available >= memory {
        return Vec::new();
    }
    let taken = memory - available;
    let proposed = taken.saturating_mul(2).checked_next_power_of_two().unwrap_or(u64::MAX).max(MIN_PROPOSED);
    if memory / 2 < proposed {
        return Vec::new();
    }
    let parts = parts(seen, memory, proposed);
    let Some(longest) = parts.iter().map(|part| part.stretch).max_by_key(Stretch::length) else { return Vec::new() };
    vec![Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "MiB", value: Value::Count(memory / MIB) },
            Figure { of: "MiB taken", value: Value::Count(taken / MIB) },
        ],
        parts,
        confidence: Confidence::Medium,
        remedy: Remedy {
            what: "give the machine less memory, if what runs after the boot needs no more; or let the kernel take only a part of \
                   it, with mem=",
            changes: vec![Change::Memory(proposed)],
        },
    }]
}

/// The parts that grow with memory, and the share that a machine with less memory leaves.
fn parts(seen: &Seen, memory: u64, proposed: u64) -> Vec<Part> {
    let share = proposed as f64 / memory as f64;
    let beyond = proposed.saturating_sub(EARLY) as f64 / (memory - EARLY) as f64;
    let deferred = Left::of(beyond * 0.8, beyond, share);
    let grows = Left::of(share * 0.8, share, (1.0 + share) / 2.0);
    let half = Left::of(share, (1.0 + share) / 2.0, 1.0);
    let calls = |known| seen.stretches(SpanKind::Call, known);
    let threads: Vec<Stretch> = THREADS.iter().flat_map(|thread| seen.threads(thread)).collect();
    let is_elsewhere = |call: &Stretch| threads.iter().all(|thread| thread.track != call.track);
    let made: Vec<Stretch> = threads.iter().copied().chain(calls(DEFERRED).into_iter().filter(is_elsewhere)).collect();
    let parts_of =
        |stretches: Vec<Stretch>, left: Left| stretches.into_iter().map(move |stretch| Part { stretch, left });
    let (made, freed) = match made.is_empty() {
        true => (parts_of(calls(AT_ONCE), grows), grows),
        false => (parts_of(made, deferred), half),
    };
    made.chain(parts_of(calls(GROWING), grows))
        .chain(parts_of(calls(HALF), freed))
        .chain(parts_of(filled(seen), grows))
        .collect()
}

/// The calls that fill a growing table.
fn filled(seen: &Seen) -> Vec<Stretch> {
    let (callers, fillers) = (seen.names(&[FILLS.0]), seen.names(FILLS.1));
    let spans = &seen.timeline.spans;
    let is_one =
        |id, name| fillers.contains(&name) && spans.parent(id).is_some_and(|by| callers.contains(&spans.get(by).name));
    let found = seen.spans().filter(|&(id, row)| row.kind == SpanKind::Call && is_one(id, row.name));
    found.map(|(_, row)| seen.stretch(&row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};
    use timeline::Ns;

    const GIB: u64 = 1 << 30;

    fn boot(os: Os, memory: u64, available: Option<u64>, words: &[&str]) -> Found {
        let mut log = Log::linux();
        (log.machine.os, log.machine.memory_bytes, log.machine.memory_available) = (os, memory, available);
        log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
        log.call("vfs_caches_init_early", ms(4));
        log.call("memblock_free_all", ms(8));
        log.awaited("pgdatinit0", ms(28));
        log.within("ip_rt_init", |log| log.call("get_random_bytes", ms(4)));
        log.call("get_random_bytes", ms(100));
        log.call("works", ms(400));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn what_grows_with_memory_gets_as_short_as_its_part() {
        let found = boot(Os::Linux, 2 * GIB, Some(2 * GIB - 180 * MIB), &["quiet"]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!(only.about, "pgdatinit0");
        // Left with 512 MiB: a seventh of the thread's work, a quarter of the tables, five eighths of freeing.
        assert_eq!(only.price.likely, ms(24) + ms(3) + ms(3) + ms(3));
        assert!(only.price.low < ms(27) && only.price.high > ms(35), "{:?}", only.price);
        let values: Vec<Value> = only.figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values, [Value::Count(2048), Value::Count(180)]);
        assert_eq!(only.remedy.changes, [Change::Memory(512 * MIB)]);
    }

    #[test]
    fn used_or_unknown_memory_is_not_found() {
        let none = |os, memory, available, words: &[&str]| {
            assert!(boot(os, memory, available, words).findings.is_empty(), "{memory} {available:?} {words:?}");
        };
        none(Os::Linux, 2 * GIB, Some(GIB), &[]);
        none(Os::Linux, 2 * GIB, Some(2 * GIB - 600 * MIB), &[]);
        none(Os::Linux, GIB - MIB, Some(970 * MIB), &[]);
        none(Os::Linux, 2 * GIB, Some(2 * GIB), &[]);
        none(Os::Linux, 2 * GIB, Some(GIB * 15 / 8), &["mem=512M"]);
        none(Os::FreeBsd, 2 * GIB, Some(GIB * 15 / 8), &[]);
        let unknown = boot(Os::Linux, 2 * GIB, None, &[]);
        assert_eq!(unknown.missing[0].need, Need::MemoryLeft);
    }

    #[test]
    fn a_kernel_that_makes_all_structures_at_once_is_known_by_that_function() {
        let mut log = Log::linux();
        (log.machine.memory_bytes, log.machine.memory_available) = (8 * GIB, Some(8 * GIB - 120 * MIB));
        log.within("memmap_init", |log| log.call("memmap_init_zone_range", ms(64)));
        log.call("works", ms(400));
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.price.likely, only.price.low), (ms(60), Ns(30_000_000)), "a sixteenth is left");
    }
}
