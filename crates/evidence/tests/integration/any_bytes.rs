//! For any bytes, no reader panics, each line is counted once, and spans and waits end after they start.

use evidence::ftrace::Trace;
use evidence::guestfs::Events;
use evidence::index::Index;
use evidence::kernel_log::KernelLog;
use evidence::{detect, firmware, guest_messages, initcalls};
use proptest::prelude::*;
use timeline::{Clock, DiagnosticKind, Diagnostics, Ns, TimeBase, Timeline};

/// Pieces that readers look for, so that texts made of them get further than noise does.
const PIECES: [&str; 56] = [
    "\n",
    "\r\n",
    " ",
    "\0",
    "\x1b[0m",
    "\u{fffd}",
    "[",
    "]",
    "<6>",
    "0",
    "1",
    "18446744073709551615",
    "-",
    ".",
    ":",
    "=",
    ",",
    ";",
    "[    1.234567] ",
    "[    0.000000]",
    "[    T1]",
    "[0.000002 0.000002] ",
    "[2026-11-21 10:11:12.123] ",
    "Nov 21 10:11:12 ",
    "10:11:12 ",
    "box kernel: ",
    "6,1,1500001,-;",
    " SUBSYSTEM=x",
    "calling  f+0x0/0x1 @ 1",
    "initcall f+0x0/0x1 returned 0 after 9765 usecs",
    "probe of x returned -517 after 1 usecs",
    "Linux version 3.5",
    "            init-1       [000] d.h1. 1.000001: ",
    "          <idle>-0       [001] ..... 2.000001: ",
    "   a b-7 [000] ...1. 12345: ",
    "sched_switch: prev_comm=a prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=b next_pid=2 next_prio=1",
    "sched_waking: comm=a pid=1 prio=1 target_cpu=0",
    "sched_wakeup_new: comm=a pid=2 prio=1",
    "sched_process_exit: comm=a pid=1 prio=1",
    "initcall_start: func=f+0x0/0x1",
    "initcall_finish: func=f+0x0/0x1 ret=0",
    "initcall_level: level=pure",
    "irq_handler_entry: irq=1 name=x",
    "irq_handler_exit: irq=1 ret=handled",
    "workqueue_execute_end: work struct 0",
    "CPU:1 [LOST 5 EVENTS]\n",
    "#3: +500 [appliance] \"",
    "#4: +1000000 [library] \"begin testing qemu features\"\n",
    "416.6ms (+1.1) [appliance] \"",
    "\"\n",
    "\\x1b[1;256r\\x1b[256;256H\\x1b[6n",
    "\\xffffffe2",
    "pass 1\n",
    "#9: +18446744073709551615 [launch_done] \"\"\n",
    "214\u{a0}\u{a0}#277:\u{a0}+5\u{a0}[appliance]\u{a0}\"[\u{a0}0.000000]\u{a0}x\"\n",
    "supermin: ",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => proptest::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.split_inclusive(|&b| b == b'\n').count() as u64
}

fn check_timeline(mut timeline: Timeline) {
    timeline.finalize(Ns::ZERO);
    assert!(timeline.spans.iter().all(|(_, span)| span.start <= span.end));
    assert!(timeline.running.iter().all(|r| r.from <= r.to));
    assert!(timeline.waits.iter().all(|w| w.from <= w.woken && w.woken <= w.until));
    for pair in timeline.running.windows(2).filter(|w| w[0].track == w[1].track) {
        assert!(pair[0].to <= pair[1].from, "a thread ran twice at once: {pair:?}");
    }
}

fn check_trace(bytes: &[u8]) {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let Ok(trace) = Trace::read("t", bytes, &mut timeline.diagnostics) else { return };
    let c = trace.counts;
    assert_eq!(c.events + c.headings + c.stacks + c.lost_notes + c.unreadable, lines(bytes));
    assert_eq!(trace.records().count() as u64, c.events);
    trace.build(&Clock::linear("t", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User), &mut timeline);
    check_timeline(timeline);
}

fn check_log(bytes: &[u8]) {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let Ok(log) = KernelLog::read("l", bytes, &mut timeline.diagnostics) else { return };
    let c = log.counts;
    assert_eq!(c.lines, lines(bytes));
    assert_eq!(c.lines, c.records - c.glued + c.continuations + c.comments + c.blank + c.unreadable);
    assert_eq!(c.records, log.lines.len() as u64);
    assert!(log.lines.iter().all(|line| !log.text(line).contains(['\n', '\0', '\x1b']) || line.seq.is_some()));
    let calls = initcalls::read("l", &log, |line| line.stamp, &mut timeline.diagnostics);
    assert!(calls.calls.iter().all(|call| call.start <= call.end));
    calls.build(&mut timeline);
    check_timeline(timeline);
}

fn check_guestfs(bytes: &[u8]) {
    let mut diagnostics = Diagnostics::default();
    let Ok(found) = Events::read("g", bytes, &mut diagnostics) else { return };
    let c = found.counts;
    assert_eq!(c.lines, lines(bytes));
    assert_eq!(c.lines, c.events + c.later + c.unreadable + c.others);
    assert_eq!(c.events, found.events.len() as u64);
    assert!(found.events.windows(2).all(|pair| Ns::ZERO <= pair[0].at && pair[0].at <= pair[1].at));
    check_timeline(found.on_a_timeline());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn traces(bytes in bytes()) {
        check_trace(&bytes);
    }

    #[test]
    fn logs(bytes in bytes()) {
        check_log(&bytes);
    }

    #[test]
    fn launches(bytes in bytes()) {
        check_guestfs(&bytes);
    }

    #[test]
    fn the_small_readers(bytes in bytes()) {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("i", &bytes, &mut diagnostics);
        prop_assert_eq!(index.len() as u64 + diagnostics.count(DiagnosticKind::IndexLineUnreadable)
            + diagnostics.count(DiagnosticKind::IndexLineOutOfOrder), lines(&bytes));
        guest_messages::read("g", &bytes, &index, &mut diagnostics);
        let mut timeline = Timeline::new(TimeBase::Host);
        let said = firmware::read(&bytes, &index, &mut timeline.diagnostics);
        firmware::build(&said, Ns(1_000_000), &mut timeline);
        check_timeline(timeline);
        let found = detect::detect(&bytes);
        prop_assert_eq!(found.is_empty(), bytes.is_empty());
        prop_assert!(found.iter().all(|f| f.start <= f.end && f.end <= bytes.len()));
    }

    /// From a trace that is cut anywhere and has any byte changed, the undamaged part is still read.
    #[test]
    fn damaged_fixtures(cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for original in [
            include_bytes!("../data/trace/linux-6.1-x86-tsc-second-cpu.txt").as_slice(),
            include_bytes!("../data/log/linux-6.1-kmsg.log"),
            include_bytes!("../data/log/linux-6.1-serial.log"),
            include_bytes!("../data/guestfs/whole-launch.log"),
        ] {
            let mut damaged = original[..=cut.index(original.len())].to_vec();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            check_trace(&damaged);
            check_log(&damaged);
            check_guestfs(&damaged);
        }
    }
}
