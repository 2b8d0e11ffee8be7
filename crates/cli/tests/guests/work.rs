//! A program for a guest that follows a script: `work NAME sleep=40 cpu=20 hold=disk:30`. It reports its begin and its
//! end by its name to the kernel's log.
//!
//! `sleep=MS` sleeps. `cpu=MS` uses the CPU for this time by the kernel's own account. It holds a lock named `cpu`, so
//! that no other `work` program runs meanwhile. `hold=NAME:MS` sleeps while it holds the lock of that name.

use std::ffi::{c_int, c_long};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn flock(file: c_int, operation: c_int) -> c_int;
}

/// The CPU time of this process.
fn cpu_time() -> Duration {
    const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a `struct timespec` as defined by the C library on x86-64 Linux, and lives through the call.
    assert_eq!(unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.seconds as u64, time.nanoseconds as u32)
}

/// Waits for the lock. Closing the file releases it.
fn lock(name: &str) -> File {
    const LOCK_EX: c_int = 2;
    let file = File::create(format!("/run/work-{name}")).expect("/run can be written");
    // SAFETY: the descriptor is open through the call.
    assert_eq!(unsafe { flock(file.as_raw_fd(), LOCK_EX) }, 0);
    file
}

fn report(name: &str, what: &str) {
    std::fs::write("/dev/kmsg", format!("work: {name} {what}")).expect("the kernel's log can be written");
}

fn main() {
    let name = std::env::args().nth(1).expect("NAME");
    report(&name, "begins");
    let ms = |text: &str| Duration::from_millis(text.parse().expect("milliseconds"));
    for step in std::env::args().skip(2) {
        let (what, how) = step.split_once('=').expect("WHAT=HOW");
        match what {
            "sleep" => std::thread::sleep(ms(how)),
            "cpu" => {
                let _alone = lock("cpu");
                let until = cpu_time() + ms(how);
                while cpu_time() < until {}
            }
            "hold" => {
                let (name, how) = how.split_once(':').expect("NAME:MS");
                let _alone = lock(name);
                std::thread::sleep(ms(how));
            }
            other => panic!("{other} is no step"),
        }
    }
    report(&name, "ends");
}
