//! Savings on hand-made logs, each with its only correct result.

use crate::common::log;
use analysis::{Becomes, Cannot, Groups, Saving, Target, WhatIf, boot_path};
use proptest::prelude::*;
use timeline::{Hold, NameId, Ns, Running, SpanKind, SpanRow, TimeBase, Timeline, TrackId, TrackKind, Wait, WaitedOn};

/// Parses `NAME`, `NAME=20` (nanoseconds) or `NAME=-50%`.
fn saving(text: &str) -> Saving {
    let (name, becomes) = match text.split_once('=') {
        None => (text, Becomes::Nothing),
        Some((name, value)) => match value.strip_prefix('-').and_then(|v| v.strip_suffix('%')) {
            Some(percent) => (name, Becomes::Less(percent.parse::<f64>().unwrap() / 100.0)),
            None => (name, Becomes::Takes(Ns(value.parse().unwrap()))),
        },
    };
    Saving { name: name.to_owned(), becomes }
}

/// Checks the boot's length after each saving.
#[track_caller]
fn check(text: &str, savings: &[(&str, i64)]) -> WhatIf {
    check_timeline(log(text), savings)
}

#[track_caller]
fn check_timeline(timeline: Timeline, savings: &[(&str, i64)]) -> WhatIf {
    check_with(timeline, Groups::freebsd(), savings)
}

#[track_caller]
fn check_with(timeline: Timeline, groups: Groups, savings: &[(&str, i64)]) -> WhatIf {
    let mut boot = WhatIf::new(timeline, groups).unwrap();
    for (text, expected) in savings {
        let before = boot.total();
        let rung = boot.save(&saving(text)).unwrap();
        assert_eq!((rung.before, rung.after, boot.total()), (before, Ns(*expected), Ns(*expected)), "{text}");
        let path = boot_path(boot.timeline());
        assert_eq!(path.stretches.iter().map(|s| s.length()).sum::<Ns>(), Ns(*expected), "{text}");
    }
    boot
}

const ALONE: &str = "
    0   main enter SYSINIT/clocks
    10  main enter DELAY
    60  main exit  DELAY
    70  main exit  SYSINIT/clocks
    70  main enter _vprintf
    90  main exit  _vprintf
    90  main enter DEVICE_PROBE/psm
    92  main enter DELAY
    98  main exit  DELAY
    100 main exit  DEVICE_PROBE/psm
    100 main enter SYSINIT/cpu
    110 main enter _vprintf
    120 main exit  _vprintf
    130 main exit  SYSINIT/cpu
    130 main end";

#[test]
fn savings_on_one_thread_shorten_the_boot() {
    check(ALONE, &[("_vprintf", 100), ("DEVICE_PROBE psm", 90), ("SYSINIT clocks · DELAY=5", 45)]);
    check(ALONE, &[("_vprintf=-50%", 115), ("_vprintf=-50%", 108), ("_vprintf", 100), ("_vprintf", 100)]);
}

/// Before the kernel traces, the CPU is followed: one thing after the other, even if one of them comes back.
#[test]
fn savings_before_there_are_threads_shorten_the_boot() {
    let text = "
        0   firmware enter post
        10  rom  created firmware
        10  rom  enter rom_init
        20  rom  exit rom_init
        30  firmware exit post
        30  unpacker created firmware
        30  unpacker enter inflate
        90  unpacker exit inflate
        90  main created unpacker
        90  main enter setup
        150 main exit setup
        150 main enter SYSINIT/clocks
        200 main exit SYSINIT/clocks
        200 main end";
    let mut boot = log(text);
    let ran = [("firmware", 0, 10), ("rom", 10, 20), ("firmware", 20, 30), ("unpacker", 30, 90), ("main", 90, 200)];
    for (name, from, to) in ran {
        let name = boot.names.intern(name);
        let track = boot.tracks.named(name, TrackKind::Thread);
        boot.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    boot.cpus_followed_until = Some(Ns(120));
    boot.finalize(Ns::ZERO);
    check_timeline(boot.clone(), &[("rom_init", 190), ("inflate", 130), ("post", 110), ("setup", 50)]);
    check_timeline(boot, &[("post=-50%", 190), ("inflate=-50%", 160), ("SYSINIT clocks", 110), ("rom_init", 100)]);
}

#[test]
fn a_rows_suffix_may_follow_any_separator() {
    for name in ["SYSINIT clocks · DELAY", "SYSINIT clocks DELAY", "SYSINIT clocks;DELAY", "SYSINIT clocks * DELAY*"] {
        check(ALONE, &[(name, if name.contains('*') { 130 } else { 80 })][..usize::from(!name.contains('*'))]);
    }
    let boot = check(ALONE, &[("* DELAY", 80)]);
    assert_eq!(boot.timeline().end.unwrap().at, Ns(80));
}

#[test]
fn a_row_is_what_is_charged_to_it_and_a_function_all_under_it() {
    let mut boot = WhatIf::new(log(ALONE), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("SYSINIT cpu")).unwrap();
    assert_eq!(rung.target, Target::Rows(vec!["SYSINIT cpu".to_owned()]));
    assert_eq!((rung.was, rung.now, rung.after), (Ns(20), Ns(0), Ns(110)), "printing is another row");
    let rung = boot.save(&saving("SYSINIT clocks")).unwrap();
    assert_eq!((rung.after, rung.also), (Ns(90), vec!["SYSINIT clocks · DELAY".to_owned()]), "and it says so");
    let mut boot = WhatIf::new(log(ALONE), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("DELAY")).unwrap();
    assert_eq!(rung.target, Target::Functions(vec!["DELAY".to_owned()]));
    assert_eq!((rung.was, rung.after), (Ns(56), Ns(74)), "whoever asked");
    let rung = boot.save(&saving("SYSINIT")).unwrap();
    assert!(matches!(rung.target, Target::Functions(names) if names == ["SYSINIT clocks", "SYSINIT cpu"]));
    assert_eq!(rung.after, Ns(24));
}

#[test]
fn a_detail_alone_is_enough_if_only_one_has_it() {
    let mut boot = WhatIf::new(log(ALONE), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("psm")).unwrap();
    assert_eq!((rung.target, rung.after), (Target::Rows(vec!["DEVICE_PROBE psm".to_owned()]), Ns(120)));
    let mut boot = WhatIf::new(log(&ALONE.replace("DEVICE_PROBE/psm", "DEVICE_PROBE/cpu")), Groups::freebsd()).unwrap();
    let Err(Cannot::Unknown { nearest, .. }) = boot.save(&saving("cpu")) else { panic!("two are called so") };
    assert_eq!(nearest, ["SYSINIT cpu", "DEVICE_PROBE cpu"]);
    let Err(Cannot::Unknown { nearest, .. }) = boot.save(&saving("clock")) else { panic!("none is called so") };
    assert_eq!(nearest[0], "SYSINIT clocks");
}

/// A target that is to take longer than it took: the rows with the rest of its total time are named.
#[test]
fn a_target_made_longer_names_the_rows_with_the_rest() {
    let waits = "
        0   main enter SYSINIT/algapi
        5   main wait tests
        5   test hold tests
        85  test release tests
        85  main unwait tests
        90  main enter _vprintf
        96  main exit  _vprintf
        100 main exit  SYSINIT/algapi
        110 main end";
    let mut boot = WhatIf::new(log(waits), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("SYSINIT algapi=50")).unwrap();
    assert_eq!((rung.was, rung.now, rung.after), (Ns(14), Ns(50), Ns(146)));
    assert_eq!(rung.besides, [("THREAD test".to_owned(), Ns(80)), ("_vprintf".to_owned(), Ns(6))]);
    assert!(boot.save(&saving("SYSINIT algapi=10")).unwrap().besides.is_empty());
}

/// A row saves almost nothing if nearly all its time is below it. The row with that time is named, and can be saved.
#[test]
fn a_saving_of_nothing_names_the_rows_below_it() {
    let binds = "
        0   main enter SYSINIT/cpu_stop_init
        1   main enter kthread_bind
        2   main enter DELAY
        22  main exit  DELAY
        22  main exit  kthread_bind
        22  main exit  SYSINIT/cpu_stop_init
        30  main end";
    let mut boot = WhatIf::new(log(binds), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("SYSINIT cpu_stop_init")).unwrap();
    assert_eq!((rung.was, rung.before - rung.after), (Ns(1), Ns(1)));
    let (row, time) = rung.besides.first().expect("the time below it is somebody's").clone();
    assert_eq!(time, Ns(20));
    let rung = boot.save(&saving(&row)).unwrap();
    assert_eq!((rung.before - rung.after, rung.besides.len()), (Ns(20), 0));
}

const TWO_HOLD: &str = "
    0   main enter mount
    10  main wait root
    10  usb  hold root
    10  disk hold root
    60  disk release root
    100 usb  release root
    102 main unwait root
    110 main exit mount
    110 main end";

/// The longer of two holds is saved. The wait for the other one remains.
#[test]
fn a_saving_within_a_wait_counts_until_another_thread_holds() {
    check(TWO_HOLD, &[("THREAD usb", 70), ("THREAD disk", 18)]);
    check(TWO_HOLD, &[("THREAD usb=-30%", 83), ("THREAD usb=-30%", 70)]);
    // No thread waited for the shorter hold alone.
    check(TWO_HOLD, &[("THREAD disk", 110), ("THREAD usb", 18)]);
}

/// 500 of the 2500 of `explore` are on the path. To take 1000 of the path, `explore` must take 3000, not twice as long.
#[test]
fn a_target_that_is_partly_off_the_path_reaches_the_requested_time() {
    const LOG: &str = "
        0     main created
        0     usb  created main
        0     usb  hold  root
        0     usb  enter explore
        2000  main wait  root
        2500  usb  exit  explore
        2500  usb  release root
        2500  main unwait root
        2600  main end";
    check(LOG, &[("explore=1000", 3100)]);
    check(LOG, &[("explore=250", 2350)]);
    check(LOG, &[("THREAD usb=600", 2700), ("explore", 2100)]);
}

/// The caller is asked before each replay, so stopping a saving takes at most one more replay.
#[test]
fn a_caller_can_stop_a_saving() {
    for text in ["_vprintf", "_vprintf=-50%", "_vprintf=3", "_vprintf=30"] {
        let calls = std::cell::Cell::new(0);
        let mut boot = check(ALONE, &[]);
        let count = || {
            calls.set(calls.get() + 1);
            false
        };
        assert!(boot.save_unless(&saving(text), &count).is_ok());
        let all = calls.get();
        for allowed in 0..all {
            let mut boot = check(ALONE, &[]);
            calls.set(0);
            let stop = || {
                calls.set(calls.get() + 1);
                calls.get() > allowed
            };
            assert_eq!(boot.save_unless(&saving(text), &stop), Err(Cannot::Stopped), "{text}, {allowed} of {all}");
            assert!(calls.get() <= allowed + 2, "{text}: it goes on after {allowed} of {all}");
        }
    }
}

/// A wait, its hold and the creation of a thread end at one instant.
#[test]
fn a_release_ends_the_waits_that_end_at_its_instant() {
    check(
        "
        0    main created
        0    w    created main
        0    w    hold  t
        0    w    enter g
        10   main wait  t
        1000 w    exit  g
        1000 w    release t
        1000 main unwait t
        1000 x    created main
        1000 x    enter h
        1050 x    exit  h
        1100 main end",
        &[("g", 110)],
    );
}

#[test]
fn a_target_off_the_path_saves_nothing() {
    let mut boot = WhatIf::new(log(TWO_HOLD), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("THREAD disk=-50%")).unwrap();
    assert_eq!((rung.was, rung.now, rung.before, rung.after), (Ns(0), Ns(0), Ns(110), Ns(110)));
}

#[test]
fn a_removed_caller_does_not_wait() {
    let within = TWO_HOLD.replace("0   main enter mount", "0   main enter vfs\n0   main enter mount");
    let within = within.replace("110 main end", "110 main exit vfs\n110 main end");
    check(&within, &[("vfs=-50%", 55), ("vfs", 0)]);
}

/// If a wait begins earlier, it may wait for a hold that was over before it began.
#[test]
fn a_saving_before_a_wait_may_lengthen_the_wait() {
    check(
        "0   usb  created main
         0   usb  enter explore
         0   main enter SYSINIT/cpu
         100 main exit  SYSINIT/cpu
         100 main wait root
         100 main unwait root
         110 main end
         20  usb  hold root
         70  usb  release root",
        &[("SYSINIT cpu=50", 80), ("SYSINIT cpu=20", 80), ("THREAD usb", 30)],
    );
    // It does not wait for a hold that begins only when no thread waits any more.
    check(
        "0   usb  created main
         0   usb  enter explore
         0   main enter SYSINIT/cpu
         100 main exit  SYSINIT/cpu
         100 main wait root
         100 main unwait root
         110 main end
         20  usb  hold root
         70  usb  release root",
        &[("SYSINIT cpu=10", 20)],
    );
}

#[test]
fn a_thread_begins_when_its_creator_gets_there() {
    let created = "
        0   main enter SYSINIT/cpu
        50  main exit  SYSINIT/cpu
        50  usb  created main
        50  usb  enter explore
        60  main wait root
        150 usb  exit explore
        150 usb  release root
        150 main unwait root
        160 main end";
    check(created, &[("SYSINIT cpu", 110), ("THREAD usb=40", 60)]);
    check(&created.replace("created main", "created"), &[("SYSINIT cpu", 110)]);
    check(&created.replace("50  usb  created main", ""), &[("SYSINIT cpu", 110)]);
}

/// A thread that waits for work does not wait longer if the work comes earlier.
#[test]
fn work_that_is_handed_over_begins_when_it_is_handed_over() {
    let events = "
        0   geom created main
        0   main enter SYSINIT/cpu
        100 main exit  SYSINIT/cpu
        100 main hold events
        100 geom enter taste
        130 geom exit taste
        130 geom release events
        110 main wait events
        130 main unwait events
        140 main end";
    check(events, &[("SYSINIT cpu", 40), ("THREAD geom", 20)]);
    // The thread was busy with something else, so it did not wait.
    let busy = events.replace("100 geom enter taste", "50 geom enter taste");
    check(
        &busy.replace("0   geom created main", "0   geom created main\n0   geom enter g_run"),
        &[("SYSINIT cpu", 140)],
    );
}

/// A thread that logs its sleep until work comes is treated like a thread that logs nothing.
#[test]
fn a_thread_that_sleeps_until_work_is_handed_over_waits_for_it() {
    let sleeps = "
        0   main  enter SYSINIT/configure
        5   event created main
        6   event enter _sleep
        10  main  enter em_stop
        60  main  exit  em_stop
        62  main  exit  SYSINIT/configure
        65  main  hold  events
        66  main  enter g_waitidle
        66  main  wait  events
        67  event exit  _sleep
        67  event enter taste
        87  event exit  taste
        87  event release events
        88  main  unwait events
        90  main  exit  g_waitidle
        100 main  end";
    // Without the work, no thread waits for it, so the time after its release is saved too.
    check(sleeps, &[("em_stop", 50), ("THREAD event", 28)]);
    // A sleep within a thread's work is part of the work.
    let at_work = sleeps.replace("6   event enter _sleep", "6   event enter probe\n6 event enter _sleep");
    let at_work = at_work.replace("67  event enter taste", "67 event exit probe\n67  event enter taste");
    check(&at_work, &[("em_stop", 100)]);
}

/// Until its first record, a thread is not known to run. On a machine with one CPU it could not, while the boot ran.
#[test]
fn a_thread_without_records_yet_waits_for_the_boot() {
    let first_seen_late = "
        12  geom created
        12  main enter SYSINIT/psm
        60  main exit  SYSINIT/psm
        62  geom hold root
        61  main wait root
        65  geom release root
        65  main unwait root
        70  main end";
    // In 12 to 62, it is known only that the boot had waited for it since 61.
    check(first_seen_late, &[("SYSINIT psm", 22), ("THREAD geom=1", 20)]);
    check(first_seen_late, &[("SYSINIT psm=24", 46)]);
    // The thread held since its creation, or since the boot thread held for it. That is evidence of the thread.
    let released = first_seen_late.replace("62  geom hold root", "");
    check(&released, &[("SYSINIT psm", 65 + 5)]);
    check(&released.replace("12  geom created", "11  main hold root\n12  geom created"), &[("SYSINIT psm", 70)]);
    check(&released.replace("61  main wait", "60  main hold root\n61  main wait"), &[("SYSINIT psm", 22)]);
}

/// The waiter was woken before the release was logged, or by a time-out. The wait ends when the thread that still held
/// gets there.
#[test]
fn a_wait_is_for_the_thread_that_still_holds_at_its_end() {
    let race = "
        0   usb  enter explore
        10  usb  hold root
        10  main enter mount
        10  disk hold root
        20  main wait root
        30  disk release root
        70  main unwait root
        71  usb  release root
        71  usb  exit explore
        75  main end";
    check(race, &[("THREAD usb=20", 45), ("THREAD usb", 35)]);
    // Then the wait is for the other hold.
    check(&race.replace("30  disk", "60  disk"), &[("THREAD usb", 65)]);
    // It timed out: no thread released inside.
    let timed_out = race.replace("71  usb  release root", "").replace("30  disk", "15  disk");
    check(&timed_out, &[("THREAD usb=-50%", 40)]);
}

/// A release inside a wait ended it, although another thread still holds.
#[test]
fn a_release_inside_a_wait_ends_it_although_another_holds_on() {
    let log = "
        0   late hold root
        0   late enter spin
        10  usb  hold root
        10  usb  enter explore
        10  main enter mount
        20  main wait root
        70  usb  exit explore
        70  usb  release root
        71  main unwait root
        75  main end";
    check(log, &[("THREAD usb=20", 45), ("THREAD usb", 20 + 4)]);
}

/// The thread does not wait for what the boot waited for before.
#[test]
fn a_thread_that_begins_after_a_wait_of_the_boot_does_not_share_it() {
    check(
        "0   usb  created main
         0   usb  enter explore
         0   geom created main
         0   usb  hold root
         10  main wait root
         90  usb  release root
         90  main unwait root
         90  main hold events
         90  main wait events
         90  geom enter taste
         120 geom exit taste
         120 geom release events
         120 main unwait events
         130 main end",
        &[("THREAD usb=20", 70), ("THREAD usb", 50), ("THREAD geom", 20)],
    );
}

#[test]
fn a_thread_that_is_waited_for_may_itself_wait() {
    check(
        "0   main enter mount
         0   usb  hold root
         0   hub  hold ports
         10  main wait root
         20  usb  wait ports
         70  hub  release ports
         72  usb  unwait ports
         80  usb  release root
         81  main unwait root
         90  main end",
        // 20 and 8 of usb, then 1 and 9 of the boot thread.
        &[("THREAD hub", 38), ("THREAD usb", 19)],
    );
}

#[test]
fn a_wait_within_a_wait() {
    check(
        "0   usb  hold root
         0   main enter mount
         10  main wait root
         11  main enter idle
         12  main wait events
         12  geom hold events
         50  geom release events
         51  main unwait events
         52  main exit idle
         80  usb  release root
         81  main unwait root
         90  main end",
        &[("THREAD usb", 60), ("THREAD geom", 22)],
    );
}

/// With a scheduler's evidence, a wait ends when the waker gets there. A timer keeps its length.
#[test]
fn wakers_and_timers() {
    let mut t = Timeline::new(TimeBase::Host);
    let mut thread = |name: &str, id| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, id)
    };
    let (init, worker) = (thread("init", 1), thread("worker", 2));
    let mut span = |track, kind, name: &str, from, to| {
        let (name, detail) = (t.names.intern("initcall"), t.names.intern(name));
        t.spans.push(SpanRow { name, detail, start: Ns(from), end: Ns(to), track, kind }, None);
    };
    span(init, SpanKind::Initcall, "waits", 0, 100);
    span(worker, SpanKind::Work, "unpack", 10, 60);
    let timer = t.names.intern("timer");
    for (track, from, woken, until, by) in [
        (init, 10, 60, 65, WaitedOn::Thread(worker)),
        (worker, 0, 8, 10, WaitedOn::Thread(init)),
        (init, 70, 90, 90, WaitedOn::Interrupt(timer)),
    ] {
        t.waits.push(Wait { track, from: Ns(from), woken: Ns(woken), until: Ns(until), by, uninterruptible: false });
    }
    for (track, from, to) in [(init, 0, 10), (worker, 10, 60), (init, 65, 70), (init, 90, 100)] {
        t.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    let evidence = timeline::EndEvidence::LastSign;
    t.end = Some(timeline::End { at: Ns(100), error: Ns::ZERO, track: Some(init), evidence });
    t.finalize(Ns::ZERO);
    let mut boot = WhatIf::new(t, Groups::linux()).unwrap();
    assert_eq!(boot.save(&saving("initcall unpack=20")).unwrap().after, Ns(70));
    assert_eq!(boot.save(&saving("initcall unpack")).unwrap().after, Ns(45), "woken before it waits it does not wait");
    assert_eq!(boot.save(&saving("initcall waits · wait for timer")).unwrap().after, Ns(25));
}

/// A CPU that is started is first seen when it reports that it is up. The boot thread had started it, and waits for it
/// until then.
#[test]
fn a_cpu_first_seen_during_a_wait_was_started_before_it() {
    let mut t = Timeline::new(TimeBase::Host);
    let mut thread = |name: &str, id| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, id)
    };
    let (init, idle) = (thread("init", 1), thread("swapper/1", 2));
    t.waits.push(Wait {
        track: init,
        from: Ns(10),
        woken: Ns(90),
        until: Ns(92),
        by: WaitedOn::Thread(idle),
        uninterruptible: false,
    });
    for (track, cpu, from, to) in [(init, 0, 0, 10), (idle, 1, 89, 100), (init, 0, 92, 100)] {
        t.running.push(Running { track, cpu, from: Ns(from), to: Ns(to) });
    }
    let evidence = timeline::EndEvidence::LastSign;
    t.end = Some(timeline::End { at: Ns(100), error: Ns::ZERO, track: Some(init), evidence });
    t.finalize(Ns::ZERO);
    check_with(t, Groups::linux(), &[("thread swapper/1=20", 40), ("thread swapper/1", 18)]);
}

/// One CPU: time saved before a worker's turn shortens the boot, even if a thread with a timer runs in between.
#[test]
fn a_turn_begins_when_the_thread_before_it_leaves_the_cpu() {
    let mut t = Timeline::new(TimeBase::Host);
    let mut thread = |name: &str, id| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, id)
    };
    let (init, worker, ticker) = (thread("init", 1), thread("worker", 2), thread("ticker", 3));
    let mut span = |track, kind, name: &str, from, to| {
        let (name, detail) = (t.names.intern("initcall"), t.names.intern(name));
        t.spans.push(SpanRow { name, detail, start: Ns(from), end: Ns(to), track, kind }, None);
    };
    span(init, SpanKind::Initcall, "first", 0, 2);
    span(init, SpanKind::Initcall, "early", 2, 18);
    span(init, SpanKind::Initcall, "later", 18, 70);
    span(worker, SpanKind::Work, "unpack", 30, 50);
    span(ticker, SpanKind::Work, "ticks", 0, 61);
    let timer = t.names.intern("timer");
    for (track, from, woken, until, by) in [
        (worker, 0, 5, 30, WaitedOn::Thread(init)),
        (init, 30, 50, 50, WaitedOn::Thread(worker)),
        (ticker, 0, 60, 60, WaitedOn::Interrupt(timer)),
        (init, 60, 60, 61, WaitedOn::Unknown),
    ] {
        t.waits.push(Wait { track, from: Ns(from), woken: Ns(woken), until: Ns(until), by, uninterruptible: false });
    }
    for (track, from, to) in [(init, 0, 30), (worker, 30, 50), (init, 50, 60), (ticker, 60, 61), (init, 61, 70)] {
        t.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    t.end = Some(timeline::End {
        at: Ns(70),
        error: Ns::ZERO,
        track: Some(init),
        evidence: timeline::EndEvidence::LastSign,
    });
    t.finalize(Ns::ZERO);
    check_with(t, Groups::linux(), &[("initcall early", 54), ("initcall unpack=10", 44)]);
}

/// Without the function no thread waits in it, but the thread that took its CPU has as much to do as before.
#[test]
fn a_saving_leaves_out_the_thread_that_took_the_cpu() {
    let mut t = Timeline::new(TimeBase::Host);
    let [init, other] = [("init", 1), ("other", 2)].map(|(name, id)| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, id)
    });
    for (name, kind, end) in [("initcall", SpanKind::Initcall, 100), ("f", SpanKind::Call, 90)] {
        let (name, detail) = (t.names.intern(name), NameId::EMPTY);
        t.spans.push(SpanRow { name, detail, start: Ns(0), end: Ns(end), track: init, kind }, None);
    }
    let timer = WaitedOn::Interrupt(t.names.intern("timer"));
    for (from, woken, until, by) in [(20, 20, 60, WaitedOn::Nothing), (70, 80, 80, timer)] {
        let (from, woken, until) = (Ns(from), Ns(woken), Ns(until));
        t.waits.push(Wait { track: init, from, woken, until, by, uninterruptible: false });
    }
    for (track, from, to) in [(init, 0, 20), (other, 20, 60), (init, 60, 70), (init, 80, 100)] {
        t.running.push(Running { track, cpu: 0, from: Ns(from), to: Ns(to) });
    }
    let (at, track, evidence) = (Ns(100), Some(init), timeline::EndEvidence::LastSign);
    t.end = Some(timeline::End { at, error: Ns::ZERO, track, evidence });
    t.finalize(Ns::ZERO);
    check_with(t.clone(), Groups::linux(), &[("f", 50)]);
    check_with(t, Groups::linux(), &[("f=-50%", 75)]);
}

/// An interrupt wakes a worker. If it was idle, it waited for the boot to give it work. If it was working, it waited
/// for a timer.
#[test]
fn an_idle_worker_waits_for_the_boot() {
    let boot = |at_work: bool, followed: bool| {
        let mut t = Timeline::new(TimeBase::Host);
        let mut thread = |name: &str, id| {
            let name = t.names.intern(name);
            t.tracks.add(name, TrackKind::Thread, id)
        };
        let (init, worker) = (thread("init", 1), thread("worker", 2));
        let mut span = |track, kind, name: &str, from, to| {
            let (name, detail) = (t.names.intern("initcall"), t.names.intern(name));
            t.spans.push(SpanRow { name, detail, start: Ns(from), end: Ns(to), track, kind }, None);
        };
        span(init, SpanKind::Initcall, "before", 0, 50);
        span(worker, SpanKind::Work, "probe", if at_work { 0 } else { 60 }, 80);
        if followed {
            let name = t.names.intern("worker_thread");
            let (kind, detail) = (SpanKind::Call, NameId::EMPTY);
            let main_loop = SpanRow { name, detail, start: Ns(0), end: Ns(90), track: worker, kind };
            let main_loop = t.spans.push(main_loop, None);
            let node = t.profile.node(None, name);
            t.spans.set_node(main_loop, Some(node));
        }
        let timer = t.names.intern("timer");
        for (track, from, until, by) in
            [(init, 50, 80, WaitedOn::Thread(worker)), (worker, 10, 60, WaitedOn::Interrupt(timer))]
        {
            let (from, until) = (Ns(from), Ns(until));
            t.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
        }
        t.end = Some(timeline::End {
            at: Ns(90),
            error: Ns::ZERO,
            track: Some(init),
            evidence: timeline::EndEvidence::LastSign,
        });
        t.finalize(Ns::ZERO);
        let mut boot = WhatIf::new(t, Groups::linux()).unwrap();
        boot.save(&saving("initcall before=20")).unwrap().after
    };
    // 10 of the idle wait were waited for, then 20 of work and 10 more.
    assert_eq!(boot(false, false), Ns(60));
    assert_eq!(boot(true, false), Ns(90));
    // Followed calls alone do not show that it works: it sleeps in its main loop.
    assert_eq!(boot(false, true), Ns(60));
    assert_eq!(boot(true, true), Ns(90));
}

/// While the boot waits for one worker, a timer wakes another that is idle: the first gave it work.
#[test]
fn an_idle_worker_waits_for_the_thread_on_the_path() {
    let mut t = Timeline::new(TimeBase::Host);
    let mut thread = |name: &str, id| {
        let name = t.names.intern(name);
        t.tracks.add(name, TrackKind::Thread, id)
    };
    let (init, unpacker, worker) = (thread("init", 1), thread("unpacker", 2), thread("worker", 3));
    let mut span = |track, kind, name: &str, from, to| {
        let (name, detail) = (t.names.intern("initcall"), t.names.intern(name));
        t.spans.push(SpanRow { name, detail, start: Ns(from), end: Ns(to), track, kind }, None);
    };
    span(init, SpanKind::Initcall, "before", 0, 10);
    span(unpacker, SpanKind::Work, "unpack", 0, 60);
    span(worker, SpanKind::Work, "close", 50, 51);
    span(worker, SpanKind::Work, "probe", 70, 80);
    let timer = t.names.intern("timer");
    for (track, from, until, by) in [
        (init, 10, 60, WaitedOn::Thread(unpacker)),
        (worker, 0, 50, WaitedOn::Interrupt(timer)),
        (worker, 51, 70, WaitedOn::Thread(init)),
        (init, 70, 80, WaitedOn::Thread(worker)),
    ] {
        let (from, until) = (Ns(from), Ns(until));
        t.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
    }
    let (error, evidence) = (Ns::ZERO, timeline::EndEvidence::LastSign);
    t.end = Some(timeline::End { at: Ns(90), error, track: Some(init), evidence });
    t.finalize(Ns::ZERO);
    check_with(t, Groups::linux(), &[("initcall unpack", 40)]);
}

#[test]
fn an_unknown_name_is_rejected_with_similar_names() {
    let mut boot = WhatIf::new(log(ALONE), Groups::freebsd()).unwrap();
    let error = boot.save(&saving("SYSINIT clock DELAY")).unwrap_err();
    let Cannot::Unknown { nearest, .. } = &error else { panic!("{error}") };
    assert_eq!(nearest[0], "SYSINIT clocks · DELAY");
    assert!(error.to_string().contains("\"SYSINIT clock DELAY\"; nearest: \"SYSINIT clocks · DELAY\""), "{error}");
    assert_eq!(boot.total(), Ns(130), "and nothing is changed");
    let mut nowhere = log(ALONE);
    nowhere.end = None;
    assert_eq!(WhatIf::new(nowhere, Groups::freebsd()).err(), Some(Cannot::NoPath));
}

/// Threads that run, hold, wait for topics and for each other, and create each other, with any contradiction.
fn broken() -> impl Strategy<Value = Timeline> {
    let span = (0u32..4, 0usize..4, 0i64..180, 0i64..60);
    let hold = (0u32..4, 0usize..2, 0i64..180, 0i64..60, 0u32..6);
    let wait = (0u32..4, 0i64..180, 0i64..50, 0i64..10, 0u32..8);
    let many = (
        prop::collection::vec(span, 0..20),
        prop::collection::vec(hold, 0..20),
        prop::collection::vec(wait, 0..20),
        prop::collection::vec((0u32..4, 0i64..100, 0u32..4), 0..5),
    );
    many.prop_map(|(spans, holds, waits, created)| {
        let mut t = Timeline::new(TimeBase::Evidence);
        for (i, name) in (0..).zip(["main", "a", "b", "c"]) {
            let name = t.names.intern(name);
            t.tracks.add(name, TrackKind::Thread, i);
        }
        for (track, name, from, length) in spans {
            let name = t.names.intern(["f", "DELAY", "_vprintf", "g"][name]);
            let (start, end, track) = (Ns(from), Ns(from + length), TrackId(track));
            let row = SpanRow { name, detail: NameId::EMPTY, start, end, track, kind: SpanKind::Call };
            t.spans.push(row, None);
        }
        let topics = ["root", "events"].map(|name| t.names.intern(name));
        for (track, topic, from, length, open) in holds {
            let (from, to) = match open {
                0 => (Ns(from), Ns::MAX),
                1 => (Ns::MIN, Ns(from + length)),
                _ => (Ns(from), Ns(from + length)),
            };
            t.holds.push(Hold { topic: topics[topic], track: TrackId(track), from, to });
        }
        for (track, from, blocked, queued, by) in waits {
            let by = match by {
                0..3 => WaitedOn::Thread(TrackId(by)),
                3 => WaitedOn::Unknown,
                4 => WaitedOn::Nothing,
                _ => WaitedOn::Holders(topics[by as usize % 2]),
            };
            let (from, woken) = (Ns(from), Ns(from + blocked));
            t.waits.push(Wait {
                track: TrackId(track),
                from,
                woken,
                until: woken + Ns(queued),
                by,
                uninterruptible: false,
            });
        }
        for (child, at, by) in created {
            t.tracks.get_mut(TrackId(child)).created = Some((Ns(at), TrackId(by)));
        }
        t.end = Some(timeline::End {
            at: Ns(200),
            error: Ns::ZERO,
            track: Some(TrackId(0)),
            evidence: timeline::EndEvidence::LastSign,
        });
        t.finalize(Ns::ZERO);
        t
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// A boot from which nothing is saved is the same boot, for any evidence.
    #[test]
    fn nothing_saved_changes_nothing(t in broken()) {
        let mut boot = WhatIf::new(t.clone(), Groups::freebsd()).unwrap();
        let name = t.spans.iter().next().map_or("main".to_owned(), |(_, s)| t.names.get(s.name).to_owned());
        if boot.save(&Saving { name, becomes: Becomes::Less(0.0) }).is_ok() {
            let new = boot.timeline();
            prop_assert!(t.spans.iter().eq(new.spans.iter()));
            prop_assert_eq!(&t.waits, &new.waits);
            prop_assert_eq!(&t.holds, &new.holds);
            prop_assert_eq!(t.end, new.end);
            prop_assert_eq!(boot_path(&t), boot_path(new));
        }
    }

    /// Any saving leaves a boot whose path covers it, with spans that still lie inside their parents.
    #[test]
    fn any_saving_leaves_a_consistent_boot(t in broken(), share in 0.0f64..1.0) {
        let mut boot = WhatIf::new(t, Groups::freebsd()).unwrap();
        for name in ["_vprintf", "* DELAY", "f", "THREAD a"] {
            let _ = boot.save(&Saving { name: name.to_owned(), becomes: Becomes::Less(share) });
            let new = boot.timeline();
            let path = boot_path(new);
            prop_assert_eq!(path.stretches.iter().map(|s| s.length()).sum::<Ns>(), boot.total());
            for (id, row) in new.spans.iter() {
                if let Some(around) = new.spans.parent(id).map(|p| new.spans.get(p)) {
                    prop_assert!(around.start <= row.start && row.end <= around.end, "{row:?} in {around:?}");
                }
            }
        }
    }
}

/// Ten calls of `short` took half of the 60 ns in `outer` itself. None of the ten calls is a span.
fn with_short_calls() -> Timeline {
    let mut t = log("
        0   main enter outer
        20  main enter long
        60  main exit  long
        100 main exit  outer
        100 main end   -");
    let [main, outer, long, short] = ["main", "outer", "long", "short"].map(|name| t.names.intern(name));
    let bottom = t.profile.node(None, main);
    let [outer_node, long_node, short_node] = [None, Some(long), Some(short)].map(|called| {
        let outer = t.profile.node(Some(bottom), outer);
        called.map_or(outer, |called| t.profile.node(Some(outer), called))
    });
    for (node, calls, own, in_spans) in [(outer_node, 1, 30, 60), (long_node, 1, 40, 40), (short_node, 10, 30, 0)] {
        t.profile.add(node, calls, own);
        t.profile.add_in_spans(node, in_spans);
    }
    let spans: Vec<_> = t.spans.iter().map(|(id, span)| (id, span.name)).collect();
    for (id, name) in spans {
        t.spans.set_node(id, Some(if name == outer { outer_node } else { long_node }));
    }
    t
}

#[test]
fn calls_too_short_to_be_spans_can_be_saved() {
    check_timeline(with_short_calls(), &[("short", 70), ("long", 30), ("outer", 0)]);
    check_timeline(with_short_calls(), &[("short=-50%", 85), ("short", 70), ("short", 70)]);
    check_timeline(with_short_calls(), &[("short=10", 80), ("long=-50%", 60)]);
    let mut boot = WhatIf::new(with_short_calls(), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("short=-50%")).unwrap();
    assert_eq!((rung.was, rung.now), (Ns(30), Ns(15)));
}

/// All of the function is on the path, so the first factor that is tried is right. The caller is asked before the
/// saving, before each of at most two replays, and after them.
#[test]
fn a_target_that_is_all_on_the_path_takes_one_replay() {
    for text in ["_vprintf=60", "_vprintf=300"] {
        let calls = std::cell::Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            false
        };
        let mut boot = WhatIf::new(log(ALONE), Groups::freebsd()).unwrap();
        let rung = boot.save_unless(&saving(text), &count).unwrap();
        assert_eq!((rung.now, calls.get()), (rung.after - Ns(100), 4), "{text}");
    }
}

#[test]
fn a_detail_alone_is_enough_for_a_function_that_is_not_on_the_path() {
    let text = format!("{ALONE}\n 20 usb enter DEVICE_PROBE/uhub\n 50 usb exit DEVICE_PROBE/uhub");
    let mut boot = WhatIf::new(log(&text), Groups::freebsd()).unwrap();
    let rung = boot.save(&saving("uhub")).unwrap();
    assert_eq!(rung.target, Target::Functions(vec!["DEVICE_PROBE uhub".to_owned()]));
    assert_eq!((rung.was, rung.after), (Ns(0), Ns(130)));
}
