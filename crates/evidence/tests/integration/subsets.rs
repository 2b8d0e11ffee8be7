//! More evidence never shows less: what some pieces of evidence of a boot prove, all of them together show too.

use super::imports::imported;
use analysis::{Groups, boot_path, phases, tables};
use std::collections::BTreeSet;
use timeline::{Milestone, MilestoneKind, SpanKind, Timeline};

/// Pieces of evidence of one boot each.
const BOOTS: [&[&str]; 5] = [
    &["consoles/pair-initcalls.log", "systemd-analyze/pair-chain.txt"],
    &["cbmem/kernel-beside-it.txt", "cbmem/programs-depthcharge.txt"],
    &["journal/debian12.export", "systemd-analyze/debian12-blame-chain.txt", "systemd-analyze/debian12-dump.txt"],
    &["journal/debian12-short-monotonic.txt", "systemd-analyze/debian12-show.txt"],
    &["efi/captured.txt", "efi/systemd-of-the-same-boot.txt"],
];

/// The names of initcalls and of units. systemd's state may say better than its journal that a unit was skipped.
fn proven(timeline: &Timeline) -> BTreeSet<String> {
    let names = &timeline.names;
    let units = timeline.units.iter().map(|unit| names.get(unit.name).to_owned());
    let spans = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == SpanKind::Initcall);
    units.chain(spans.map(|span| names.get(span.name).to_owned())).collect()
}

/// The rows of initcalls on the boot path.
fn initcall_rows(timeline: &Timeline) -> BTreeSet<String> {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    all.wheres.into_iter().map(|row| row.name).filter(|name| name.starts_with("initcall ")).collect()
}

/// From the kernel's start to process 1, whatever stands before it.
fn kernel(timeline: &Timeline) -> Option<Milestone> {
    let milestones = timeline.milestones();
    milestones.into_iter().find(|milestone| milestone.kind == MilestoneKind::Process1)
}

#[test]
fn all_evidence_shows_what_a_part_of_it_proves() {
    for boot in BOOTS {
        let whole = imported(boot);
        for subset in 1..(1_u32 << boot.len()) - 1 {
            let pieces = boot.iter().enumerate().filter(|(place, _)| subset & 1 << place != 0);
            let pieces: Vec<&str> = pieces.map(|(_, piece)| *piece).collect();
            let part = imported(&pieces);
            let missing: Vec<String> = proven(&part).difference(&proven(&whole)).cloned().collect();
            assert!(missing.is_empty(), "{pieces:?} of {boot:?} alone have {missing:?}");
            let missing: Vec<String> = initcall_rows(&part).difference(&initcall_rows(&whole)).cloned().collect();
            assert!(missing.is_empty(), "{pieces:?} of {boot:?} alone have rows {missing:?}");
            // Both begin with the kernel where neither knows what ran before it.
            let starts = [&part, &whole].map(|timeline| phases(timeline).first().map(|phase| phase.name.clone()));
            if let (Some(part), Some(whole), true) = (kernel(&part), kernel(&whole), starts[0] == starts[1]) {
                let errors = part.error + whole.error;
                assert!((part.at - whole.at).abs() <= errors, "{pieces:?}: {:?} and {:?}", part.at, whole.at);
            }
        }
    }
}
