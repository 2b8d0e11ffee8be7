//! A fleet that never was: boots of many kinds of machine over many days, in which some rows become slower at a known time by a known
//! ratio. Tests ask a lake of it and compare with [`Fleet::planted`]; measurements need its size.
//!
//! Everything follows from the seed: boot 12345 of seed 7 is the same on any machine, whoever makes it and in what order. A row's time is
//! its base of this kind of machine, times what the day and the machine do to it, times noise of its own: skewed, and in one of a hundred
//! boots much longer. None of that is a regression. Kernels come one after the other, on each machine some days later than on others.
//!
//! It makes [`lake::Boot`]s; putting them into a lake is the lake's part.

mod random;

use lake::Boot;
use random::Random;
use recording::{Manifest, TimeBase};
use report::{EndLine, Finding, FoundLine, PhaseLine, Subject, Summary, WhereLine};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// 2026-01-01T00:00:00Z: the first day.
const FIRST_DAY_S: u64 = 1_767_225_600;
const DAY_S: u64 = 86_400;
/// A new kernel comes after so many days.
const KERNEL_DAYS: u64 = 15;
/// The last machine has it so many days later than the first.
const ROLL_OUT_DAYS: u64 = 5;
/// Machines of a kind.
const MACHINES: u64 = 50;
/// What a day does to a row of a kind: one standard deviation.
const DAY_NOISE: f64 = 0.01;
/// What is this machine's own.
const MACHINE_NOISE: f64 = 0.02;
/// One of so many machines is slow, in one row.
const SLOW_MACHINE_IN: u64 = 1000;
const SLOW_MACHINE_RATIO: f64 = 1.5;
/// One of so many boots is disturbed, in one of so many of its rows.
const DISTURBED_IN: u64 = 100;
const DISTURBED_ROWS_IN: u64 = 8;
const PHASES: [&str; 5] = ["vmm", "firmware", "loader", "kernel", "user space"];
const PARTS: [&str; 8] = ["acpi", "pci", "virtio", "crypto", "inet", "ext4", "usb", "cgroup"];
const STEPS: [&str; 6] = ["init", "probe", "scan", "register", "setup", "wait"];

/// What fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// All else follows from it.
    pub seed: u64,
    /// Boots in all.
    pub boots: u64,
    /// Kinds of machine.
    pub kinds: u64,
    /// Days over which they are spread.
    pub days: u64,
    /// Rows of each boot.
    pub rows: u64,
    /// Rows that become slower, each in another kind of machine.
    pub regressions: u64,
    /// By how much: 1.05 is 5 % slower.
    pub ratio: f64,
}

/// A regression that is there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planted {
    /// The kind of machine.
    pub hardware: String,
    /// The row.
    pub name: String,
    /// The first kernel that has it.
    pub kernel: String,
    /// The row's time after ÷ before.
    pub ratio: f64,
}

/// A machine that is slower than its kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowMachine {
    /// The kind of machine.
    pub hardware: String,
    /// The machine.
    pub machine: String,
    /// In this row.
    pub name: String,
    /// Its time ÷ that of others.
    pub ratio: f64,
}

impl Fleet {
    /// Which regressions were planted.
    pub fn planted(&self) -> Vec<Planted> {
        (0..self.kinds)
            .filter_map(|kind| {
                let (row, kernel) = self.regression(kind)?;
                let (hardware, name, kernel) = (hardware(kind), row_name(row), kernel_name(kernel));
                Some(Planted { hardware, name, kernel, ratio: self.ratio })
            })
            .collect()
    }

    /// Which machines are slower than their kind.
    pub fn slow_machines(&self) -> Vec<SlowMachine> {
        let all = (0..self.kinds).flat_map(|kind| (0..MACHINES).map(move |machine| (kind, machine)));
        all.filter_map(|(kind, machine)| {
            let row = self.slow_row(kind, machine)?;
            let (hardware, machine, name) = (hardware(kind), machine_name(kind, machine), row_name(row));
            Some(SlowMachine { hardware, machine, name, ratio: SLOW_MACHINE_RATIO })
        })
        .collect()
    }

    /// The boots of a day, by number.
    pub fn of_day(&self, day: u64) -> std::ops::Range<u64> {
        let until = |day: u64| self.boots * day / self.days.max(1);
        until(day)..until(day + 1)
    }

    /// A boot. Linear in its rows.
    pub fn boot(&self, number: u64) -> Boot {
        let mut random = Random::new(&[self.seed, 1, number]);
        let day = (0..self.days).rev().find(|&day| self.of_day(day).start <= number).unwrap_or(0);
        self.boot_of_day(number, day, &mut random)
    }

    fn boot_of_day(&self, number: u64, day: u64, random: &mut Random) -> Boot {
        let kind = number % self.kinds.max(1);
        let machine = random.below(MACHINES);
        let kernel = kernel_on(day, machine);
        let mut wheres = self.rows_of(kind, machine, day, kernel, random);
        wheres.sort_by_key(|row| std::cmp::Reverse(row.self_ns));
        let total_ns = wheres.iter().map(|row| row.self_ns).sum();
        let of_day = self.of_day(day);
        let second = DAY_S * (number - of_day.start) / (of_day.end - of_day.start).max(1);
        let began = UNIX_EPOCH + Duration::from_secs(FIRST_DAY_S + DAY_S * day + second);
        let mut summary = Summary {
            outcome: "reached".to_owned(),
            time_base: "host".to_owned(),
            subject: Subject {
                os: "Linux".to_owned(),
                kernel: kernel_name(kernel),
                machine: "pc".to_owned(),
                accelerator: "kvm".to_owned(),
                cpus: cpus(kind),
                memory_bytes: memory_bytes(kind),
            },
            unit: "ns".to_owned(),
            total_ns,
            end: Some(EndLine { code: "asked".to_owned(), at_ns: total_ns, error_ns: 1000, ..EndLine::default() }),
            explained: 1.0,
            scheduler_evidence: true,
            phases: phases(total_ns),
            findings: findings(kind, total_ns),
            found: Some(FoundLine::default()),
            ..Summary::default()
        };
        summary.wheres = wheres;
        Boot {
            id: format!("{:016x}{:016x}", Random::new(&[self.seed, 2, number]).next(), number),
            manifest: Manifest {
                created: humantime::format_rfc3339_seconds(began).to_string(),
                time_base: TimeBase::Host,
                tool_version: "synthetic".to_owned(),
                ..Manifest::default()
            },
            summary,
            machine: Some(machine_name(kind, machine)),
            hardware: Some(hardware(kind)),
            ended: true,
            labels: Vec::new(),
        }
    }

    fn rows_of(&self, kind: u64, machine: u64, day: u64, kernel: u64, random: &mut Random) -> Vec<WhereLine> {
        let regression = self.regression(kind).filter(|&(_, from)| kernel >= from).map(|(row, _)| row);
        let slow = self.slow_row(kind, machine);
        let disturbed = random.below(DISTURBED_IN) == 0;
        let row = |row| {
            let base = Base::of(self.seed, kind, row);
            let of_day = Random::new(&[self.seed, 3, kind, row, day]).normal();
            let of_machine = Random::new(&[self.seed, 4, kind, row, machine]).normal();
            let mut ratio = (1.0 + DAY_NOISE * of_day) * (1.0 + MACHINE_NOISE * of_machine) * base.noise(random);
            if regression == Some(row) {
                ratio *= self.ratio;
            }
            if slow == Some(row) {
                ratio *= SLOW_MACHINE_RATIO;
            }
            if disturbed && random.below(DISTURBED_ROWS_IN) == 0 {
                ratio *= 1.5 + 2.0 * random.unit();
            }
            let self_ns = nanoseconds(base.ns * ratio);
            // Half of the rows have others inside.
            let within = if row % 2 == 0 { 0 } else { nanoseconds(base.ns * random.unit()) };
            let (total_ns, count) = (self_ns + within, 1 + row % 3);
            WhereLine { name: row_name(row), self_ns, total_ns, count, ..WhereLine::default() }
        };
        (0..self.rows).map(row).collect()
    }

    /// Of a kind: which row becomes slower, and with which kernel. The kernel has at least as many days before it as one lasts, and as
    /// many after it.
    fn regression(&self, kind: u64) -> Option<(u64, u64)> {
        // Kinds that have one lie evenly among the others.
        let has_one = (kind + 1) * self.regressions / self.kinds.max(1) > kind * self.regressions / self.kinds.max(1);
        let kernels = self.days / KERNEL_DAYS;
        (has_one && kernels >= 2 && self.rows > 0).then(|| {
            let mut random = Random::new(&[self.seed, 5, kind]);
            (random.below(self.rows), 1 + random.below(kernels - 1))
        })
    }

    fn slow_row(&self, kind: u64, machine: u64) -> Option<u64> {
        let mut random = Random::new(&[self.seed, 6, kind, machine]);
        (random.below(SLOW_MACHINE_IN) == 0 && self.rows > 0).then(|| random.below(self.rows))
    }
}

/// What a row takes on a kind of machine.
struct Base {
    ns: f64,
    noise: f64,
}

impl Base {
    fn of(seed: u64, kind: u64, row: u64) -> Base {
        let mut random = Random::new(&[seed, 7, row]);
        // From 0.1 to 100 ms, most of them short. A kind is faster than another in all its rows, and a little in each.
        let typical = 1e5 * 10f64.powf(3.0 * random.unit() * random.unit());
        let noise = 0.03 + 0.17 * random.unit();
        let of_kind = 0.5 + Random::new(&[seed, 8, kind]).unit();
        let own = 0.8 + 0.4 * Random::new(&[seed, 9, kind, row]).unit();
        Base { ns: typical * of_kind * own, noise }
    }

    /// Skewed: what disturbs a boot only ever adds.
    fn noise(&self, random: &mut Random) -> f64 {
        let z = random.normal();
        (1.0 + self.noise * (z + 0.3 * (z * z - 1.0))).max(0.3)
    }
}

fn nanoseconds(ns: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)]
    let whole = ns as i64;
    whole
}

/// Each machine gets a kernel a few days after the first one did.
fn kernel_on(day: u64, machine: u64) -> u64 {
    day.saturating_sub(machine % ROLL_OUT_DAYS) / KERNEL_DAYS
}

fn kernel_name(kernel: u64) -> String {
    format!("6.1.0-{}-cloud-amd64", 20 + kernel)
}

fn cpus(kind: u64) -> u32 {
    1 << (kind % 6)
}

fn memory_bytes(kind: u64) -> u64 {
    (1 << (kind % 5)) << 30
}

fn hardware(kind: u64) -> String {
    format!("kind-{kind:03} cpus={} memory={}M", cpus(kind), memory_bytes(kind) >> 20)
}

fn machine_name(kind: u64, machine: u64) -> String {
    format!("{:016x}{:016x}", Random::new(&[10, kind]).next(), Random::new(&[11, kind, machine]).next())
}

fn row_name(row: u64) -> String {
    let of = |names: &'static [&'static str], n: u64| names[usize::try_from(n).unwrap_or(0) % names.len()];
    format!("initcall {}_{}_{row}", of(&PARTS, row), of(&STEPS, row / 8))
}

fn phases(total_ns: i64) -> Vec<PhaseLine> {
    let count = i64::try_from(PHASES.len()).unwrap_or(1);
    let phase = |(i, name): (i64, &&str)| PhaseLine {
        name: (*name).to_owned(),
        start_ns: total_ns * i / count,
        end_ns: total_ns * (i + 1) / count,
        ..PhaseLine::default()
    };
    (0..).zip(&PHASES).map(phase).collect()
}

fn findings(kind: u64, total_ns: i64) -> Vec<Finding> {
    let finding = |id: &str, part: i64| Finding {
        id: id.to_owned(),
        title: format!("{id} takes a part of the boot"),
        cost_ns: total_ns / part,
        cost_low_ns: total_ns / part / 2,
        cost_high_ns: total_ns / part * 2,
        confidence: "high".to_owned(),
        ..Finding::default()
    };
    let mut found = vec![finding("console-messages", 20)];
    if kind % 4 == 0 {
        found.push(finding("compressed-kernel", 10));
    }
    found
}

#[cfg(test)]
mod tests;
