//! Shadow stacks: for each stack of the guest, the calls that have not returned.
//!
//! A stack is known by where its stack pointer is: windows of 16 KiB, the size of Linux's and below that of most. A
//! call whose stack pointer moves a little down into a window that nobody has used goes on with the same stack, so
//! that larger ones, and recursion without end, stay one. Frames are cells of one pool, linked from the innermost
//! outwards; each vCPU has its own list of free cells.
//!
//! A stack is used by one vCPU at a time, as in the guest, so its frames are plain loads and stores. Only the first use of a
//! window takes a lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use zerocopy::FromZeros;

use super::memory::Zeroed;

/// Addresses with the same bits above these are of one stack.
pub const WINDOW_BITS: u32 = 14;
/// A call may reach so far below the last one and still be on the same stack.
const STEP: u64 = 4096;
/// Windows: 2^16, a gigabyte of stacks.
const SLOTS: usize = 1 << 16;
/// At so many the table of windows is full, and whatever else a vCPU comes to is one stack.
const FULL: usize = SLOTS / 4 * 3;

/// What a frame is. The numbers are kept with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// By a call: it returns.
    Call,
    /// By a jump: it returns with the frame below it.
    Tail,
    /// By an interrupt or a system call: it ends with the instruction that returns from those.
    Interrupt,
}

/// A call that has not returned, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Where the return address lies; of an interrupt, an address just above what its handler has pushed.
    pub sp: u64,
    /// The return address; of an interrupt, the block (as an address in this process) that it came after.
    pub back: u64,
    /// Clock when it began.
    pub since: u64,
    /// Its node.
    pub node: u32,
    /// How it began.
    pub entered: Entered,
    /// Whether a record says that it is under way.
    pub announced: bool,
    /// Of an interrupt, what it came to.
    pub from: From,
}

/// The stack that an interrupt came to, which need not be the one that its handler runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct From {
    /// The stack; 0: not known.
    pub stack: u32,
    /// The stack pointer when it was last seen there.
    pub sp: u64,
    /// Whether it was that of the moment.
    pub exact: bool,
}

/// A frame's cell.
#[derive(Default, FromZeros)]
pub struct Frame {
    sp: AtomicU64,
    back: AtomicU64,
    since: AtomicU64,
    from_sp: AtomicU64,
    from_stack: AtomicU32,
    node: AtomicU32,
    below: AtomicU32,
    flags: AtomicU32,
}

const ANNOUNCED: u32 = 4;
const EXACT: u32 = 8;

impl Frame {
    fn put(&self, open: &Open, below: u32) {
        self.sp.store(open.sp, Relaxed);
        self.back.store(open.back, Relaxed);
        self.since.store(open.since, Relaxed);
        if open.entered == Entered::Interrupt {
            self.from_sp.store(open.from.sp, Relaxed);
            self.from_stack.store(open.from.stack, Relaxed);
        }
        self.node.store(open.node, Relaxed);
        self.below.store(below, Relaxed);
        let flags = u32::from(open.announced) * ANNOUNCED | u32::from(open.from.exact) * EXACT;
        self.flags.store(open.entered as u32 | flags, Relaxed);
    }

    /// Where its return address lies.
    #[inline(always)]
    pub fn sp(&self) -> u64 {
        self.sp.load(Relaxed)
    }

    /// Its node.
    #[inline(always)]
    pub fn node(&self) -> u32 {
        self.node.load(Relaxed)
    }

    /// All of it.
    #[inline(always)]
    pub fn get(&self) -> Open {
        let flags = self.flags.load(Relaxed);
        let entered = match flags & 3 {
            1 => Entered::Tail,
            2 => Entered::Interrupt,
            _ => Entered::Call,
        };
        let from = match entered {
            Entered::Interrupt => {
                From { stack: self.from_stack.load(Relaxed), sp: self.from_sp.load(Relaxed), exact: flags & EXACT != 0 }
            }
            _ => From::default(),
        };
        Open {
            sp: self.sp(),
            back: self.back.load(Relaxed),
            since: self.since.load(Relaxed),
            node: self.node(),
            entered,
            announced: flags & ANNOUNCED != 0,
            from,
        }
    }

    /// The next one outwards; 0: none.
    pub fn below(&self) -> u32 {
        self.below.load(Relaxed)
    }

    /// It turned out to be another function's.
    pub fn set_node(&self, node: u32) {
        self.node.store(node, Relaxed);
    }

    /// The output knows of it.
    pub fn announce(&self) {
        self.flags.store(self.flags.load(Relaxed) | ANNOUNCED, Relaxed);
    }
}

/// The cells that a vCPU may take.
#[derive(Default)]
pub struct Free {
    first: u32,
}

/// All stacks. Stack 0 and frame 0 stand for none. What there is no room for is on [one of each vCPU's own](Stacks::rest).
pub struct Stacks {
    /// Window + 1 of each slot.
    windows: Zeroed<AtomicU64>,
    /// The stack of each slot.
    stack_of: Zeroed<AtomicU32>,
    /// The innermost frame of each stack.
    tops: Zeroed<AtomicU32>,
    /// The node at the bottom of each stack.
    bottoms: Zeroed<AtomicU32>,
    frames: Zeroed<Frame>,
    used_frames: AtomicU32,
    new: Mutex<New>,
}

#[derive(Default)]
struct New {
    windows: usize,
    stacks: usize,
}

/// Stacks: more are more threads than a boot starts.
const STACKS: usize = 1 << 14;
/// vCPUs, each with a stack for what there is no room for.
pub const VCPUS: usize = 1 << 10;

impl Stacks {
    /// Room for `frames` calls under way at once.
    pub fn new(frames: usize) -> Stacks {
        Stacks {
            windows: Zeroed::new(SLOTS),
            stack_of: Zeroed::new(SLOTS),
            tops: Zeroed::new(STACKS + VCPUS),
            bottoms: Zeroed::new(STACKS + VCPUS),
            frames: Zeroed::new(frames),
            used_frames: AtomicU32::new(1),
            new: Mutex::default(),
        }
    }

    /// One frame.
    #[inline(always)]
    pub fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// The innermost frame of a stack; 0: none.
    #[inline(always)]
    pub fn top(&self, stack: u32) -> u32 {
        self.tops[stack as usize].load(Relaxed)
    }

    /// The node at a stack's bottom; 0: none yet.
    pub fn bottom(&self, stack: u32) -> u32 {
        self.bottoms[stack as usize].load(Relaxed)
    }

    /// Sets it.
    pub fn set_bottom(&self, stack: u32, node: u32) {
        self.bottoms[stack as usize].store(node, Relaxed);
    }

    /// The stack of a vCPU that all is on for which there is no room.
    pub fn rest(vcpu: u16) -> u32 {
        (STACKS + usize::from(vcpu) % VCPUS) as u32
    }

    /// The stack that `sp` is on; none if there is no room for another. `last` is where the stack pointer was before, and on
    /// which stack.
    pub fn find(&self, sp: u64, last: (u64, u32)) -> Option<u32> {
        let window = sp >> WINDOW_BITS;
        if let Ok(slot) = self.slot(window) {
            return Some(self.stack_of[slot].load(Relaxed));
        }
        let mut new = self.new.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Another vCPU may have been faster, or have taken the slot for another window.
        let slot = match self.slot(window) {
            Ok(slot) => return Some(self.stack_of[slot].load(Relaxed)),
            Err(slot) => slot,
        };
        if new.windows == FULL {
            return None;
        }
        let goes_on = last.0 > sp && last.0 - sp <= STEP && (1..STACKS as u32).contains(&last.1);
        let stack = match goes_on {
            true => last.1,
            false if new.stacks + 1 == STACKS => return None,
            false => {
                new.stacks += 1;
                new.stacks as u32
            }
        };
        new.windows += 1;
        self.stack_of[slot].store(stack, Relaxed);
        self.windows[slot].store(window + 1, Release);
        Some(stack)
    }

    /// The slot of a window, or a free one for it.
    fn slot(&self, window: u64) -> Result<usize, usize> {
        let mut slot = (window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SLOTS;
        loop {
            match self.windows[slot].load(std::sync::atomic::Ordering::Acquire) {
                0 => return Err(slot),
                w if w == window + 1 => return Ok(slot),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }

    /// Puts a call on top of a stack. False: there is no room, and nothing was done.
    #[inline(always)]
    pub fn push(&self, free: &mut Free, stack: u32, open: &Open) -> bool {
        let Some(cell) = self.take(free) else { return false };
        let top = &self.tops[stack as usize];
        self.frame(cell).put(open, top.load(Relaxed));
        top.store(cell, Relaxed);
        true
    }

    /// Takes the innermost call off a stack.
    #[inline(always)]
    pub fn pop(&self, free: &mut Free, stack: u32) -> Option<Open> {
        self.pop_if(free, stack, |_| true).map(|(open, _)| open)
    }

    /// The same if it was a call at `sp` that returns to `back`. Also returns what is innermost now.
    #[inline(always)]
    pub fn pop_call(&self, free: &mut Free, stack: u32, sp: u64, back: u64) -> Option<(Open, u32)> {
        self.pop_if(free, stack, |open| open.sp == sp && open.back == back && open.entered == Entered::Call)
    }

    #[inline(always)]
    fn pop_if(&self, free: &mut Free, stack: u32, is_it: impl Fn(&Open) -> bool) -> Option<(Open, u32)> {
        let first = &self.tops[stack as usize];
        let top = first.load(Relaxed);
        let frame = self.frame(top);
        let open = frame.get();
        if top == 0 || !is_it(&open) {
            return None;
        }
        let below = frame.below();
        first.store(below, Relaxed);
        frame.below.store(free.first, Relaxed);
        free.first = top;
        Some((open, below))
    }

    fn take(&self, free: &mut Free) -> Option<u32> {
        if free.first != 0 {
            let cell = free.first;
            free.first = self.frame(cell).below();
            return Some(cell);
        }
        let fresh = self.used_frames.fetch_add(1, Relaxed);
        if (fresh as usize) < self.frames.len() {
            return Some(fresh);
        }
        self.used_frames.fetch_sub(1, Relaxed);
        None
    }

    /// Every frame of every stack.
    pub fn all_open(&self) -> impl Iterator<Item = &Frame> {
        self.tops.iter().flat_map(|top| {
            let some = |frame: u32| (frame != 0).then(|| self.frame(frame));
            std::iter::successors(some(top.load(Relaxed)), move |frame| some(frame.below()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(sp: u64) -> Open {
        Open { sp, back: 1, since: 2, node: 3, entered: Entered::Tail, announced: false, from: From::default() }
    }

    #[test]
    fn a_stack_goes_on_into_the_window_below_but_not_into_another_stack() {
        let stacks = Stacks::new(8);
        let find = |sp, last| stacks.find(sp, last).expect("room");
        let first = find(0x1_0010, (0, 0));
        assert_eq!(find(0x1_3ff8, (0x1_0010, first)), first, "the same window");
        assert_eq!(find(0xfff8, (0x1_0010, first)), first, "a little further down");
        let second = find(0x8008, (0xfff8, first));
        assert_ne!(second, first, "far down");
        assert_eq!(find(0x1_0000, (0x8008, second)), first, "back");
    }

    #[test]
    fn full_it_finds_what_it_knows_and_each_vcpu_has_a_stack_for_the_rest() {
        let mut stacks = Stacks::new(8);
        let found = (0..STACKS as u64).filter(|i| stacks.find(i << 20, (0, 0)).is_some()).count();
        assert_eq!(found, STACKS - 1, "stack 0 is none");
        assert_eq!((stacks.find(0, (0, 0)), stacks.find(5 << 20, (0, 0))), (Some(1), Some(6)));
        let rest = Stacks::rest(3);
        assert_ne!(rest, Stacks::rest(4));
        assert_eq!(stacks.find((STACKS as u64) << 20, (0, rest)), None);
        assert_eq!(stacks.find(((5 << 20) & !0x3fff) - 8, (5 << 20, rest)), None, "what is no stack does not go on");
        stacks.new = Mutex::new(New { windows: FULL, stacks: 1 });
        assert_eq!(stacks.find((5 << 20) - 8, (5 << 20, 6)), None, "no room for its second window either");
    }

    #[test]
    fn frames_come_back_as_they_were_put() {
        let stacks = Stacks::new(3);
        let mut free = Free::default();
        assert!(stacks.push(&mut free, 1, &open(16)) && stacks.push(&mut free, 1, &open(8)));
        assert!(!stacks.push(&mut free, 1, &open(0)), "frame 0 is none, so there is room for two");
        stacks.frame(stacks.top(1)).announce();
        assert_eq!(stacks.all_open().count(), 2);
        assert_eq!(stacks.pop(&mut free, 1), Some(Open { announced: true, ..open(8) }));
        assert!(stacks.push(&mut free, 2, &open(24)), "a cell is used again");
        assert_eq!(stacks.pop(&mut free, 1), Some(open(16)));
        assert_eq!(stacks.pop(&mut free, 1), None);
        assert_eq!(stacks.pop(&mut free, 2), Some(open(24)));
    }
}
