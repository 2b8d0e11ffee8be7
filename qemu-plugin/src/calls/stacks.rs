//! All shadow stacks that no vCPU is on, and the changes of a vCPU from one stack to another.
//!
//! The stack pointer identifies a stack, by windows of 16 KiB: the size of Linux's stacks, and less than that of most.
//! A call may move the stack pointer a little down into a new window. It then goes on with the same stack, so that
//! larger stacks and endless recursion stay one stack.
//!
//! **One vCPU at a time owns a stack, for any guest.** A vCPU owns its current [`Stack`] as a value, so no other vCPU
//! can reach it. If its stack pointer moves to another window, it exchanges its stack for the other one in [`Stacks`],
//! under a lock. So a thread that a kernel moves to another CPU keeps its calls: by then the first CPU has left the
//! thread's window. If another vCPU still owns the window's stack, this vCPU gets a further stack for that window. This
//! happens in guests whose stacks are smaller than a window. If several stacks of a window are free, the one whose
//! frames fit the stack pointer best is taken.
//!
//! **Everything is bounded**: windows ([`MAX_WINDOWS`]), stacks ([`MAX_STACKS`]) and frames. Calls beyond these limits
//! go to the vCPU's overflow stack, and are counted.
//!
//! Only new things allocate memory here: a stack, a further stack of a window, and doubled frames of a stack that
//! became deeper than ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::stack::{Frame, Stack};

/// Addresses with the same bits above these are in one window.
pub const WINDOW_BITS: u32 = 14;
/// A call within this distance below the last one may still be on the same stack.
const MAX_STEP_BYTES: u64 = 4096;
/// The largest number of windows: three quarters of a gigabyte of stacks.
pub const MAX_WINDOWS: usize = 3 << 14;
/// The largest number of stacks: a boot starts fewer threads.
pub const MAX_STACKS: usize = 1 << 14;
/// The largest number of vCPUs, each with an overflow stack.
pub const MAX_VCPUS: usize = 1 << 10;
/// The first capacity of a stack, in frames.
const MIN_FRAMES: usize = 16;
/// The capacity that an unused stack keeps in any case, in frames.
const MIN_KEPT_FRAMES: usize = 256;

/// All stacks that no vCPU is on.
pub struct Stacks {
    /// The number of frames that no stack has reserved yet.
    room: AtomicUsize,
    free: Mutex<Free>,
}

struct Free {
    /// The stacks of each window.
    windows: HashMap<u64, Window>,
    /// By number; `None` while a vCPU is on it. Number 0 is no stack. The next numbers, one for each vCPU, are overflow
    /// stacks.
    stacks: Vec<Option<Stack>>,
    /// The last number of an overflow stack.
    overflow_stacks: u32,
}

struct Window {
    first: u32,
    /// Stacks made because other vCPUs were on those before.
    others: Vec<u32>,
}

impl Window {
    fn all(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

impl Stacks {
    /// Makes room for `frames` open calls, on any number of stacks, and for this number of vCPUs.
    pub fn new(frames: usize, vcpus: usize) -> Stacks {
        let overflow_stacks = vcpus.clamp(1, MAX_VCPUS) as u32;
        let mut stacks = Vec::with_capacity(1 + MAX_VCPUS + MAX_STACKS);
        stacks.push(None);
        stacks.extend((1..=overflow_stacks).map(|number| Some(Stack { number, ..Stack::default() })));
        let windows = HashMap::with_capacity(MAX_WINDOWS);
        Stacks { room: AtomicUsize::new(frames), free: Mutex::new(Free { windows, stacks, overflow_stacks }) }
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Exchanges a vCPU's stack for the one that `sp` is on. `last_sp` is its stack pointer before. Returns false if
    /// there is no room for another stack; the vCPU is then on its overflow stack.
    pub fn come_to(&self, current: &mut Stack, sp: u64, last_sp: u64, vcpu: u16) -> bool {
        let mut free = self.lock();
        let found = free.find(current.number, sp, last_sp);
        let overflow = 1 + u32::from(vcpu) % free.overflow_stacks;
        self.exchange(&mut free, current, found.unwrap_or(overflow));
        found.is_some()
    }

    /// Exchanges a vCPU's stack for the one of this number. Returns false, and does nothing, if another vCPU is on that
    /// stack.
    pub fn go_back_to(&self, current: &mut Stack, number: u32) -> bool {
        self.exchange(&mut self.lock(), current, number)
    }

    fn exchange(&self, free: &mut Free, current: &mut Stack, number: u32) -> bool {
        if current.number == number {
            return true;
        }
        let Some(other) = free.stacks.get_mut(number as usize).and_then(Option::take) else { return false };
        let mut left = std::mem::replace(current, other);
        self.shrink(&mut left);
        // Number 0, with which a vCPU begins, has no frame: nothing is pushed before a stack is found.
        if let Some(place) = free.stacks.get_mut(left.number as usize).filter(|_| left.number != 0) {
            *place = Some(left);
        }
        true
    }

    /// Pushes a frame onto a stack. Returns false, and does nothing, if there is no room.
    #[inline(always)]
    pub fn push(&self, stack: &mut Stack, frame: Frame) -> bool {
        if stack.frames.len() >= stack.room && !self.grow(stack) {
            return false;
        }
        stack.frames.push(frame);
        true
    }

    /// Enlarges a stack's capacity. Returns false if there is no room.
    #[inline(never)]
    fn grow(&self, stack: &mut Stack) -> bool {
        let wanted = stack.room.max(MIN_FRAMES);
        let take = |room: usize| room.checked_sub(wanted.min(room)).filter(|_| room > 0);
        let Ok(before) = self.room.fetch_update(Relaxed, Relaxed, take) else { return false };
        let more = wanted.min(before);
        if stack.frames.try_reserve_exact(more).is_err() {
            self.room.fetch_add(more, Relaxed);
            return false;
        }
        stack.room += more;
        true
    }

    /// Reduces the capacity of a stack that was once much deeper.
    fn shrink(&self, stack: &mut Stack) {
        let keeps = (stack.frames.len() * 2).max(MIN_KEPT_FRAMES);
        if let Some(less) = stack.room.checked_sub(keeps).filter(|&less| less > keeps) {
            stack.frames.shrink_to(keeps);
            stack.room = keeps;
            self.room.fetch_add(less, Relaxed);
        }
    }

    /// Calls `each` for every frame of this stack and of every stack that no vCPU is on, in the order of the stacks'
    /// numbers.
    pub fn for_each_open(&self, current: &Stack, mut each: impl FnMut(&Frame)) {
        let free = self.lock();
        for (number, stack) in (0..).zip(&free.stacks) {
            let stack = if number == current.number { Some(current) } else { stack.as_ref() };
            stack.into_iter().flat_map(Stack::innermost_first).for_each(&mut each);
        }
    }

    /// The number of windows, the number of stacks, and the capacity of all stacks that no vCPU is on.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn sizes(&self) -> [usize; 3] {
        let free = self.lock();
        let frames = free.stacks.iter().flatten().map(|stack| stack.room).sum();
        [free.windows.len(), free.stacks.len(), frames]
    }
}

impl Free {
    /// The number of the stack that `sp` is on, for a vCPU on the stack `current`. Returns `None` if there is no room
    /// for another stack.
    fn find(&mut self, current: u32, sp: u64, last_sp: u64) -> Option<u32> {
        let window = sp >> WINDOW_BITS;
        let Some(known) = self.windows.get(&window) else { return self.find_new(window, current, sp, last_sp) };
        if known.all().any(|number| number == current) {
            return Some(current);
        }
        let is_free = |number: &u32| self.stacks.get(*number as usize).is_some_and(Option::is_some);
        let fit = |number: &u32| self.stacks[*number as usize].as_ref().map(|stack| stack.fit(sp));
        let found = match known.others.is_empty() {
            true => Some(known.first).filter(is_free),
            false => known.all().filter(is_free).min_by_key(fit),
        };
        if found.is_some() {
            return found;
        }
        // Other vCPUs are on all of them at this moment. A vCPU has one stack, so a window gets at most one for each
        // vCPU.
        let others = known.others.len() as u64;
        let number = self.new_stack((window << WINDOW_BITS) + MAX_STEP_BYTES + others)?;
        if let Some(known) = self.windows.get_mut(&window) {
            known.others.push(number);
        }
        Some(number)
    }

    /// Like [`Free::find`], for a window that nothing has used.
    fn find_new(&mut self, window: u64, current: u32, sp: u64, last_sp: u64) -> Option<u32> {
        if self.windows.len() >= MAX_WINDOWS {
            return None;
        }
        let goes_on = last_sp > sp && last_sp - sp <= MAX_STEP_BYTES && current > self.overflow_stacks;
        let first = if goes_on { current } else { self.new_stack(window << WINDOW_BITS)? };
        self.windows.insert(window, Window { first, others: Vec::new() });
        Some(first)
    }

    fn new_stack(&mut self, place: u64) -> Option<u32> {
        let number = self.stacks.len() as u32;
        if number - self.overflow_stacks >= MAX_STACKS as u32 {
            return None;
        }
        self.stacks.push(Some(Stack { number, place, ..Stack::default() }));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack::Entered;
    use super::*;

    fn frame(sp: u64) -> Frame {
        Frame { sp, back: 1, ..Frame::new(3, Entered::Tail, 2) }
    }

    /// A guest, with the current stack of each vCPU.
    struct Guest {
        stacks: Stacks,
        current: Vec<Stack>,
    }

    impl Guest {
        fn new(vcpus: u16) -> Guest {
            let current = (0..vcpus).map(|_| Stack::default()).collect();
            Guest { stacks: Stacks::new(1 << 10, usize::from(vcpus)), current }
        }

        fn comes_to(&mut self, vcpu: u16, sp: u64, last_sp: u64) -> Option<u32> {
            let current = &mut self.current[usize::from(vcpu)];
            self.stacks.come_to(current, sp, last_sp, vcpu).then_some(current.number)
        }

        fn calls(&mut self, vcpu: u16, sp: u64) -> u32 {
            let number = self.comes_to(vcpu, sp, 0).expect("room");
            assert!(self.stacks.push(&mut self.current[usize::from(vcpu)], frame(sp)));
            number
        }
    }

    #[test]
    fn a_stack_goes_on_into_the_window_below_but_not_into_another_stack() {
        let mut guest = Guest::new(1);
        let first = guest.comes_to(0, 0x1_0010, 0);
        assert_eq!(guest.comes_to(0, 0x1_3ff8, 0x1_0010), first, "the same window");
        assert_eq!(guest.comes_to(0, 0xfff8, 0x1_0010), first, "a little further down");
        let second = guest.comes_to(0, 0x8008, 0xfff8);
        assert_ne!(second, first, "far down");
        assert_eq!(guest.comes_to(0, 0x1_0000, 0x8008), first, "back");
    }

    #[test]
    fn full_stacks_find_known_ones_and_each_vcpu_has_an_overflow_stack() {
        let mut guest = Guest::new(2);
        let found = (0..2 * MAX_STACKS as u64).filter(|i| guest.comes_to(0, i << 20, 0).is_some()).count();
        assert_eq!(found, MAX_STACKS - 1);
        assert_eq!(guest.comes_to(0, 5 << 20, 0), guest.comes_to(0, (5 << 20) + 8, 0), "it is known");
        let far = (3 * MAX_STACKS as u64) << 20;
        let overflow_stacks = [0, 1].map(|vcpu| {
            assert_eq!(guest.comes_to(vcpu, far, 0), None);
            guest.current[usize::from(vcpu)].number
        });
        assert_eq!(overflow_stacks, [1, 2]);
        assert_eq!(guest.comes_to(1, far - 8, far), None, "a stack for the rest does not go on");
        let [windows, stacks, _] = guest.stacks.sizes();
        assert!(windows <= MAX_WINDOWS && stacks <= 1 + 2 + MAX_STACKS, "{windows} {stacks}");
    }

    #[test]
    fn one_stack_without_end_has_a_limit_of_windows() {
        let mut guest = Guest::new(1);
        let top = 1 << 40;
        let found = (0..16 * MAX_WINDOWS as u64)
            .map(|i| guest.comes_to(0, top - i * MAX_STEP_BYTES, top + MAX_STEP_BYTES - i * MAX_STEP_BYTES));
        assert!(found.filter(Option::is_none).count() > 0);
        assert_eq!(guest.stacks.sizes()[0], MAX_WINDOWS);
    }

    #[test]
    fn frames_come_back_as_they_were_put_and_their_number_is_bounded() {
        let mut guest = Guest::new(1);
        for i in 0..2000 {
            guest.comes_to(0, 0x8000, 0);
            assert_eq!(guest.stacks.push(&mut guest.current[0], frame(i)), i < 1 << 10);
        }
        assert!(guest.comes_to(0, 0x1_8000, 0).is_some() && !guest.stacks.push(&mut guest.current[0], frame(1)));
        assert!(guest.comes_to(0, 0x8000, 0).is_some());
        for i in (0..1 << 10).rev() {
            assert_eq!(guest.current[0].pop().map(|frame| frame.sp), Some(i));
        }
        assert!(guest.current[0].pop().is_none());
        assert!(guest.comes_to(0, 0x1_8000, 0).is_some());
        assert!(guest.stacks.push(&mut guest.current[0], frame(1)), "the deep stack has given room back");
    }

    /// Stacks of 4 KiB side by side, as in xv6.
    #[test]
    fn two_vcpus_in_one_window_have_a_stack_each_and_a_thread_takes_its_own_along() {
        let mut guest = Guest::new(3);
        let [upper, lower] = [0x2_3f00, 0x2_1f00];
        let (first, second) = (guest.calls(0, upper), guest.calls(1, lower));
        assert_ne!(first, second);
        assert_ne!(guest.current[0].place, guest.current[1].place);
        assert_eq!(guest.current[0].place >> WINDOW_BITS, guest.current[1].place >> WINDOW_BITS);
        // Both vCPUs leave, and then each takes over the other's thread.
        guest.calls(0, 0x10_0000);
        guest.calls(1, 0x20_0000);
        assert_eq!(guest.comes_to(0, lower, 0), Some(second));
        assert_eq!(guest.comes_to(1, upper, 0), Some(first));
        // All three are on it at the same stack pointer.
        assert!(guest.comes_to(2, upper, 0).is_some_and(|third| third != first && third != second));
        guest.calls(2, 0x30_0000);
        assert_eq!(guest.stacks.sizes()[1], 1 + 3 + 6);
        assert!(!guest.stacks.go_back_to(&mut guest.current[2], first), "another vCPU is on it");
        assert!(!guest.stacks.go_back_to(&mut guest.current[2], u32::MAX), "there is no such stack");
    }
}
