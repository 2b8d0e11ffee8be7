//! Timer ticks as instants: when one comes, and which is the first that a timer may expire at.
//!
//! Ticks are counted from 0, which is when the clock was started. No product of a tick and a second leaves 128 bits.

const NS_PER_S: u128 = 1_000_000_000;

/// When a tick comes, in nanoseconds after tick 0. Rounded down.
pub fn instant_ns(tick: u64, hz: u32) -> u64 {
    (u128::from(tick) * NS_PER_S / u128::from(hz)) as u64
}

/// The first tick that does not come before an instant, in nanoseconds after tick 0.
pub fn first_from(instant: u64, hz: u32) -> u64 {
    (u128::from(instant) * u128::from(hz)).div_ceil(NS_PER_S) as u64
}

/// How long a timer of low resolution takes that is set for `wait_ns` at an instant: it expires at a tick.
pub fn low_resolution_wait_ns(instant: u64, wait_ns: u64, hz: u32) -> u64 {
    instant_ns(first_from(instant + wait_ns, hz), hz) - instant
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_jiffy_that_begins_between_ticks_ends_with_the_second_one() {
        let wait = |at_ms: u64, hz| low_resolution_wait_ns(at_ms * MS, 1_000 / u64::from(hz) * MS, hz) / MS;
        // Exactly at a tick, it is one tick; at any later instant the next tick comes too early.
        assert_eq!([wait(20, 100), wait(21, 100), wait(29, 100)], [10, 19, 11]);
        assert_eq!(wait(21, 1000), 1);
    }

    #[test]
    fn a_shorter_timer_waits_for_a_tick_all_the_same() {
        assert_eq!(low_resolution_wait_ns(21 * MS, MS, 100), 9 * MS);
        assert_eq!(low_resolution_wait_ns(29 * MS + 1, MS, 100), 11 * MS - 1);
    }

    proptest::proptest! {
        #[test]
        fn no_timer_expires_early_nor_a_whole_tick_late(at in 0u64..1 << 50, wait in 0u64..1 << 40, hz in 1u32..10_000) {
            let waits = low_resolution_wait_ns(at, wait, hz);
            proptest::prop_assert!(waits + 1 >= wait && waits <= wait + 1_000_000_000 / u64::from(hz) + 1);
        }
    }
}
