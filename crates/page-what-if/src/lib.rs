//! What-if in a page that opens from disk: the functions that the page's worker calls
//! (`page/src/data/whatif-worker.ts`).
//!
//! Pointers and lengths are 32 bits wide. The worker requests memory, writes into it, and hands it back with the call
//! that reads it. There is one boot and one thread. Everything but memory handling is in `page-data`.

use page_data::{Less, Parts, Table, answer};
use std::cell::RefCell;
use timeline::Timeline;

/// The parts received so far, and the boot that was built from them.
#[derive(Default)]
struct Boot {
    parts: Parts,
    /// Built at the first question.
    timeline: Option<Timeline>,
    answer: String,
}

thread_local! {
    static BOOT: RefCell<Boot> = RefCell::default();
}

/// Memory for this number of bytes, to be handed to [`part`] or [`question`].
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; bytes].into_boxed_slice()).cast()
}

/// # Safety
/// `at` must come from [`room`] with the same `bytes`, and may be handed over only once.
unsafe fn taken(at: *mut u8, bytes: usize) -> Box<[u8]> {
    // SAFETY: `room` made a box of exactly this length and gave up owning it. The caller hands it over once.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes)) }
}

/// Takes an unpacked part of the page. Returns true if it is a table.
///
/// # Safety
/// `at` must come from [`room`] with the same `bytes`, and may be handed over only once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn part(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: this function's caller promises the same.
    let plain = unsafe { taken(at, bytes) };
    Table::from_plain(&plain).map(|table| BOOT.with_borrow_mut(|boot| boot.parts.add(table))).is_ok()
}

/// Answers a question: a list of savings. Each is its share (eight bytes), the length of its row's name (four), and the
/// name. Returns the length of the answer; [`answered`] returns its address.
///
/// # Safety
/// `at` must come from [`room`] with the same `bytes`, and may be handed over only once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn question(at: *mut u8, bytes: usize) -> usize {
    // SAFETY: this function's caller promises the same.
    let question = unsafe { taken(at, bytes) };
    BOOT.with_borrow_mut(|boot| {
        boot.answer = boot.answer_to(&question);
        boot.answer.len()
    })
}

/// The address of the last answer. It is valid until the next call of any function here.
#[unsafe(no_mangle)]
pub extern "C" fn answered() -> *const u8 {
    BOOT.with_borrow(|boot| boot.answer.as_ptr())
}

impl Boot {
    fn answer_to(&mut self, question: &[u8]) -> String {
        let timeline = match self.timeline.take().map_or_else(|| self.parts.timeline(), Ok) {
            Ok(timeline) => timeline,
            Err(missing) => return page_data::wrong(&missing.to_string()),
        };
        // The timeline now has everything that the parts had.
        self.parts = Parts::default();
        let answer = savings(question)
            .map_or_else(|| page_data::wrong("the question is cut off"), |all| answer(&timeline, &all));
        self.timeline = Some(timeline);
        answer
    }
}

fn savings(mut question: &[u8]) -> Option<Vec<Less>> {
    let mut all = Vec::new();
    while !question.is_empty() {
        let (share, rest) = question.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (row, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        all.push(Less { row: std::str::from_utf8(row).ok()?.to_owned(), by: f64::from_le_bytes(*share) });
        question = rest;
    }
    Some(all)
}
