//! The content of `vmm.json`: the steps in which QEMU set the machine up, as observed from the host.
//!
//! The file is a list of `{"name", "at_ns", "error_ns", "evidence"}` in order of time. `at_ns` counts from time zero. A step that was
//! not observed is left out.

use crate::vmm::SetUpMark;

/// Usual delay of a waiting thread on a host that is not overloaded.
const WAKE_ERROR_NS: i64 = 100_000;

/// Times of the monitor's first messages, in ns since time zero.
#[derive(Debug, Default)]
pub(super) struct Milestones {
    pub(super) greeting_ns: Option<i64>,
    pub(super) complete_ns: Option<i64>,
    pub(super) running_ns: Option<i64>,
}

/// The marks of a boot. `linker` is the dynamic linker's statistics, and `tsc_hz` the rate of its cycle count.
pub(super) fn marks(executed: i64, milestones: &Milestones, linker: &str, tsc_hz: Option<f64>) -> Vec<SetUpMark> {
    let mut marks = vec![SetUpMark {
        name: "executed",
        at_ns: executed,
        error_ns: executed,
        evidence: "the call that starts QEMU returned: QEMU ran by then".to_owned(),
    }];
    let cycles = linker_cycles(linker);
    if let (Some(cycles), Some(hz)) = (cycles, tsc_hz) {
        let took_s = cycles as f64 / hz;
        #[expect(clippy::cast_possible_truncation, reason = "what is too long is the longest that there is")]
        let took_ns = (took_s * 1e9) as i64;
        marks.push(SetUpMark {
            name: "linked",
            at_ns: executed.saturating_add(took_ns),
            error_ns: executed,
            evidence: format!("the dynamic linker says that it took {:.2} ms", took_s * 1e3),
        });
    }
    let seen = [
        ("monitor ready", milestones.greeting_ns, "QMP greeting"),
        ("machine complete", milestones.complete_ns, "QMP answers: QEMU's main loop runs, all devices are made"),
        ("first instruction", milestones.running_ns, "QMP event RESUME: the vCPUs were started"),
    ];
    for (name, at_ns, evidence) in seen {
        let evidence = evidence.to_owned();
        marks.extend(at_ns.map(|at_ns| SetUpMark { name, at_ns, error_ns: WAKE_ERROR_NS, evidence }));
    }
    marks
}

/// The cycles that glibc's linker needed before the program's own first instruction.
fn linker_cycles(statistics: &str) -> Option<u64> {
    let line = statistics.lines().find(|line| line.contains("total startup time in dynamic loader:"))?;
    line.rsplit(':').next()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_cycles_are_found() {
        let text = "      3445:\t\n      3445:\truntime linker statistics:\n\
                    \x20     3445:\t  total startup time in dynamic loader: 4753112 cycles\n\
                    \x20     3445:\t            time needed for relocation: 3709199 cycles (78.0%)\n";
        assert_eq!(linker_cycles(text), Some(4_753_112));
        assert_eq!(linker_cycles(""), None);
    }
}
