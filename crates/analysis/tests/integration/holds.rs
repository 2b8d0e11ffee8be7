//! Waits and holds: logs of a few lines, each with its only correct boot path.
//!
//! A log has one event in each line: time, thread, event. The path is written as `from-to owner`, with the threads that
//! wait for the owner before it (`main>usb`). Each thread is followed by its innermost function. `~` means that the
//! owner itself waits.

use crate::common::log;
use crate::cpu;
use analysis::{BootPath, StretchKind, boot_path};
use proptest::prelude::*;
use timeline::{End, EndEvidence, Hold, NameId, Ns, TimeBase, Timeline, TrackId, TrackKind, Wait, WaitedOn};

fn assert_covers(path: &BootPath, end: Ns) {
    let mut at = Ns::ZERO;
    for s in &path.stretches {
        assert_eq!(s.from, at, "gap or overlap at {s:?}");
        assert!(s.to > s.from, "empty stretch {s:?}");
        at = s.to;
    }
    assert_eq!(at, end);
}

fn owners(t: &Timeline) -> Vec<String> {
    let path = boot_path(t);
    assert_covers(&path, t.end.unwrap().at);
    let mut stretches: Vec<(String, Ns, Ns)> = Vec::new();
    for s in &path.stretches {
        let frame = |f: &analysis::Frame| {
            let span = f.span.map(|span| format!(":{}", t.names.get(t.spans.get(span).name)));
            format!("{}{}", t.names.get(t.tracks.get(f.track).name), span.unwrap_or_default())
        };
        let chain: Vec<String> = s.chain.iter().map(frame).collect();
        let waits = if let StretchKind::Topic(_) = s.kind { "~" } else { "" };
        let owner = format!("{}{waits}", chain.join(">"));
        match stretches.last_mut() {
            Some((last, _, to)) if *last == owner => *to = s.to,
            _ => stretches.push((owner, s.from, s.to)),
        }
    }
    stretches.into_iter().map(|(owner, from, to)| format!("{}-{} {owner}", from.0, to.0)).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(owners(&log(text)), expected);
}

#[test]
fn the_last_to_release_is_to_blame_while_it_held() {
    check(
        "0  main enter mount
         5  usb  hold root
         10 main wait root
         40 usb  release root
         41 main unwait root
         50 main exit mount
         50 main end",
        &["0-10 main:mount", "10-40 main:mount>usb", "40-41 main:mount~", "41-50 main:mount"],
    );
}

#[test]
fn before_that_the_previous_release_is_to_blame() {
    // b released last, and a held before b did. c lies within b's hold, and d overlaps no other hold.
    check(
        "0  d    hold root
         5  main wait root
         10 d    release root
         15 a    hold root
         20 b    hold root
         22 c    hold root
         24 c    release root
         30 a    release root
         40 b    release root
         40 main unwait root
         50 main end",
        &["0-5 main", "5-10 main>d", "10-15 main~", "15-20 main>a", "20-40 main>b", "40-50 main"],
    );
}

#[test]
fn no_thread_is_to_blame_before_its_creation() {
    check(
        "0  main wait root
         10 usb  created
         30 usb  release root
         30 main unwait root
         40 main end",
        &["0-10 main~", "10-30 main>usb", "30-40 main"],
    );
}

#[test]
fn a_release_without_a_hold_held_since_the_threads_creation() {
    // The log does not show when disk was created: it may have held for ever.
    check(
        "10 main wait root
         30 disk release root
         30 main unwait root
         40 main end",
        &["0-10 main", "10-30 main>disk", "30-40 main"],
    );
    // The boot thread holds on behalf of the thread that it creates, and never releases.
    check(
        "0  main hold hooks
         5  usb  created
         10 main wait hooks
         30 usb  release hooks
         30 main unwait hooks
         40 main end",
        &["0-10 main", "10-30 main>usb", "30-40 main"],
    );
}

#[test]
fn a_thread_that_still_holds_at_the_end_may_be_to_blame() {
    // The waiter is woken on another CPU before the release is logged.
    check(
        "0  usb  hold root
         0  disk hold root
         10 main wait root
         20 disk release root
         30 main unwait root
         31 usb  release root
         40 main end",
        &["0-10 main", "10-30 main>usb", "30-40 main"],
    );
    // No thread released: the wait timed out.
    check(
        "0  late hold root
         0  usb  hold root
         5  usb  release root
         10 main wait root
         30 main unwait root
         40 main end",
        &["0-10 main", "10-30 main>late", "30-40 main"],
    );
    // If several still hold, blame the first to release then, for the time in which it held. Then blame the next, and
    // the threads that released before.
    check(
        "0  a    hold root
         10 main wait root
         15 a    release root
         20 b    hold root
         25 c    hold root
         30 main unwait root
         31 c    release root
         50 b    release root
         60 main end",
        &["0-10 main", "10-15 main>a", "15-20 main~", "20-25 main>b", "25-30 main>c", "30-60 main"],
    );
    // The hold was taken when no thread waited any more.
    check(
        "10 main wait root
         30 main unwait root
         30 usb  hold root
         40 main end",
        &["0-10 main", "10-30 main~", "30-40 main"],
    );
}

/// A thread that still holds did not end the wait: a release inside it did.
#[test]
fn a_hold_that_is_never_released_does_not_end_a_wait() {
    check(
        "0  late hold root
         5  usb  hold root
         10 main wait root
         40 usb  release root
         41 main unwait root
         50 main end",
        &["0-10 main", "10-40 main>usb", "40-41 main~", "41-50 main"],
    );
    // It is not to blame for the time in which only it held either, because the waiter went on although it still holds.
    check(
        "0  late hold root
         10 main wait root
         20 usb  hold root
         40 usb  release root
         40 main unwait root
         50 main end",
        &["0-10 main", "10-20 main~", "20-40 main>usb", "40-50 main"],
    );
    // It does release in the end, but the release inside is nearer to the wait's end.
    check(
        "0  late hold root
         5  usb  hold root
         10 main wait root
         40 usb  release root
         41 main unwait root
         43 late release root
         50 main end",
        &["0-10 main", "10-40 main>usb", "40-41 main~", "41-50 main"],
    );
}

/// FreeBSD waits for the root mount in turns of a second, and checks again at each release.
#[test]
fn a_wait_in_turns_is_one_wait() {
    check(
        "0   main enter mount
         0   usb  hold root
         0   disk hold root
         10  main wait root
         20  disk release root
         20  main unwait root
         22  main enter printf
         24  main exit printf
         25  main wait root
         60  main unwait root
         61  main wait root
         90  usb  release root
         90  main unwait root
         100 main end",
        &[
            "0-10 main:mount",
            "10-20 main:mount>usb",
            "20-22 main:mount",
            "22-24 main:printf",
            "24-25 main:mount",
            "25-60 main:mount>usb",
            "60-61 main:mount",
            "61-90 main:mount>usb",
            "90-100 main:mount",
        ],
    );
    // Waits in two calls are two waits, even if the calls are of one function.
    let twice = "0   usb  hold root
         0   disk hold root
         0   main enter mount
         10  main wait root
         20  disk release root
         20  main unwait root
         20  main exit mount
         20  main enter mount
         61  main wait root
         90  usb  release root
         90  main unwait root
         100 main end";
    check(
        twice,
        &["0-10 main:mount", "10-20 main:mount>disk", "20-61 main:mount", "61-90 main:mount>usb", "90-100 main:mount"],
    );
}

/// A hold that another thread releases counts as the other thread's. The first thread no longer holds it.
#[test]
fn a_hold_that_was_handed_over_is_no_longer_held() {
    check(
        "0  disk hold events
         5  geom created
         10 main wait events
         20 geom release events
         30 main unwait events
         40 main end",
        &["0-10 main", "10-20 main>geom", "20-30 main~", "30-40 main"],
    );
    // The other thread does not hold work that it is given only after the wait either.
    check(
        "0  geom created
         10 main wait events
         12 disk hold events
         20 geom release events
         30 main unwait events
         35 disk hold events
         38 geom release events
         40 main end",
        &["0-10 main", "10-12 main~", "12-20 main>geom", "20-30 main~", "30-40 main"],
    );
}

#[test]
fn a_wait_that_never_ends_is_for_a_hold_that_is_never_released() {
    check(
        "0  usb  hold root
         5  disk hold root
         10 main wait root
         20 disk release root
         60 main end",
        &["0-10 main", "10-60 main>usb"],
    );
    // If there are several, the one that was held longest is to blame.
    check(
        "15 usb  hold root
         5  disk hold root
         10 main wait root
         60 main end",
        &["0-10 main", "10-60 main>disk"],
    );
}

#[test]
fn a_wait_without_a_thread_to_blame_is_charged_to_the_waiter() {
    check(
        "0  main enter mount
         10 main wait root
         30 main unwait root
         40 main end",
        &["0-10 main:mount", "10-30 main:mount~", "30-40 main:mount"],
    );
    // Functions that it enters while it waits are charged as running.
    check(
        "0  main enter mount
         10 main wait root
         15 main enter printf
         20 main exit printf
         30 main unwait root
         40 main end",
        &["0-10 main:mount", "10-15 main:mount~", "15-20 main:printf", "20-30 main:mount~", "30-40 main:mount"],
    );
}

#[test]
fn topics_are_independent() {
    check(
        "0  usb  hold usb
         0  disk hold disk
         10 main wait disk
         20 disk release disk
         20 main unwait disk
         25 main wait usb
         30 usb  release usb
         30 main unwait usb
         40 main end",
        &["0-10 main", "10-20 main>disk", "20-25 main", "25-30 main>usb", "30-40 main"],
    );
}

#[test]
fn an_inner_wait_has_its_own_blame_or_that_of_the_outer() {
    // The inner wait blames geom while geom held, then usb, because the outer wait for usb would have gone on.
    check(
        "0  usb  hold root
         0  main enter mount
         10 main wait root
         11 main enter idle
         12 main wait events
         12 geom hold events
         20 geom release events
         25 main unwait events
         25 main exit idle
         40 usb  release root
         42 main unwait root
         50 main end",
        &[
            "0-10 main:mount",
            "10-12 main:mount>usb",
            "12-20 main:idle>geom",
            "20-40 main:mount>usb",
            "40-42 main:mount~",
            "42-50 main:mount",
        ],
    );
}

#[test]
fn waits_may_cross() {
    check(
        "0  a    hold one
         0  b    hold two
         10 main wait one
         15 main wait two
         20 a    release one
         20 main unwait one
         30 b    release two
         30 main unwait two
         40 main end",
        &["0-10 main", "10-15 main>a", "15-30 main>b", "30-40 main"],
    );
}

#[test]
fn a_thread_to_blame_may_itself_wait() {
    check(
        "0  usb  hold root
         0  hub  hold ports
         5  usb  enter explore
         10 main wait root
         20 usb  wait ports
         30 hub  release ports
         32 usb  unwait ports
         40 usb  exit explore
         40 usb  release root
         40 main unwait root
         50 main end",
        &[
            "0-10 main",
            "10-20 main>usb:explore",
            "20-30 main>usb:explore>hub",
            "30-32 main>usb:explore~",
            "32-40 main>usb:explore",
            "40-50 main",
        ],
    );
}

#[test]
fn no_thread_waits_for_itself() {
    check(
        "0  main hold root
         10 main wait root
         20 main release root
         30 main unwait root
         40 main end",
        &["0-10 main", "10-30 main~", "30-40 main"],
    );
    // Each holds what the other waits for, so neither hold can have ended the other's wait.
    check(
        "0  main hold a
         0  usb  hold b
         10 main wait b
         15 usb  wait a
         20 main release a
         25 usb  unwait a
         30 usb  release b
         30 main unwait b
         40 main end",
        &["0-10 main", "10-15 main>usb", "15-25 main>usb~", "25-30 main>usb", "30-40 main"],
    );
}

/// The thread does not wait for its own waiter either, even if that still holds. It waits for the threads that held
/// before.
#[test]
fn a_thread_does_not_wait_for_its_own_waiter() {
    check(
        "0  main hold a
         0  usb  hold b
         0  disk hold a
         10 main wait b
         15 usb  wait a
         20 disk release a
         25 usb  unwait a
         30 usb  release b
         30 main unwait b
         35 main release a
         40 main end",
        &["0-10 main", "10-15 main>usb", "15-20 main>usb>disk", "20-25 main>usb~", "25-30 main>usb", "30-40 main"],
    );
}

#[test]
fn a_thread_created_within_a_wait_may_be_to_blame_at_once() {
    check(
        "0  main wait root
         5  hub  hold root
         10 usb  created
         12 usb  hold root
         14 hub  release root
         30 usb  release root
         30 main unwait root
         40 main end",
        &["0-5 main~", "5-12 main>hub", "12-30 main>usb", "30-40 main"],
    );
}

#[test]
fn evidence_of_blame_is_reported() {
    let no_waits = boot_path(&log("0 main enter f\n10 main end"));
    assert_eq!((no_waits.scheduler_evidence, no_waits.hold_evidence), (false, false));
    let waits = boot_path(&log("0 main wait root\n5 main unwait root\n10 main end"));
    assert_eq!((waits.scheduler_evidence, waits.hold_evidence), (false, false), "a wait alone moves no blame");
    let holds = boot_path(&log("0 main wait root\n5 usb release root\n5 main unwait root\n10 main end"));
    assert_eq!((holds.scheduler_evidence, holds.hold_evidence, holds.blame_moved), (false, true, true));
    let elsewhere = "0 main wait root\n5 usb release mounts\n5 main unwait root\n10 main end";
    let elsewhere = boot_path(&log(elsewhere));
    assert_eq!((elsewhere.hold_evidence, elsewhere.blame_moved), (true, false), "nobody held what it waited for");
}

/// A very large number of holds, waits and threads that wait for each other. The walk must not visit all of them for
/// each.
#[test]
fn many_holds_do_not_multiply() {
    const MANY: i64 = 100_000;
    let mut t = Timeline::new(TimeBase::Evidence);
    let (a, b) = (t.names.intern("a"), t.names.intern("b"));
    let main = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 0);
    for i in 0..MANY {
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, i as u64 + 1);
        t.holds.push(Hold { topic: a, track, from: Ns(i), to: Ns(i + 1) });
        t.holds.push(Hold { topic: b, track, from: Ns(i), to: Ns(i + 1) });
        t.waits.push(Wait {
            track,
            from: Ns(0),
            woken: Ns(MANY),
            until: Ns(MANY),
            by: WaitedOn::Holders(b),
            uninterruptible: false,
        });
    }
    t.waits.push(Wait {
        track: main,
        from: Ns(0),
        woken: Ns(MANY),
        until: Ns(MANY),
        by: WaitedOn::Holders(a),
        uninterruptible: false,
    });
    t.end = Some(End { at: Ns(MANY), error: Ns::ZERO, track: Some(main), evidence: EndEvidence::LastSign });
    t.finalize(Ns::ZERO);
    let start_s = cpu::cpu_s();
    assert_covers(&boot_path(&t), Ns(MANY));
    let took_s = cpu::cpu_s() - start_s;
    assert!(took_s < 10.0, "took {took_s} s");
}

/// A hold, and true if a thread is seen to take it.
type KnownHold = (Hold, bool);

/// Returns the thread to blame at `at` for a wait of `from..end`, calculated slowly. Among the threads that then held,
/// it is the last to release inside the wait. Threads that still hold at the end come first in two cases. Either no
/// thread released inside, or the next release after the end is nearer to it than the last before it. Then the first to
/// release counts, if its hold has a known start.
fn blamed(t: &Timeline, holds: &[KnownHold], waiter: TrackId, at: i64, (from, end): (Ns, Ns)) -> Option<TrackId> {
    let since = |h: &Hold| t.tracks.get(h.track).created.map_or(h.from, |(created, _)| h.from.max(created));
    let held = || holds.iter().filter(|(h, _)| h.track != waiter && since(h).0 <= at && at < h.to.0);
    let order = |(h, _): &&KnownHold| (h.to, std::cmp::Reverse(since(h)));
    let others = || holds.iter().filter(|(h, _)| h.track != waiter && since(h) < h.to);
    let inside = others().map(|(h, _)| h.to).filter(|&to| from < to && to <= end).max();
    let next = others().filter(|(h, taken)| *taken && since(h) < end && h.to > end).map(|(h, _)| h.to).min();
    let next = next.filter(|&next| next < Ns::MAX);
    let counts = inside.is_none_or(|inside| next.is_some_and(|next| next - end < end - inside));
    let still = held().filter(|(h, taken)| counts && h.to > end && *taken).min_by_key(order);
    let ended = held().filter(|(h, _)| h.to <= end).max_by_key(order);
    still.or(ended).map(|(h, _)| h.track)
}

/// Gives each hold that was never released to a release without a hold, in order. The release must be later and by
/// another thread.
fn handed_over(t: &Timeline) -> Vec<KnownHold> {
    let mut open: Vec<Hold> = t.holds.iter().filter(|h| h.to == Ns::MAX).copied().collect();
    open.sort_by_key(|h| h.from);
    let mut all = Vec::new();
    for &hold in t.holds.iter().filter(|h| h.to < Ns::MAX) {
        let is_given =
            |hold_given: &&Hold| hold.from == Ns::MIN && hold_given.from < hold.to && hold_given.track != hold.track;
        match open.first().filter(is_given) {
            Some(_) => all.push((Hold { from: open.remove(0).from, ..hold }, true)),
            None => all.push((hold, hold.from > Ns::MIN)),
        }
    }
    all.into_iter().chain(open.into_iter().map(|hold| (hold, true))).collect()
}

proptest! {
    /// Each nanosecond of a wait is charged to the thread that the rule names.
    #[test]
    fn the_blame_agrees_with_the_model(
        holds in prop::collection::vec((1u32..6, -5i64..60, 0i64..40, 0u32..8), 0..40),
        created in prop::collection::vec(0i64..40, 5),
        (from, length) in (0i64..30, 0i64..40),
    ) {
        let mut t = Timeline::new(TimeBase::Evidence);
        for i in 0..6 {
            t.tracks.add(NameId::EMPTY, TrackKind::Thread, i);
        }
        for (i, at) in (1..).zip(created) {
            t.tracks.get_mut(TrackId(i)).created = (at < 20).then_some((Ns(at), TrackId(0)));
        }
        let topic = t.names.intern("root");
        for (track, from, length, open) in holds {
            let (from, to) = match open {
                0 => (Ns(from), Ns::MAX),
                1 => (Ns::MIN, Ns(from + length)),
                _ => (Ns(from), Ns(from + length)),
            };
            t.holds.push(Hold { topic, track: TrackId(track), from, to });
        }
        let until = Ns(from + length);
        t.waits.push(Wait { track: TrackId(0), from: Ns(from), woken: until, until, by: WaitedOn::Holders(topic), uninterruptible: false });
        t.end = Some(End { at: Ns(80), error: Ns::ZERO, track: Some(TrackId(0)), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        let path = boot_path(&t);
        assert_covers(&path, Ns(80));
        let holds = handed_over(&t);
        for s in &path.stretches {
            for at in s.from.0..s.to.0 {
                let waits = from <= at && Ns(at) < until;
                let expected = if waits { blamed(&t, &holds, TrackId(0), at, (Ns(from), until)) } else { None };
                prop_assert_eq!(s.owner().track, expected.unwrap_or(TrackId(0)), "at {}", at);
            }
        }
    }
}

/// A hundred threads, each waiting for the next: more than the walk follows.
#[test]
fn a_chain_of_waits_that_is_too_long_is_counted() {
    let thread = |i: usize| if i == 0 { "main".to_owned() } else { format!("t{i}") };
    let mut text = String::new();
    (0..100).for_each(|i| text.push_str(&format!("{i} {} hold x{i}\n", thread(i))));
    (0..99).for_each(|i| text.push_str(&format!("{} {} wait x{}\n", 100 + i, thread(i), i + 1)));
    for i in (0..100).rev() {
        text.push_str(&format!("{} {} release x{i}\n", 500 - 2 * i, thread(i)));
        if i > 0 {
            text.push_str(&format!("{} {} unwait x{i}\n", 501 - 2 * i, thread(i - 1)));
        }
    }
    text.push_str("502 main end\n");
    let path = boot_path(&log(&text));
    assert!(path.too_deep > 0);
    assert_eq!(path.stretches.iter().map(|s| s.length()).sum::<Ns>(), Ns(502));
}
