//! The boot path of made logs, against a slow model, and against FreeBSD's own scripts where they are at hand.
//!
//! The scripts (freebsd-boot-profiling) have no licence, so they are not here. `BOOTSCOPE_TSLOG_SCRIPTS` names a folder
//! that has them; they need sh, perl and look.

mod tslog_model;

use evidence::tslog::{Counter, Log, lay};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use timeline::{Ns, TimeBase, Timeline, TrackKind};
use tslog_model::{Record, Rules, Shape, log, stacks, text};

type Stacks = BTreeMap<String, u64>;

/// The path of a log by the program's own code, a tick a nanosecond.
fn path(text: &str) -> Stacks {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    log.read("tslog.txt", text.as_bytes(), &mut timeline.diagnostics);
    lay(log, Counter::Rate(1e9, "made".to_owned()), &mut timeline);
    timeline.settle(Ns::ZERO);
    let path = analysis::boot_path(&timeline);
    let mut stacks = Stacks::new();
    for stretch in &path.stretches {
        *stacks.entry(stack(&timeline, stretch)).or_default() += stretch.length().0 as u64;
    }
    stacks
}

/// A stretch as the scripts would write it.
fn stack(timeline: &Timeline, stretch: &analysis::Stretch) -> String {
    let name = |id| timeline.names.get(id);
    let mut frames: Vec<String> = Vec::new();
    for frame in stretch.chain.iter() {
        let track = timeline.tracks.get(frame.track);
        let own = match (name(track.name), track.kind) {
            (_, TrackKind::Firmware) if frame.span.is_some() => None,
            ("thread0" | "init" | "loader", _) => Some("kernel".to_owned()),
            (named, _) => Some(format!("THREAD {named}")),
        };
        let mut spans = Vec::new();
        let mut at = frame.span;
        while let Some(span) = at {
            let row = timeline.spans.get(span);
            spans.push(format!("{} {}", name(row.name), name(row.detail)).trim_end().to_owned());
            at = timeline.spans.parent(span);
        }
        frames.extend(own);
        frames.extend(spans.into_iter().rev());
    }
    frames.join(";")
}

fn shapes() -> impl Iterator<Item = Shape> {
    (0..8).map(|n| Shape { loader: n & 1 > 0, wild: n & 2 > 0, ties: n & 4 > 0 })
}

#[track_caller]
fn same(found: &Stacks, expected: &Stacks, what: &str, records: &[Record]) {
    for stack in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(stack), expected.get(stack));
        assert_eq!(found, expected, "{what}: {stack}\n{}", text(records));
    }
}

#[test]
fn the_path_is_that_of_the_model() {
    for seed in 0..60 {
        for shape in shapes() {
            let records = log(seed, shape, 20 + (seed as usize * 7) % 200);
            same(&path(&text(&records)), &stacks(&records, Rules::Ours), &format!("{seed} {shape:?}"), &records);
        }
    }
}
