//! Ten styles of generated logs for the comparison with FreeBSD's scripts: logs as kernels write them, and with losses.

use super::{Dice, INIT, MAIN, Record, Shape, log};

/// A style: its name, its logs' features, and a change that is then made to them.
pub struct Style {
    pub name: &'static str,
    shape: Shape,
    change: fn(&mut Vec<Record>, &mut Dice),
}

const PLAIN: Shape = Shape { loader: false, wild: false, ties: false };

pub const STYLES: [Style; 10] = [
    Style { name: "plain", shape: PLAIN, change: |_, _| () },
    Style { name: "loader", shape: Shape { loader: true, ..PLAIN }, change: |_, _| () },
    Style { name: "equal-ticks", shape: Shape { ties: true, ..PLAIN }, change: |_, _| () },
    Style { name: "any-holds", shape: Shape { wild: true, ..PLAIN }, change: |_, _| () },
    Style { name: "never-released", shape: PLAIN, change: never_released },
    Style { name: "polled", shape: PLAIN, change: polled },
    Style { name: "unwait-lost", shape: PLAIN, change: |records, dice| lose(records, dice, "EVENT", "UNWAIT ") },
    Style { name: "exit-lost", shape: PLAIN, change: |records, dice| lose(records, dice, "EXIT", "") },
    Style { name: "exit-without-detail", shape: PLAIN, change: |records, _| without_detail(records) },
    Style { name: "scheduler-never-left", shape: PLAIN, change: |records, _| scheduler(records) },
];

impl Style {
    /// Generates one log of about `length` records.
    pub fn log(&self, seed: u64, length: usize) -> Vec<Record> {
        let mut records = log(seed, self.shape, length);
        (self.change)(&mut records, &mut Dice::new(seed + 1000));
        records
    }
}

fn position(records: &[Record], thread: u64, what: &str, text: &str) -> Option<usize> {
    records.iter().position(|r| (r.thread, r.what, r.text.as_str()) == (thread, what, text))
}

/// Adds a thread that takes every topic right after its creation and never releases it.
fn never_released(records: &mut Vec<Record>, _: &mut Dice) {
    const THREAD: u64 = 0xffff_f800_0900_0000;
    let Some(at) = position(records, MAIN, "ENTER", "mi_startup") else { return };
    let ticks = records[at].ticks;
    records[at + 1..].iter_mut().for_each(|r| r.ticks += 10);
    let record = |after, what, text: &str| {
        let text = text.to_owned();
        Record { thread: THREAD, ticks: ticks + after, what, text }
    };
    let added = [
        record(1, "THREAD", "stuck"),
        record(2, "EVENT", "HOLD root mount"),
        record(3, "EVENT", "HOLD GEOM events"),
        record(4, "EVENT", "HOLD config hooks"),
    ];
    records.splice(at + 1..at + 1, added);
}

/// Each release ends the current wait, and its thread waits again.
fn polled(records: &mut Vec<Record>, _: &mut Dice) {
    let mut waits: Option<(u64, String)> = None;
    let mut all = Vec::new();
    for (i, r) in records.iter().enumerate() {
        all.push(r.clone());
        let topic = |word: &str| r.text.strip_prefix(word).filter(|_| r.what == "EVENT").map(str::to_owned);
        if let Some(topic) = topic("WAIT ") {
            waits = Some((r.thread, topic));
        } else if topic("UNWAIT ").is_some() {
            waits = None;
        } else if let Some((thread, released)) = waits.clone().filter(|w| Some(&w.1) == topic("RELEASE ").as_ref()) {
            let room = records.get(i + 1).is_some_and(|next| next.ticks > r.ticks + 2);
            let turn = |ticks, word: &str| {
                let text = format!("{word} {released}");
                Record { thread, ticks: r.ticks + ticks, what: "EVENT", text }
            };
            all.extend([turn(1, "UNWAIT"), turn(2, "WAIT")].into_iter().filter(|_| room));
        }
    }
    *records = all;
}

/// Removes one record, but none that shows where the boot is.
fn lose(records: &mut Vec<Record>, dice: &mut Dice, what: &str, begins: &str) {
    let may_be_lost =
        |r: &Record| r.what == what && r.text.starts_with(begins) && r.text != "start_init" && r.text != "mi_startup";
    let all: Vec<usize> = (0..records.len()).filter(|&i| may_be_lost(&records[i])).collect();
    if !all.is_empty() {
        records.remove(all[dice.below(all.len() as u64) as usize]);
    }
}

/// Removes the details of exits, as in the log of FreeBSD's loader.
fn without_detail(records: &mut [Record]) {
    for r in records.iter_mut().filter(|r| r.what == "EXIT") {
        r.text.truncate(r.text.find(' ').unwrap_or(r.text.len()));
    }
}

/// Turns the last SYSINIT into the scheduler: the thread leaves neither it nor the functions around it.
fn scheduler(records: &mut [Record]) {
    let Some(at) = position(records, MAIN, "EXIT", "mi_startup") else { return };
    records[at].what = "ENTER";
    records[at].text = "SYSINIT scheduler".to_owned();
    debug_assert!(position(records, INIT, "ENTER", "start_init").is_some_and(|init| init > at));
}
