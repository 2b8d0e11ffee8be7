//! Applies a function to many items on several CPUs.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that can run at once on the CPUs that this program may use.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Applies `f` to each item with at most `workers` threads, and returns the results in the items' order. A panic of `f` ends the program as
/// it would without threads.
pub(crate) fn each<T: Sync, R: Send>(workers: usize, all: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = workers.min(all.len());
    if workers < 2 {
        return all.iter().map(f).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(all.len())));
    let work = || {
        while let Some((number, one)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, all.get(n)?)))
        {
            let made = f(one);
            done.lock().expect("nobody panics while it is locked").push((number, made));
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().expect("nobody panics while it is locked");
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        for count in [0, 1, 2, 1000] {
            let all: Vec<u64> = (0..count).collect();
            for workers in [1, 2, workers()] {
                assert_eq!(each(workers, &all, |n| n * n), all.iter().map(|n| n * n).collect::<Vec<_>>());
            }
        }
    }
}
