//! The calling order of SYSINITs: by subsystem, then by order within it, then by name.
//!
//! The linker gathers SYSINITs in any order. If both numbers are equal the name decides, so that two builds call them in the
//! same order.

/// Writes the indices of `count` keys into `places`, in calling order. Returns the used part of `places`, or `None` if it has
/// no room for all keys.
///
/// A plain insertion sort: tables are short, and nothing can be allocated yet.
pub fn calling_order<K: Ord>(count: usize, key: impl Fn(usize) -> K, places: &mut [usize]) -> Option<&[usize]> {
    let places = places.get_mut(..count)?;
    for next in 0..count {
        let mut at = next;
        while at > 0 && key(places[at - 1]) > key(next) {
            places[at] = places[at - 1];
            at -= 1;
        }
        places[at] = next;
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsystem_then_order_then_name() {
        let table = [(2, 0, "b"), (1, 9, "z"), (2, 0, "a"), (1, 0, "y")];
        let mut places = [0; 8];
        assert_eq!(calling_order(4, |i| table[i], &mut places).unwrap(), [3, 1, 2, 0]);
    }

    #[test]
    fn a_table_that_does_not_fit_is_refused() {
        assert_eq!(calling_order(3, |i| i, &mut [0; 2]), None);
    }

    proptest::proptest! {
        #[test]
        fn as_a_stable_sort_would(keys in proptest::collection::vec(0u8..10, 0..64)) {
            let mut places = [0; 64];
            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by_key(|&i| keys[i]);
            proptest::prop_assert_eq!(calling_order(keys.len(), |i| keys[i], &mut places).unwrap(), &expected[..]);
        }
    }
}
