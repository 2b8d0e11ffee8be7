//! Timer ticks as instants: the instant of a tick, and the first tick at which a timer may expire.
//!
//! Ticks are counted from 0, the start of the clock. The product of a tick and a second always fits into 128 bits.

const NS_PER_S: u128 = 1_000_000_000;

/// The instant of a tick, in nanoseconds after tick 0, rounded down.
pub fn instant_ns(tick: u64, hz: u32) -> u64 {
    (u128::from(tick) * NS_PER_S / u128::from(hz)) as u64
}

/// The first tick at an instant or after it. The instant is in nanoseconds after tick 0.
pub fn first_from(instant: u64, hz: u32) -> u64 {
    (u128::from(instant) * u128::from(hz)).div_ceil(NS_PER_S) as u64
}

/// The real length of a low-resolution timer that is set for `wait_ns` at an instant. It expires at a tick.
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
        // A wait that begins exactly at a tick takes one tick. For any later beginning, the next tick comes too early.
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
