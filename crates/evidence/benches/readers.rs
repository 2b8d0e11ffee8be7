//! Speed of the readers, in MB/s, beside the highest that is possible: one memchr pass over the same bytes. The inputs
//! are made here, in the proportions of a real boot.
//!
//! `cargo bench -p evidence` prints one line per reader; `-- --min 200` makes it fail below 200 MB/s.

use evidence::ftrace::Trace;
use evidence::index::Index;
use evidence::kernel_log::KernelLog;
use evidence::{detect, guest_messages, initcalls};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};
use timeline::{Clock, Diagnostics, Ns, TimeBase, Timeline};

/// Long enough that a pass takes tens of milliseconds and the data does not stay in the cache.
const INPUT_BYTES: usize = 64 << 20;

fn fill(mut line: impl FnMut(&mut String, u64)) -> Vec<u8> {
    let mut text = String::with_capacity(INPUT_BYTES + 1024);
    let mut i = 0;
    while text.len() < INPUT_BYTES {
        line(&mut text, i);
        i += 1;
    }
    text.into_bytes()
}

/// A wait, a work item and two switches per initcall, as in a boot with little else.
fn trace() -> Vec<u8> {
    fill(|text, i| {
        let at = |j: u64| format!("{:5}.{:06}", (i * 100 + j) / 1_000_000, (i * 100 + j) % 1_000_000);
        let w = 5 + i % 90;
        let events = [
            format!(
                "            init-1       [000] ..... {}: initcall_start: func=some_driver_init{w}+0x0/0x4c2\n",
                at(1)
            ),
            format!(
                "            init-1       [000] d..2. {}: sched_waking: comm=kworker/u8:{w} pid={w} prio=120 target_cpu=001\n",
                at(2)
            ),
            format!(
                "            init-1       [000] d..2. {}: sched_switch: prev_comm=swapper/0 prev_pid=1 prev_prio=120 prev_state=D ==> next_comm=kworker/u8:{w} next_pid={w} next_prio=120\n",
                at(10)
            ),
            format!(
                "   kworker/u8:{w:<2}-{w:<7} [000] ..... {}: workqueue_execute_start: work struct (____ptrval____): function deferred_probe_work_func\n",
                at(20)
            ),
            format!("   kworker/u8:{w:<2}-{w:<7} [000] d.h1. {}: local_timer_entry: vector=236\n", at(30)),
            format!("   kworker/u8:{w:<2}-{w:<7} [000] d.h1. {}: local_timer_exit: vector=236\n", at(40)),
            format!(
                "   kworker/u8:{w:<2}-{w:<7} [000] ..... {}: workqueue_execute_end: work struct (____ptrval____): function deferred_probe_work_func\n",
                at(50)
            ),
            format!(
                "   kworker/u8:{w:<2}-{w:<7} [000] d..3. {}: sched_waking: comm=swapper/0 pid=1 prio=120 target_cpu=000\n",
                at(51)
            ),
            format!(
                "   kworker/u8:{w:<2}-{w:<7} [000] d..2. {}: sched_switch: prev_comm=kworker/u8:{w} prev_pid={w} prev_prio=120 prev_state=I ==> next_comm=swapper/0 next_pid=1 next_prio=120\n",
                at(60)
            ),
            format!(
                "            init-1       [000] ..... {}: initcall_finish: func=some_driver_init{w}+0x0/0x4c2 ret=0\n",
                at(70)
            ),
        ];
        events.iter().for_each(|event| text.push_str(event));
    })
}

/// Writes one message in some dress.
type Dress = fn(&mut String, u64, &str);

fn log(line: Dress) -> Vec<u8> {
    fill(|text, i| {
        let n = i % 977;
        let message = match i % 3 {
            0 => format!("calling  some_driver_init{n}+0x0/0x4c2 @ 1"),
            1 => format!("some_driver 0000:00:1f.{n}: registered as device {n} with the usual options"),
            _ => format!("initcall some_driver_init{n}+0x0/0x4c2 returned 0 after {n} usecs"),
        };
        line(text, i, &message);
    })
}

/// The best of several passes, in MB/s.
fn speed(bytes: &[u8], mut pass: impl FnMut(&[u8])) -> f64 {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        pass(black_box(bytes));
        start.elapsed()
    });
    bytes.len() as f64 / 1e6 / best.min().unwrap_or(Duration::MAX).as_secs_f64()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let least: f64 = match arguments.iter().position(|a| a == "--min") {
        Some(at) => arguments[at + 1].parse().expect("--min takes MB/s"),
        None => 0.0,
    };
    let mut slow = false;
    let mut report = |name: &str, bytes: &[u8], pass: &mut dyn FnMut(&[u8])| {
        let newlines = speed(bytes, |bytes| {
            black_box(memchr::memchr_iter(b'\n', bytes).count());
        });
        let found = speed(bytes, |bytes| pass(bytes));
        slow |= found < least;
        println!("{name:<42} {found:>7.0} MB/s   memchr pass {newlines:>7.0} MB/s");
    };

    let text = trace();
    report("trace, looked through", &text, &mut |bytes| {
        black_box(Trace::read("trace.txt", bytes, &mut Diagnostics::default()).unwrap());
    });
    report("trace, looked through and built", &text, &mut |bytes| {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let trace = Trace::read("trace.txt", bytes, &mut timeline.diagnostics).unwrap();
        trace.build(&Clock::linear("trace", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User), &mut timeline);
        black_box(timeline.spans.len());
    });

    let dresses: [(&str, Dress); 3] = [
        ("kernel log from a console", |text, i, message| {
            writeln!(text, "[{:5}.{:06}] {message}\r", i / 1_000_000, i % 1_000_000).unwrap();
        }),
        ("kernel log behind grabserial", |text, i, message| {
            let (s, us) = (i / 1_000_000, i % 1_000_000);
            writeln!(text, "[{s}.{us:06} 0.000123] [{s:5}.{us:06}] {message}").unwrap();
        }),
        ("kernel log from /dev/kmsg", |text, i, message| writeln!(text, "6,{i},{i},-;{message}").unwrap()),
    ];
    for (name, dress) in dresses {
        let text = log(dress);
        report(name, &text, &mut |bytes| {
            black_box(KernelLog::read("a.log", bytes, &mut Diagnostics::default()).unwrap());
        });
        report(&format!("{name}, initcalls"), &text, &mut |bytes| {
            let mut diagnostics = Diagnostics::default();
            let log = KernelLog::read("a.log", bytes, &mut diagnostics).unwrap();
            black_box(initcalls::read("a.log", &log, |line| line.stamp, &mut diagnostics));
        });
        report(&format!("{name}, detected"), &text, &mut |bytes| {
            black_box(detect::detect(bytes));
        });
    }

    let text = fill(|text, i| writeln!(text, "{} {}", i * 57, i * 90_211).unwrap());
    report("index", &text, &mut |bytes| {
        black_box(Index::read("a.idx", bytes, &mut Diagnostics::default()));
    });
    let text = fill(|text, i| writeln!(text, "S trace {} {} {i}", i * 5_000, i * 5_000 + 700).unwrap());
    report("guest words", &text, &mut |bytes| {
        black_box(guest_messages::read("guest.log", bytes, &Index::default(), &mut Diagnostics::default()));
    });
    if slow {
        eprintln!("a reader is slower than {least} MB/s");
        std::process::exit(1);
    }
}
