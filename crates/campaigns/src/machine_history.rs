//! A history of one machine's boots: adds captures, recordings and logs, and compares the newest boots.

mod marks;

use crate::{Notes, opened_boot};
use anyhow::{Context, bail};
use benchmark::History;
use benchmark::history::{BootPart, MachineBoot, PartKind, StoredBoot};
use marks::Marks;
use recording::{Condition, rfc3339};
use regex::Regex;
use report::{
    BootPartLine, MACHINE_BOOTS_SCHEMA, MachineBootLine, MachineBoots, MovedPart, StepLine, Summary, UpdateKind,
    UpdateLine,
};
use statistics::quantile::median;
use statistics::steps::{self, MIN_SERIES, PARTS_ALPHA, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use timeline::Unit;

/// The most rows that are kept of a boot.
const MAX_ROWS: usize = 200;
/// The least share of a boot for a row that is kept.
const MIN_ROW_SHARE: f64 = 0.001;
/// The most boots that are searched for steps; the newest are taken.
const MAX_SEARCHED: usize = 100;
/// A clock that is this far ahead is wrong.
const MAX_AHEAD: Duration = Duration::from_secs(24 * 3600);
/// A clock from before this time was not set: no machine of then runs this program. 2010-01-01.
const EARLIEST: Duration = Duration::from_secs(1_262_304_000);

/// The user's statements about boots to add.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The machine's name, in place of its hardware.
    pub machine: Option<String>,
    /// The time when the boot began.
    pub began: Option<SystemTime>,
}

/// Reads a capture, a recording or a log.
///
/// # Errors
/// If it cannot be read, was not finished, has no times, or shows not when it began.
pub fn read(path: &Path, known: &Known, notes: &dyn Notes) -> anyhow::Result<MachineBoot> {
    let opened = opened_boot::open_noting_warnings(path, notes)?;
    let recording = &opened.recording;
    if *recording.condition() == Condition::AtWork {
        bail!("it is being recorded at this moment: add it when that is done");
    }
    if let Some(lost) = recording.lost().first() {
        bail!("{} is missing or cut, so its figures are not the boot's", lost.file);
    }
    let summary = Summary::brief(&opened.boot(None)?);
    if summary.time_unit() == Unit::Ticks {
        bail!("its times are ticks, and nothing shows how long one is: import it with --tsc-frequency");
    }
    let marks = Marks::of(recording)?;
    let began = known.began.or(marks.began);
    let Some(began) = began else {
        bail!("nothing in it shows when this boot began: give --at 2026-11-26T09:14:02Z");
    };
    let now = SystemTime::now();
    let is_plausible = began >= SystemTime::UNIX_EPOCH + EARLIEST && began <= now + MAX_AHEAD;
    if !is_plausible {
        notes.note(&format!(
            "{}: the machine's clock said {}, which is wrong: the boot is placed at the time of this addition",
            path.display(),
            rfc3339(began)
        ));
    }
    let mut subject = summary.subject.clone();
    if subject.machine.is_empty() {
        subject.machine.clone_from(&marks.machine);
    }
    let machine = known.machine.clone().or_else(|| report::hardware(&subject, recording.manifest()));
    let has_end = opened.timeline.end.is_some_and(|end| end.evidence.is_mark());
    Ok(MachineBoot {
        boot_key: if marks.boot_key.is_empty() { recording.content_key()? } else { marks.boot_key },
        machine: machine.unwrap_or_else(|| "unknown machine".to_owned()),
        placed: rfc3339(if is_plausible { began } else { now }),
        began: is_plausible.then(|| rfc3339(began)),
        kernel: summary.subject.kernel.clone(),
        firmware: marks.firmware.clone(),
        outcome: summary.outcome.clone(),
        end_code: summary.end.as_ref().map(|end| end.code.clone()).unwrap_or_default(),
        unit: summary.unit.clone(),
        total_ns: has_end.then_some(summary.total_ns),
        error_ns: summary.end.as_ref().map_or(0, |end| end.error_ns),
        packages: marks.packages,
        parts: parts(&summary),
    })
}

/// Tokens of identities differ between captures, so their digits are left out.
fn without_tokens(name: &str) -> String {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b([a-z]+)-[0-9a-f]{8}\b").expect("a constant"));
    TOKEN.replace_all(name, "$1-…").into_owned()
}

fn parts(summary: &Summary) -> Vec<BootPart> {
    let part = |kind, name: &str, ns| BootPart { kind, name: without_tokens(name), ns };
    let phases = summary.phases.iter().map(|phase| part(PartKind::Phase, &phase.name, phase.end_ns - phase.start_ns));
    let milestones = summary.milestones.iter().map(|passed| part(PartKind::Milestone, &passed.name, passed.at_ns));
    let is_long = |ns: i64| ns as f64 >= MIN_ROW_SHARE * summary.total_ns as f64;
    let rows = summary.wheres.iter().filter(|row| is_long(row.self_ns)).take(MAX_ROWS);
    let rows = rows.map(|row| part(PartKind::Row, &row.name, row.self_ns));
    phases.chain(milestones).chain(rows).collect()
}

/// The newest boots of a machine: the named one, or the one with the newest boot.
///
/// # Errors
/// If the history has no boots, or none of this machine.
pub fn compared(history: &History, machine: Option<&str>, newest: usize) -> anyhow::Result<MachineBoots> {
    let machines = history.machines()?;
    let path = history.path().display();
    if machines.is_empty() {
        bail!("{path} has no boots: `bootscope history add` adds captures, recordings and logs");
    }
    let chosen = match machine {
        None => &machines[0],
        Some(name) => machines.iter().find(|machine| machine.machine == name).with_context(|| {
            let names: Vec<&str> = machines.iter().map(|machine| machine.machine.as_str()).collect();
            format!("{path} has no machine {name:?}: it has {}", names.join(", "))
        })?,
    };
    // One more than is listed shows what the first of them came with.
    let stored = history.boots(&chosen.machine, newest.max(MAX_SEARCHED).saturating_add(1))?;
    let updates = all_updates(history, &stored)?;
    let series = Series::of(&stored, &updates);
    let listed = stored.len().saturating_sub(newest);
    let lines = (listed..stored.len()).map(|i| line(&stored, &series, i, updates[i].clone())).collect();
    Ok(MachineBoots {
        schema: MACHINE_BOOTS_SCHEMA.to_owned(),
        database: path.to_string(),
        machine: chosen.machine.clone(),
        boots_in_all: chosen.boots,
        boots: lines,
        compared: series.boots.len() as u64,
        needed: MIN_SERIES as u64,
        steps: series.steps().iter().map(|step| series.step_line(step, &stored)).collect(),
        machines,
    })
}

/// The boots of a machine that are compared: they end at the same mark and are in the same unit.
struct Series<'u> {
    /// Places of the boots among all that were read.
    boots: Vec<usize>,
    totals: Vec<f64>,
    /// The updates since the compared boot before.
    updates: Vec<Vec<&'u UpdateLine>>,
}

impl<'u> Series<'u> {
    fn of(stored: &[StoredBoot], updates: &'u [Vec<UpdateLine>]) -> Series<'u> {
        let end = |stored: &StoredBoot| (stored.boot.end_code.clone(), stored.boot.unit.clone());
        let has_length = |stored: &&StoredBoot| stored.boot.total_ns.is_some_and(|total| total > 0);
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        stored.iter().filter(has_length).for_each(|stored| *counts.entry(end(stored)).or_default() += 1);
        let usual = counts.into_iter().max_by_key(|(_, count)| *count).map(|(end, _)| end);
        let mut series = Series { boots: Vec::new(), totals: Vec::new(), updates: Vec::new() };
        let mut since = Vec::new();
        let first = stored.len().saturating_sub(MAX_SEARCHED);
        for (i, stored) in stored.iter().enumerate().skip(first) {
            since.extend(&updates[i]);
            if let Some(total) = stored.boot.total_ns.filter(|_| has_length(&stored) && usual == Some(end(stored))) {
                series.boots.push(i);
                series.totals.push(total as f64);
                series.updates.push(std::mem::take(&mut since));
            }
        }
        series
    }

    fn steps(&self) -> Vec<Step> {
        let mut count = 0;
        let counts: Vec<u32> = self
            .updates
            .iter()
            .map(|updates| {
                count += u32::from(!updates.is_empty());
                count
            })
            .collect();
        steps::steps(&self.totals, &counts)
    }

    fn step_line(&self, step: &Step, stored: &[StoredBoot]) -> StepLine {
        let first = &stored[self.boots[step.at]];
        StepLine {
            boot: first.number,
            placed: first.boot.placed.clone(),
            kernel: first.boot.kernel.clone(),
            is_at_update: step.is_at_update,
            updates: self.updates[step.at].iter().map(|&update| update.clone()).collect(),
            before_ns: step.before,
            after_ns: step.after,
            ratio: step.ratio,
            p: step.p,
            boots_before: (step.at - step.from) as u64,
            boots_after: (step.to - step.at) as u64,
            moved: self.moved(step, stored),
        }
    }

    /// The phases and rows that moved with a step. A row that a boot has not was shorter than is kept.
    fn moved(&self, step: &Step, stored: &[StoredBoot]) -> Vec<MovedPart> {
        type Times<'a> = BTreeMap<(PartKind, &'a str), i64>;
        let times = |boot: &usize| -> Times {
            let parts = stored[*boot].boot.parts.iter().filter(|part| part.kind != PartKind::Milestone);
            parts.map(|part| ((part.kind, part.name.as_str()), part.ns)).collect()
        };
        let [before, after] = [step.from..step.at, step.at..step.to]
            .map(|boots| self.boots[boots].iter().map(times).collect::<Vec<Times>>());
        let names: BTreeSet<(PartKind, &str)> =
            before.iter().chain(&after).flat_map(|times| times.keys().copied()).collect();
        let values = |boots: &[Times], name: &(PartKind, &str)| -> Vec<f64> {
            boots.iter().map(|times| times.get(name).copied().unwrap_or(0) as f64).collect()
        };
        let values: Vec<(Vec<f64>, Vec<f64>)> =
            names.iter().map(|name| (values(&before, name), values(&after, name))).collect();
        let p_values = steps::moved(&values);
        let level = |values: &[f64]| median(&statistics::sorted(values));
        let mut moved: Vec<MovedPart> = names
            .into_iter()
            .zip(values)
            .zip(p_values)
            .filter(|(_, p)| *p <= PARTS_ALPHA)
            .map(|(((kind, name), (before, after)), p)| MovedPart {
                kind,
                name: name.to_owned(),
                before_ns: level(&before),
                after_ns: level(&after),
                p,
            })
            .collect();
        moved.sort_by(|a, b| (b.after_ns - b.before_ns).abs().total_cmp(&(a.after_ns - a.before_ns).abs()));
        moved
    }
}

/// The updates that each boot came with.
fn all_updates(history: &History, stored: &[StoredBoot]) -> anyhow::Result<Vec<Vec<UpdateLine>>> {
    let mut all = vec![Vec::new(); stored.len().min(1)];
    // The newest list, which a boot without one leaves as it is.
    let mut list = stored.first().and_then(|stored| stored.packages);
    for pair in stored.windows(2) {
        let [before, after] = [&pair[0].boot, &pair[1].boot];
        let mut updates = Vec::new();
        for (kind, before, after) in [
            (UpdateKind::Kernel, &before.kernel, &after.kernel),
            (UpdateKind::Firmware, &before.firmware, &after.firmware),
        ] {
            if before != after && !before.is_empty() && !after.is_empty() {
                let (before, after) = (before.clone(), after.clone());
                updates.push(UpdateLine { kind, name: String::new(), before, after });
            }
        }
        if let Some(now) = pair[1].packages {
            if let Some(before) = list.filter(|&before| before != now) {
                updates.extend(package_updates(&history.packages(before)?, &history.packages(now)?));
            }
            list = Some(now);
        }
        all.push(updates);
    }
    Ok(all)
}

/// The differences of two lists of packages. A package of several versions, such as a kernel's, counts with all of them.
fn package_updates(before: &str, after: &str) -> Vec<UpdateLine> {
    let versions = |list: &str| {
        let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, version) in list.lines().filter_map(|line| line.split_once(' ')) {
            versions.entry(name.to_owned()).or_default().insert(version.trim().to_owned());
        }
        versions
    };
    let [before, after] = [versions(before), versions(after)];
    let words = |versions: Option<&BTreeSet<String>>| {
        versions.into_iter().flatten().map(String::as_str).collect::<Vec<&str>>().join(", ")
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|&name| before.get(name) != after.get(name));
    let update = |name: &String| UpdateLine {
        kind: UpdateKind::Package,
        name: name.clone(),
        before: words(before.get(name)),
        after: words(after.get(name)),
    };
    changed.map(update).collect()
}

fn line(stored: &[StoredBoot], series: &Series, i: usize, updates: Vec<UpdateLine>) -> MachineBootLine {
    let StoredBoot { number, boot, .. } = &stored[i];
    let place = series.boots.iter().position(|&compared| compared == i);
    let change = place.filter(|&place| place > 0).map(|place| series.totals[place] / series.totals[place - 1] - 1.0);
    let parts = boot.parts.iter().filter(|part| part.kind != PartKind::Row);
    MachineBootLine {
        boot: *number,
        began: boot.began.clone(),
        placed: boot.placed.clone(),
        kernel: boot.kernel.clone(),
        firmware: boot.firmware.clone(),
        outcome: boot.outcome.clone(),
        end_code: boot.end_code.clone(),
        unit: boot.unit.clone(),
        total_ns: boot.total_ns,
        change,
        is_compared: place.is_some(),
        updates,
        parts: parts.map(|part| BootPartLine { kind: part.kind, name: part.name.clone(), ns: part.ns }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_compared_by_name() {
        let before = "a 1\nb 1\nkernel 5\nkernel 6\nwithout-version\n";
        let found = package_updates(before, "a 1\nb 2\nc 1\nkernel 6\nkernel 7\n");
        let words: Vec<String> = found.iter().map(|u| format!("{} {:?} {:?}", u.name, u.before, u.after)).collect();
        assert_eq!(words, [r#"b "1" "2""#, r#"c "" "1""#, r#"kernel "5, 6" "6, 7""#]);
        assert_eq!(package_updates(before, before), []);
    }

    #[test]
    fn tokens_of_two_captures_are_one_name() {
        assert_eq!(without_tokens("dev-disk uuid-5f0c9a1e.device"), "dev-disk uuid-….device");
        assert_eq!(without_tokens("initcall acpi_init"), "initcall acpi_init");
    }
}
