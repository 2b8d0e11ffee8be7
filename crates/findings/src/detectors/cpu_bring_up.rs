//! What Linux takes to start its other CPUs, one after the other.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::statistics::{line_fit, quantile};
use crate::{Need, Remedy, Seen};
use timeline::{Mark, NameId, Ns, Os, SpanKind, SpanRow};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "cpu-bring-up",
    title: "the boot waits while other CPUs are started",
    rule: "Linux starts each CPU and waits until it is there before it starts the next one. The functions that do it show how \
           long that takes; without them the kernel's own lines do, `Bringing up secondary CPUs` and `Brought up 1 node, 4 \
           CPUs`. Where each CPU's time is known, a line through these times says what a CPU costs.",
    source: "libguestfs (Jones 2016): four CPUs cost 200 ms; Linux 6.5, cpuhp.parallel: CPUs are started at once",
    threshold: "5 ms or more, and 1 % of the boot",
    price: "all of it goes, for CPUs that are started later; at the worst half of it stays, as the rest of the boot has one CPU",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
const SHARE_MIN: f64 = 0.01;
/// What starts all of them, the outermost last.
const ALL: &[&str] = &["bringup_nonboot_cpus", "smp_init"];
/// What starts one.
const EACH: &[&str] = &["_cpu_up", "cpu_up", "do_cpu_up"];
/// A line through fewer says nothing.
const FITTED_MIN: usize = 3;
const BEFORE: &str = "smp: Bringing up secondary CPUs ...";
const AFTER: &str = "smp: Brought up ";
const LEFT: Left = Left { most: 0.5, ..Left::NOTHING };

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux || seen.was_given("maxcpus=1") || seen.was_given("nosmp") {
        return Vec::new();
    }
    by_functions(seen).or_else(|| by_lines(seen)).into_iter().collect()
}

fn by_functions(seen: &Seen) -> Option<Draft> {
    let all = *seen.outermost(SpanKind::Call, ALL).first()?;
    let within = |row: &SpanRow| row.track == all.track && all.start <= row.start && row.end <= all.end;
    let each: Vec<SpanRow> = seen.outermost(SpanKind::Call, EACH).into_iter().filter(within).collect();
    let lengths: Vec<Ns> = each.iter().map(SpanRow::length).collect();
    draft(seen, seen.stretch(&all), &lengths)
}

/// By what the kernel prints: the thread that boots then does nothing else.
fn by_lines(seen: &Seen) -> Option<Draft> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let lines: Vec<Mark> = seen.lines().collect();
    let before = lines.iter().position(|line| text(line) == BEFORE)?;
    let after = lines[before..].iter().find(|line| text(line).starts_with(AFTER))?;
    let track = seen.timeline.end?.track?;
    let (from, to) = (lines[before].at, after.at);
    let created = seen.timeline.tracks.get(track).created;
    // Another thread did it where this one came later.
    let track = created.filter(|&(at, _)| at > from).map_or(track, |(_, by)| by);
    draft(seen, Stretch { track, from, to, name: lines[before].name, detail: NameId::EMPTY, purpose: "" }, &[])
}

fn draft(seen: &Seen, all: Stretch, each: &[Ns]) -> Option<Draft> {
    let others = seen.machine.cpus.saturating_sub(1);
    let is_long = all.length() >= SHORTEST && all.length().0 as f64 >= seen.end.0 as f64 * SHARE_MIN;
    if others == 0 || !is_long {
        return None;
    }
    let one = quantile(each.iter().copied(), 0.5).unwrap_or(Ns(all.length().0 / i64::from(others)));
    let mut figures = vec![
        Figure { of: "CPUs", value: Value::Count(u64::from(others)) },
        Figure { of: "each", value: Value::Time(one) },
    ];
    if each.len() >= FITTED_MIN {
        let numbers: Vec<f64> = (0..each.len()).map(|number| number as f64).collect();
        let sums = each.iter().scan(Ns::ZERO, |sum, &length| {
            *sum += length;
            Some(sum.0 as f64)
        });
        let (slope, fit) = line_fit(&numbers, &sums.collect::<Vec<f64>>());
        figures.push(Figure { of: "each CPU more", value: Value::Time(Ns::rounded(slope)) });
        figures.push(Figure { of: "a line explains", value: Value::Share(fit) });
    }
    Some(Draft {
        about: (all.name, all.detail),
        figures,
        parts: vec![Part { stretch: all, left: LEFT }],
        confidence: Confidence::High,
        remedy: remedy(seen),
    })
}

fn remedy(seen: &Seen) -> Remedy {
    if seen.was_given("cpuhp.parallel=0") || seen.was_given("cpuhp.parallel=off") {
        return Remedy::append("let the kernel start its CPUs at once", &["cpuhp.parallel=1"]);
    }
    Remedy::append(
        "boot with one CPU and let user space start the others (write 1 into /sys/devices/system/cpu/cpu*/online), or give \
         the machine fewer",
        &["maxcpus=1"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    fn boot(cpus: u32, each: Ns, words: &[&str]) -> Found {
        let mut log = Log::linux();
        log.machine.cpus = cpus;
        log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
        log.call("works", ms(300));
        log.within("smp_init", |log| {
            log.within("bringup_nonboot_cpus", |log| (1..cpus).for_each(|_| log.call("_cpu_up", each)));
        });
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn what_each_cpu_costs_is_found_by_functions() {
        let found = boot(4, ms(25), &[]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely, only.price.low), ("smp_init", ms(75), Ns(37_500_000)));
        let values: Vec<Value> = only.figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values[..3], [Value::Count(3), Value::Time(ms(25)), Value::Time(ms(25))]);
        assert_eq!(only.remedy.changes, [Change::AppendWords(vec!["maxcpus=1".to_owned()])]);
        let serial = boot(4, ms(25), &["cpuhp.parallel=0"]);
        assert_eq!(serial.findings[0].remedy.changes, [Change::AppendWords(vec!["cpuhp.parallel=1".to_owned()])]);
        assert!(boot(2, ms(4), &[]).findings.is_empty(), "4 ms");
        assert!(boot(4, ms(25), &["maxcpus=1"]).findings.is_empty());
    }

    #[test]
    fn a_log_shows_it_by_its_lines() {
        let boot = |last: &str| {
            let mut log = Log::linux();
            log.machine.cpus = 4;
            log.call("works", ms(300));
            log.line(BEFORE);
            log.call("works", ms(60));
            log.line(last);
            log.call("works", ms(100));
            log.found_by(&[DETECTOR])
        };
        let found = boot("smp: Brought up 1 node, 4 CPUs");
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.price.likely, only.figures[1].value), (ms(60), Value::Time(ms(20))));
        assert!(boot("devtmpfs: initialized").findings.is_empty(), "the end is not seen");
    }
}
