//! The CPU's time instead of the clock's, for tests of what must be linear: a busy host fails none of them.

/// CPU time of this thread in seconds.
pub fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says what a thread has used");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds come first") / 1e9
}
