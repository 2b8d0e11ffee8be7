//! libguestfs' events: a whole launch with a known answer, and the lines of the notes of libguestfs' talk (2016).

use evidence::guestfs::{Events, Level};
use recording::{Known, Source};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use timeline::{Diagnostics, Ns, Timeline};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/guestfs").join(name)
}

/// Imports a file as `bootscope import` does.
fn imported(name: &str, bytes: Vec<u8>) -> Timeline {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let into = format!("guestfs-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(into);
    let source = Source { path: name.into(), bytes: Some(bytes), cut: false };
    recording::import_known(vec![source], &into, false, Known::default()).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    std::fs::remove_dir_all(&into).unwrap();
    timeline
}

/// The phases, each with its length in µs.
fn phases(timeline: &Timeline) -> Vec<(String, i64)> {
    analysis::phases(timeline).into_iter().map(|phase| (phase.name.clone(), phase.length().0 / 1000)).collect()
}

#[test]
fn a_whole_launch_is_phases_until_it_is_done() {
    let timeline = imported("launch.log", std::fs::read(fixture("whole-launch.log")).unwrap());
    let expected = [
        ("unexplained", 1_000),
        ("libguestfs: launch", 9_000),
        ("libguestfs: build the appliance", 50_000),
        ("libguestfs: appliance built", 1_000),
        ("libguestfs: ask QEMU for its features", 99_000),
        ("libguestfs: QEMU's features known", 11_000),
        ("VMM: start", 60_000),
        ("firmware", 323_000),
        ("setup code", 80_000),
        ("early kernel", 50_000),
        ("initcalls: all levels", 36_000),
        ("hand-over", 10_000),
        ("process 1", 210_000),
        ("guestfsd", 60_000),
    ];
    assert_eq!(phases(&timeline), expected.map(|(name, us)| (name.to_owned(), us)));
    assert_eq!(analysis::total(&timeline), Ns::from_ms(1000));
    // The path goes through libguestfs, firmware, kernel and appliance. The time between two messages is charged to the
    // first.
    let path = analysis::boot_path(&timeline);
    let owner = |at: Ns| {
        let stretch = path.stretches.iter().find(|s| s.from <= at && at < s.to).unwrap();
        let owner = stretch.owner();
        let name = owner.span.map_or("", |span| {
            let row = timeline.spans.get(span);
            timeline.names.get(if row.detail == timeline::NameId::EMPTY { row.name } else { row.detail })
        });
        (timeline.names.get(timeline.tracks.get(owner.track).name).to_owned(), name.to_owned())
    };
    for (at_ms, track, what) in [
        (30, "libguestfs", "begin building supermin appliance"),
        (100, "libguestfs", "begin testing qemu features"),
        (300, "firmware", "Google, Inc."),
        (700, "kernel_init", "aesni_init"),
        (900, "appliance", "+ udevadm settle"),
    ] {
        assert_eq!(owner(Ns::from_ms(at_ms)), (track.to_owned(), what.to_owned()), "{at_ms} ms");
    }
    let kinds: Vec<_> = timeline.diagnostics.iter().map(|d| (d.kind.code(), d.count)).collect();
    assert_eq!(kinds, [("libguestfs-later-launch", 1), ("messages-placed-by-arrival", 2),]);
}

/// The eight lines, as the page of the notes shows them and as boot-analysis printed them. They are placed when
/// libguestfs received them, although the kernel's own clock did not run yet.
#[test]
fn the_lines_of_the_notes() {
    let page = std::fs::read(fixture("notes-page-uart-lines.log")).unwrap();
    let printed = String::from_utf8(page.clone()).unwrap().replace('\u{a0}', " ");
    let printed: String = printed.lines().map(|line| format!("{}\n", &line[4..])).collect();
    let mut of_both = Vec::new();
    for bytes in [page, printed.into_bytes()] {
        assert_eq!(evidence::recognise(&bytes).kinds, ["libguestfs events (8 lines)"]);
        let mut diagnostics = Diagnostics::default();
        let events = Events::read("a", &bytes, &mut diagnostics).unwrap();
        assert!(events.events.iter().all(|event| event.level == Level::Kernel));
        assert_eq!((events.events.len(), events.missing), (8, 277));
        let timeline = imported("uart.log", bytes);
        let us = [("unexplained", 416_560), ("kernel, initcalls not told apart", 2_277)];
        assert_eq!(phases(&timeline), us.map(|(name, us)| (name.to_owned(), us)));
        of_both
            .push(timeline.marks.iter().map(|m| (m.at.0, timeline.names.get(m.name).to_owned())).collect::<Vec<_>>());
    }
    assert_eq!(of_both[0], of_both[1]);
    assert_eq!(of_both[0].len(), 8);
    assert_eq!(of_both[0][0], (416_560_057, "e820: BIOS-provided physical RAM map:".to_owned()));
    assert_eq!(of_both[0][7].0, 418_837_152);
}

/// A kernel clock that is 0.000000 in all lines is not listed as a clock of the recording.
#[test]
fn a_clock_that_never_ticked_is_not_listed() {
    let line = |stamp: &str| format!("[    {stamp}] BIOS-e820: [mem 0x0000000000000000-0x000000000009f7ff] usable\n");
    let clocks = |stamps: &[&str]| {
        let lines: String = stamps.iter().map(|stamp| line(stamp)).collect();
        let first = "[    0.000000] Linux version 4.3.0\n".to_owned();
        let timeline = imported("kernel.log", (first + &lines).into_bytes());
        timeline.clocks.iter().map(|clock| clock.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(clocks(&["0.000000", "0.000012"]), ["printk"]);
    assert!(clocks(&["0.000000", "0.000000"]).is_empty());
    let lines = imported("lines.log", std::fs::read(fixture("notes-page-uart-lines.log")).unwrap());
    assert!(lines.clocks.is_empty(), "{:?}", lines.clocks);
}
