//! The threads that had the CPU, in logs of a few lines with known answers. A tick is a microsecond.

use evidence::tslog::{Counter, Log, build};
use timeline::{DiagnosticKind, Ns, TimeBase, Timeline};

fn built(text: &str, cpu_count: u32) -> Timeline {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    timeline.cpu_count = cpu_count;
    let mut log = Log::default();
    log.read("0.log", text.as_bytes(), &mut timeline.diagnostics);
    build(log, Counter::Rate(1e6, timeline::RateSource::User), &mut timeline);
    timeline.finalize(Ns::ZERO);
    timeline
}

/// The turns as `CPU thread from..to`, then the waits for a CPU as `thread off from..until, ready`, with the waker.
fn occupancy_lines(t: &Timeline) -> Vec<String> {
    let name = |track| t.names.get(t.tracks.get(track).name);
    let us = |at: Ns| at.0 / 1000;
    let turns = t.occupancy.turns.iter();
    let turns = turns.map(|r| format!("{} {} {}..{}", r.cpu, name(r.track), us(r.from), us(r.to)));
    let off = t.occupancy.off.iter().map(|o| {
        let ready = o.ready.map_or("when?".to_owned(), |at| format!("ready {}", us(at)));
        let by = o.by.map_or(String::new(), |by| format!(" by {}", name(by)));
        format!("{} off {}..{}, {ready}{by}", name(o.track), us(o.from), us(o.until))
    });
    turns.chain(off).collect()
}

#[track_caller]
fn check(text: &str, cpu_count: u32, expected: &[&str]) {
    assert_eq!(occupancy_lines(&built(text, cpu_count)), expected, "\n{text}");
}

/// A holder that gets no CPU before another thread is done; a sleep of unknown length; an idle CPU.
const HOLDER: &str = "\
0x1 0 ENTER mi_startup
0x2 1000 THREAD hog
0x3 2000 THREAD holder
0x1 3000 EVENT WAIT root
0x1 3010 ENTER _sleep
0x2 3020 ENTER work
0x2 73010 EXIT work
0x2 73020 ENTER _sleep
0x3 73030 ENTER probe
0x3 80000 ENTER _sleep
0x3 85000 EXIT _sleep
0x3 86000 EXIT probe
0x3 86010 EVENT RELEASE root
0x1 86020 EXIT _sleep
0x1 86030 EVENT UNWAIT root
0x1 86040 ENTER start_init
0x1 90000 EXIT start_init
";

#[test]
fn with_one_cpu_the_thread_that_logs_has_it() {
    let expected = [
        "0 thread0 0..3010",
        "0 hog 3010..73020",
        "0 holder 73020..80000",
        "0 holder 85000..86010",
        "0 thread0 86010..90000",
        "thread0 off 3010..86010, when?",
        "hog off 1000..3010, ready 1000 by thread0",
        "holder off 2000..73020, ready 2000 by thread0",
        "holder off 80000..85000, when?",
    ];
    check(HOLDER, 1, &expected);
    // The console gives the number of CPUs too.
    check(&format!("hw.ncpu: 1\n{HOLDER}"), 0, &expected);
}

#[test]
fn with_several_cpus_or_an_unknown_number_nothing_is_inferred() {
    check(HOLDER, 0, &[]);
    check(HOLDER, 2, &[]);
    check(&format!("hw.ncpu: 2\n{HOLDER}"), 1, &[]);
    check(&format!("FreeBSD/SMP: Multiprocessor System Detected: 2 CPUs\n{HOLDER}"), 0, &[]);
}

#[test]
fn a_timeout_tells_since_when_a_thread_could_run() {
    let text = HOLDER.replace("0x3 85000", "0x3 80000 EVENT TIMEOUT 3ms\n0x4 81000 ENTER other\n0x3 85000");
    let expected = [
        "0 thread0 0..3010",
        "0 hog 3010..73020",
        "0 holder 73020..80000",
        "0 0x4 80000..85000",
        "0 holder 85000..86010",
        "0 thread0 86010..90000",
        "thread0 off 3010..86010, when?",
        "hog off 1000..3010, ready 1000 by thread0",
        "holder off 2000..73020, ready 2000 by thread0",
        "holder off 80000..85000, ready 83000",
    ];
    check(&text, 1, &expected);
    // A sleep that ended before its timeout was ended by a wake-up.
    let text = text.replace("TIMEOUT 3ms", "TIMEOUT 10s");
    assert!(occupancy_lines(&built(&text, 1)).contains(&"holder off 80000..85000, when?".to_owned()));
}

/// A holder that does not sleep while another thread has the CPU.
const PREEMPTED: &str = "\
0x1 0 ENTER mi_startup
0x2 1000 THREAD hog
0x3 2000 THREAD holder
0x3 2500 EVENT HOLD root
0x1 3000 EVENT WAIT root
0x1 3010 ENTER _sleep
0x2 3020 ENTER work
0x2 73020 EXIT work
0x3 73030 EVENT RELEASE root
0x3 73040 ENTER _sleep
0x1 73050 EXIT _sleep
0x1 73060 EVENT UNWAIT root
0x1 73070 ENTER start_init
0x1 90000 EXIT start_init
";

#[test]
fn a_thread_that_does_not_sleep_while_another_has_the_cpu_is_ready() {
    let expected = [
        "0 thread0 0..2500",
        "0 holder 2500..3000",
        "0 thread0 3000..3010",
        "0 hog 3010..73020",
        "0 holder 73020..73040",
        "0 thread0 73040..90000",
        "thread0 off 2500..3000, ready 2500",
        "thread0 off 3010..73040, when?",
        "hog off 1000..3010, ready 1000 by thread0",
        "holder off 2000..2500, ready 2000 by thread0",
        "holder off 3000..73020, ready 3000",
    ];
    check(PREEMPTED, 1, &expected);
    check(PREEMPTED, 2, &[]);
    // Its next record is a sleep: the thread was ready until then.
    let text = PREEMPTED.replace("0x3 73030 EVENT", "0x2 73025 ENTER more\n0x3 73030 ENTER _sleep\n0x3 73035 EVENT");
    let lines = occupancy_lines(&built(&text, 1));
    assert!(lines.contains(&"holder off 3000..73030, ready 3000".to_owned()), "{lines:#?}");
}

/// The diagnostics about the unknown number of CPUs: number of holders, microseconds, and the place of the first.
fn unknown(text: &str, cpu_count: u32) -> Vec<String> {
    let t = built(text, cpu_count);
    let noted = t.diagnostics.iter().filter(|d| d.kind == DiagnosticKind::TslogCpuCountUnknown);
    noted.map(|d| format!("{} {} {}", d.count, d.cost.unwrap_or_default().0 / 1000, d.first)).collect()
}

#[test]
fn the_number_of_cpus_is_requested_only_if_it_matters() {
    assert_eq!(unknown(PREEMPTED, 0), ["1 70020 0.log:9"]);
    // The holder was created but did not run. Only the release shows its hold.
    assert_eq!(unknown(HOLDER, 0), ["1 70020 0.log:9"]);
    let known = format!("hw.ncpu: 2\n{PREEMPTED}");
    // No thread waits for the hold; the holder was not interrupted; it was interrupted only briefly.
    let not_waited = PREEMPTED.replace(" WAIT root", " WAIT other").replace("UNWAIT root", "UNWAIT other");
    let asleep = PREEMPTED
        .replace("0x1 3000 EVENT", "0x3 2600 ENTER _sleep\n0x1 3000 EVENT")
        .replace("0x3 73030 EVENT", "0x3 73030 EXIT _sleep\n0x3 73030 EVENT");
    let short = PREEMPTED.replace("73020", "3120").replace("0x3 730", "0x3 31");
    for (text, cpu_count) in [(PREEMPTED, 1), (PREEMPTED, 2), (&known, 0), (&not_waited, 0), (&asleep, 0), (&short, 0)]
    {
        assert_eq!(unknown(text, cpu_count), [""; 0], "{text}");
    }
}

/// A thread's first record is a sleep, and the thread that it preempted goes on.
#[test]
fn a_thread_that_sleeps_at_once_is_ready_until_then() {
    let text = HOLDER
        .replace("0x2 73020 ENTER", "0x3 50000 ENTER _sleep\n0x2 73020 ENTER")
        .replace("0x3 73030 ENTER probe\n", "0x3 73030 EXIT _sleep\n0x3 73030 ENTER probe\n");
    let lines = occupancy_lines(&built(&text, 1));
    let holder: Vec<&String> = lines.iter().filter(|line| line.starts_with("holder off")).take(2).collect();
    assert_eq!(
        holder,
        ["holder off 2000..50000, ready 2000 by thread0", "holder off 50000..73020, when?"],
        "{lines:#?}"
    );
}

/// A thread that waits without a logged sleep was not preempted: it is unknown since when it could run.
#[test]
fn a_thread_that_waits_without_a_sleep_is_not_ready() {
    let text = PREEMPTED.replace("0x1 3010 ENTER _sleep\n", "").replace("0x1 73050 EXIT _sleep\n", "");
    let lines = occupancy_lines(&built(&text, 1));
    assert!(lines.contains(&"thread0 off 3020..73040, when?".to_owned()), "{lines:#?}");
    // A wait without an end is over when its thread leaves the function in which it began.
    let text = "\
0x1 0 ENTER mi_startup
0x1 10 ENTER f
0x1 20 EVENT WAIT root
0x1 30 EXIT f
0x2 40 ENTER work
0x2 900 EXIT work
0x1 1000 ENTER start_init
0x1 2000 EXIT start_init
";
    let lines = occupancy_lines(&built(text, 1));
    assert!(lines.contains(&"thread0 off 40..900, ready 40".to_owned()), "{lines:#?}");
}

/// A missing part of the log hides what its threads did.
#[test]
fn no_thread_is_ready_across_a_gap_in_the_log() {
    let text = PREEMPTED.replace("0x2 73020 EXIT work\n", "0x2 70000 EXIT work\n0x0 71000 EVENT TSLOG gap\n");
    let lines = occupancy_lines(&built(&text, 1));
    assert!(lines.iter().all(|line| !line.starts_with("holder off 3000")), "{lines:#?}");
}

/// Logged switches count, whatever the number of CPUs.
#[test]
fn logged_switches_are_used_with_several_cpus() {
    let text = "\
0x1 0 ENTER mi_startup
0x2 1000 THREAD worker
0x2 1001 EVENT READY
0x2 4000 EVENT RUN 1
0x1 5000 EVENT WAIT root
0x1 5010 ENTER _sleep
0x1 5020 EVENT IDLE 0
0x2 7000 EVENT RELEASE root
0x1 7010 EVENT READY
0x3 7020 EVENT RUN 0
0x2 7500 EVENT IDLE 1
0x2 7600 EVENT READY timer
0x2 7700 EVENT RUN 1
0x3 9000 EVENT READY
0x1 9000 EVENT RUN 0
0x1 9010 EXIT _sleep
0x1 9020 EVENT UNWAIT root
0x1 9030 ENTER start_init
0x1 9900 EXIT start_init
";
    let expected = [
        "0 thread0 0..5020",
        "0 0x3 7020..9000",
        "0 thread0 9000..9900",
        "1 worker 4000..7500",
        "1 worker 7700..9900",
        "thread0 off 5020..9000, ready 7010",
        "worker off 1000..4000, ready 1001",
        "worker off 7500..7700, ready 7600",
    ];
    check(text, 2, &expected);
    assert!(built(text, 2).occupancy.is_logged);
    assert!(built(text, 2).marks.is_empty(), "switches are no marks");
}

#[test]
fn hostile_logs_are_read() {
    for text in [
        "",
        "0x1 5 EVENT RUN 0\n",
        "0x1 5 EVENT RUN 4294967296\n0x1 6 EVENT IDLE x\n0x1 7 EVENT TIMEOUT 99999999999999999999s\n",
        "0x1 9 EVENT RUN 0\n0x2 3 EVENT RUN 0\n0x1 1 EVENT READY\n0x2 2 EXIT _sleep\n",
        "0x1 5 ENTER _sleep\n0x1 5 ENTER _sleep\n0x2 5 EXIT _sleep\n0x1 9 EVENT TIMEOUT 9223372036854775807ns\n",
    ] {
        let t = built(text, 1);
        assert!(t.occupancy.turns.iter().all(|turn| turn.from < turn.to), "{text}");
        assert!(t.occupancy.off.iter().all(|off| off.from <= off.until), "{text}");
    }
}
