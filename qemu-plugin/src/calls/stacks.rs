//! All shadow stacks that no vCPU is on, and how a vCPU comes to another one.
//!
//! A stack is known by where its stack pointer is: windows of 16 KiB, the size of Linux's and below that of most. A
//! call whose stack pointer moves a little down into a window that nothing has used goes on with the same stack, so
//! that larger ones, and recursion without end, stay one.
//!
//! **A stack is owned by one vCPU at a time, whatever the guest does.** A vCPU owns the [`Stack`] that it is on as a value, so no
//! other vCPU can reach it. When its stack pointer comes to another window, it hands its stack over to [`Stacks`] and takes the
//! other one from there, under a lock. So a thread that a kernel moves to another CPU keeps its calls: the first CPU has left the
//! thread's window by then. If another vCPU still has the stack of the window, this vCPU gets a further stack for that window: guests
//! whose stacks are smaller than a window run so. Once several stacks of a window are free, the one whose frames fit the
//! stack pointer best is taken.
//!
//! **Everything is bounded**: windows ([`WINDOWS_MAX`]), stacks ([`STACKS_MAX`]) and frames. What there is no room for is on a stack of
//! its vCPU for the rest, and counted.
//!
//! Memory is allocated here only for what is new: a stack, a further stack of a window, and twice the frames of a stack that has
//! become deeper than ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::stack::{Open, Stack};

/// Addresses with the same bits above these are of one window.
pub const WINDOW_BITS: u32 = 14;
/// A call may reach this far below the last one and still be on the same stack.
const STEP: u64 = 4096;
/// Windows that are known: three quarters of a gigabyte of stacks.
pub const WINDOWS_MAX: usize = 3 << 14;
/// Stacks: more are more threads than a boot starts.
pub const STACKS_MAX: usize = 1 << 14;
/// vCPUs, each with a stack for what there is no room for.
pub const VCPUS: usize = 1 << 10;
/// Frames that a stack has room for at first.
const FRAMES_MIN: usize = 16;
/// A stack that nothing runs on keeps room for this many frames, however few it has.
const FRAMES_KEPT: usize = 256;

/// All stacks that no vCPU is on.
pub struct Stacks {
    /// The number of frames for which no stack has room yet.
    room: AtomicUsize,
    free: Mutex<Free>,
}

struct Free {
    /// The stacks of each window.
    windows: HashMap<u64, Window>,
    /// By number; none where a vCPU is on it. Number 0 is no stack, those up to the number of vCPUs are for the rest.
    stacks: Vec<Option<Stack>>,
    /// Numbers up to here are for the rest.
    rests: u32,
}

struct Window {
    first: u32,
    /// Stacks that were made because other vCPUs had those before.
    others: Vec<u32>,
}

impl Window {
    fn all(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

impl Stacks {
    /// Room for `frames` calls under way at once, on any number of stacks, and for this many vCPUs.
    pub fn new(frames: usize, vcpus: usize) -> Stacks {
        let rests = vcpus.clamp(1, VCPUS) as u32;
        let mut stacks = Vec::with_capacity(1 + VCPUS + STACKS_MAX);
        stacks.push(None);
        stacks.extend((1..=rests).map(|number| Some(Stack { number, ..Stack::default() })));
        let windows = HashMap::with_capacity(WINDOWS_MAX);
        Stacks { room: AtomicUsize::new(frames), free: Mutex::new(Free { windows, stacks, rests }) }
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Hands over a vCPU's stack, and gives it the one that `sp` is on. `last_sp` is where its stack pointer was before. False: there
    /// is no room for another stack, and it is on the vCPU's stack for the rest.
    pub fn come_to(&self, own: &mut Stack, sp: u64, last_sp: u64, vcpu: u16) -> bool {
        let mut free = self.lock();
        let found = free.find(own.number, sp, last_sp);
        let rest = 1 + u32::from(vcpu) % free.rests;
        self.exchange(&mut free, own, found.unwrap_or(rest));
        found.is_some()
    }

    /// Hands over a vCPU's stack, and gives it the one of this number. False: another vCPU is on that, and nothing was done.
    pub fn go_back_to(&self, own: &mut Stack, number: u32) -> bool {
        self.exchange(&mut self.lock(), own, number)
    }

    fn exchange(&self, free: &mut Free, own: &mut Stack, number: u32) -> bool {
        if own.number == number {
            return true;
        }
        let Some(other) = free.stacks.get_mut(number as usize).and_then(Option::take) else { return false };
        let mut left = std::mem::replace(own, other);
        self.shrink(&mut left);
        // Number 0, which a vCPU begins with, has no frame: nothing is pushed before a stack is found.
        if let Some(place) = free.stacks.get_mut(left.number as usize).filter(|_| left.number != 0) {
            *place = Some(left);
        }
        true
    }

    /// Puts a frame on top of a stack. False: there is no room, and nothing was done.
    #[inline(always)]
    pub fn push(&self, stack: &mut Stack, open: Open) -> bool {
        if stack.frames.len() >= stack.room && !self.grow(stack) {
            return false;
        }
        stack.frames.push(open);
        true
    }

    /// Gives a stack room for more frames. False: there is no more.
    #[inline(never)]
    fn grow(&self, stack: &mut Stack) -> bool {
        let wanted = stack.room.max(FRAMES_MIN);
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

    /// Takes room back from a stack that was much deeper once.
    fn shrink(&self, stack: &mut Stack) {
        let keeps = (stack.frames.len() * 2).max(FRAMES_KEPT);
        if let Some(less) = stack.room.checked_sub(keeps).filter(|&less| less > keeps) {
            stack.frames.shrink_to(keeps);
            stack.room = keeps;
            self.room.fetch_add(less, Relaxed);
        }
    }

    /// Calls `each` for every frame of every stack that no vCPU is on, and of this one, in the order of the stacks' numbers.
    pub fn for_each_open(&self, own: &Stack, mut each: impl FnMut(&Open)) {
        let free = self.lock();
        for (number, stack) in (0..).zip(&free.stacks) {
            let stack = if number == own.number { Some(own) } else { stack.as_ref() };
            stack.into_iter().flat_map(Stack::innermost_first).for_each(&mut each);
        }
    }

    /// The number of windows, of stacks, and of frames for which stacks that no vCPU is on have room.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn sizes(&self) -> [usize; 3] {
        let free = self.lock();
        let frames = free.stacks.iter().flatten().map(|stack| stack.room).sum();
        [free.windows.len(), free.stacks.len(), frames]
    }
}

impl Free {
    /// The number of the stack that `sp` is on, for a vCPU that is on stack `own`; none if there is no room for another.
    fn find(&mut self, own: u32, sp: u64, last_sp: u64) -> Option<u32> {
        let window = sp >> WINDOW_BITS;
        let Some(known) = self.windows.get(&window) else { return self.find_new(window, own, sp, last_sp) };
        if known.all().any(|number| number == own) {
            return Some(own);
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
        // Each is another vCPU's at this moment. A vCPU has one stack, so a window gets at most one for each.
        let others = known.others.len() as u64;
        let number = self.new_stack((window << WINDOW_BITS) + STEP + others)?;
        if let Some(known) = self.windows.get_mut(&window) {
            known.others.push(number);
        }
        Some(number)
    }

    /// The same in a window that nothing has used.
    fn find_new(&mut self, window: u64, own: u32, sp: u64, last_sp: u64) -> Option<u32> {
        if self.windows.len() >= WINDOWS_MAX {
            return None;
        }
        let goes_on = last_sp > sp && last_sp - sp <= STEP && own > self.rests;
        let first = if goes_on { own } else { self.new_stack(window << WINDOW_BITS)? };
        self.windows.insert(window, Window { first, others: Vec::new() });
        Some(first)
    }

    fn new_stack(&mut self, place: u64) -> Option<u32> {
        let number = self.stacks.len() as u32;
        if number - self.rests >= STACKS_MAX as u32 {
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

    fn open(sp: u64) -> Open {
        Open { sp, back: 1, ..Open::new(3, Entered::Tail, 2) }
    }

    /// Where each of several vCPUs is.
    struct Guest {
        stacks: Stacks,
        own: Vec<Stack>,
    }

    impl Guest {
        fn new(vcpus: u16) -> Guest {
            let own = (0..vcpus).map(|_| Stack::default()).collect();
            Guest { stacks: Stacks::new(1 << 10, usize::from(vcpus)), own }
        }

        fn comes_to(&mut self, vcpu: u16, sp: u64, last_sp: u64) -> Option<u32> {
            let own = &mut self.own[usize::from(vcpu)];
            self.stacks.come_to(own, sp, last_sp, vcpu).then_some(own.number)
        }

        fn calls(&mut self, vcpu: u16, sp: u64) -> u32 {
            let number = self.comes_to(vcpu, sp, 0).expect("room");
            assert!(self.stacks.push(&mut self.own[usize::from(vcpu)], open(sp)));
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
    fn full_it_finds_what_it_knows_and_each_vcpu_has_a_stack_for_the_rest() {
        let mut guest = Guest::new(2);
        let found = (0..2 * STACKS_MAX as u64).filter(|i| guest.comes_to(0, i << 20, 0).is_some()).count();
        assert_eq!(found, STACKS_MAX - 1);
        assert_eq!(guest.comes_to(0, 5 << 20, 0), guest.comes_to(0, (5 << 20) + 8, 0), "it is known");
        let far = (3 * STACKS_MAX as u64) << 20;
        let rests = [0, 1].map(|vcpu| {
            assert_eq!(guest.comes_to(vcpu, far, 0), None);
            guest.own[usize::from(vcpu)].number
        });
        assert_eq!(rests, [1, 2]);
        assert_eq!(guest.comes_to(1, far - 8, far), None, "a stack for the rest does not go on");
        let [windows, stacks, _] = guest.stacks.sizes();
        assert!(windows <= WINDOWS_MAX && stacks <= 1 + 2 + STACKS_MAX, "{windows} {stacks}");
    }

    #[test]
    fn one_stack_without_end_has_a_limit_of_windows() {
        let mut guest = Guest::new(1);
        let top = 1 << 40;
        let found = (0..16 * WINDOWS_MAX as u64).map(|i| guest.comes_to(0, top - i * STEP, top + STEP - i * STEP));
        assert!(found.filter(Option::is_none).count() > 0);
        assert_eq!(guest.stacks.sizes()[0], WINDOWS_MAX);
    }

    #[test]
    fn frames_come_back_as_they_were_put_and_their_number_is_bounded() {
        let mut guest = Guest::new(1);
        for i in 0..2000 {
            guest.comes_to(0, 0x8000, 0);
            assert_eq!(guest.stacks.push(&mut guest.own[0], open(i)), i < 1 << 10);
        }
        assert!(guest.comes_to(0, 0x1_8000, 0).is_some() && !guest.stacks.push(&mut guest.own[0], open(1)));
        assert!(guest.comes_to(0, 0x8000, 0).is_some());
        for i in (0..1 << 10).rev() {
            assert_eq!(guest.own[0].pop().map(|open| open.sp), Some(i));
        }
        assert!(guest.own[0].pop().is_none());
        assert!(guest.comes_to(0, 0x1_8000, 0).is_some());
        assert!(guest.stacks.push(&mut guest.own[0], open(1)), "the deep stack has given room back");
    }

    /// As xv6 has them: stacks of 4 KiB side by side.
    #[test]
    fn two_vcpus_in_one_window_have_a_stack_each_and_a_thread_takes_its_own_along() {
        let mut guest = Guest::new(3);
        let [upper, lower] = [0x2_3f00, 0x2_1f00];
        let (first, second) = (guest.calls(0, upper), guest.calls(1, lower));
        assert_ne!(first, second);
        assert_ne!(guest.own[0].place, guest.own[1].place);
        assert_eq!(guest.own[0].place >> WINDOW_BITS, guest.own[1].place >> WINDOW_BITS);
        // Both leave, and then each comes to the other's thread.
        guest.calls(0, 0x10_0000);
        guest.calls(1, 0x20_0000);
        assert_eq!(guest.comes_to(0, lower, 0), Some(second));
        assert_eq!(guest.comes_to(1, upper, 0), Some(first));
        // All are in it at the very same stack pointer.
        assert!(guest.comes_to(2, upper, 0).is_some_and(|third| third != first && third != second));
        guest.calls(2, 0x30_0000);
        assert_eq!(guest.stacks.sizes()[1], 1 + 3 + 6);
        assert!(!guest.stacks.go_back_to(&mut guest.own[2], first), "another vCPU is on it");
        assert!(!guest.stacks.go_back_to(&mut guest.own[2], u32::MAX), "there is no such stack");
    }
}
