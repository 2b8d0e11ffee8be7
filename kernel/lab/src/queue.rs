//! The scheduler's queues: the threads that can run and their CPUs, and the threads that sleep until an instant.
//!
//! Threads are small numbers here, the slots of the kernel's table. Both queues have the size of the table, because a thread
//! is at most once in each. No CPU idles for long while a thread waits that it may run: see `take` and `IdleCpus`.

/// A queue of runnable threads, first in, first out.
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

    /// Appends a thread. Returns false if there is no room, which means that a thread is queued twice.
    pub fn push(&mut self, thread: u16) -> bool {
        if self.length == N {
            return false;
        }
        self.slots[(self.head + self.length) % N] = thread;
        self.length += 1;
        true
    }

    /// True if a queued thread may run here.
    pub fn any(&self, may_run: impl Fn(u16) -> bool) -> bool {
        (0..self.length).any(|i| may_run(self.slots[(self.head + i) % N]))
    }

    /// Takes the first thread that may run here. The others keep their order. Takes time linear in the queue's length.
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

/// Takes the thread that the CPU `here` runs next. Also returns a CPU that must then be interrupted, if there is one.
///
/// Usually it is the first thread that may run here. But while another CPU is idle, a thread that only `here` may run goes
/// first, because the idle CPU can run an unbound thread. Otherwise a bound thread would wait behind an unbound one while a CPU
/// idles. `here` may have been interrupted for an unbound thread, which then needs another CPU.
pub fn take<const N: usize>(
    queue: &mut RunQueue<N>,
    idle: &mut IdleCpus,
    here: u32,
    bound_to: impl Fn(u16) -> Option<u32>,
) -> Option<(u16, Option<u32>)> {
    let is_bound = |slot| bound_to(slot) == Some(here);
    let bound_first = if idle.any_but(here) { queue.pop(is_bound) } else { None };
    let slot = bound_first.or_else(|| queue.pop(|slot| is_bound(slot) || bound_to(slot).is_none()))?;
    let leaves_unbound = is_bound(slot) && queue.any(|slot| bound_to(slot).is_none());
    Some((slot, if leaves_unbound { idle.call(here, None) } else { None }))
}

/// The CPUs that have no thread to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleCpus {
    /// A bit for each CPU that found no thread and has not looked again.
    halted: u32,
    /// A bit for each halted CPU that was interrupted since, to look again.
    called: u32,
}

impl IdleCpus {
    /// No CPU is idle.
    pub const NONE: IdleCpus = IdleCpus { halted: 0, called: 0 };

    /// Notes that a CPU looks for a thread.
    pub fn looks(&mut self, cpu: u32) {
        self.halted &= !(1 << cpu);
        self.called &= !(1 << cpu);
    }

    /// Notes that a CPU found no thread and halts.
    pub fn halts(&mut self, cpu: u32) {
        self.halted |= 1 << cpu;
    }

    /// Chooses an idle CPU to interrupt for a thread, other than `here`, which looks anyway. Each CPU is chosen once, so that
    /// the next thread gets another CPU.
    pub fn call(&mut self, here: u32, bound_to: Option<u32>) -> Option<u32> {
        let allowed = bound_to.map_or(u32::MAX, |only| 1 << only) & !(1 << here);
        let callable = self.halted & !self.called & allowed;
        (callable != 0).then(|| {
            let cpu = callable.trailing_zeros();
            self.called |= 1 << cpu;
            cpu
        })
    }

    /// True if a CPU other than `here` is idle, interrupted or not.
    fn any_but(&self, here: u32) -> bool {
        self.halted & !(1 << here) != 0
    }
}

/// Threads that sleep until an instant, the earliest first. Threads with the same instant are in the order of their sleeps.
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

    /// Adds a thread that wakes at `instant`. Returns false if there is no room.
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

    /// Takes a thread out of the queue before its instant. Returns false if it was not in the queue.
    pub fn remove(&mut self, thread: u16) -> bool {
        let Some(place) = self.sleepers[..self.length].iter().position(|&(_, sleeper)| sleeper == thread) else {
            return false;
        };
        self.sleepers.copy_within(place + 1..self.length, place);
        self.length -= 1;
        true
    }

    /// The instant of the first sleeper.
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
    fn a_thread_that_may_not_run_here_keeps_its_place() {
        let mut queue = RunQueue::<4>::new();
        assert!([7, 8, 9, 10].iter().all(|&thread| queue.push(thread)));
        assert!(!queue.push(11));
        assert_eq!(queue.pop(|thread| thread != 7 && thread != 8), Some(9));
        assert!(queue.push(11));
        let rest: Vec<u16> = core::iter::from_fn(|| queue.pop(|_| true)).collect();
        assert_eq!(rest, [7, 8, 10, 11]);
    }

    const CPUS: u32 = 4;

    /// The scheduler of `thread.rs` without a machine: the thread that each CPU runs, and the interrupted CPUs.
    struct Machine {
        queue: RunQueue<16>,
        idle: IdleCpus,
        bound_to: Vec<Option<u32>>,
        runs: [Option<u16>; CPUS as usize],
        interrupted: Vec<u32>,
    }

    impl Machine {
        fn idle() -> Machine {
            let mut idle = IdleCpus::NONE;
            (0..CPUS).for_each(|cpu| idle.halts(cpu));
            Machine { queue: RunQueue::new(), idle, bound_to: Vec::new(), runs: [None; 4], interrupted: Vec::new() }
        }

        fn wake(&mut self, here: u32, bound_to: Option<u32>) {
            self.bound_to.push(bound_to);
            assert!(self.queue.push(self.bound_to.len() as u16 - 1));
            self.interrupted.extend(self.idle.call(here, bound_to));
        }

        fn look(&mut self, cpu: u32) {
            assert_eq!(self.runs[cpu as usize], None);
            self.idle.looks(cpu);
            match take(&mut self.queue, &mut self.idle, cpu, |slot| self.bound_to[slot as usize]) {
                Some((slot, called)) => {
                    self.runs[cpu as usize] = Some(slot);
                    self.interrupted.extend(called);
                }
                None => self.idle.halts(cpu),
            }
        }

        /// Lets all interrupted CPUs look, in an order that `pick` chooses.
        fn settle(&mut self, mut pick: impl FnMut(usize) -> usize) {
            while !self.interrupted.is_empty() {
                let cpu = self.interrupted.swap_remove(pick(self.interrupted.len()));
                if self.runs[cpu as usize].is_none() {
                    self.look(cpu);
                }
            }
        }

        fn idles_beside_a_thread(&self) -> bool {
            (0..CPUS).any(|cpu| {
                let may_run = |slot: u16| self.bound_to[slot as usize].is_none_or(|only| only == cpu);
                self.runs[cpu as usize].is_none() && self.queue.any(may_run)
            })
        }
    }

    /// CPU 1 is interrupted for the first thread. If it ran that one, the second would wait while two CPUs idle.
    #[test]
    fn a_bound_thread_does_not_wait_behind_one_that_an_idle_cpu_can_run() {
        let mut machine = Machine::idle();
        (machine.runs[0], machine.idle) = (Some(99), IdleCpus { halted: 0b1110, called: 0 });
        machine.wake(0, None);
        machine.wake(0, Some(1));
        assert_eq!(machine.interrupted, [1]);
        machine.settle(|_| 0);
        assert_eq!(machine.runs, [Some(99), Some(1), Some(0), None]);
    }

    #[test]
    fn each_thread_is_taken_in_turn_where_no_cpu_idles() {
        let mut queue = RunQueue::<4>::new();
        assert!((0..3).all(|thread| queue.push(thread)));
        let bound_to = |slot| (slot == 2).then_some(0);
        let taken: Vec<_> =
            core::iter::from_fn(|| take(&mut queue, &mut IdleCpus::NONE.clone(), 0, bound_to)).collect();
        assert_eq!(taken, [(0, None), (1, None), (2, None)]);
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
    fn a_thread_woken_early_is_not_woken_again() {
        let mut queue = SleepQueue::<4>::new();
        assert!([(30, 1), (10, 2), (30, 3), (20, 4)].iter().all(|&(at, thread)| queue.push(at, thread)));
        assert!(queue.remove(4) && !queue.remove(4) && !queue.remove(9));
        let woken: Vec<u16> = core::iter::from_fn(|| queue.pop_due(30)).collect();
        assert_eq!(woken, [2, 1, 3]);
        assert!(!queue.remove(1));
        assert!(queue.push(5, 1) && queue.remove(1) && queue.next().is_none());
    }

    proptest::proptest! {
        /// At most one thread for each CPU becomes runnable at the same time. Each runs, in any order of the CPUs.
        #[test]
        fn threads_that_have_a_cpu_each_all_run(
            threads in proptest::collection::vec(0u32..2 * CPUS, 1..=CPUS as usize),
            picks in proptest::collection::vec(0usize..16, 32),
        ) {
            let mut machine = Machine::idle();
            let mut bound = 0;
            for thread in &threads {
                // At most one thread is bound to each CPU. The others may run anywhere.
                let only = Some(*thread).filter(|&cpu| cpu < CPUS && bound >> cpu & 1 == 0);
                bound |= only.map_or(0, |cpu| 1 << cpu);
                machine.wake(CPUS, only);
            }
            let mut picks = picks.into_iter();
            machine.settle(|count| picks.next().unwrap() % count);
            let running = machine.runs.iter().flatten().count();
            proptest::prop_assert_eq!(running, threads.len(), "{:?} {:?}", machine.runs, machine.bound_to);
        }

        /// For any events in any order: once the interrupted CPUs have looked, no CPU idles that has work.
        #[test]
        fn no_cpu_idles_beside_a_thread_that_it_may_run(
            steps in proptest::collection::vec((0u8..3, 0u32..CPUS, 0u32..2 * CPUS), 1..60),
        ) {
            let mut machine = Machine::idle();
            for (what, cpu, bound_to) in steps {
                match what {
                    0 if machine.bound_to.len() < 16 => machine.wake(cpu, Some(bound_to).filter(|&cpu| cpu < CPUS)),
                    1 => machine.runs[cpu as usize] = None,
                    _ => {}
                }
                // A CPU looks when its thread ended, and when it was interrupted or woke a thread while idle.
                if machine.runs[cpu as usize].is_none() {
                    machine.look(cpu);
                }
                if what == 2 {
                    machine.settle(|_| 0);
                    proptest::prop_assert!(!machine.idles_beside_a_thread(), "{:?}", machine.runs);
                }
            }
        }

        #[test]
        fn as_a_deque_would(steps in proptest::collection::vec((0u8..3, 0u16..40), 1..300)) {
            let (mut queue, mut model) = (RunQueue::<16>::new(), VecDeque::new());
            for (what, thread) in steps {
                if what == 0 {
                    let first = model.iter().position(|&t| t % 2 == thread % 2);
                    proptest::prop_assert_eq!(queue.any(|t| t % 2 == thread % 2), first.is_some());
                    proptest::prop_assert_eq!(queue.pop(|t| t % 2 == thread % 2), first.and_then(|i| model.remove(i)));
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
