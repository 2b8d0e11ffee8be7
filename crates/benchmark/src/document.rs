//! The document of a bench, schema `bootscope.bench/1`: how it was run, every boot, and the results.
//!
//! ```text
//! { "schema": "bootscope.bench/1", "tool_version": "0.1.0", "created": "2026-01-01T00:00:00Z",
//!   "plan":     {"variants": 2, "warm_ups": 1, "stop": {"rounds", "sure", "width", "budget_ns"}, "seed"},
//!   "variants": [{"name", "settings": [{"key", "value"}], "how": {…}, "booted": {"kernel", "inputs": […], …}}],
//!                                                the first is the baseline; `how` is in the recorder's own form
//!   "sweep":    [{"key": "cpus", "values": ["1", "2"]}],                        the grid's axes; empty without
//!   "deterministic": false, "dithered": false, "host_cpus_allowed": "0-3", "host": {"cpu", "cores", "kernel"},
//!   "ask":      {"margin": 0.05, "power": 0.9},
//!   "boots":    [{"number", "round", "variant", "began_ns", "outcome", "total_ns", "phases": [{"name", "ns"}],
//!                 "rows": [{"name", "ns"}], …}],
//!   "continued": [7],                   boots that were over each time the bench resumed; left out if it never did
//!   "ended":    "rounds" | "sure" | "width" | "budget" | "interrupted" | {"never-reached": 1} | "error" | null (killed),
//!   "results":  {"variants": […], "comparisons": […], "laws": […]} }
//! ```
//! It keeps the raw samples, so that other tests can be run on them. [`crate::results`] computes `results` from the rest.
//! Fields are added, never renamed. Times are integers in ns, estimates and intervals are numbers in ns, and ratios have no
//! unit.

use crate::did_you_mean::similar_names;
use crate::head::Head;
use crate::results::{Results, results};
use crate::runs::{Boot, Ended, Measured};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A bench: how it was run, every boot, and the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Document {
    /// The configuration of the bench.
    #[serde(flatten)]
    pub head: Head,
    /// Every boot, oldest first.
    pub boots: Vec<Boot>,
    /// The reason why the bench ended. Null if the program was killed.
    pub ended: Option<Ended>,
    /// Number of boots that were over, for each time that the interrupted bench resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<u32>,
    /// Statistics of the boots.
    pub results: Results,
}

/// Error: no boot of the bench passed a milestone of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no boot of it passed {name:?}{}", nearest_text(.near))]
pub struct NotPassed {
    /// The requested milestone.
    pub name: String,
    /// Milestones with the most similar names. Empty if the bench has no milestones.
    pub near: Vec<String>,
}

fn nearest_text(near: &[String]) -> String {
    match near {
        [] => ": it has no milestones but its end mark".to_owned(),
        near => format!("; nearest: {}", near.join(", ")),
    }
}

impl Document {
    /// The same boots, each measured to a milestone in place of its end mark. Phases are cut there. Rows are left out, because
    /// they divide the path to the end mark. A boot that did not pass the milestone has no length.
    ///
    /// # Errors
    /// If no boot passed the milestone.
    pub fn up_to(mut self, name: &str) -> Result<Document, NotPassed> {
        if self.head.up_to.as_deref() == Some(name) {
            return Ok(self);
        }
        let all = || self.boots.iter().flat_map(|boot| &boot.measured.milestones);
        if !all().any(|passed| passed.name == name) {
            let names = all().map(|passed| passed.name.as_str()).collect::<BTreeSet<&str>>();
            return Err(NotPassed { name: name.to_owned(), near: similar_names(name, names) });
        }
        for boot in &mut self.boots {
            boot.measured.cut_at(name);
        }
        self.head.up_to = Some(name.to_owned());
        self.results = results(&self.head, &self.boots);
        Ok(self)
    }

    /// The same boots, with the results that this version computes: an earlier version may have written the document. Boots of
    /// variants that the document does not list are left out.
    pub fn computed_again(self) -> Document {
        let variants = self.head.variants.len();
        let boots = self.boots.into_iter().filter(|boot| boot.variant < variants).collect();
        Document { continued: self.continued, ..Document::new(self.head, boots, self.ended) }
    }

    /// A bench with these boots. Computes the results.
    pub fn new(head: Head, boots: Vec<Boot>, ended: Option<Ended>) -> Document {
        let results = results(&head, &boots);
        Document { head, boots, ended, continued: Vec::new(), results }
    }
}

impl Measured {
    /// Makes the boot end at one of its milestones.
    fn cut_at(&mut self, name: &str) {
        self.rows = Vec::new();
        let passed = self.milestones.iter().find(|passed| passed.name == name).map(|passed| passed.ns);
        let Some(at) = passed.filter(|_| self.total_ns.is_some()) else {
            if self.total_ns.take().is_some() {
                self.detail = format!("it did not pass {name}");
            }
            return self.phases.clear();
        };
        let mut left = at;
        for phase in &mut self.phases {
            phase.ns = phase.ns.min(left);
            left -= phase.ns;
        }
        self.phases.retain(|phase| phase.ns > 0);
        self.milestones.retain(|passed| passed.ns <= at);
        self.total_ns = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Variant;
    use crate::runs::{PhaseTime, Plan, Stop};

    fn bench(boots: &[&[(&str, i64)]]) -> Document {
        let stop = Stop { rounds: 3, ..Stop::default() };
        let plan = Plan { variants: 1, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let time = |&(name, ns): &(&str, i64)| PhaseTime { name: name.to_owned(), ns, waited_ns: 0 };
        let boots = (0..).zip(boots).map(|(number, milestones)| {
            let measured = Measured {
                outcome: "reached".to_owned(),
                total_ns: Some(1000),
                phases: [("kernel", 300), ("user space", 700)].iter().map(time).collect(),
                rows: [("a", 1000)].iter().map(time).collect(),
                milestones: milestones.iter().map(time).collect(),
                ..Measured::default()
            };
            Boot { number, round: Some(number), variant: 0, began_ns: 0, measured }
        });
        Document::new(Head::of(plan, vec![Variant::named("as given")]), boots.collect(), Some(Ended::Rounds))
    }

    #[test]
    fn a_bench_is_measured_to_a_milestone() {
        let both = [("process-1", 290), ("unit:ssh.service", 650)];
        let bench = bench(&[&both, &both[..1], &[("process-1", 310), ("unit:ssh.service", 640)]]);
        let ssh = bench.clone().up_to("unit:ssh.service").unwrap();
        let totals: Vec<_> = ssh.boots.iter().map(|boot| boot.measured.total_ns).collect();
        assert_eq!(totals, [Some(650), None, Some(640)], "a boot that did not pass it has no length");
        assert_eq!(ssh.boots[1].measured.detail, "it did not pass unit:ssh.service");
        for boot in ssh.boots.iter().filter(|boot| boot.measured.total_ns.is_some()) {
            let phases: i64 = boot.measured.phases.iter().map(|phase| phase.ns).sum();
            assert_eq!(Some(phases), boot.measured.total_ns, "phases sum to the total");
            assert!(boot.measured.rows.is_empty(), "rows are of the path to the end mark");
        }
        assert_eq!(ssh.results.variants[0].total.as_ref().unwrap().median.estimate, 645.0);
        let wrong = bench.up_to("unit:sshd.service").unwrap_err();
        assert_eq!(wrong.near[0], "unit:ssh.service", "{wrong}");
    }
}
