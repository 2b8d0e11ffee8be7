//! Values that many recordings have in common, computed once per process. The boots of one kernel have the same list of
//! functions except for its load address, and unpacking and sorting that list takes longer than all other reading.
//!
//! A kept value is used only if all bytes show that reading them again would give the same; a name or a hash is never
//! enough. The number of values is bounded: the one unused for longest is dropped first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of values kept.
const KEPT_MOST: usize = 8;

/// Values with their sources; the most recently used is last.
pub(crate) struct Recent<K, V>(Mutex<Vec<(Arc<K>, V)>>);

impl<K, V: Clone> Recent<K, V> {
    /// Creates an empty store.
    pub(crate) const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    /// Tries `look` on the values, the most recently used first, and returns its first result. Other threads can look
    /// at the same time.
    pub(crate) fn find<R>(&self, look: impl Fn(&K, &V) -> Option<R>) -> Option<R> {
        let all = self.lock().clone();
        let (source, found) = all.iter().rev().find_map(|(source, value)| Some((source, look(source, value)?)))?;
        let mut kept = self.lock();
        if let Some(place) = kept.iter().position(|(known, _)| Arc::ptr_eq(known, source)) {
            kept[place..].rotate_left(1);
        }
        Some(found)
    }

    /// Keeps a value, and drops the one unused for longest if there are too many. If two threads made the same value at
    /// once, both are kept.
    pub(crate) fn keep(&self, source: K, value: V) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MOST {
            kept.remove(0);
        }
        kept.push((Arc::new(source), value));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<K>, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_used_are_kept() {
        let recent: Recent<usize, usize> = Recent::new();
        let is_kept =
            |source: usize| recent.find(|known, value| (*known == source).then_some(*value)) == Some(source * 10);
        for source in 0..KEPT_MOST {
            assert!(!is_kept(source));
            recent.keep(source, source * 10);
        }
        assert!((0..KEPT_MOST).rev().all(is_kept));
        recent.keep(100, 1000);
        assert!(!is_kept(KEPT_MOST - 1), "the longest unused had to go");
        assert!(is_kept(0) && is_kept(100));
    }
}
