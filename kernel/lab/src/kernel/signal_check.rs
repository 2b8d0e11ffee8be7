//! Checks that a thread which is killed in the kernel releases all it holds (`check=signal-exit`).
//!
//! Four threads each take frames, a hold, a reference and two spans, some of them in a nested function. Then one waits, one
//! sleeps, one works, and one is on its way to a wait. Each is killed. The check counts all four kinds before the threads take
//! anything, while they hold it, and after they have ended.

use crate::console::kprintln;
use crate::hold::{Held, Topic};
use crate::memory;
use crate::thread::{self, Killed};
use crate::wait::Shared;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use lab::verdict::{Checked, Verdict};

const FRAMES: u64 = 16;
const VICTIMS: [(&str, Doing); 4] = [
    ("window/waits", Doing::Waits),
    ("window/sleeps", Doing::Sleeps),
    ("window/works", Doing::Works),
    ("window/late", Doing::IsLate),
];
const PIECE_OF_WORK: u32 = 1000;
const LOOK_US: u64 = 100;

#[derive(Clone, Copy)]
enum Doing {
    Waits,
    Sleeps,
    Works,
    /// Works without checking whether it was killed, and then waits.
    IsLate,
}

static WINDOWS: Topic = Topic::new("windows");
/// True when the threads may begin.
static START: Shared<bool> = Shared::new(false);
/// The event that threads wait for; it never comes.
static EVENT: Shared<bool> = Shared::new(false);
/// Number of threads that have taken everything.
static READY: AtomicU32 = AtomicU32::new(0);
/// 1 when the late thread has been killed.
static LATE_IS_KILLED: AtomicU32 = AtomicU32::new(0);
static OPEN_SPANS: AtomicU32 = AtomicU32::new(0);
static DISPLAY: Shared<Option<Arc<()>>> = Shared::new(None);

/// The counts of the four kinds.
#[derive(Clone, Copy, PartialEq)]
struct Count {
    frames: i64,
    holds: u32,
    references: usize,
    open_spans: u32,
}

impl Count {
    /// Counts what these threads hold. Frames of other threads do not count.
    fn of(threads: &[u16]) -> Count {
        Count {
            frames: threads.iter().map(|&slot| memory::held_by(slot)).sum(),
            holds: WINDOWS.holds(),
            references: DISPLAY.change_unawaited(|display| display.as_ref().map_or(0, Arc::strong_count)),
            open_spans: OPEN_SPANS.load(Ordering::Acquire),
        }
    }

    /// The difference to an earlier count.
    fn since(self, before: Count) -> Count {
        Count {
            frames: self.frames - before.frames,
            holds: self.holds - before.holds,
            references: self.references - before.references,
            open_spans: self.open_spans - before.open_spans,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { frames, holds, references, open_spans } = self;
        write!(f, "{frames} frames, {holds} holds, {references} references, {open_spans} spans")
    }
}

/// Runs the check.
pub fn run() {
    DISPLAY.change_unawaited(|display| *display = Some(Arc::new(())));
    let slots = VICTIMS.map(|(name, doing)| thread::create(name, open_window, doing as usize));
    let before = Count::of(&slots);
    START.change(|start| *start = true);
    look_until(|| READY.load(Ordering::Acquire) as usize == VICTIMS.len());
    let held = Count::of(&slots).since(before);
    slots.into_iter().for_each(thread::kill);
    LATE_IS_KILLED.store(1, Ordering::Release);
    look_until(|| slots.into_iter().all(thread::has_ended));
    let left = Count::of(&slots).since(before);
    let counted = format_args!("{} threads killed; they held {held}; left behind are {left}", VICTIMS.len());
    let nothing = before.since(before);
    // A check of threads that held nothing would prove nothing, so the verdict also requires what they held.
    let took = held.frames == (FRAMES * VICTIMS.len() as u64) as i64 && held.holds as usize == VICTIMS.len();
    kprintln!("{}", Checked { name: "signal-exit", verdict: Verdict::of(took && left == nothing), counted });
}

fn look_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep_us(LOOK_US);
    }
}

/// The function of each thread.
fn open_window(doing: usize) {
    START.wait_for(|start| start.then_some(()));
    let (_, doing) = VICTIMS[doing];
    // Being killed is not a failure. The thread has released all it held, and ends.
    let Err(Killed) = window(doing);
}

fn window(doing: Doing) -> Result<core::convert::Infallible, Killed> {
    let _span = Span::enter();
    let _hold: Held = WINDOWS.held();
    let _display = DISPLAY.change_unawaited(|display| display.clone());
    draw(doing)
}

#[inline(never)]
fn draw(doing: Doing) -> Result<core::convert::Infallible, Killed> {
    let _span = Span::enter();
    let _buffer = Buffer::new();
    READY.fetch_add(1, Ordering::AcqRel);
    if let Doing::IsLate = doing {
        while LATE_IS_KILLED.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }
    loop {
        match doing {
            Doing::Waits | Doing::IsLate => EVENT.wait_for_or_killed(|event| event.then_some(()))?,
            Doing::Sleeps => thread::sleep_or_killed(3_600_000_000_000)?,
            Doing::Works => {
                core::hint::black_box((0..PIECE_OF_WORK).fold(0, |sum: u32, n| sum ^ n.wrapping_mul(0x9e37_79b9)));
                thread::yield_now();
                thread::check_killed()?;
            }
        }
    }
}

/// A span in the log, which is also counted.
struct Span {
    _scope: tslog::Scope,
}

impl Span {
    fn enter() -> Span {
        OPEN_SPANS.fetch_add(1, Ordering::AcqRel);
        Span { _scope: tslog::scope!("window") }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        OPEN_SPANS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A buffer of single frames.
struct Buffer([u64; FRAMES as usize]);

impl Buffer {
    fn new() -> Buffer {
        Buffer(core::array::from_fn(|_| memory::allocate_frame()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0.into_iter().for_each(|frame| memory::free_frames(frame, 1));
    }
}
