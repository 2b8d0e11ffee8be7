//! Checks that a page which is unmapped on one CPU faults on every other before its frame is allocated again
//! (`check=tlb-shootdown`).
//!
//! In a round the first CPU maps a page, and every other CPU reads it, so that each caches the translation. The first CPU
//! unmaps the page, frees its frame, allocates a frame, and writes another owner's word into it. Then every other CPU reads the
//! page again: half of them repeatedly from the start, the others once at the end. The read must fault. If it does not, it finds
//! the other owner's word (use after free), or the old word in a frame without an owner (stale).

use crate::console::kprintln;
use crate::{apic, boot, cpu, memory, paging, probe_read, thread, trap, vmem};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use lab::verdict::{Checked, Verdict};
use x86_64::instructions::interrupts;

const READERS: [&str; cpu::CPUS_MAX] = [
    "", "tlb/1", "tlb/2", "tlb/3", "tlb/4", "tlb/5", "tlb/6", "tlb/7", "tlb/8", "tlb/9", "tlb/10", "tlb/11", "tlb/12",
    "tlb/13", "tlb/14", "tlb/15",
];

/// Address of the page.
static PAGE: AtomicU64 = AtomicU64::new(0);
/// The last round whose page was mapped.
static MAPPED: AtomicU32 = AtomicU32::new(0);
/// The last round whose frame got another owner.
static REUSED: AtomicU32 = AtomicU32::new(0);
/// Number of CPUs that have read the page in this round.
static CACHED: AtomicU32 = AtomicU32::new(0);
/// Number of CPUs that have finished reading it again.
static DONE: AtomicU32 = AtomicU32::new(0);

/// Results of the second reads of all rounds.
static FAULTS: AtomicU64 = AtomicU64::new(0);
static USED_AFTER_FREE: AtomicU64 = AtomicU64::new(0);
static STALE: AtomicU64 = AtomicU64::new(0);

/// The first owner's word in a round, which every CPU reads before the page is unmapped.
fn page_word(round: u32) -> u64 {
    0x6d69_6e65_0000_0000 | u64::from(round)
}

/// The word in the frame of another owner.
fn other_owners_word(round: u32) -> u64 {
    !page_word(round)
}

/// Runs all rounds.
pub fn run() {
    let (rounds, readers) = (boot::switches().tlb_rounds, cpu::running() - 1);
    if readers == 0 {
        kprintln!("tlb_check: one CPU: there is nobody to forget anything");
        return;
    }
    let page = vmem::allocate(FRAME_BYTES);
    PAGE.store(page, Ordering::Relaxed);
    for index in 1..=readers {
        thread::create_on(index, READERS[index as usize], read_each_round, index as usize);
    }
    let mut given_again = 0;
    for round in 1..=rounds {
        given_again += u32::from(one_round(page, round, readers));
    }
    vmem::free(page, FRAME_BYTES);
    let [faults, used, stale] = [&FAULTS, &USED_AFTER_FREE, &STALE].map(|count| count.load(Ordering::Relaxed));
    let wanted = u64::from(rounds) * u64::from(readers);
    let counted = format_args!(
        "{rounds} rounds on {} CPUs, {given_again} of them with another owner for the frame; {faults} of {wanted} reads fault, \
         {used} are of another owner's frame, {stale} of one that nobody has",
        readers + 1
    );
    kprintln!("{}", Checked { name: "tlb-shootdown", verdict: Verdict::of(faults == wanted), counted });
}

/// Runs a round. Returns true if the allocated frame was the page's. The allocator chooses the frame, so this is only counted.
fn one_round(page: u64, round: u32, readers: u32) -> bool {
    let frame = memory::allocate_frame();
    write(frame, page_word(round));
    paging::map(page, frame, paging::DATA);
    CACHED.store(0, Ordering::Relaxed);
    DONE.store(0, Ordering::Relaxed);
    MAPPED.store(round, Ordering::Release);
    wake(1..=readers);
    wait_until(|| CACHED.load(Ordering::Acquire) == readers);
    let unmapped = paging::unmap(page);
    assert!(unmapped == Some(frame), "tlb_check: {page:#x} had {unmapped:x?}, not {frame:#x}");
    memory::free_frames(frame, 1);
    let another = memory::allocate_frame();
    write(another, other_owners_word(round));
    REUSED.store(round, Ordering::Release);
    wake(1..=readers);
    wait_until(|| DONE.load(Ordering::Acquire) == readers);
    memory::free_frames(another, 1);
    another == frame
}

fn write(frame: u64, word: u64) {
    // SAFETY: the frame was just allocated, and memory is identity mapped.
    unsafe { (frame as *mut u64).write_volatile(word) }
}

/// The thread on each other CPU.
fn read_each_round(index: usize) {
    let page = PAGE.load(Ordering::Relaxed);
    for round in 1..=boot::switches().tlb_rounds {
        wait_until(|| MAPPED.load(Ordering::Acquire) == round);
        let first = probe_read::read(page);
        assert!(first == Some(page_word(round)), "tlb_check: CPU {index}, round {round}: read {first:x?}");
        CACHED.fetch_add(1, Ordering::AcqRel);
        wake(0..=0);
        let count = if (index + round as usize) % 2 == 0 { read_on(page, round) } else { read_once(page, round) };
        count.fetch_add(1, Ordering::Relaxed);
        DONE.fetch_add(1, Ordering::AcqRel);
        wake(0..=0);
    }
}

/// Reads the page repeatedly, until the result is clear.
fn read_on(page: u64, round: u32) -> &'static AtomicU64 {
    loop {
        let is_reused = REUSED.load(Ordering::Acquire) == round;
        match probe_read::read(page) {
            Some(word) if word != other_owners_word(round) && !is_reused => core::hint::spin_loop(),
            read => return judge(read, round),
        }
    }
}

/// Reads the page once, when the frame has another owner.
fn read_once(page: u64, round: u32) -> &'static AtomicU64 {
    wait_until(|| REUSED.load(Ordering::Acquire) == round);
    judge(probe_read::read(page), round)
}

fn judge(read: Option<u64>, round: u32) -> &'static AtomicU64 {
    match read {
        None => &FAULTS,
        Some(word) if word == other_owners_word(round) => &USED_AFTER_FREE,
        Some(_) => &STALE,
    }
}

/// Halts until the condition is true. The CPU that makes it true wakes this one.
fn wait_until(is_so: impl Fn() -> bool) {
    interrupts::disable();
    while !is_so() {
        // An interrupt between the check and the halt stays pending.
        interrupts::enable_and_hlt();
        interrupts::disable();
    }
    interrupts::enable();
}

fn wake(indices: core::ops::RangeInclusive<u32>) {
    for index in indices {
        interrupts::without_interrupts(|| apic::interrupt(cpu::apic_id_of(index), trap::RESCHEDULE));
    }
}
