//! Hand-made boots with a known boot path, and broken ones whose path must still cover the boot.

use analysis::{BootPath, Groups, StretchKind, boot_path, phases, tables};
use proptest::prelude::*;
use timeline::{
    End, EndEvidence, Ns, Running, SpanKind, SpanRow, TimeBase, Timeline, TrackId, TrackKind, Wait, WaitedOn,
};

/// A hand-made timeline. Times are in nanoseconds.
struct Boot(Timeline);

impl Boot {
    fn new() -> Self {
        Boot(Timeline::new(TimeBase::Host))
    }

    fn thread(&mut self, name: &str, id: u64) -> TrackId {
        let name = self.0.names.intern(name);
        self.0.tracks.add(name, TrackKind::Thread, id)
    }

    fn span(&mut self, track: TrackId, kind: SpanKind, (name, detail): (&str, &str), from: i64, to: i64) {
        let (name, detail) = (self.0.names.intern(name), self.0.names.intern(detail));
        self.0.spans.push(SpanRow { name, detail, start: Ns(from), end: Ns(to), track, kind }, None);
    }

    fn ran(&mut self, track: TrackId, cpu: u32, from: i64, to: i64) {
        self.0.running.push(Running { track, cpu, from: Ns(from), to: Ns(to) });
    }

    fn waited(&mut self, track: TrackId, from: i64, woken: i64, until: i64, by: WaitedOn) {
        self.0.waits.push(Wait {
            track,
            from: Ns(from),
            woken: Ns(woken),
            until: Ns(until),
            by,
            uninterruptible: false,
        });
    }

    fn end(mut self, track: TrackId, at: i64) -> Timeline {
        self.0.end = Some(End { at: Ns(at), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign });
        self.0.finalize(Ns::ZERO);
        self.0
    }
}

/// The evidence of threads ends at 100. The thread that last ran on the CPU is not known to have run on.
#[test]
fn time_after_the_evidence_of_threads_is_an_unknown_wait() {
    let mut boot = Boot::new();
    let (init, worker) = (boot.thread("init", 1), boot.thread("worker", 9));
    boot.span(init, SpanKind::Process, ("process", "/sbin/init"), 0, 100);
    boot.ran(init, 0, 0, 60);
    boot.ran(worker, 0, 60, 100);
    boot.waited(init, 60, 60, i64::MAX, WaitedOn::Nothing);
    let mut boot = boot.end(init, 300);
    assert_covers(&boot_path(&boot), 300);
    boot.threads_seen_until = Some(Ns(100));
    let path = boot_path(&boot);
    assert_covers(&path, 300);
    let last = path.stretches.last().unwrap();
    assert_eq!((last.from, last.kind, last.chain.len(), last.owner().span), (Ns(100), StretchKind::Wait, 1, None));
    let explained = tables(&boot, &path, &phases(&boot), &Groups::linux()).explained;
    assert!(explained < 0.34, "{explained}");
    // Evidence that goes on after the end mark changes nothing.
    for seen in [300, 1_000] {
        boot.threads_seen_until = Some(Ns(seen));
        assert!(boot_path(&boot).stretches.iter().all(|stretch| stretch.from < Ns(100)));
    }
}

/// Checks that the path covers the boot without gap or overlap.
fn assert_covers(path: &BootPath, end: i64) {
    let mut at = Ns::ZERO;
    for s in &path.stretches {
        assert_eq!(s.from, at, "gap or overlap at {s:?}");
        assert!(s.to > s.from, "empty stretch {s:?}");
        at = s.to;
    }
    assert_eq!(at, Ns(end));
}

fn rows(t: &Timeline) -> Vec<(String, i64, i64)> {
    let path = boot_path(t);
    assert_covers(&path, t.end.unwrap().at.0);
    let rows = tables(t, &path, &phases(t), &Groups::linux()).wheres;
    assert_eq!(rows.iter().map(|r| r.self_time).sum::<Ns>(), t.end.unwrap().at);
    rows.into_iter().map(|r| (r.name, r.self_time.0, r.total_time.0)).collect()
}

fn check(t: &Timeline, expected: &[(&str, i64, i64)]) {
    let actual = rows(t);
    let actual: Vec<_> = actual.iter().map(|(n, s, t)| (n.as_str(), *s, *t)).collect();
    assert_eq!(actual, expected);
}

#[test]
fn running_time_is_charged_to_the_thread() {
    let mut b = Boot::new();
    let init = b.thread("swapper/0", 1);
    b.span(init, SpanKind::Initcall, ("initcall", "acpi_init"), 10, 60);
    b.span(init, SpanKind::Probe, ("probe", "PNP0A03:00"), 20, 50);
    b.span(init, SpanKind::Initcall, ("initcall", "pci_init"), 60, 90);
    let t = b.end(init, 100);
    check(
        &t,
        &[
            ("initcall pci_init", 30, 30),
            ("probe PNP0A03:00", 30, 30),
            ("initcall acpi_init", 20, 50),
            ("(unexplained)", 20, 20),
        ],
    );
}

/// The example from the issue: asynchronous work that `async_synchronize_full` waits for.
#[test]
fn a_blocked_stretch_is_charged_to_the_waker_with_its_own_stack() {
    let mut b = Boot::new();
    let init = b.thread("swapper/0", 1);
    let worker = b.thread("kworker/u2:1", 20);
    b.span(init, SpanKind::Initcall, ("initcall", "wait_for_probes"), 10, 90);
    b.span(worker, SpanKind::Work, ("work", "async_run_entry_fn"), 15, 80);
    b.ran(init, 0, 0, 20);
    b.ran(worker, 0, 20, 80);
    b.ran(init, 0, 80, 100);
    b.waited(init, 20, 80, 80, WaitedOn::Thread(worker));
    b.waited(worker, 0, 15, 20, WaitedOn::Thread(init));
    let t = b.end(init, 100);
    check(&t, &[("work async_run_entry_fn", 60, 60), ("initcall wait_for_probes", 20, 80), ("(unexplained)", 20, 20)]);
    let path = boot_path(&t);
    let blamed = path.stretches.iter().find(|s| s.chain.len() == 2).unwrap();
    let detail_of = |i: usize| t.names.get(t.spans.get(blamed.chain[i].span.unwrap()).detail);
    assert_eq!((detail_of(0), detail_of(1)), ("wait_for_probes", "async_run_entry_fn"));
}

#[test]
fn blame_moves_on_while_the_waker_itself_waits() {
    let mut b = Boot::new();
    let (init, a, c) = (b.thread("init", 1), b.thread("a", 2), b.thread("c", 3));
    b.ran(init, 0, 0, 10);
    b.ran(a, 0, 10, 20);
    b.ran(c, 0, 20, 70);
    b.ran(a, 0, 70, 90);
    b.ran(init, 0, 90, 100);
    b.waited(init, 10, 90, 90, WaitedOn::Thread(a));
    b.waited(a, 20, 70, 70, WaitedOn::Thread(c));
    let t = b.end(init, 100);
    check(&t, &[("thread c", 50, 50), ("thread a", 30, 30), ("(unexplained)", 20, 20)]);
    assert_eq!(boot_path(&t).stretches.iter().map(|s| s.chain.len()).max(), Some(3));
}

#[test]
fn an_interrupt_is_a_wait_for_the_device_not_the_interrupted_thread() {
    let mut b = Boot::new();
    let (init, other) = (b.thread("init", 1), b.thread("other", 2));
    b.span(init, SpanKind::Initcall, ("initcall", "tpm_init"), 0, 100);
    let timer = b.0.names.intern("timer");
    b.ran(init, 0, 0, 10);
    b.ran(other, 0, 10, 60);
    b.ran(init, 0, 60, 100);
    b.waited(init, 10, 60, 60, WaitedOn::Interrupt(timer));
    let t = b.end(init, 100);
    check(&t, &[("initcall tpm_init", 50, 100), ("initcall tpm_init · wait for timer", 50, 50)]);
}

#[test]
fn time_in_the_run_queue_is_charged_to_the_thread_on_the_cpu() {
    let mut b = Boot::new();
    let (init, hog) = (b.thread("init", 1), b.thread("hog", 2));
    b.ran(init, 0, 0, 10);
    b.ran(hog, 0, 10, 40);
    b.ran(init, 0, 40, 50);
    b.waited(init, 10, 10, 40, WaitedOn::Nothing);
    let t = b.end(init, 50);
    check(&t, &[("thread hog · runqueue", 30, 30), ("(unexplained)", 20, 20)]);
    assert!(boot_path(&t).stretches.iter().any(|s| s.kind == StretchKind::Runqueue && s.owner().track == hog));
}

#[test]
fn before_its_first_run_the_path_is_on_the_creator() {
    let mut b = Boot::new();
    let (boot, init) = (b.thread("swapper/0", 0), b.thread("init", 1));
    b.0.tracks.get_mut(init).created = Some((Ns(60), boot));
    b.span(boot, SpanKind::Call, ("setup_arch", ""), 5, 55);
    b.ran(boot, 0, 55, 70);
    b.ran(init, 0, 70, 100);
    b.waited(init, 60, 60, 70, WaitedOn::Nothing);
    let t = b.end(init, 100);
    check(&t, &[("setup_arch", 50, 50), ("(unexplained)", 40, 40), ("thread swapper/0 · runqueue", 10, 10)]);
}

#[test]
fn a_parallel_sleep_is_not_on_the_path() {
    let mut b = Boot::new();
    let (init, sleeper) = (b.thread("init", 1), b.thread("sleeper", 2));
    b.span(sleeper, SpanKind::Work, ("work", "slow_probe"), 0, 1000);
    b.span(init, SpanKind::Initcall, ("initcall", "quick"), 0, 100);
    b.ran(init, 0, 0, 100);
    b.ran(sleeper, 1, 0, 1000);
    let t = b.end(init, 100);
    check(&t, &[("initcall quick", 100, 100)]);
    let all = tables(&t, &boot_path(&t), &phases(&t), &Groups::linux()).all_threads;
    let slow = all.iter().find(|r| r.name == "work slow_probe").unwrap();
    assert_eq!(slow.self_time, Ns(100), "the other view has it, cut at the end mark");
}

/// The scheduler's trace begins at 55, a thread sleeps from 70 to 90, and there is no evidence before 5.
#[test]
fn the_table_of_all_threads_has_each_instant_of_the_boot() {
    let mut b = Boot::new();
    let (boot, init, idle) = (b.thread("swapper/0", 0), b.thread("init", 1), b.thread("swapper/0", 2));
    b.0.tracks.get_mut(init).created = Some((Ns(60), boot));
    b.0.tracks.get_mut(idle).idle = true;
    b.span(boot, SpanKind::Call, ("setup_arch", ""), 5, 50);
    b.span(boot, SpanKind::Call, ("rest_init", ""), 50, 58);
    b.ran(boot, 0, 55, 60);
    b.ran(init, 0, 60, 70);
    b.ran(idle, 0, 70, 90);
    b.ran(init, 0, 90, 100);
    let t = b.end(init, 100);
    let all = tables(&t, &boot_path(&t), &phases(&t), &Groups::linux()).all_threads;
    let rows: Vec<(&str, i64)> = all.iter().map(|row| (row.name.as_str(), row.self_time.0)).collect();
    let no_thread = ("(unexplained) · no thread known to run", 5 + 20);
    assert_eq!(rows, [("setup_arch", 45), no_thread, ("(unexplained)", 22), ("rest_init", 8)]);
    assert!(all.iter().all(|row| row.name != no_thread.0 || row.tracks.is_empty()));
}

#[test]
fn printing_is_one_row_and_delays_are_suffixes() {
    let mut b = Boot::new();
    let init = b.thread("init", 1);
    b.span(init, SpanKind::Initcall, ("initcall", "a"), 0, 50);
    b.span(init, SpanKind::Call, ("vprintk_emit", ""), 10, 20);
    b.span(init, SpanKind::Initcall, ("initcall", "b"), 50, 100);
    b.span(init, SpanKind::Call, ("vprintk_emit", ""), 60, 70);
    b.span(init, SpanKind::Call, ("msleep", ""), 70, 95);
    let t = b.end(init, 100);
    check(&t, &[("initcall a", 40, 50), ("initcall b · msleep", 25, 25), ("printing", 20, 20), ("initcall b", 15, 50)]);
}

#[test]
fn without_scheduler_evidence_a_wait_stays_with_the_waiter() {
    let mut b = Boot::new();
    let init = b.thread("init", 1);
    b.span(init, SpanKind::Initcall, ("initcall", "a"), 0, 90);
    let t = b.end(init, 100);
    assert!(!boot_path(&t).scheduler_evidence);
    check(&t, &[("initcall a", 90, 90), ("(unexplained)", 10, 10)]);
}

/// Evidence that contradicts itself: cycles of waits and creations, and overlapping runs.
fn broken() -> impl Strategy<Value = Timeline> {
    let stretch = (0u32..4, 0i64..200, 0i64..100, 0i64..50, 0u32..6, 0u32..2);
    (prop::collection::vec(stretch, 0..60), prop::collection::vec((0u32..4, 0i64..200, 0u32..4), 0..6)).prop_map(
        |(stretches, created)| {
            let mut b = Boot::new();
            for i in 0..4 {
                b.thread(&format!("t{i}"), i);
            }
            for (child, at, parent) in created {
                b.0.tracks.get_mut(TrackId(child)).created = Some((Ns(at), TrackId(parent)));
            }
            for (track, from, blocked, queued, by, cpu) in stretches {
                let track = TrackId(track);
                b.ran(track, cpu, from, from + blocked);
                b.span(track, SpanKind::Call, (&format!("f{blocked}"), ""), from, from + queued);
                let by = match by {
                    0..4 => WaitedOn::Thread(TrackId(by)),
                    4 => WaitedOn::Nothing,
                    _ => WaitedOn::Unknown,
                };
                b.waited(track, from + blocked, from + 2 * blocked, from + 2 * blocked + queued, by);
            }
            b.end(TrackId(0), 200)
        },
    )
}

proptest! {
    #[test]
    fn a_path_over_broken_evidence_still_covers_the_boot(t in broken()) {
        rows(&t);
    }
}

/// Only the CPU was followed: the firmware goes on when the ROM that it calls has run.
#[test]
fn before_there_are_threads_the_path_follows_the_cpu() {
    let mut b = Boot::new();
    let (firmware, rom, main) = (b.thread("firmware", 1), b.thread("rom", 2), b.thread("main", 3));
    b.span(firmware, SpanKind::Call, ("post", ""), 0, 30);
    b.span(rom, SpanKind::Call, ("rom_init", ""), 10, 22);
    b.span(main, SpanKind::Call, ("start_kernel", ""), 30, 100);
    for (track, from, to) in [(firmware, 0, 10), (rom, 10, 22), (firmware, 22, 30), (main, 30, 100)] {
        b.ran(track, 0, from, to);
    }
    b.0.cpus_followed_until = Some(Ns(100));
    let t = b.end(main, 100);
    check(&t, &[("start_kernel", 70, 70), ("post", 18, 18), ("rom_init", 12, 12)]);
}
