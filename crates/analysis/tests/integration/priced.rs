//! Hand-made deterministic boots at the prices of a model, each with its only correct result.

use crate::common::log;
use analysis::{Bound, Groups, MachineModel, NotPriced, Price, WhatIf, counted, priced, tables};
use proptest::prelude::*;
use timeline::{
    ExitKind, ExitPath, ExitRow, ExitRun, Exits, InterruptKind, NameId, Ns, TimeBase, TimedWaits, Timeline, TrackId,
    Unit, Wait, WaitedOn, Warning,
};

/// An instruction costs half a nanosecond (a quarter to one), an access 1000 ns.
fn model() -> MachineModel {
    let accesses = [ExitKind::PortWrite, ExitKind::FirstTouch];
    MachineModel {
        name: "hand-made".to_owned(),
        arch: "x86_64".to_owned(),
        instruction: Price { ns: 0.5, low: 0.25, high: 1.0 },
        accesses: accesses.map(|kind| (kind, Price { ns: 1000.0, low: 1000.0, high: 1000.0 })).to_vec(),
    }
}

/// A deterministic boot from a log, with timed waits and with writes to a port (time, number).
fn boot(text: &str, waits: &[(i64, i64)], writes: &[(i64, u64)]) -> Timeline {
    let mut boot = log(text);
    (boot.time_base, boot.unit) = (TimeBase::GuestVirtual, Unit::Instructions);
    boot.timed_waits = Some(TimedWaits::new(waits.iter().map(|&(from, to)| (Ns(from), Ns(to))).collect()));
    let row = ExitRow { kind: ExitKind::PortWrite, function: NameId::EMPTY, place: NameId::EMPTY, path: None };
    let run = |&(at, count)| ExitRun { row: 0, at: Some(Ns(at)), count, in_waits: 0 };
    boot.exits = Some(Exits { rows: vec![row], runs: writes.iter().map(run).collect(), ..Exits::default() });
    boot
}

fn at(boot: &Timeline, bound: Bound) -> Timeline {
    priced(boot, "x86_64", &model(), bound).unwrap()
}

fn total(boot: &Timeline) -> i64 {
    analysis::total(boot).0
}

/// The self time of each row of the path.
fn rows(boot: &Timeline) -> Vec<(String, i64)> {
    let path = analysis::boot_path(boot);
    let found = tables(boot, &path, &analysis::phases(boot), &Groups::freebsd());
    let rows = found.wheres.into_iter().map(|row| (row.name, row.self_time.0));
    let mut rows: Vec<(String, i64)> = rows.filter(|row| row.1 > 0).collect();
    rows.sort();
    rows
}

/// The access of `port` is stamped before `b`, in which `port` is called twice; that of `other` is in no known call.
#[test]
fn an_access_is_paid_in_a_call_of_its_function() {
    let text = "
        0    main enter SYSINIT/a
        100  main exit  SYSINIT/a
        100  main enter SYSINIT/b
        120  main enter port
        130  main exit  port
        150  main enter port
        160  main exit  port
        200  main exit  SYSINIT/b
        200  main enter SYSINIT/c
        220  main enter port
        230  main exit  port
        300  main exit  SYSINIT/c
        300  main end";
    let mut boot = boot(text, &[], &[(90, 2), (210, 0)]);
    let [port, unknown] = ["port", "unknown"].map(|name| boot.names.intern(name));
    let exits = boot.exits.as_mut().unwrap();
    exits.paths = [(port, None), (unknown, Some(0))].map(|(function, caller)| ExitPath { function, caller }).to_vec();
    let expected = |in_a: i64, in_port: i64| {
        let rows = [("SYSINIT a", 50 + in_a), ("SYSINIT b", 40), ("SYSINIT c", 45), ("port", 15 + in_port)];
        rows.map(|(name, ns)| (name.to_owned(), ns))
    };
    assert_eq!(rows(&at(&boot, Bound::Value)), expected(2000, 0), "its function is unknown");
    boot.exits.as_mut().unwrap().rows[0].function = port;
    assert_eq!(rows(&at(&boot, Bound::Value)), expected(0, 2000));
    let row = &mut boot.exits.as_mut().unwrap().rows[0];
    (row.function, row.path) = (unknown, Some(1));
    assert_eq!(rows(&at(&boot, Bound::Value)), expected(0, 2000), "by its caller");
}

const STEPS: &str = "
    0    main enter SYSINIT/a
    100  main exit  SYSINIT/a
    100  main enter SYSINIT/b
    300  main exit  SYSINIT/b
    300  main end";

#[test]
fn instructions_accesses_and_waits_have_their_prices() {
    let boot = boot(STEPS, &[(150, 190)], &[(10, 1), (120, 2), (299, 1), (300, 50)]);
    let priced = at(&boot, Bound::Value);
    assert_eq!(rows(&priced), [("SYSINIT a".to_owned(), 50 + 1000), ("SYSINIT b".to_owned(), 80 + 40 + 3000)]);
    assert_eq!(total(&priced), 260 / 2 + 40 + 4000);
    assert_eq!(total(&at(&boot, Bound::Low)), 260 / 4 + 40 + 4000);
    assert_eq!(total(&at(&boot, Bound::High)), 260 + 40 + 4000);
    assert_eq!((priced.unit, priced.timed_waits), (Unit::Priced, None));
    let counts = counted(&boot);
    assert_eq!((counts.instructions, counts.waited, counts.accesses.unwrap().left_guest), (260, Ns(40), 4));
}

#[test]
fn a_boot_without_counts_is_priced_by_its_instructions() {
    let mut boot = boot(STEPS, &[], &[]);
    boot.exits = None;
    let priced = at(&boot, Bound::Value);
    assert_eq!((total(&priced), counted(&boot).accesses), (150, None));
    let expected = Warning::Priced { model: "hand-made".to_owned(), has_accesses: false, not_placed: 0 };
    assert_eq!(priced.warnings, [expected]);
}

/// A thread sleeps for 200 ns until its timer expires; another computes meanwhile.
#[test]
fn a_sleep_lasts_as_long_as_it_says_on_any_machine() {
    let text = "
        0    main  enter f
        50   other created main
        50   other enter g
        200  other exit  g
        300  main  exit  f
        300  main  end";
    let mut boot = boot(text, &[(200, 250)], &[]);
    let timer = boot.names.intern("timer");
    boot.interrupt_kinds.insert(timer, InterruptKind::Timer);
    let by = WaitedOn::Interrupt(timer);
    let (track, woken) = (TrackId(0), Ns(250));
    boot.waits.push(Wait { track, from: Ns(50), woken, until: woken, by, uninterruptible: false });
    assert_eq!(total(&at(&boot, Bound::Value)), 25 + 200 + 25);
    // If nothing shows that a timer ended it, it is work and the rest of the sleep.
    boot.waits[0].by = WaitedOn::Unknown;
    assert_eq!(total(&at(&boot, Bound::Value)), 25 + 75 + 50 + 25);
}

#[test]
fn a_wait_for_another_thread_lasts_as_long_as_its_work_costs() {
    let text = "
        0    main  enter f
        100  other created main
        100  other hold t
        100  main  wait t
        100  other enter g
        300  other exit  g
        300  other release t
        300  main  unwait t
        400  main  exit  f
        400  main  end";
    assert_eq!(total(&at(&boot(text, &[], &[(200, 3)]), Bound::Value)), 50 + 100 + 3000 + 50);
}

#[test]
fn a_saving_in_a_priced_boot_is_the_rows_price() {
    let priced = at(&boot(STEPS, &[(150, 190)], &[(120, 2)]), Bound::Value);
    let mut what_if = WhatIf::new(priced, Groups::freebsd()).unwrap();
    let saving = analysis::Saving { name: "SYSINIT b".to_owned(), becomes: analysis::Becomes::Nothing };
    let rung = what_if.save(&saving).unwrap();
    assert_eq!((rung.was, rung.before - rung.after), (Ns(2120), Ns(2120)));
}

#[test]
fn what_cannot_be_priced_is_refused() {
    let refused = |change: &dyn Fn(&mut Timeline), arch: &str| {
        let mut boot = boot(STEPS, &[], &[]);
        change(&mut boot);
        priced(&boot, arch, &model(), Bound::Value).unwrap_err()
    };
    let clock = |boot: &mut Timeline| (boot.time_base, boot.unit) = (TimeBase::Host, Unit::Nanoseconds);
    assert_eq!(refused(&clock, "x86_64"), NotPriced::ByTheClock);
    assert_eq!(refused(&|boot| boot.unit = Unit::GuestTime, "x86_64"), NotPriced::WaitsUnknown);
    assert_eq!(refused(&|boot| *boot = at(boot, Bound::Value), "x86_64"), NotPriced::Twice);
    let other = refused(&|_| (), "riscv64").to_string();
    assert!(other.contains("hand-made is of x86_64, and the boot of riscv64"), "{other}");
    let empty = |boot: &mut Timeline| {
        *boot = Timeline::new(TimeBase::GuestVirtual);
        boot.unit = Unit::Instructions;
    };
    assert_eq!(refused(&empty, "x86_64"), NotPriced::NoThread);
}

proptest! {
    /// The total is the price of the parts, and rows sum to it. Prices of one and no accesses change nothing.
    #[test]
    fn rows_sum_to_the_total(
        waits in proptest::collection::vec((0_i64..300, 0_i64..60), 0..6),
        writes in proptest::collection::vec((0_i64..300, 0_u64..9), 0..12),
    ) {
        let waits: Vec<(i64, i64)> = waits.into_iter().map(|(from, length)| (from, from + length)).collect();
        let boot = boot(STEPS, &waits, &writes);
        let priced_boot = at(&boot, Bound::Value);
        let counts = counted(&boot);
        let paid: u64 = writes.iter().map(|write| write.1).sum();
        let expected = counts.instructions as f64 / 2.0 + counts.waited.0 as f64 + paid as f64 * 1000.0;
        prop_assert!((total(&priced_boot) as f64 - expected).abs() <= 0.5);
        prop_assert_eq!(rows(&priced_boot).iter().map(|row| row.1).sum::<i64>(), total(&priced_boot));
        let one = Price { ns: 1.0, low: 1.0, high: 1.0 };
        let plain = MachineModel { instruction: one, accesses: Vec::new(), ..model() };
        let same = priced(&boot, "x86_64", &plain, Bound::Value).unwrap();
        prop_assert_eq!(rows(&same), rows(&boot));
    }
}
