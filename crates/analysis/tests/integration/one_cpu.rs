//! One CPU: a wait for it is charged to the thread that has it, and the work of one thread delays the others.

use crate::common::log;
use analysis::{Becomes, Groups, Saving, WhatIf, boot_path, phases, tables};
use timeline::{Ns, OffCpu, Running, Timeline, TrackId, TrackKind};

fn track(t: &mut Timeline, name: &str) -> TrackId {
    let name = t.names.intern(name);
    t.tracks.named(name, TrackKind::Thread)
}

/// Returns a log with turns and stretches off the CPU. A turn is `thread from to`. A stretch off the CPU is `thread
/// from ready until`, with `?` for an unknown `ready`.
fn boot(text: &str, turns: &str, off: &str) -> Timeline {
    let mut t = log(text);
    let words = |text: &str| -> Vec<Vec<String>> {
        text.lines()
            .map(|l| l.split_whitespace().map(str::to_owned).collect())
            .filter(|l: &Vec<_>| l.len() > 1)
            .collect()
    };
    let ns = |text: &String| Ns(text.parse().unwrap());
    for w in words(turns) {
        let track = track(&mut t, &w[0]);
        t.occupancy.turns.push(Running { track, cpu: 0, from: ns(&w[1]), to: ns(&w[2]) });
    }
    for w in words(off) {
        let track = track(&mut t, &w[0]);
        let ready = Some(&w[2]).filter(|w| *w != "?").map(ns);
        t.occupancy.off.push(OffCpu { track, from: ns(&w[1]), ready, until: ns(&w[3]), by: None });
    }
    t.finalize(Ns::ZERO);
    t
}

/// A row's name, its charge, and the threads that had the CPU for part of it.
type Charged = (String, i64, Vec<(String, i64)>);

fn rows(t: &Timeline) -> Vec<Charged> {
    let path = boot_path(t);
    let whole: Ns = path.stretches.iter().map(|s| s.length()).sum();
    assert_eq!(Some(whole), t.end.map(|end| end.at));
    let wheres = tables(t, &path, &phases(t), &Groups::freebsd()).wheres;
    assert_eq!(wheres.iter().map(|row| row.self_time).sum::<Ns>(), whole);
    let times_by_thread = |held: &[(String, Ns)]| held.iter().map(|(name, ns)| (name.clone(), ns.0)).collect();
    wheres.into_iter().map(|row| (row.name, row.self_time.0, times_by_thread(&row.cpu_held))).collect()
}

#[track_caller]
fn check_rows(t: &Timeline, expected: &[(&str, i64)]) {
    let rows: Vec<_> = rows(t).into_iter().map(|(name, ns, held)| (name, ns, held.len())).collect();
    let rows: Vec<_> = rows.iter().map(|(name, ns, held)| (name.as_str(), *ns, *held)).collect();
    let expected: Vec<_> = expected.iter().map(|&(name, ns)| (name, ns, 0)).collect();
    assert_eq!(rows, expected);
}

/// Checks the length of the boot without this row or function: the longest and the shortest.
#[track_caller]
fn check_saved(t: &Timeline, name: &str, (worst, best): (i64, i64)) {
    let mut boot = WhatIf::new(t.clone(), Groups::freebsd()).unwrap();
    let rung = boot.save(&Saving { name: name.to_owned(), becomes: Becomes::Nothing }).unwrap();
    let after = rung.range.map_or((rung.after, rung.after), |range| (range.after_at_worst, range.after_at_best));
    assert_eq!((after.0.0, after.1.0), (worst, best), "{name}");
    if let Some(range) = rung.range {
        let saved = (range.saved_at_worst, range.saved_at_best);
        assert_eq!(saved, (rung.before - after.0, rung.before - after.1), "{name}: one saving alone");
    }
}

/// The holder was created and waits for the CPU. After its release, the waiter waits for the CPU.
const HELD: &str = "
    0   main enter SYSINIT/configure
    5   hog created main
    6   usb created main
    10  main wait root
    10  main enter _sleep
    10  hog enter spin
    60  hog exit spin
    60  usb enter explore
    80  usb exit explore
    80  usb release root
    80  late enter spin
    90  late exit spin
    90  main exit _sleep
    90  main unwait root
    100 main exit SYSINIT/configure
    100 main end";
const HELD_TURNS: &str = "
    main 0 10
    hog 10 60
    usb 60 80
    late 80 90
    main 90 100";

#[test]
fn a_ready_thread_without_a_cpu_is_not_charged() {
    let t = boot(HELD, HELD_TURNS, "usb 6 6 60\n hog 5 5 10\n main 10 ? 90");
    let expected =
        [("THREAD hog · runqueue", 50), ("SYSINIT configure", 20), ("THREAD usb", 20), ("THREAD late · runqueue", 10)];
    check_rows(&t, &expected);
    for name in ["THREAD hog · runqueue", "spin"] {
        check_saved(&t, name, if name == "spin" { (40, 40) } else { (50, 50) });
    }
    check_saved(&t, "THREAD usb", (80, 80));
}

/// The thread that the boot waits for waits for another thread, which released before. It only lacks the CPU.
#[test]
fn a_thread_that_was_ready_before_the_wait_is_not_charged() {
    let text = "
        0   main enter SYSINIT/configure
        5   outer created main
        5   outer hold outer
        5   inner created main
        5   inner hold inner
        10  main enter _sleep
        10  outer wait inner
        10  outer enter _sleep
        10  inner enter spin
        30  inner exit spin
        30  inner release inner
        30  main exit _sleep
        40  main wait outer
        40  main enter _sleep
        40  hog enter spin
        70  hog exit spin
        70  outer exit _sleep
        70  outer unwait inner
        80  outer release outer
        80  main exit _sleep
        80  main unwait outer
        100 main exit SYSINIT/configure
        100 main end";
    let turns = "main 0 10\n inner 10 30\n main 30 40\n hog 40 70\n outer 70 80\n main 80 100";
    let t = boot(text, turns, "inner 5 5 10\n main 10 20 30\n main 40 ? 80\n outer 10 ? 70");
    let rows = rows(&t);
    let hog = rows.iter().find(|row| row.0 == "THREAD hog · runqueue").map(|row| row.1);
    let outer = rows.iter().find(|row| row.0 == "THREAD outer").map(|row| row.1);
    assert_eq!((hog, outer), (Some(30), Some(10)), "{rows:?}");
}

#[test]
fn without_turns_the_holder_is_charged() {
    let t = boot(HELD, "", "");
    check_rows(&t, &[("THREAD usb", 70), ("SYSINIT configure", 20), ("SYSINIT configure · _sleep", 10)]);
}

/// A holder sleeps, and another thread has the CPU when the sleep is over.
const ASLEEP: &str = "
    0   main enter SYSINIT/configure
    0   usb created main
    0   usb hold root
    0   usb enter _sleep
    0   main wait root
    10  hog enter spin
    80  hog exit spin
    85  usb exit _sleep
    90  usb release root
    90  main unwait root
    100 main exit SYSINIT/configure
    100 main end";
const ASLEEP_TURNS: &str = "
    hog 10 80
    usb 80 90
    main 90 100";

#[test]
fn a_sleep_of_known_length_ends_when_its_time_is_over() {
    let t = boot(ASLEEP, ASLEEP_TURNS, "usb 0 30 80");
    check_rows(&t, &[("THREAD hog · runqueue", 50), ("THREAD usb", 40), ("SYSINIT configure", 10)]);
}

#[test]
fn a_sleep_of_unknown_length_keeps_its_charge_and_names_the_thread_on_the_cpu() {
    let t = boot(ASLEEP, ASLEEP_TURNS, "usb 0 ? 80");
    let rows = rows(&t);
    let expected =
        [("THREAD usb".to_owned(), 90, vec![("hog".to_owned(), 70)]), ("SYSINIT configure".to_owned(), 10, Vec::new())];
    assert_eq!(rows, expected);
}

/// Two sleeps. The log does not show what ended one of them.
#[test]
fn an_uncertain_saving_is_a_range() {
    let text = "
        0   main enter SYSINIT/configure
        5   hog created main
        10  main enter _sleep
        10  hog enter spin
        80  hog exit spin
        80  main exit _sleep
        100 main exit SYSINIT/configure
        100 main end";
    let turns = "main 0 10\n hog 10 80\n main 80 100";
    check_saved(&boot(text, turns, "hog 5 5 10\n main 10 ? 80"), "spin", (100, 30));
    check_saved(&boot(text, turns, "hog 5 5 10\n main 10 40 80"), "spin", (60, 60));
    check_saved(&boot(text, turns, "hog 5 5 10\n main 10 10 80"), "spin", (30, 30));
}

/// A thread slept until a timer woke it. Long before, it was given work, but the CPU was idle in between.
#[test]
fn work_given_to_a_thread_that_left_the_cpu_idle_did_not_wake_it() {
    let text = "
        0   main enter SYSINIT/configure
        5   g_event created main
        5   cam created main
        10  main enter _sleep
        12  g_event enter _sleep
        12  cam enter spin
        30  cam exit spin
        30  cam hold events
        30  main exit _sleep
        40  main wait events
        40  main enter _sleep
        100090 g_event exit _sleep
        100095 g_event release events
        100095 main exit _sleep
        100095 main unwait events
        100100 main exit SYSINIT/configure
        100100 main end";
    let turns = "main 0 10\n g_event 10 12\n cam 12 30\n main 30 40\n g_event 100090 100095\n main 100095 100100";
    let t = boot(text, turns, "g_event 12 ? 100090\n main 10 25 30\n main 40 ? 100095");
    check_saved(&t, "spin", (100_100, 100_100));
}

/// The timer of a thread expired while another thread ran. Without that other thread, the boot sleeps until 55. The
/// thread with the timer delays the boot only if it still runs then. It does not if its timer expired at the first or
/// the last possible instant.
#[test]
fn a_range_includes_boots_beyond_its_extreme_instants() {
    let text = "
        0   late created main
        0   main enter SYSINIT/configure
        5   main enter _sleep
        5   late enter _sleep
        10  hog enter spin
        60  hog exit spin
        60  main exit _sleep
        65  main enter _sleep
        65  late exit _sleep
        65  late enter compute
        90  late exit compute
        105 main exit _sleep
        175 main exit SYSINIT/configure
        175 main end";
    let turns = "main 0 5\n late 5 10\n hog 10 60\n main 60 65\n late 65 90\n main 105 175";
    let boot = |late: &str| boot(text, turns, &format!("late 10 {late} 65\n main 5 10 60\n main 65 105 105"));
    let mut after = Vec::new();
    for late in ["10", "24", "38", "51", "65"] {
        let mut what_if = WhatIf::new(boot(late), Groups::freebsd()).unwrap();
        let saving = Saving { name: "spin".to_owned(), becomes: Becomes::Nothing };
        after.push(what_if.save(&saving).unwrap().after.0);
    }
    assert_eq!(after, [125, 125, 133, 146, 125]);
    check_saved(&boot("?"), "spin", (146, 125));
}

/// A hold that was over before the boot waited for it is now what the boot waits for.
#[test]
fn the_boot_waits_for_a_thread_that_it_has_overtaken() {
    let text = "
        0   main enter SYSINIT/a
        5   usb created main
        5   usb hold root
        10  main enter _sleep
        10  usb enter explore
        50  usb exit explore
        50  usb release root
        50  main exit _sleep
        90  main exit SYSINIT/a
        90  main enter SYSINIT/b
        90  main wait root
        90  main unwait root
        100 main exit SYSINIT/b
        100 main end";
    let t = boot(text, "main 0 10\n usb 10 50\n main 50 100", "usb 5 5 10\n main 10 30 50");
    check_saved(&t, "SYSINIT a", (50, 50));
    check_saved(&t, "explore", (80, 80));
}

/// Without the sleep, the boot asks for a topic before its holder has released it, in the middle of a turn on the CPU.
#[test]
fn a_turn_goes_on_from_the_new_wait_in_it() {
    let text = "
        0   main enter SYSINIT/a
        5   usb created main
        10  main enter _sleep
        10  usb hold root
        50  usb release root
        50  main exit _sleep
        60  main exit SYSINIT/a
        60  main enter SYSINIT/b
        60  main wait root
        60  main unwait root
        70  main exit SYSINIT/b
        70  main end";
    let turns = "main 0 10\n usb 10 20\n usb 40 50\n main 50 70";
    let t = boot(text, turns, "usb 5 5 10\n usb 20 40 40\n main 10 50 50");
    check_saved(&t, "_sleep", (60, 60));
}
