//! Real traces, each against a text dump of its timeline (`BLESS=1` writes the dumps).

use analysis::{Frame, StretchKind};
use evidence::ftrace::{Stamps, Trace};
use std::path::Path;
use timeline::{Clock, Diagnostics, Ns, TimeBase, Timeline};

fn dump(name: &str, bytes: &[u8]) -> String {
    let mut diagnostics = Diagnostics::default();
    let trace = Trace::read(name, bytes, &mut diagnostics).unwrap();
    let hz = match trace.stamps {
        Stamps::Nanoseconds => 1e9,
        Stamps::Counter => 2e9,
    };
    let clock = Clock::linear("trace", hz, trace.first, Ns::ZERO, timeline::RateSource::User);
    let mut timeline = Timeline::new(TimeBase::Evidence);
    timeline.diagnostics = diagnostics;
    trace.build(&clock, &mut timeline);
    timeline.finalize(Ns::ZERO);
    let lines = bytes.split_inclusive(|&b| b == b'\n').count() as u64;
    let c = trace.counts;
    assert_eq!(c.events + c.headings + c.stacks + c.lost_notes + c.unreadable, lines, "each line is counted once");
    let sync = trace.markers().iter().map(|m| format!("marker {} at {}\n", m.seq, m.ticks.0)).collect::<String>();
    let console = trace
        .console()
        .first()
        .map(|c| format!("first message: {} at {}\n", String::from_utf8_lossy(c.text), c.ticks.0));
    let heads =
        format!("{:?}\n{c:?}, lost {}\nfirst {}, last {}\n", trace.stamps, trace.lost, trace.first.0, trace.last.0);
    let (console, diagnostics) = (console.unwrap_or_default(), crate::support::diagnostics(&timeline.diagnostics));
    format!("{heads}{sync}{console}{diagnostics}{}", crate::support::timeline(&timeline))
}

#[test]
fn real_traces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace");
    let mut fixtures: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    fixtures.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    fixtures.sort();
    assert!(!fixtures.is_empty());
    for fixture in fixtures {
        let bytes = std::fs::read(&fixture).unwrap();
        crate::support::compare(&fixture, &dump(fixture.file_name().unwrap().to_str().unwrap(), &bytes));
    }
}

/// Checks a hand-made trace against the expected dump, without the dump's headings.
#[track_caller]
fn check(lines: &[&str], expected: &str) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let dump = dump("t", text.as_bytes());
    let made: Vec<&str> = dump.lines().skip(3).map(str::trim_end).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    assert_eq!(made, expected);
}

const A_BLOCKS: &str = "a-11 [000] d..2. 0.000010: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120";
const B_BLOCKS: &str = "b-12 [000] d..2. 0.000050: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=a next_pid=11 next_prio=120";

#[test]
fn a_waking_while_the_thread_still_runs_does_not_count() {
    let early = "a-11 [000] d.h2. 0.000005: sched_waking: comm=a pid=11 prio=120 target_cpu=000";
    let late = "b-12 [000] d..2. 0.000020: sched_waking: comm=a pid=11 prio=120 target_cpu=000";
    let again = "b-12 [000] d.h2. 0.000030: sched_waking: comm=a pid=11 prio=120 target_cpu=000";
    check(
        &[early, A_BLOCKS, late, again, B_BLOCKS],
        "track a#0 id 11\n  ran on 0 0.000..5.000\n  ran on 0 45.000..45.000\n  waited 5.000..15.000..45.000 b#1\n\
         track b#1 id 12\n  ran on 0 5.000..45.000\n  waited 45.000..never..never not known\n",
    );
}

#[test]
fn an_uninterruptible_sleep_is_noted() {
    for (state, uninterruptible) in [("S", false), ("D", true), ("D|K", true), ("I", false), ("R+", false)] {
        let blocks = A_BLOCKS.replace("prev_state=S", &format!("prev_state={state}"));
        let bytes = format!("{blocks}\n{B_BLOCKS}\n");
        let trace = Trace::read("t", bytes.as_bytes(), &mut Diagnostics::default()).unwrap();
        let clock = Clock::linear("trace", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User);
        let mut timeline = Timeline::new(TimeBase::Evidence);
        trace.build(&clock, &mut timeline);
        let waits: Vec<(u32, bool)> = timeline.waits.iter().map(|w| (w.track.0, w.uninterruptible)).collect();
        assert_eq!(waits, [(0, uninterruptible), (1, false)], "{state}");
    }
}

/// The kernel keeps 15 bytes of a name.
#[test]
fn a_name_that_the_kernel_cut_is_completed_from_the_program() {
    let exec = |comm: &str, file: &str| {
        let text = format!("{comm}-11 [000] ..... 0.000010: sched_process_exec: filename={file} pid=11 old_pid=11\n");
        let dump = dump("t", text.as_bytes());
        let track = dump.lines().find(|line| line.starts_with("track ")).expect("a thread");
        track.split('#').next().unwrap_or_default().to_owned()
    };
    assert_eq!(exec("systemd-random-", "/lib/systemd/systemd-random-seed"), "track systemd-random-seed");
    assert_eq!(exec("worker-of-its-o", "/lib/systemd/systemd-random-seed"), "track worker-of-its-o");
    assert_eq!(exec("sh", "/bin/sh"), "track sh");
}

#[test]
fn an_interrupted_thread_is_not_the_waker() {
    let begin = "b-12 [000] d.h1. 0.000020: irq_handler_entry: irq=4 name=ttyS0";
    let wake = "b-12 [000] d.h2. 0.000021: sched_waking: comm=a pid=11 prio=120 target_cpu=000";
    let end = "b-12 [000] d.h1. 0.000022: irq_handler_exit: irq=4 ret=handled";
    check(
        &[A_BLOCKS, begin, wake, end, B_BLOCKS],
        "track a#0 id 11\n  ran on 0 0.000..0.000\n  ran on 0 40.000..40.000\n  waited 0.000..11.000..40.000 interrupt: irq ttyS0\n\
         track b#1 id 12\n  ran on 0 0.000..40.000\n  waited 40.000..never..never not known\n  interrupt: irq ttyS0 10.000..12.000\n",
    );
    let bare = "b-12 [000] d.s2. 0.000021: sched_waking: comm=a pid=11 prio=120 target_cpu=000";
    check(
        &[A_BLOCKS, bare, B_BLOCKS],
        "track a#0 id 11\n  ran on 0 0.000..0.000\n  ran on 0 40.000..40.000\n  waited 0.000..11.000..40.000 interrupt: timer or unnamed interrupt\n\
         track b#1 id 12\n  ran on 0 0.000..40.000\n  waited 40.000..never..never not known\n",
    );
}

/// The kernel began to trace starts of work earlier than ends of work.
#[test]
fn work_without_an_end_lasts_until_its_worker_is_idle_or_the_next_work_begins() {
    let event = |us: u32, what: &str| format!("k-9 [000] ..... 0.0000{us}: {what}");
    let work = |us: u32, what: &str, name: &str| {
        event(us, &format!("workqueue_execute_{what}: work struct 0000000000000000: function {name}"))
    };
    let leaves = |us: u32, state: &str| {
        event(
            us,
            &format!(
                "sched_switch: prev_comm=k prev_pid=9 prev_prio=120 prev_state={state} ==> next_comm=b next_pid=12 next_prio=120"
            ),
        )
    };
    let back = |us: u32| {
        format!(
            "b-12 [000] d..2. 0.0000{us}: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=k next_pid=9 next_prio=120"
        )
    };
    // An interrupt of the worker between two work items is in neither.
    let interrupt = [
        "k-9 [000] d.h1. 0.000041: irq_handler_entry: irq=4 name=ttyS0".to_owned(),
        "k-9 [000] d.h1. 0.000042: irq_handler_exit: irq=4 ret=handled".to_owned(),
    ];
    let relevant_lines = |lines: &[String]| -> Vec<String> {
        let dump = dump("t", (lines.join("\n") + "\n").as_bytes());
        let is_relevant =
            |line: &&str| line.contains("diagnostic") || line.contains(": work ") || line.contains("irq ");
        dump.lines().skip(3).filter(is_relevant).map(|line| line.trim_end().to_owned()).collect()
    };
    let boot = |state: &str| {
        let first = [work(10, "start", "f"), leaves(12, state), back(40)];
        let next = [work(45, "start", "g"), work(48, "end", "g"), leaves(50, "I")];
        relevant_lines(&[&first[..], &interrupt, &next].concat())
    };
    let missing = "diagnostic: traced-work-without-end × 1 (t:6)";
    let (irq, g) = ("  interrupt: irq ttyS0 31.000..32.000", "  work: work g 35.000..38.000");
    assert_eq!(boot("I"), [missing, "  work: work f 0.000..2.000", irq, g]);
    assert_eq!(
        boot("D"),
        [missing, "  work: work f 0.000..35.000", "    interrupt: irq ttyS0 31.000..32.000", g],
        "f slept"
    );
    let again = [work(10, "start", "f"), leaves(12, "I"), back(40), work(45, "end", "f"), leaves(48, "I")];
    assert_eq!(relevant_lines(&again), ["  work: work f 0.000..35.000"], "it slept like an idle worker");
    let cut = [work(10, "start", "f"), leaves(12, "I"), back(40), leaves(48, "S")];
    assert_eq!(relevant_lines(&cut), ["diagnostic: traced-work-without-end × 1 (t:4)", "  work: work f 0.000..2.000"]);
}

/// `ksoftirqd` runs in its own turn: a thread that waits for its work waits for that turn, not for an interrupt.
#[test]
fn a_softirq_in_its_own_thread_is_that_threads_work() {
    let switch = |from: &str, pid: u32, to: &str, next: u32, us: u32| {
        format!(
            "{from}-{pid} [000] d..2. 0.0000{us}: sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 prev_state=S ==> next_comm={to} next_pid={next} next_prio=120"
        )
    };
    let (blocks, back) = (switch("a", 11, "ksoftirqd/0", 14, 10), switch("ksoftirqd/0", 14, "a", 11, 50));
    let wake = |flags: &str| {
        format!("ksoftirqd/0-14 [000] {flags} 0.000021: sched_waking: comm=a pid=11 prio=120 target_cpu=000")
    };
    let expected = |by: &str| {
        format!(
            "track a#0 id 11\n  ran on 0 0.000..0.000\n  ran on 0 40.000..40.000\n  waited 0.000..11.000..40.000 {by}\n\
             track ksoftirqd/0#1 id 14\n  ran on 0 0.000..40.000\n  waited 40.000..never..never not known\n"
        )
    };
    check(&[&blocks, &wake("d.s3."), &back], &expected("ksoftirqd/0#1"));
    check(&[&blocks, &wake("d.h3."), &back], &expected("interrupt: timer or unnamed interrupt"));
    // If the trace shows the starts of softirqs, they show which context runs them.
    let event = |us: u32, what: &str| format!("ksoftirqd/0-14 [000] d.s1. 0.0000{us}: {what}");
    let softirq = [event(20, "softirq_entry: vec=3 [action=NET_RX]"), event(30, "softirq_exit: vec=3 [action=NET_RX]")];
    let irq = |us: u32| {
        let irq = |us: u32, what: &str| format!("ksoftirqd/0-14 [000] d.h1. 0.0000{us}: irq_handler_{what}");
        [irq(us, "entry: irq=4 name=ttyS0"), irq(us + 1, "exit: irq=4 ret=handled")]
    };
    let woken_by = |lines: &[String]| -> String {
        let lines = [std::slice::from_ref(&blocks), lines, std::slice::from_ref(&back)].concat();
        let dump = dump("t", (lines.join("\n") + "\n").as_bytes());
        let waited = dump.lines().find(|line| line.contains("waited 0.000..11.000..40.000 ")).expect("a waits");
        waited.split("40.000 ").nth(1).unwrap_or_default().to_owned()
    };
    let [begins, ends] = &softirq;
    let wakes = wake("d.s3.");
    assert_eq!(woken_by(&[begins.clone(), wakes.clone(), ends.clone()]), "ksoftirqd/0#1");
    let [enters, leaves] = irq(12);
    let after = [enters, leaves, begins.clone(), wakes.clone(), ends.clone()];
    assert_eq!(woken_by(&after), "interrupt: softirq NET_RX", "on top of the thread, before that began");
    let earlier = [event(11, "softirq_entry: vec=1 [action=TIMER]"), event(12, "softirq_exit: vec=1 [action=TIMER]")];
    let [enters, leaves] = irq(14);
    let between = [&earlier[..], &[enters, leaves, begins.clone(), wakes.clone(), ends.clone()]].concat();
    assert_eq!(woken_by(&between), "ksoftirqd/0#1", "who goes from one softirq to the next goes on");
    let lost = [&earlier[..], &[wakes]].concat();
    assert_eq!(woken_by(&lost), "interrupt: timer or unnamed interrupt", "no interrupt in the trace woke it");
}

#[test]
fn where_events_were_lost_nothing_is_invented() {
    let before = "b-12 [000] ..... 0.000020: initcall_level: level=late";
    let after = "a-11 [000] ..... 0.000090: initcall_level: level=late";
    check(
        &[A_BLOCKS, before, "CPU:0 [LOST 3 EVENTS]", after],
        "diagnostic: trace-events-lost × 3 (t:3)\n\
         track a#0 id 11\n  ran on 0 0.000..0.000\n  ran on 0 80.000..80.000\n  waited 0.000..80.000..80.000 not known\n  level: initcall level late 80.000..80.000\n\
         track b#1 id 12\n  ran on 0 0.000..10.000\n  waited 10.000..never..never not known\n  level: initcall level late 10.000..10.000\n",
    );
}

#[test]
fn a_process_id_is_used_again() {
    let exit = "a-11 [000] ..... 0.000008: sched_process_exit: comm=a pid=11 prio=120";
    let dead = "a-11 [000] d..2. 0.000010: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=X ==> next_comm=b next_pid=12 next_prio=120";
    let fork = "b-12 [000] ..... 0.000020: sched_process_fork: comm=b pid=12 child_comm=b child_pid=11";
    let new = "b-12 [000] d..2. 0.000021: sched_wakeup_new: comm=b pid=11 prio=120 target_cpu=000";
    check(
        &[exit, dead, fork, new, B_BLOCKS],
        "track a#0 id 11\n  ran on 0 0.000..2.000\n\
         track b#1 id 12\n  ran on 0 2.000..42.000\n  waited 42.000..never..never not known\n\
         track a#2 id 11 created 13.000 by b#1\n  ran on 0 42.000..42.000\n  waited 13.000..13.000..42.000 b#1\n",
    );
}

/// A module's init function is already freed when the trace is printed, so its initcall has an address as its name. It
/// does not belong to the kernel's level.
#[test]
fn modules_that_process_1_loads_belong_to_no_level() {
    check(
        &[
            "i-1 [000] ..... 0.000010: initcall_level: level=late",
            "i-1 [000] ..... 0.000011: initcall_start: func=a+0x0/0x1",
            "i-1 [000] ..... 0.000012: initcall_finish: func=a+0x0/0x1 ret=0",
            "i-1 [000] ..... 0.000015: sched_process_exec: filename=/bootscope/root pid=1 old_pid=1",
            "i-1 [000] ..... 0.000016: module_load: virtio ",
            "i-1 [000] ..... 0.000017: initcall_start: func=0xffffffffc0348000",
            "i-1 [000] ..... 0.000018: initcall_finish: func=0xffffffffc0348000 ret=0",
        ],
        "track i#0 id 1\n  level: initcall level late 0.000..2.000\n    initcall: initcall a 1.000..2.000\n\
         \x20 process: process /bootscope/root 5.000..8.000\n    module: module virtio 6.000..8.000\n      initcall: initcall [virtio] 7.000..8.000\n\
         mark 5.000 i#0 exec /bootscope/root\nmark 6.000 i#0 module loaded: virtio\n",
    );
}

/// A missing return once made its initcall as long as the rest of its level, with all later initcalls inside it.
#[test]
fn an_initcall_without_a_return_ends_where_the_next_begins_and_is_not_listed() {
    let lost = "traced-initcall-without-return";
    check(
        &[
            "i-1 [000] ....... 0.000010: initcall_level: level=early",
            "i-1 [000] ....... 0.000011: initcall_start: func=a+0x0/0x1",
            "i-1 [000] ....... 0.000013: initcall_start: func=b+0x0/0x1",
            "i-1 [000] ..L.... 0.000014: initcall_finish: func=b+0x0/0x1 ret=0",
            "i-1 [000] ....... 0.000015: initcall_start: func=c+0x0/0x1",
            "i-1 [000] ....... 0.000018: initcall_level: level=core",
            "i-1 [000] ....... 0.000019: initcall_start: func=d+0x0/0x1",
            "i-1 [000] ....... 0.000020: initcall_finish: func=d+0x0/0x1 ret=0",
        ],
        &format!(
            "diagnostic: {lost} × 2 (t:3)\n\
             track i#0 id 1\n  level: initcall level early 0.000..8.000\n    call: initcall a, at most: its return was not traced 1.000..3.000\n\
             \x20   initcall: initcall b 3.000..4.000\n    call: initcall c, at most: its return was not traced 5.000..8.000\n\
             \x20 level: initcall level core 8.000..10.000\n    initcall: initcall d 9.000..10.000\n"
        ),
    );
}

#[test]
fn modules_levels_and_processes() {
    check(
        &[
            "m-7 [000] ..... 0.000001: sched_process_exec: filename=/sbin/modprobe pid=7 old_pid=7",
            "m-7 [000] ..... 0.000002: module_load: virtio_net E",
            "m-7 [000] ..... 0.000003: initcall_start: func=init_module+0x0/0x1000 [virtio_net]",
            "m-7 [000] ..... 0.000004: initcall_finish: func=init_module+0x0/0x1000 [virtio_net] ret=0",
            "m-7 [000] ..... 0.000009: sched_process_exit: comm=m pid=7 prio=120",
            "i-1 [000] ..... 0.000010: initcall_level: level=core",
            "i-1 [000] ..... 0.000011: initcall_start: func=a+0x0/0x1",
            "i-1 [000] ..... 0.000012: initcall_finish: func=a+0x0/0x1 ret=-19",
            "i-1 [000] ..... 0.000015: initcall_level: level=late",
            "i-1 [000] ..... 0.000016: initcall_start: func=b+0x0/0x1",
            "i-1 [000] ..... 0.000020: initcall_start: func=c+0x0/0x1 [m]",
        ],
        "diagnostic: traced-initcall-without-return × 1 (t:11)\n\
         diagnostic: entry-without-exit × 1 ()\n\
         track m#0 id 7\n  process: process /sbin/modprobe 0.000..8.000\n    module: module virtio_net 1.000..3.000\n      initcall: initcall init_module [virtio_net] 2.000..3.000\n\
         track i#1 id 1\n  level: initcall level core 9.000..11.000\n    initcall: initcall a 10.000..11.000\n  level: initcall level late 14.000..19.000\n    call: initcall b, at most: its return was not traced 15.000..19.000\n      initcall: initcall c [m] 19.000..19.000\n\
         mark 0.000 m#0 exec /sbin/modprobe\nmark 1.000 m#0 module loaded: virtio_net\n",
    );
}

/// A boot that, by systemd's message, ended after 5 s, with a trace of these events in this file.
fn booted_with(file: &str, events: &[String], declared: usize) -> Timeline {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("traces-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("recording.json", r#"{"schema": "bootscope.recording/1", "time_base": "evidence"}"#);
    write(
        "00-journal.txt",
        "__MONOTONIC_TIMESTAMP=5000000\n_PID=1\nMESSAGE_ID=b07a249cd024414a82dd00cd181378ff\nKERNEL_USEC=1000000\n\
         USERSPACE_USEC=4000000\nMESSAGE=Startup finished\n\n",
    );
    let heading = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {declared}/{declared}   #P:1\n#\n");
    write(file, &(heading + &events.join("\n") + "\n"));
    let timeline = evidence::load(&recording::Recording::open(&folder).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    timeline
}

/// Switches between process 1 and a worker until this time.
fn turns(until_ms: u32) -> Vec<String> {
    let switch = |ms: u32, (from, pid): (&str, u32), (to, next): (&str, u32)| {
        format!(
            "{from}-{pid} [000] d..2. {}.{:03}000: sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 prev_state=R ==> next_comm={to} next_pid={next} next_prio=120",
            ms / 1000,
            ms % 1000
        )
    };
    let (init, worker) = (("init", 1), ("worker", 9));
    let times = (1..=until_ms / 100).map(|n| n * 100);
    times.map(|ms| if ms / 100 % 2 == 0 { switch(ms, worker, init) } else { switch(ms, init, worker) }).collect()
}

/// The thread that ran last in a cut trace is not known to have run until the end mark.
#[test]
fn after_the_end_of_a_cut_trace_no_thread_is_charged() {
    let whole = turns(4_900);
    let seen = |timeline: &Timeline| {
        let diagnostic = timeline.diagnostics.iter().find(|d| d.kind == timeline::DiagnosticKind::TraceEndsEarly);
        assert_eq!(diagnostic.map(|d| d.count), timeline.threads_seen_until.map(|_| 1));
        assert_eq!(diagnostic.and_then(|d| d.cost), timeline.threads_seen_until.map(|seen| Ns::from_ms(5_000) - seen));
        timeline.threads_seen_until
    };
    // Cut in process 1's turn and in the worker's.
    for kept in [20, 21, 40] {
        let boot = booted_with("trace.txt", &whole[..kept], whole.len());
        let last = Ns::from_ms(100 * kept as i64);
        assert_eq!(seen(&boot), Some(last));
        let path = analysis::boot_path(&boot);
        let after: Vec<_> = path.stretches.iter().filter(|stretch| stretch.to > last).collect();
        assert!(matches!(after[..], [only] if only.from == last && only.to == Ns::from_ms(5_000)), "{after:?}");
        let (only, init) = (after[0], boot.end.unwrap().track.unwrap());
        assert_eq!((only.kind, &only.chain[..]), (StretchKind::Wait, &[Frame { track: init, span: None }][..]));
        assert!(path.stretches.iter().any(|stretch| stretch.kind == StretchKind::Runqueue), "before, turns are seen");
    }
    // A recording's trace is read when the boot is over: if it is complete, nothing happened after its last event.
    assert_eq!(seen(&booted_with("trace.txt", &whole[..40], 40)), None);
    assert_eq!(seen(&booted_with("trace.txt", &whole, whole.len())), None);
    // It is unknown when an imported trace was read.
    assert_eq!(seen(&booted_with("01-trace.txt", &whole[..40], 40)), Some(Ns::from_ms(4_000)));
    // This imported trace ends with the boot.
    let mut to_the_end = turns(5_000);
    to_the_end[49] = to_the_end[49].replace("5.000000", "4.992000");
    assert_eq!(seen(&booted_with("01-trace.txt", &to_the_end, 50)), None);
}

/// The heading's count includes records that bootscope cannot print; a note at the end gives their number.
#[test]
fn records_of_unknown_kinds_do_not_make_a_trace_cut() {
    let mut events = turns(4_000);
    events.push("# 3 records of kinds that are not known".to_owned());
    assert_eq!(booted_with("trace.txt", &events, 43).threads_seen_until, None);
    assert_eq!(booted_with("trace.txt", &events, 44).threads_seen_until, Some(Ns::from_ms(4_000)));
}
