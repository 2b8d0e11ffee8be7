//! Comparisons of the CPUs' TSCs with each other.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "tsc-check",
    title: "each CPU's TSC is compared with the first one's",
    rule: "While a CPU is started, it and the first CPU read their TSCs in turn for about 20 ms, to see that neither steps back.",
    source: "libguestfs (Jones 2016): about 25 ms for each CPU in check_tsc_sync_target; tsc=reliable skips it",
    threshold: "at least one comparison",
    price: "the comparisons go; at the worst a tenth of each stays",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const FUNCTIONS: &[&str] = &["check_tsc_sync", "check_tsc_sync_source"];

fn look(seen: &Seen) -> Vec<Draft> {
    let functions = seen.names(FUNCTIONS);
    let spans = seen.timeline.spans.iter().map(|(_, row)| row).filter(|row| row.end <= seen.end);
    let mut all: Vec<SpanRow> = Vec::new();
    for row in spans.filter(|row| functions.contains(&row.name)) {
        // One of these functions may call the other: that is one comparison.
        if all.last().is_none_or(|last| last.track != row.track || last.end <= row.start) {
            all.push(row);
        }
    }
    let Some(first) = all.first() else { return Vec::new() };
    let mut lengths: Vec<Ns> = all.iter().map(SpanRow::length).collect();
    lengths.sort_unstable();
    let left = Left { most: 0.1, ..Left::NOTHING };
    vec![Draft {
        about: (first.name, first.detail),
        figures: vec![
            Figure { of: "comparisons", value: Value::Count(all.len() as u64) },
            Figure { of: "each", value: Value::Time(lengths[lengths.len() / 2]) },
        ],
        parts: all.iter().map(|row| Part { stretch: seen.stretch(row), left }).collect(),
        confidence: Confidence::High,
        remedy: remedy(seen),
    }]
}

fn remedy(seen: &Seen) -> Remedy {
    const WHAT: &str = "where the CPUs are known to share one clock, as in a virtual machine, say so: tsc=reliable; the kernel then \
                        does not watch the TSC later either";
    match seen.machine.os {
        Os::Lab => {
            let [from, to] = ["tsc_sync=check", "tsc_sync=trust"].map(|word| vec![word.to_owned()]);
            Remedy { what: WHAT, changes: vec![Change::LabSwitch { from, to }] }
        }
        Os::Linux if seen.is_virtual() => Remedy::append(WHAT, &["tsc=reliable"]),
        _ => Remedy::code(WHAT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn comparisons_are_found_by_their_function() {
        let mut log = Log::new();
        log.call("works", ms(100));
        log.within("wake_aps", |log| (0..3).for_each(|_| log.call("check_tsc_sync", ms(20))));
        let found = log.found();
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.price.low, only.price.likely), ("tsc-check", ms(54), ms(60)));
        let mut log = Log::new();
        for length in [90, 10, 30] {
            log.within("check_tsc_sync_source", |log| log.call("check_tsc_sync", ms(length)));
        }
        let figures = log.found().findings[0].figures.iter().map(|figure| figure.value).collect::<Vec<Value>>();
        assert_eq!(figures, [Value::Count(3), Value::Time(ms(30))], "one calls the other; the median");
        let mut log = Log::new();
        log.within("wake_aps", |log| log.call("works", ms(20)));
        assert!(log.found().findings.is_empty());
    }

    #[test]
    fn a_real_machine_s_tsc_is_not_trusted_unseen() {
        let changes = |line: &str| {
            let mut log = Log::linux();
            log.machine.vmm = None;
            log.line(line);
            log.call("check_tsc_sync_source", ms(20));
            log.call("works", ms(400));
            log.found_by(&[DETECTOR]).findings[0].remedy.changes.clone()
        };
        assert_eq!(changes("Hypervisor detected: KVM"), [Change::AppendWords(vec!["tsc=reliable".to_owned()])]);
        assert_eq!(changes("DMI: Dell Inc. PowerEdge R740"), []);
    }
}
