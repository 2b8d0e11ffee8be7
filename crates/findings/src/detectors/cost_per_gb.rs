//! Structures for all of the memory, made one after the other before anything else runs.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind, SpanRow, TimeBase};

pub const DETECTOR: Detector = Detector {
    id: "cost-per-gb",
    title: "setting up memory takes long for each GB",
    rule: "The step that makes one structure for each page of memory takes more for each GB of the machine than one pass over \
           them does. One boot cannot show that its time grows with memory: the rule knows the step by its name. Boots with \
           more and with less memory show it (bench, fit). Delays in the step do not count. The rule does not look at Linux, \
           which makes most of them later, nor where the host's clock timed a boot: an emulated CPU may be slower than any. \
           If the size of memory is unknown, so is the number of passes.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: SYSINIT vm_mem 15 ms per GB, three passes; 3.5 ms with one, \
             which is 15 s with 4 TB; FreeBSD b16b4c22d2d1 (2024): a thread makes most of them later, 21.5 ms at 1 GB",
    threshold: "7 ms or more for each GB, beyond 2 ms that the step may take with any memory: in a small machine these hide \
                what grows. One pass: 3 ms or more for each GB, 3 ms in all, and a per cent of the boot. With unknown memory: 50 ms and a \
                per cent",
    price: "3.5 ms per GB are left, at the best nothing, at the worst 5 ms per GB; the 2 ms are left in any case. Of one pass a \
            tenth is left, at the worst half. With unknown memory 3.5 of 15 parts are left, at the worst all",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const MIN_EACH: Ns = Ns(7_000_000);
/// Time that the step may take with any memory: with 128 MiB that is more than one pass and less than three.
const FIXED: Ns = Ns(2_000_000);
/// Time that is left for each GB: at the best, most likely, at the worst.
const LEFT: [Ns; 3] = [Ns(0), Ns(3_500_000), Ns(5_000_000)];
/// One pass over all pages takes at least this for each GB, and is worth a thread from this time and share of the boot on.
const MIN_ONE_PASS: Ns = Ns(3_000_000);
const MIN_SHARE: f64 = 0.01;
const LEFT_OF_ONE_PASS: Left = Left::of(0.0, 0.1, 0.5);
/// If the size of memory is unknown.
const MIN_UNKNOWN: Ns = Ns(50_000_000);
const LEFT_OF_UNKNOWN: Left = Left::of(0.0, 3.5 / 15.0, 1.0);
const STEPS: &[&str] = &["vm_mem"];
const FUNCTIONS: &[&str] = &["vm_page_startup", "uvm_page_init", "uvm_init"];

fn look(seen: &Seen) -> Vec<Draft> {
    let gb = seen.machine.memory_bytes as f64 / f64::from(1 << 30);
    if seen.machine.os == Os::Linux || seen.timeline.time_base == TimeBase::Host {
        return Vec::new();
    }
    let (steps, functions) = (seen.names(STEPS), seen.names(FUNCTIONS));
    let is_step = |row: &SpanRow| {
        (row.kind == SpanKind::Initcall && steps.contains(&row.detail)) || functions.contains(&row.name)
    };
    // The outermost of these.
    let Some((_, step)) = seen.spans().find(|(_, row)| is_step(row)) else { return Vec::new() };
    let work = seen.work(&step);
    let total: Ns = work.iter().map(Stretch::length).sum();
    let is_large = total.0 as f64 >= seen.end.0 as f64 * MIN_SHARE;
    let (each, left) = if seen.machine.memory_bytes == 0 {
        (None, (is_large && total >= MIN_UNKNOWN).then_some(LEFT_OF_UNKNOWN))
    } else {
        let each = Ns::rounded((total - FIXED).0 as f64 / gb);
        let [least, likely, most] = LEFT.map(|left| FIXED + Ns::rounded(left.0 as f64 * gb));
        let is_one_pass = || is_large && total >= MIN_ONE_PASS && Ns::rounded(total.0 as f64 / gb) >= MIN_ONE_PASS;
        let several = (each >= MIN_EACH).then(|| Left::time(total, least, likely, most));
        let each = if several.is_some() { each } else { Ns::rounded(total.0 as f64 / gb) };
        (Some(each), several.or_else(|| is_one_pass().then_some(LEFT_OF_ONE_PASS)))
    };
    left.map(|left| draft(seen, &step, &work, (each, left))).into_iter().collect()
}

fn draft(seen: &Seen, step: &SpanRow, work: &[Stretch], (each, left): (Option<Ns>, Left)) -> Draft {
    const LATER: &str = "change the code: make the structures of the first GBs now, and let a thread make the rest";
    const ONCE: &str = "change the code: go over the structures once, or make those of the first GBs now and let a thread make the rest";
    let figures = match each {
        Some(each) => vec![
            Figure { of: "each GB", value: Value::Time(each) },
            Figure { of: "MiB", value: Value::Count(seen.machine.memory_bytes >> 20) },
        ],
        None => vec![Figure { of: "takes", value: Value::Time(work.iter().map(Stretch::length).sum()) }],
    };
    Draft {
        about: (step.name, step.detail),
        figures,
        parts: work.iter().map(|&stretch| Part { stretch, left }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(if left == LEFT_OF_ONE_PASS { LATER } else { ONCE }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    fn boot(os: Os, gb: u64, took: Ns, delay: Ns) -> Vec<(&'static str, Ns)> {
        found(os, gb << 10, took, delay).findings.into_iter().map(|f| (f.rule.id, f.price.likely)).collect()
    }

    fn found(os: Os, mib: u64, took: Ns, delay: Ns) -> Found {
        let mut log = Log::new();
        (log.machine.os, log.machine.memory_bytes) = (os, mib << 20);
        log.initcall("vm_mem", |log| {
            log.call("vm_page_startup", took);
            log.call("DELAY", delay);
        });
        log.initcall("works", |log| log.call("works", ms(100)));
        log.found()
    }

    #[test]
    fn what_a_small_machine_takes_with_any_memory_is_not_saved() {
        let found = |took: Ns| found(Os::FreeBsd, 128, took, ms(0)).findings;
        assert!(found(Ns::from_us(2_860)).is_empty(), "6.9 ms for each GB, beyond 2 ms");
        let findings = found(ms(3));
        let [only] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(only.figures[0].value, Value::Time(ms(8)), "1 ms for an eighth of a GB");
        let [low, likely, high] = [only.price.low, only.price.likely, only.price.high].map(|price| price.0 / 100);
        assert_eq!((low, likely, high), (3_750, 5_625, 10_000), "in tenths of a microsecond");
    }

    #[test]
    fn more_than_one_pass_over_all_pages_is_found() {
        let found = boot(Os::FreeBsd, 30, ms(460), ms(0));
        let [("cost-per-gb", price)] = &found[..] else { panic!("{found:?}") };
        assert!((*price - ms(460 - 2 - 105)).abs() < Ns(100), "{price:?}");
        assert!(boot(Os::FreeBsd, 30, ms(40), ms(0)).is_empty(), "less than a pass");
        assert_eq!(
            (boot(Os::FreeBsd, 1, ms(8), ms(0))[0].1, boot(Os::FreeBsd, 1, ms(10), ms(0))[0].1),
            (Ns(7_200_000), Ns(4_500_000))
        );
        assert!(boot(Os::FreeBsd, 30, ms(40), ms(400)).is_empty(), "a delay is no pass");
        assert!(boot(Os::Linux, 30, ms(460), ms(0)).is_empty());
    }

    #[test]
    fn one_pass_over_all_pages_can_be_made_later() {
        let found = found(Os::FreeBsd, 30 << 10, ms(110), ms(0));
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(55), ms(99), ms(110)));
        assert!(only.remedy.what.contains("let a thread make the rest") && !only.remedy.what.contains("once"));
    }

    #[test]
    fn of_an_unknown_memory_a_long_step_is_found_and_no_passes() {
        let unknown = found(Os::FreeBsd, 0, ms(450), ms(0));
        let [only] = &unknown.findings[..] else { panic!("{unknown:?}") };
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(345), ms(450)));
        assert_eq!(only.figures, [Figure { of: "takes", value: Value::Time(ms(450)) }]);
        assert!(found(Os::FreeBsd, 0, ms(40), ms(0)).findings.is_empty());
    }
}
