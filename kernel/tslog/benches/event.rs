//! Cost of one event: `cargo bench -p tslog`. Prints one line per figure, with its promised bound. The exit status is 1 if
//! a figure exceeds its bound.
//!
//! All loops write 262 144 records of 40 bytes into memory that was cleared just before. The loops alternate after every
//! 4096 events. Each such turn gives one ratio, and the figure is the median of these ratios. So a busy machine slows both
//! sides alike, and most turns are not interrupted.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tslog::layout::{HEADER_BYTES, RECORD_BYTES};

const EVENTS: u64 = 262_144;
const THREADS: u64 = 8;
/// Number of events in one measurement.
const TURN: u64 = 4096;
const LOGS: usize = 50;

static CURRENT: AtomicU64 = AtomicU64::new(1);

tslog::kernel!(thread = || CURRENT.load(Ordering::Relaxed));

/// Memory for a log of `records`. Its page faults happen when it is first cleared.
fn memory(records: u64) -> (NonNull<u8>, usize) {
    let bytes = HEADER_BYTES + records as usize * RECORD_BYTES;
    let layout = std::alloc::Layout::from_size_align(bytes, 64).expect("a power of two");
    // SAFETY: the length is not 0.
    (NonNull::new(unsafe { std::alloc::alloc(layout) }).expect("memory"), bytes)
}

fn start((memory, bytes): (NonNull<u8>, usize)) {
    // SAFETY: the memory is never freed, and no thread records now.
    assert!(unsafe { tslog::start_in(memory, bytes, 0) });
}

fn ns_per_event(events: u64, run: impl FnOnce()) -> f64 {
    let from = Instant::now();
    run();
    from.elapsed().as_nanos() as f64 / events as f64
}

#[inline(never)]
fn events(count: u64) {
    for _ in 0..count {
        tslog::event!("event", "detail");
    }
}

/// The least possible work: reading the counter and storing 40 bytes, one after another.
#[inline(never)]
fn bare_stores(records: &mut [[u64; 5]]) {
    for record in records {
        *record = [tslog::counter::ticks(), 1, 2, 3, 4];
        black_box(record);
    }
}

/// The work on the one word that all recording threads share.
#[inline(never)]
fn bare_adds(next: &AtomicU64, count: u64) {
    for _ in 0..count {
        black_box((tslog::counter::ticks(), next.fetch_add(1, Ordering::Relaxed)));
    }
}

/// FreeBSD's recorder, rewritten in C and loaded.
struct FreeBsd {
    events: extern "C" fn(u64),
    clear: extern "C" fn(),
}

impl FreeBsd {
    fn compiled() -> Result<FreeBsd, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("it reads the counter of x86-64".to_owned());
        }
        let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tslog-freebsd.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/freebsd.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o"]).arg(&object).arg(source);
        if !cc.status().map_err(|e| format!("cc: {e}"))?.success() {
            return Err("cc failed".to_owned());
        }
        let path = std::ffi::CString::new(object.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: we built this object. It does nothing when it is loaded, and its functions have these types.
        unsafe {
            let loaded = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            if loaded.is_null() {
                return Err(format!("{} cannot be loaded", object.display()));
            }
            let symbol = |name: &std::ffi::CStr| {
                let address = libc::dlsym(loaded, name.as_ptr());
                assert!(!address.is_null(), "{name:?}");
                address
            };
            Ok(FreeBsd {
                events: std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64)>(symbol(c"freebsd_events")),
                clear: std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(symbol(c"freebsd_clear")),
            })
        }
    }
}

/// Measures one thread: our recorder, the bare stores, and FreeBSD's recorder if it compiles. Returns ns per event of each
/// turn.
fn one_thread(freebsd: Option<&FreeBsd>) -> [Vec<f64>; 3] {
    let log = memory(EVENTS);
    let mut bare = vec![[0; 5]; EVENTS as usize];
    let mut turns = [const { Vec::new() }; 3];
    for _ in 0..LOGS {
        start(log);
        bare.fill([0; 5]);
        if let Some(freebsd) = freebsd {
            (freebsd.clear)();
        }
        for (first, bare) in bare.chunks_mut(TURN as usize).enumerate() {
            for loop_ in (0..3).map(|n| (first + n) % 3) {
                let ns = match (loop_, freebsd) {
                    (0, _) => ns_per_event(TURN, || events(TURN)),
                    (1, _) => ns_per_event(TURN, || bare_stores(bare)),
                    (_, Some(freebsd)) => ns_per_event(TURN, || (freebsd.events)(TURN)),
                    (_, None) => continue,
                };
                turns[loop_].push(ns);
            }
        }
        let counts = tslog::log().expect("started").counts();
        assert_eq!((counts.reserved, counts.dropped), (EVENTS, 0));
    }
    turns
}

/// Processor time per event, summed over all threads. It excludes time that other programs take on a busy machine, and
/// includes time that the threads take from each other.
fn in_threads(run: impl Fn() + Sync) -> f64 {
    let begin = Barrier::new(THREADS as usize);
    let timed = || {
        begin.wait();
        let from = cpu_ns();
        run();
        cpu_ns() - from
    };
    let total: u64 = std::thread::scope(|threads| {
        let running: Vec<_> = (0..THREADS).map(|_| threads.spawn(timed)).collect();
        running.into_iter().map(|thread| thread.join().expect("it only counts")).sum()
    });
    total as f64 / (THREADS * EVENTS) as f64
}

/// Processor time of this thread so far.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes into `time` only.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures eight threads: our recorder, and the bare adds.
fn eight_threads() -> [Vec<f64>; 2] {
    let log = memory(THREADS * EVENTS);
    let mut turns = [const { Vec::new() }; 2];
    for _ in 0..LOGS {
        start(log);
        turns[0].push(in_threads(|| events(EVENTS)));
        let log = tslog::log().expect("started");
        let counts = log.counts();
        assert_eq!((counts.reserved, counts.dropped), (THREADS * EVENTS, 0));
        assert!((0..counts.reserved).all(|slot| matches!(log.slot(slot), tslog::Slot::Whole(_))));
        let next = AtomicU64::new(0);
        turns[1].push(in_threads(|| bare_adds(&next, EVENTS)));
    }
    turns
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a figure. Returns true if it keeps to its promised bound.
fn figure(what: &str, ours: &[f64], against: &str, theirs: &[f64], promised: f64) -> bool {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&ratios);
    let kept = if ratio <= promised { "kept" } else { "NOT KEPT" };
    println!(
        "{what}: {:.2} ns = {ratio:.3} × {against} ({:.2} ns); promised at most {promised}: {kept}",
        median(ours),
        median(theirs)
    );
    ratio <= promised
}

fn main() -> ExitCode {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cpus} CPUs, load {}", load.split(' ').next().unwrap_or_default());
    // As in a kernel, where the compiler cannot know the running thread.
    CURRENT.store(black_box(1), Ordering::Relaxed);
    let freebsd = FreeBsd::compiled();
    let [ours, bare, theirs] = one_thread(freebsd.as_ref().ok());
    let mut kept = figure("one event", &ours, "a bare counter read and 40-byte store", &bare, 2.0);
    match freebsd {
        Ok(_) => kept &= figure("one event", &ours, "FreeBSD's recorder in C", &theirs, 1.0),
        Err(reason) => println!("one event beside FreeBSD's recorder: not measured: {reason}"),
    }
    let [ours, bare] = eight_threads();
    kept &= figure("one event of 8 threads", &ours, "a counter read and atomic add of 8 threads", &bare, 1.5);
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
