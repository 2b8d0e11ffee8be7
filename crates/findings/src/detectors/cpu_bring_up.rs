//! The time in which Linux starts its other CPUs, one after the other.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::statistics::line_fit;
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{Mark, NameId, Ns, Os, SpanKind, SpanRow, Track, TrackId, TrackKind};

pub const DETECTOR: Detector = Detector {
    id: "cpu-bring-up",
    title: "the boot waits while other CPUs are started",
    rule: "Linux starts each CPU and waits until it is there before it starts the next one. The functions that do it show how \
           long that takes; without them the kernel's own lines do, `Bringing up secondary CPUs` and `Brought up 1 node, 4 \
           CPUs`. Each CPU's time is the whole, divided by the CPUs that were started: so many as the last line says, else \
           as many as the machine has and the command line allows. Where one call starts each CPU, a line through their \
           times says what one CPU more costs.",
    source: "libguestfs (Jones 2016): four CPUs cost 200 ms; Linux 6.5, cpuhp.parallel: CPUs are started at once",
    threshold: "5 ms or more, and 1 % of the boot",
    price: "all of it goes, with what the new CPUs' own threads do meanwhile, for CPUs that are started later; at the worst half of it stays, as the rest of the boot has one \
            CPU. Where the CPUs are started at once instead, one CPU's part of it stays; at the worst all, as in a kernel \
            before Linux 6.5. All may stay, too, on a machine that is not known to be virtual",
    needs: &[Need::BootPath, Need::System, Need::Printing],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
const MIN_SHARE: f64 = 0.01;
/// Functions that start all CPUs, the outermost last.
const ALL: &[&str] = &["bringup_nonboot_cpus", "smp_init"];
/// Functions that start one CPU.
const EACH: &[&str] = &["_cpu_up", "cpu_up", "do_cpu_up"];
/// Smallest number of points for a line fit.
const MIN_FITTED: usize = 3;
const BEFORE: &str = "smp: Bringing up secondary CPUs ...";
const AFTER: &str = "smp: Brought up ";
/// The share that is left if CPUs are started later.
const LEFT: Left = Left { most: 0.5, ..Left::NOTHING };

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux || seen.was_given("nosmp") {
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

/// Uses the kernel's lines: the booting thread does nothing else between them.
fn by_lines(seen: &Seen) -> Option<Draft> {
    let text = |line: &Mark| seen.timeline.names.get(line.name);
    let lines: Vec<Mark> = seen.lines().collect();
    let before = lines.iter().position(|line| text(line) == BEFORE)?;
    let after = lines[before..].iter().find(|line| brought_up(text(line)).is_some())?;
    let track = seen.timeline.end?.track?;
    let (from, to) = (lines[before].at, after.at);
    let created = seen.timeline.tracks.get(track).created;
    // If the current thread was created later, its creator did it.
    let track = created.filter(|&(at, _)| at > from).map_or(track, |(_, by)| by);
    draft(seen, Stretch { track, from, to, name: lines[before].name, detail: NameId::EMPTY, purpose: "" }, &[])
}

/// The number of CPUs, from a line such as `1 node, 4 CPUs`.
fn brought_up(line: &str) -> Option<u32> {
    let (count, _) = line.strip_prefix(AFTER)?.rsplit(", ").next()?.split_once(" CPU")?;
    count.parse().ok()
}

/// The number of CPUs that were started besides the first.
fn others(seen: &Seen) -> u32 {
    let by_line = seen.lines().find_map(|line| brought_up(seen.timeline.names.get(line.name)));
    by_line.unwrap_or_else(|| most_allowed(seen)).saturating_sub(1)
}

/// The number of CPUs that the machine has, or fewer if the command line says so; the last of equal words counts.
fn most_allowed(seen: &Seen) -> u32 {
    let words = || seen.machine.command_line.iter().flatten();
    let given = |key: &str| words().rev().find_map(|word| word.strip_prefix(key)?.parse::<u32>().ok());
    // Linux ignores `nr_cpus=0`, and takes `maxcpus=0` as one CPU.
    let possible = given("nr_cpus=").filter(|&cpus| cpus > 0);
    [possible, given("maxcpus=")].into_iter().flatten().fold(seen.machine.cpus, u32::min)
}

fn draft(seen: &Seen, all: Stretch, each: &[Ns]) -> Option<Draft> {
    let others = others(seen);
    let is_long = all.length() >= SHORTEST && all.length().0 as f64 >= seen.end.0 as f64 * MIN_SHARE;
    if others == 0 || !is_long {
        return None;
    }
    let one = Ns(all.length().0 / i64::from(others));
    let mut figures = vec![
        Figure { of: "CPUs", value: Value::Count(u64::from(others)) },
        Figure { of: "each", value: Value::Time(one) },
    ];
    // Since Linux 6.5 two calls may start one CPU; the first calls start all of them at once.
    if each.len() >= MIN_FITTED && u32::try_from(each.len()).is_ok_and(|calls| calls <= others) {
        let numbers: Vec<f64> = (0..each.len()).map(|number| number as f64).collect();
        let sums = each.iter().scan(Ns::ZERO, |sum, &length| {
            *sum += length;
            Some(sum.0 as f64)
        });
        let (slope, fit) = line_fit(&numbers, &sums.collect::<Vec<f64>>());
        figures.push(Figure { of: "each CPU more", value: Value::Time(Ns::rounded(slope)) });
        figures.push(Figure { of: "a line explains", value: Value::Share(fit) });
    }
    let (remedy, left) = remedy(seen, others);
    // The boot waits for each CPU's own threads, which go with it.
    let with_it = started_within(seen, all).into_iter();
    Some(Draft {
        about: (all.name, all.detail),
        figures,
        parts: [all].into_iter().chain(with_it).map(|stretch| Part { stretch, left }).collect(),
        confidence: Confidence::High,
        remedy,
    })
}

/// The time of threads that were created meanwhile, and of idle loops, which a CPU runs from its first instruction on.
fn started_within(seen: &Seen, all: Stretch) -> Vec<Stretch> {
    let mut first: HashMap<TrackId, Ns> = HashMap::new();
    for ran in &seen.timeline.running {
        first.entry(ran.track).and_modify(|first| *first = ran.from.min(*first)).or_insert(ran.from);
    }
    let tracks = seen.timeline.tracks.iter().filter(|(id, track)| track.kind == TrackKind::Thread && *id != all.track);
    let started = |(id, track): (TrackId, &Track)| {
        let from = if track.idle { all.from } else { track.created.map(|(at, _)| at).or(first.get(&id).copied())? };
        let stretch = Stretch { track: id, from, name: track.name, detail: NameId::EMPTY, purpose: "", ..all };
        (all.from <= from && from < all.to).then_some(stretch)
    };
    tracks.filter_map(started).collect()
}

/// The remedy, and the share that it leaves.
fn remedy(seen: &Seen, others: u32) -> (Remedy, Left) {
    let is_serial = seen.was_given("cpuhp.parallel=0") || seen.was_given("cpuhp.parallel=off");
    if is_serial && others > 1 {
        let one = 1.0 / f64::from(others);
        let remedy = Remedy::append("let the kernel start its CPUs at once", &["cpuhp.parallel=1"]);
        return (remedy, Left::of(one, one, 1.0));
    }
    if !seen.is_virtual() {
        // The rest of a real machine's boot needs its CPUs. In addition, an x86 CPU that was never started shuts the machine down at a
        // machine check (Linux, kernel/cpu.c: cpu_bootable).
        const WHAT: &str = "start fewer CPUs, or use a kernel that starts them at once (Linux 6.5); what the others would do meanwhile is not counted";
        return (Remedy::code(WHAT), Left { most: 1.0, ..LEFT });
    }
    let remedy = Remedy::append(
        "boot with one CPU and let user space start the others (write 1 into /sys/devices/system/cpu/cpu*/online), or give \
         the machine fewer",
        &["maxcpus=1"],
    );
    (remedy, LEFT)
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
        assert!(boot(2, ms(4), &[]).findings.is_empty(), "4 ms");
        assert!(boot(4, ms(25), &["maxcpus=1"]).findings.is_empty());
    }

    #[test]
    fn cpus_that_are_started_at_once_still_take_the_time_of_one() {
        let boot = |cpus: u32| {
            let found = boot(cpus, ms(25), &["cpuhp.parallel=0"]);
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            let [Change::AppendWords(words)] = &only.remedy.changes[..] else { panic!("{only:?}") };
            (words.join(" "), only.price.low, only.price.likely, only.price.high)
        };
        assert_eq!(boot(4), ("cpuhp.parallel=1".to_owned(), ms(0), ms(50), ms(50)));
        assert_eq!(boot(2), ("maxcpus=1".to_owned(), Ns(12_500_000), ms(25), ms(25)), "there is one");
    }

    #[test]
    fn each_cpus_time_is_the_whole_by_those_that_are_started() {
        let values = |found: &Found| -> Vec<Value> {
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            only.figures.iter().map(|figure| figure.value).collect()
        };
        // Linux 6.5: one pass starts each CPU, a second one completes each.
        let mut log = Log::linux();
        log.machine.cpus = 4;
        log.call("works", ms(300));
        log.within("bringup_nonboot_cpus", |log| {
            [1, 1, 1, 24, 24, 24].into_iter().for_each(|each| log.call("cpu_up", ms(each)));
        });
        let two_passes = log.found_by(&[DETECTOR]);
        assert_eq!(values(&two_passes), [Value::Count(3), Value::Time(ms(25))], "and no line through six calls");
        let limited = |words: &[&str]| {
            let mut log = Log::linux();
            log.machine.cpus = 8;
            log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
            log.call("works", ms(300));
            log.call("smp_init", ms(60));
            log.found_by(&[DETECTOR]).findings.first().map(|only| only.figures[0].value)
        };
        assert_eq!(limited(&["maxcpus=1", "maxcpus=4"]), Some(Value::Count(3)));
        assert_eq!(limited(&["nr_cpus=3", "maxcpus=x"]), Some(Value::Count(2)));
        assert_eq!(limited(&["nr_cpus=0"]), Some(Value::Count(7)));
        assert_eq!((limited(&["maxcpus=0"]), limited(&["nr_cpus=1"])), (None, None));
    }

    #[test]
    fn what_the_new_cpus_threads_do_meanwhile_goes_too() {
        let mut log = Log::linux();
        log.machine.cpus = 2;
        log.awaited("early", ms(50));
        log.within("smp_init", |log| {
            log.call("_cpu_up", ms(25));
            log.awaited("cpuhp/1", ms(40));
        });
        log.awaited("pgdatinit0", ms(30));
        log.call("works", ms(300));
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.low, only.price.likely), ("smp_init", Ns(32_500_000), ms(65)));
    }

    #[test]
    fn a_log_shows_it_by_its_lines() {
        let boot = |cpus: u32, last: &str| {
            let mut log = Log::linux();
            log.machine.cpus = cpus;
            log.call("works", ms(300));
            log.line(BEFORE);
            log.call("works", ms(60));
            log.line(last);
            log.call("works", ms(100));
            log.found_by(&[DETECTOR])
        };
        // An imported log has no facts about the machine.
        for cpus in [4, 0] {
            let found = boot(cpus, "smp: Brought up 1 node, 4 CPUs");
            let [only] = &found.findings[..] else { panic!("{found:?}") };
            assert_eq!((only.price.likely, only.figures[1].value), (ms(60), Value::Time(ms(20))));
        }
        let none = |cpus: u32, last: &str| assert!(boot(cpus, last).findings.is_empty(), "{cpus} {last}");
        none(4, "devtmpfs: initialized");
        none(4, "smp: Brought up 1 node, 1 CPU");
        none(0, "smp: Brought up 1 node, many CPUs");
        assert_eq!(brought_up("smp: Brought up 4 CPUs"), Some(4));
    }
}
