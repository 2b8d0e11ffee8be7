//! The speed of each reader, beside an upper bound: one memchr pass over the same bytes in the same run.

use crate::synthetic;
use crate::table::{MB_PER_S, Promise, Table};
use evidence::ftrace::Trace;
use evidence::index::Index;
use evidence::kernel_log::KernelLog;
use evidence::symbols::Symbols;
use evidence::{firmware, first_executions, initcalls};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};
use timeline::{Clock, Diagnostics, Ns, TimeBase, Timeline};

/// Enough input that a pass takes tens of milliseconds.
const INPUT_BYTES: usize = 32 << 20;
const PASSES: usize = 5;
const LEAST: f64 = 200.0;

/// Generates each input and reads it.
pub fn measure(table: &mut Table) {
    let nothing = Diagnostics::default;

    let text = synthetic::trace(INPUT_BYTES / 120);
    reader("trace, looked through", text.as_bytes(), table, |bytes| {
        black_box(Trace::read("trace.txt", bytes, &mut nothing()).is_ok());
    });
    reader("trace, looked through and built", text.as_bytes(), table, |bytes| {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        if let Ok(trace) = Trace::read("trace.txt", bytes, &mut nothing()) {
            trace.build(&Clock::linear("trace", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User), &mut timeline);
        }
        black_box(timeline.spans.len());
    });

    let kmsg = log(|text, i, message| writeln!(text, "6,{i},{i},-;{message}"));
    let console = log(|text, i, message| writeln!(text, "[{:5}.{:06}] {message}\r", i / 1_000_000, i % 1_000_000));
    for (dress, text) in [("kmsg", kmsg), ("console", console)] {
        let name = format!("{dress}.log");
        reader(&format!("kernel log, {dress}"), text.as_bytes(), table, |bytes| {
            black_box(KernelLog::read(&name, bytes, &mut nothing()).is_ok());
        });
        // The reading of the log is not counted again, only that of its initcalls.
        let log = KernelLog::read(&name, text.as_bytes(), &mut nothing());
        reader(&format!("initcalls, {dress}"), text.as_bytes(), table, |_| {
            if let Ok(log) = &log {
                black_box(initcalls::read(&name, log, |line| line.stamp, &mut nothing()).is_empty());
            }
        });
    }

    let text = lines(|text, i| writeln!(text, "{} {}", i * 57, i * 90_211));
    reader("index", text.as_bytes(), table, |bytes| {
        black_box(Index::read("console.idx", bytes, &mut nothing()).len());
    });
    let text = lines(|text, i| writeln!(text, "{:016x} t some_function_{i}", 0xffff_ffff_8100_0000_u64 + i * 48));
    reader("kallsyms", text.as_bytes(), table, |bytes| {
        black_box(Symbols::read("kallsyms", bytes, &mut nothing()).len());
    });
    let text =
        lines(|text, i| writeln!(text, "PCI: init bdf=00:{:02x}.{} id=8086:{:04x}", i / 8 % 32, i % 8, i % 9999));
    let index = Index::read("firmware.idx", b"0 0\n", &mut nothing());
    reader("firmware log", text.as_bytes(), table, |bytes| {
        black_box(firmware::read(bytes, &index, &mut Diagnostics::default()).len());
    });
    reader("first-run.bin", &first_executions(), table, |bytes| {
        black_box(first_executions::read("first-run.bin", bytes, &mut nothing()).blocks.len());
    });
}

fn reader(what: &str, bytes: &[u8], table: &mut Table, mut read: impl FnMut(&[u8])) {
    let pass = speed(bytes, |bytes| {
        black_box(memchr::memchr_iter(b'\n', bytes).count());
    });
    let found = speed(bytes, &mut read);
    let aside = format!("memchr {pass:.0}");
    table.add(&format!("reader: {what}"), found, MB_PER_S, Promise::AtLeast(LEAST), &aside);
}

/// The best of several passes, in MB/s, since other load on the machine only slows a pass down.
fn speed(bytes: &[u8], mut pass: impl FnMut(&[u8])) -> f64 {
    let times = (0..PASSES).map(|_| {
        let start = Instant::now();
        pass(black_box(bytes));
        start.elapsed()
    });
    bytes.len() as f64 / 1e6 / times.min().unwrap_or(Duration::MAX).as_secs_f64()
}

fn lines(mut line: impl FnMut(&mut String, u64) -> std::fmt::Result) -> String {
    let mut text = String::with_capacity(INPUT_BYTES + 1024);
    let mut i = 0;
    while text.len() < INPUT_BYTES && line(&mut text, i).is_ok() {
        i += 1;
    }
    text
}

/// A log in which one message of three enters an initcall and one returns from it, as with `initcall_debug`.
fn log(dressed: fn(&mut String, u64, &str) -> std::fmt::Result) -> String {
    lines(|text, i| {
        let n = i / 3 % 997;
        let message = match i % 3 {
            0 => format!("calling  some_driver_init{n}+0x0/0x4c2 @ 1"),
            1 => format!("some_driver 0000:00:1f.{n}: registered as device {n} with the usual options"),
            _ => format!("initcall some_driver_init{n}+0x0/0x4c2 returned 0 after {n} usecs"),
        };
        dressed(text, i, &message)
    })
}

/// A first-execution trace as the plugin writes it: a thread, then blocks that call each other.
fn first_executions() -> Vec<u8> {
    let mut bytes = b"BSFIRST\n".to_vec();
    bytes.extend_from_slice(&1u16.to_le_bytes());
    bytes.extend_from_slice(&[0, 2]);
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(b"x86_64\0\0");
    bytes.extend_from_slice(&[2, 0, 3, 0, 0]);
    for i in 0.. {
        if bytes.len() >= INPUT_BYTES {
            break;
        }
        // A call: 600 to 1 600 ns after the previous block, 40 bytes behind it, 23 bytes in 6 instructions, 64 forward.
        let after = 600 + i * 7 % 1000_u32;
        bytes.extend_from_slice(&[
            1 << 4 | 1 << 3 | 1,
            (after & 0x7f) as u8 | 0x80,
            (after >> 7) as u8,
            80,
            23,
            6,
            0x80,
            1,
        ]);
    }
    bytes
}
