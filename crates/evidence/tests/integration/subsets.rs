//! More evidence never shows less: what some pieces of evidence of a boot prove, all of them together show too.

use super::imports::imported;
use analysis::{Groups, boot_path, phases, tables};
use recording::{MANIFEST_NAME, Recording};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
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

/// The files of a recording that can be left out, in the groups that belong together.
const LEFT_OUT: [&[&str]; 9] = [
    &["kmsg.log"],
    &["trace.txt"],
    &["first-run.bin", "image-symbols.gz"],
    &["calls.bin"],
    &["exits.bin"],
    &["tslog.txt"],
    &["console.log", "console.idx"],
    &["firmware.log", "firmware.idx"],
    &["guest.log", "guest.idx"],
];

/// The recordings of machines that are kept with the program's tests.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/kept");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut kept: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
    kept.sort();
    kept
}

/// A recording without some of its files.
fn without(whole: &Recording, left_out: &[&str]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let manifest = serde_json::to_vec(whole.manifest()).unwrap();
    fs::write(folder.path().join(MANIFEST_NAME), manifest).unwrap();
    for name in whole.names().filter(|name| !left_out.contains(name)) {
        fs::write(folder.path().join(name), whole.read(name).unwrap().unwrap()).unwrap();
    }
    evidence::load(&Recording::open(folder.path()).unwrap()).unwrap()
}

/// The parts of a recording that have every subset of its evidence.
fn parts(whole: &Recording) -> Vec<Vec<&'static str>> {
    let has = |name: &&str| whole.names().any(|other| other == *name);
    let groups: Vec<&[&str]> = LEFT_OUT.into_iter().filter(|group| group.iter().any(&has)).collect();
    let subset = |mask: u32| {
        let chosen = groups.iter().enumerate().filter(move |(place, _)| mask & 1 << place != 0);
        chosen.flat_map(|(_, group)| group.iter().copied()).collect()
    };
    (1..1 << groups.len()).map(subset).collect()
}

#[test]
fn a_recording_shows_what_each_part_of_it_proves() {
    let mut compared = 0;
    for path in kept() {
        let recording = Recording::open(&path).unwrap();
        let whole = evidence::load(&recording).unwrap();
        for left_out in parts(&recording) {
            let part = without(&recording, &left_out);
            let missing: Vec<String> = proven(&part).difference(&proven(&whole)).cloned().collect();
            assert!(missing.is_empty(), "{} without {left_out:?} has {missing:?}", path.display());
            let (Some(end), Some(of_part)) = (whole.end, part.end) else { continue };
            if end.evidence == of_part.evidence {
                let errors = end.error + of_part.error;
                let message =
                    || format!("{} without {left_out:?}: {} ± {errors}, not {}", path.display(), of_part.at, end.at);
                assert!((end.at - of_part.at).abs() <= errors, "{}", message());
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared} totals were compared");
}
