//! What-if in a page that opens from disk: the functions that the page's worker calls (`page/src/data/whatif-worker.ts`).
//!
//! Numbers are 32 bits wide. The worker asks for memory, writes into it, and hands it back with the call that reads it. There is
//! one boot and one thread. All that is not about memory is in `page-data`.

use page_data::{Less, Parts, Table, answer};
use std::cell::RefCell;
use timeline::Timeline;

/// What was read so far.
#[derive(Default)]
struct Boot {
    parts: Parts,
    /// Made at the first question.
    timeline: Option<Timeline>,
    answer: String,
}

thread_local! {
    static BOOT: RefCell<Boot> = RefCell::default();
}

/// Room for so many bytes, to be handed to [`part`] or [`question`].
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; bytes].into_boxed_slice()).cast()
}

/// # Safety
/// `at` is what [`room`] gave for `bytes`, and is handed over once.
unsafe fn taken(at: *mut u8, bytes: usize) -> Box<[u8]> {
    // SAFETY: `room` made a box of just this length, gave up owning it, and the caller hands it over once.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes)) }
}

/// Takes a part of the page, unpacked. Whether it is one.
///
/// # Safety
/// `at` is what [`room`] gave for `bytes`, and is handed over once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn part(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise is the same.
    let plain = unsafe { taken(at, bytes) };
    Table::of_plain(&plain).map(|table| BOOT.with_borrow_mut(|boot| boot.parts.add(table))).is_ok()
}

/// Answers a question: savings, each as its share (eight bytes), the length of its row's name (four), and the name. How long the
/// answer is; [`answered`] says where it lies.
///
/// # Safety
/// `at` is what [`room`] gave for `bytes`, and is handed over once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn question(at: *mut u8, bytes: usize) -> usize {
    // SAFETY: the caller's promise is the same.
    let asked = unsafe { taken(at, bytes) };
    BOOT.with_borrow_mut(|boot| {
        boot.answer = boot.worked_out(&asked);
        boot.answer.len()
    })
}

/// Where the last answer lies: until the next call of anything here.
#[unsafe(no_mangle)]
pub extern "C" fn answered() -> *const u8 {
    BOOT.with_borrow(|boot| boot.answer.as_ptr())
}

impl Boot {
    fn worked_out(&mut self, asked: &[u8]) -> String {
        let timeline = match self.timeline.take().map_or_else(|| self.parts.timeline(), Ok) {
            Ok(timeline) => timeline,
            Err(missing) => return page_data::wrong(&missing.to_string()),
        };
        // What the parts had is in the timeline.
        self.parts = Parts::default();
        let said =
            savings(asked).map_or_else(|| page_data::wrong("the question is cut off"), |all| answer(&timeline, &all));
        self.timeline = Some(timeline);
        said
    }
}

fn savings(mut asked: &[u8]) -> Option<Vec<Less>> {
    let mut all = Vec::new();
    while !asked.is_empty() {
        let (share, rest) = asked.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (row, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        all.push(Less { row: std::str::from_utf8(row).ok()?.to_owned(), by: f64::from_le_bytes(*share) });
        asked = rest;
    }
    Some(all)
}
