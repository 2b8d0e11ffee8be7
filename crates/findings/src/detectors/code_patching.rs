//! Code that a kernel patches for the machine that it runs on.

use crate::detector::{Detector, Draft};
use crate::{Need, Remedy, Seen};
use timeline::{Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "code-patching",
    title: "locks are patched away for one CPU",
    rule: "A kernel for several CPUs that finds one removes the lock prefixes from its code, at thousands of places. What locks \
           cost without that is little on a CPU that nobody competes with.",
    source: "Linux, arch/x86/kernel/alternative.c: alternatives_smp_module_add; kernel-parameters.txt: noreplace-smp",
    threshold: "any time in that function, on a machine with one CPU",
    price: "the function's time goes; at the worst all of it is lost again to the locks that stay",
    needs: &[Need::BootPath, Need::System, Need::Functions],
    look,
};

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux || seen.machine.cpus != 1 {
        return Vec::new();
    }
    let remedy = Remedy::append(
        "leave the locks as they are, with noreplace-smp; with one CPU each lock then stays dearer than it has to be",
        &["noreplace-smp"],
    );
    let draft = Draft::of(&seen.stretches(SpanKind::Call, &["alternatives_smp_module_add"]), remedy);
    draft.map(|draft| draft.leaving(1.0).less_sure()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::seen::testing::{Log, ms};

    #[test]
    fn locks_are_patched_on_one_cpu_only() {
        let boot = |cpus: u32, function: &str| {
            let mut log = Log::linux();
            log.machine.cpus = cpus;
            log.within("alternative_instructions", |log| log.call(function, ms(6)));
            log.call("works", ms(400));
            log.found()
        };
        let found = boot(1, "alternatives_smp_module_add");
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.price.likely), (super::DETECTOR.id, ms(6)));
        assert!(boot(2, "alternatives_smp_module_add").findings.is_empty());
        assert!(boot(1, "apply_returns").findings.is_empty(), "is needed");
    }
}
