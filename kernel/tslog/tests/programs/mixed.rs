//! The Rust half of a kernel: starts the log, and calls C, which writes into the same log. Both halves print it, then both
//! fill it at the same time.

use std::io::{Write, stdout};

tslog::kernel!(thread = || 0x7);

unsafe extern "C" {
    fn c_attach(driver: *const std::ffi::c_char);
    fn c_flood(events: u64);
    fn c_print();
}

fn attach_all() {
    let _scope = tslog::scope!();
    // SAFETY: the function takes a C string.
    unsafe { c_attach(c"usbus".as_ptr()) };
    tslog::event!("from Rust", tslog::copy(&String::from("two words")));
}

fn print() {
    let mut text = String::new();
    tslog::write_text(&mut text).expect("a string takes all");
    print!("{text}");
    println!("--");
    stdout().flush().expect("stdout");
    // SAFETY: the function takes no argument.
    unsafe { c_print() };
    println!("--");
}

fn main() {
    // SAFETY: the function takes a number. The log is not started yet, so these events are counted.
    unsafe { c_flood(2) };
    tslog::event!("early");
    tslog::start!(records = 16, arena_bytes = 64);
    attach_all();
    tslog::set_ticks_hz(2_445_431_964);
    print();
    // More than fits, from both at the same time: all are counted.
    let c = std::thread::spawn(|| unsafe { c_flood(1_000_000) });
    (0..1_000_000).for_each(|_| tslog::event!("from Rust"));
    c.join().expect("C does not panic");
    let log = tslog::log().expect("it was started");
    println!("{:?}", log.counts());
}
