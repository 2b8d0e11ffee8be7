//! Memory follows the input: each kind of dense input is read and analysed within a bound on the bytes allocated at one
//! time. The kinds with the largest views are also shown, as JSON and as a page.
//!
//! The allocator counts the bytes, so that a figure is the same in each run.

#[path = "../../cli/benches/memory/kinds/mod.rs"]
mod kinds;

use analysis::{Groups, Stays};
use kinds::{Kind, LOG, MANIFEST};
use recording::Recording;
use report::{Asks, PageBoot, Summary};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const MB: usize = 1 << 20;
/// Large enough to show the memory of a record, and small enough to read all kinds in some seconds.
const INPUT_BYTES: usize = 2 * MB;
/// The rule is 8 times the input and 64 MB; the rest of that is for views.
const BYTES_EACH: usize = 8;
const BYTES_SMALL: usize = 40 * MB;
/// The kinds whose views take most, and the sizes to show: for the small one, the bounds on rows matter, for the large
/// one, the memory of each record.
const SHOWN: [&str; 5] = [
    "kernel log: records, different",
    "TSLOG: calls never left",
    "uftrace: calls never left",
    "bootchart: taskstats",
    "perf.data: addresses",
];
const SHOWN_BYTES: [usize; 2] = [MB, 6 * MB];
/// The rule has 64 MB. The program itself and gaps between allocations take the rest.
const SHOWN_BYTES_SMALL: usize = 32 * MB;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn add(bytes: usize) {
    let now = ALLOCATED.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: all requests are passed unchanged to the system's allocator; the counters are atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the rules of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // Reserved memory that is never touched takes no memory, but both copies do while one grows. So this counts as the
    // system does.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        add(new);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The work on a recording after it is opened.
enum View {
    Analysis,
    Json,
    Page,
}

fn show(recording: &Recording, view: &View) {
    let loaded = evidence::read(recording).unwrap();
    let facts = report::Facts::default();
    let boot = || report::Boot::new(&loaded.timeline, &facts);
    match view {
        View::Analysis => {
            let stays = Stays::new(&loaded.timeline);
            drop(stays.tables(&stays.path(), &analysis::phases(&loaded.timeline), &Groups::linux()));
        }
        View::Json => serde_json::to_writer(io::sink(), &Summary::of_last(boot())).unwrap(),
        View::Page => {
            let shown = [PageBoot { name: "a", boot: &boot(), console: &[] }];
            report::page(&shown, Asks::Itself, &mut io::sink()).unwrap();
        }
    }
}

/// The largest number of bytes allocated at one time for a view, including the input, and the length of the input.
fn peak(kind: &Kind, input_bytes: usize, view: &View) -> (usize, usize) {
    let folder = tempfile::TempDir::new().unwrap();
    let input = (kind.make)(input_bytes);
    let bytes = kinds::binary::unpacked_bytes(&input).max(input.len());
    let mut path = folder.path().to_owned();
    if kind.is_pack() {
        path.push(kind.file);
    } else if kind.is_own {
        fs::write(folder.path().join("recording.json"), MANIFEST).unwrap();
        fs::write(folder.path().join("kmsg.log"), LOG).unwrap();
    } else {
        fs::write(folder.path().join("recording.json"), br#"{"schema": "bootscope.recording/1", "state": "finished"}"#)
            .unwrap();
    }
    let has_name = kind.is_own || kind.is_pack() || kind.file.starts_with("00-");
    let name = if has_name { kind.file.to_owned() } else { format!("00-{}", kind.file) };
    fs::write(folder.path().join(name), input).unwrap();
    let before = ALLOCATED.load(Relaxed);
    PEAK.store(before, Relaxed);
    if let Ok(recording) = Recording::open(&path) {
        show(&recording, view);
    }
    (PEAK.load(Relaxed) - before, bytes)
}

/// This is one test, because the allocations of another test would be counted too.
#[test]
fn memory_follows_the_input() {
    let mut broken = Vec::new();
    let mut check = |kind: &Kind, input_bytes: usize, view: View, small: usize| {
        let (peak, bytes) = peak(kind, input_bytes, &view);
        let limit = BYTES_EACH * bytes + small;
        let name = match view {
            View::Analysis => "",
            View::Json => "show",
            View::Page => "page",
        };
        println!("{:<40} {name:<4} {:>6} KB {:>8} KB {:>4} %", kind.name, bytes >> 10, peak >> 10, 100 * peak / limit);
        if peak > limit {
            broken.push(format!("{} {name}: {} MB for {} MB", kind.name, peak / MB, bytes / MB));
        }
    };
    kinds::all().for_each(|kind| check(kind, INPUT_BYTES, View::Analysis, BYTES_SMALL));
    let shown: Vec<&Kind> = kinds::all().filter(|kind| SHOWN.contains(&kind.name)).collect();
    assert_eq!(shown.len(), SHOWN.len(), "a kind has another name");
    for kind in shown {
        for bytes in SHOWN_BYTES {
            check(kind, bytes, View::Json, SHOWN_BYTES_SMALL);
            check(kind, bytes, View::Page, SHOWN_BYTES_SMALL);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
