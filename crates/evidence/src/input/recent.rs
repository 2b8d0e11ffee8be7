//! What many recordings have in common, read once in a process: the boots of one kernel have the same list of its functions but for
//! where it was loaded, and to unpack and to sort that takes longer than all of the rest.
//!
//! What is kept is used where all bytes say that reading them anew would give the same; never by a name or a hash. It is bounded: the
//! longest unused goes first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept.
const KEPT_MOST: usize = 8;

/// Values by what they are made of, the last used last.
pub(crate) struct Recent<K, V>(Mutex<Vec<(Arc<K>, V)>>);

impl<K, V: Clone> Recent<K, V> {
    /// None yet.
    pub const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    /// What `look` finds in any of them, the last used first. Others may look meanwhile.
    pub fn find<R>(&self, look: impl Fn(&K, &V) -> Option<R>) -> Option<R> {
        let all = self.lock().clone();
        let (of, found) = all.iter().rev().find_map(|(of, value)| Some((of, look(of, value)?)))?;
        let mut kept = self.lock();
        if let Some(place) = kept.iter().position(|(known, _)| Arc::ptr_eq(known, of)) {
            kept[place..].rotate_left(1);
        }
        Some(found)
    }

    /// Keeps one, in place of the longest unused. Two who made it at once both keep it.
    pub fn keep(&self, of: K, value: V) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MOST {
            kept.remove(0);
        }
        kept.push((Arc::new(of), value));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<K>, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_are_kept_and_no_more() {
        let recent: Recent<usize, usize> = Recent::new();
        let is_kept = |of: usize| recent.find(|known, value| (*known == of).then_some(*value)) == Some(of * 10);
        for of in 0..KEPT_MOST {
            assert!(!is_kept(of));
            recent.keep(of, of * 10);
        }
        assert!((0..KEPT_MOST).rev().all(is_kept));
        recent.keep(100, 1000);
        assert!(!is_kept(KEPT_MOST - 1), "the longest unused had to go");
        assert!(is_kept(0) && is_kept(100));
    }
}
