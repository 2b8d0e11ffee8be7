//! The scheduler's queues: who runs next, and who wakes when.
//!
//! Threads are small numbers here, slots of the kernel's table. Both queues have a fixed size, that of the table: a
//! thread is at most once in either.

/// First in, first out.
#[derive(Clone, Debug)]
pub struct RunQueue<const N: usize> {
    slots: [u16; N],
    head: usize,
    length: usize,
}

impl<const N: usize> RunQueue<N> {
    /// An empty queue.
    pub const fn new() -> Self {
        RunQueue { slots: [0; N], head: 0, length: 0 }
    }

    /// Appends a thread. False if there is no room, which means that one is in it twice.
    pub fn push(&mut self, thread: u16) -> bool {
        if self.length == N {
            return false;
        }
        self.slots[(self.head + self.length) % N] = thread;
        self.length += 1;
        true
    }

    /// Whether there is a thread that may run here.
    pub fn any(&self, may_run: impl Fn(u16) -> bool) -> bool {
        (0..self.length).any(|i| may_run(self.slots[(self.head + i) % N]))
    }

    /// Takes the first thread that may run here. The others keep their order. Linear in the queue's length.
    pub fn pop(&mut self, may_run: impl Fn(u16) -> bool) -> Option<u16> {
        let place = (0..self.length).find(|&i| may_run(self.slots[(self.head + i) % N]))?;
        let thread = self.slots[(self.head + place) % N];
        for i in (0..place).rev() {
            self.slots[(self.head + i + 1) % N] = self.slots[(self.head + i) % N];
        }
        self.head = (self.head + 1) % N;
        self.length -= 1;
        Some(thread)
    }
}

impl<const N: usize> Default for RunQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Threads that sleep until an instant, the earliest first; of two with one instant, the one that slept first.
#[derive(Clone, Debug)]
pub struct SleepQueue<const N: usize> {
    sleepers: [(u64, u16); N],
    length: usize,
}

impl<const N: usize> SleepQueue<N> {
    /// An empty queue.
    pub const fn new() -> Self {
        SleepQueue { sleepers: [(0, 0); N], length: 0 }
    }

    /// Adds a thread that is to wake at `instant`. False if there is no room.
    pub fn push(&mut self, instant: u64, thread: u16) -> bool {
        if self.length == N {
            return false;
        }
        let mut at = self.length;
        while at > 0 && self.sleepers[at - 1].0 > instant {
            self.sleepers[at] = self.sleepers[at - 1];
            at -= 1;
        }
        self.sleepers[at] = (instant, thread);
        self.length += 1;
        true
    }

    /// Takes a thread whose instant has come.
    pub fn pop_due(&mut self, now: u64) -> Option<u16> {
        if self.next()? > now {
            return None;
        }
        let thread = self.sleepers[0].1;
        self.sleepers.copy_within(1..self.length, 0);
        self.length -= 1;
        Some(thread)
    }

    /// Takes a thread that is not to wait for its instant. Whether it was in it.
    pub fn remove(&mut self, thread: u16) -> bool {
        let Some(place) = self.sleepers[..self.length].iter().position(|&(_, sleeper)| sleeper == thread) else {
            return false;
        };
        self.sleepers.copy_within(place + 1..self.length, place);
        self.length -= 1;
        true
    }

    /// When the first sleeper is to wake.
    pub fn next(&self) -> Option<u64> {
        (self.length > 0).then(|| self.sleepers[0].0)
    }
}

impl<const N: usize> Default for SleepQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn who_may_not_run_here_keeps_its_place() {
        let mut queue = RunQueue::<4>::new();
        assert!([7, 8, 9, 10].iter().all(|&thread| queue.push(thread)));
        assert!(!queue.push(11));
        assert_eq!(queue.pop(|thread| thread != 7 && thread != 8), Some(9));
        assert!(queue.push(11));
        let rest: Vec<u16> = core::iter::from_fn(|| queue.pop(|_| true)).collect();
        assert_eq!(rest, [7, 8, 10, 11]);
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_instants() {
        let mut queue = SleepQueue::<4>::new();
        assert!([(30, 1), (10, 2), (30, 3), (20, 4)].iter().all(|&(at, thread)| queue.push(at, thread)));
        assert!(!queue.push(5, 5));
        assert_eq!(queue.next(), Some(10));
        assert_eq!(queue.pop_due(9), None);
        let woken: Vec<u16> = core::iter::from_fn(|| queue.pop_due(30)).collect();
        assert_eq!(woken, [2, 4, 1, 3]);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn who_is_woken_early_is_not_woken_again() {
        let mut queue = SleepQueue::<4>::new();
        assert!([(30, 1), (10, 2), (30, 3), (20, 4)].iter().all(|&(at, thread)| queue.push(at, thread)));
        assert!(queue.remove(4) && !queue.remove(4) && !queue.remove(9));
        let woken: Vec<u16> = core::iter::from_fn(|| queue.pop_due(30)).collect();
        assert_eq!(woken, [2, 1, 3]);
        assert!(!queue.remove(1));
        assert!(queue.push(5, 1) && queue.remove(1) && queue.next().is_none());
    }

    proptest::proptest! {
        #[test]
        fn as_a_deque_would(steps in proptest::collection::vec((0u8..3, 0u16..40), 1..300)) {
            let (mut queue, mut model) = (RunQueue::<16>::new(), VecDeque::new());
            for (what, thread) in steps {
                if what == 0 {
                    let odd = model.iter().position(|&t| t % 2 == thread % 2);
                    proptest::prop_assert_eq!(queue.any(|t| t % 2 == thread % 2), odd.is_some());
                    proptest::prop_assert_eq!(queue.pop(|t| t % 2 == thread % 2), odd.and_then(|i| model.remove(i)));
                } else if model.len() < 16 {
                    proptest::prop_assert!(queue.push(thread));
                    model.push_back(thread);
                }
            }
            proptest::prop_assert!((0..40).all(|thread| queue.any(|slot| slot == thread) == model.contains(&thread)));
            let rest: Vec<u16> = core::iter::from_fn(|| queue.pop(|_| true)).collect();
            proptest::prop_assert_eq!(rest, Vec::from(model));
        }
    }
}
