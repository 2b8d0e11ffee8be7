//! A simulated fleet: boots of many kinds of machine over many days, in which some rows become slower at a known time by a known
//! ratio. Tests query a lake of these boots and compare the answers with [`Fleet::planted`]. Benchmarks use its size.
//!
//! The seed determines everything: boot 12345 of seed 7 is the same on any machine and in any order of creation. A row's time is
//! its base on this kind of machine, times factors of the day and the machine, times skewed noise. In one of a hundred boots,
//! some rows take much longer. None of these effects is a regression. Kernels come one after the other, on some machines a few
//! days later than on others.
//!
//! This crate creates [`lake::Boot`]s; the crate `lake` stores them.

mod random;

use lake::Boot;
use random::Random;
use recording::{Manifest, TimeBase};
use report::{EndLine, Finding, FoundLine, PhaseLine, Subject, Summary, WhereLine};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// The first day: 2026-01-01T00:00:00Z, in seconds since 1970.
const FIRST_DAY_S: u64 = 1_767_225_600;
const DAY_S: u64 = 86_400;
/// Days between two kernels.
const KERNEL_DAYS: u64 = 15;
/// Days over which the machines receive a kernel.
const ROLL_OUT_DAYS: u64 = 5;
/// Machines of a kind.
const MACHINES: u64 = 50;
/// Standard deviation of the day's factor, for each row of each kind.
const DAY_NOISE: f64 = 0.01;
/// Standard deviation of the machine's factor, for each row.
const MACHINE_NOISE: f64 = 0.02;
/// One machine in this number is slow in one row.
const SLOW_MACHINE_IN: u64 = 1000;
const SLOW_MACHINE_RATIO: f64 = 1.5;
/// One boot in this number is disturbed.
const DISTURBED_IN: u64 = 100;
/// One row in this number is disturbed, in a disturbed boot.
const DISTURBED_ROWS_IN: u64 = 8;
const PHASES: [&str; 5] = ["vmm", "firmware", "loader", "kernel", "user space"];
const PARTS: [&str; 8] = ["acpi", "pci", "virtio", "crypto", "inet", "ext4", "usb", "cgroup"];
const STEPS: [&str; 6] = ["init", "probe", "scan", "register", "setup", "wait"];

/// The parameters of a fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Total number of boots.
    pub boots: u64,
    /// Number of kinds of machine.
    pub kinds: u64,
    /// Number of days over which the boots are spread.
    pub days: u64,
    /// Number of rows of each boot.
    pub rows: u64,
    /// Number of rows that become slower, each in another kind of machine.
    pub regressions: u64,
    /// Slowdown of these rows: 1.05 is 5 % slower.
    pub ratio: f64,
}

/// A regression of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planted {
    /// The kind of machine.
    pub hardware: String,
    /// Name of the row.
    pub name: String,
    /// The first kernel that has the regression.
    pub kernel: String,
    /// The row's time after ÷ before.
    pub ratio: f64,
}

/// A machine that is slower than its kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowMachine {
    /// The kind of machine.
    pub hardware: String,
    /// The machine's token.
    pub machine: String,
    /// Name of the slow row.
    pub name: String,
    /// The row's time on this machine ÷ on others.
    pub ratio: f64,
}

impl Fleet {
    /// The planted regressions.
    pub fn planted(&self) -> Vec<Planted> {
        (0..self.kinds)
            .filter_map(|kind| {
                let (row, kernel) = self.regression(kind)?;
                let (hardware, name, kernel) = (hardware(kind), row_name(row), kernel_name(kernel));
                Some(Planted { hardware, name, kernel, ratio: self.ratio })
            })
            .collect()
    }

    /// The machines that are slower than their kind.
    pub fn slow_machines(&self) -> Vec<SlowMachine> {
        let all = (0..self.kinds).flat_map(|kind| (0..MACHINES).map(move |machine| (kind, machine)));
        all.filter_map(|(kind, machine)| {
            let row = self.slow_row(kind, machine)?;
            let (hardware, machine, name) = (hardware(kind), machine_name(kind, machine), row_name(row));
            Some(SlowMachine { hardware, machine, name, ratio: SLOW_MACHINE_RATIO })
        })
        .collect()
    }

    /// Numbers of the boots of a day.
    pub fn of_day(&self, day: u64) -> std::ops::Range<u64> {
        let until = |day: u64| self.boots * day / self.days.max(1);
        until(day)..until(day + 1)
    }

    /// Creates a boot. Linear in the number of rows.
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
            // Half of the rows include time of other rows.
            let within = if row % 2 == 0 { 0 } else { nanoseconds(base.ns * random.unit()) };
            let (total_ns, count) = (self_ns + within, 1 + row % 3);
            WhereLine { name: row_name(row), self_ns, total_ns, count, ..WhereLine::default() }
        };
        (0..self.rows).map(row).collect()
    }

    /// The row that becomes slower on a kind of machine, and the kernel that has the regression. The kernel is neither the first
    /// nor after the last whole period, so there are at least [`KERNEL_DAYS`] days before it and from it on.
    fn regression(&self, kind: u64) -> Option<(u64, u64)> {
        // Spread the kinds with a regression evenly among the others.
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

/// The undisturbed time of a row on a kind of machine, and its noise.
struct Base {
    ns: f64,
    noise: f64,
}

impl Base {
    fn of(seed: u64, kind: u64, row: u64) -> Base {
        let mut random = Random::new(&[seed, 7, row]);
        // From 0.1 to 100 ms, most of them short. A kind has a factor for all of its rows and a smaller one for each row.
        let typical = 1e5 * 10f64.powf(3.0 * random.unit() * random.unit());
        let noise = 0.03 + 0.17 * random.unit();
        let of_kind = 0.5 + Random::new(&[seed, 8, kind]).unit();
        let of_row = 0.8 + 0.4 * Random::new(&[seed, 9, kind, row]).unit();
        Base { ns: typical * of_kind * of_row, noise }
    }

    /// A random factor. It is skewed, because disturbances of a boot only add time.
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

/// The kernel of a machine on a day. A machine gets a kernel up to [`ROLL_OUT_DAYS`] - 1 days after the first machine.
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
    let choose = |names: &'static [&'static str], n: u64| names[usize::try_from(n).unwrap_or(0) % names.len()];
    format!("initcall {}_{}_{row}", choose(&PARTS, row), choose(&STEPS, row / 8))
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
