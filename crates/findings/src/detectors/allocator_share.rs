//! A frame allocator that takes a large part of the boot.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{NameId, Ns, Os, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "allocator-share",
    title: "allocating frames takes a large part of the boot",
    rule: "Functions that allocate or free frames of memory take a tenth of the boot or more. They are known by their names, \
           which speak of allocating and of frames, pages or physical memory. An allocator that looks through all frames, or \
           through all ranges that were freed, takes that much; one that keeps a list for each size does not.",
    source: "Lorentzon 2024, Significant performance and correctness improvements to the kernel (Redox): 35 % of the \
             kernel's boot time become 0.9 % with lists by power of two",
    threshold: "100 calls or more, which take at least 10 % of the boot",
    price: "3 % of their time is left, at the best nothing, at the worst 10 %",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const MIN_SHARE: f64 = 0.1;
const MIN_CALLS: usize = 100;
/// 0.9 of 35 per cent.
const LEFT: Left = Left::of(0.0, 0.03, 0.1);

/// True if a function's name shows that it allocates memory by frames.
fn is_allocator(name: &str) -> bool {
    // Removes a path of Rust's library, and the word for a screen's memory.
    let name = name.replace("alloc::", "").replace("framebuffer", "");
    let has = |word: &str| name.contains(word);
    has("alloc") && (has("frame") || has("page") || has("phys") || has("buddy") || has("Buddy"))
}

fn look(seen: &Seen) -> Vec<Draft> {
    // These systems have such allocators: a page that takes long there is one that is cleared.
    if matches!(seen.machine.os, Os::Linux | Os::FreeBsd) {
        return Vec::new();
    }
    let mut known: HashMap<NameId, bool> = HashMap::new();
    let mut calls: Vec<SpanRow> = Vec::new();
    for (_, row) in seen.spans().filter(|(_, row)| row.kind == SpanKind::Call) {
        let allocates = *known.entry(row.name).or_insert_with(|| is_allocator(seen.timeline.names.get(row.name)));
        // One of these functions calls the other.
        if allocates && calls.last().is_none_or(|last| last.track != row.track || last.end <= row.start) {
            calls.push(row);
        }
    }
    let total: Ns = calls.iter().map(SpanRow::length).sum();
    let share = total.0 as f64 / seen.end.0.max(1) as f64;
    if calls.len() < MIN_CALLS || share < MIN_SHARE {
        return Vec::new();
    }
    let Some(longest) = calls.iter().max_by_key(|row| row.length()) else { return Vec::new() };
    vec![Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "calls", value: Value::Count(calls.len() as u64) },
            Figure { of: "share", value: Value::Share(share) },
        ],
        parts: calls.iter().map(|row| Part { stretch: seen.stretch(row), left: LEFT }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(
            "change the code: keep free frames in one list for each power of two, as a buddy allocator does",
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(name: &str, each: Ns) -> Vec<(&'static str, String, Ns)> {
        let mut log = Log::new();
        log.initcall("works", |log| log.call("works", ms(80)));
        log.within("page_fault", |log| {
            for _ in 0..1_000 {
                log.within(name, |log| log.call("scan", each));
                log.call("clear", Ns(10_000));
            }
        });
        log.found().findings.into_iter().map(|f| (f.rule.id, f.about, f.price.likely)).collect()
    }

    #[test]
    fn an_allocator_is_known_by_its_name_and_its_share() {
        let found = boot("frame_allocator", Ns(35_000));
        assert_eq!(found, [("allocator-share", "frame_allocator".to_owned(), Ns(33_950_000))]);
        assert_eq!(boot("rmm::BuddyAllocator::allocate", Ns(35_000)).len(), 1);
        assert!(boot("frame_allocator", Ns(600)).is_empty(), "0.7 %");
        assert!(boot("checksum", Ns(35_000)).is_empty());
        assert!(boot("framebuffer_allocate_line", Ns(35_000)).is_empty());
        assert!(boot("<alloc::boxed::Box<k::page::Screen> as core::fmt::Write>::write_str", Ns(35_000)).is_empty());
    }
}
