//! Budgets: a TOML file with limits for a boot, and the check that boots keep them.
//!
//! ```toml
//! baseline = "history"              # the reference of limits with +: history, or a bench; `--baseline` replaces it
//! kernel = "6.1"                    # boots of another kernel measure nothing
//! total = ["1.2s", "+5%"]           # one limit, or several
//! [phase]
//! initcalls = "300ms"               # also the sum of "initcalls: …"; of deterministic boots "300M instr"
//! [function]                        # rows and functions, as `show` names them
//! "initcall acpi_init" = "+2ms"
//! [milestone]                       # the time of a milestone, as `show --milestones` names it
//! "unit:ssh.service" = "8s"
//! [memory]
//! vmm_max_rss = "180M"              # also guest_used, and any metric in bytes if less is better
//! [metric]                          # any metric if less is better
//! vmm_cpu = "2s"
//! [instructions]                    # of deterministic boots
//! total = "1.9G"
//! [machine.q35]                     # for boots on this machine type, in place of the limits above
//! total = "1.1s"
//! [machine.q35.phase]
//! initcalls = "250ms"
//! [[reference]]                     # a measured value and its margin, for boots on this hardware
//! name = "total"
//! value = "1.02s"
//! margin = "5%"
//! hardware = "x86_64 q35, 2 CPUs, 512 MiB, kvm, …"
//! ```
//! Every limit is a maximum: `1.2s` is absolute, `+5%` and `+2ms` are relative to the baseline. [`judge`] decides whether each
//! limit is kept, and takes the noise of the boots into account.

mod about;
mod amount;
mod file;
pub mod judge;
mod observed;
pub mod reference;

mod undecided;

pub use about::About;
pub use judge::{Checked, Status, check};
pub use observed::{Noise, Observed, metrics};
pub use undecided::{OnUndecided, Undecided};

use crate::metrics::{Metric, Unit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of quantity that has a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Time from time zero to the end mark, in ns.
    Total,
    /// Length of a phase, in ns.
    Phase,
    /// Time of a row or a function of the boot path, in ns.
    Function,
    /// Time of a milestone, in ns since time zero.
    Milestone,
    /// A metric in bytes.
    Memory,
    /// A metric in ns.
    Metric,
    /// Number of instructions of a deterministic boot.
    Instructions,
}

/// The quantity that has a budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct What {
    /// Kind of the quantity.
    pub kind: Kind,
    /// Name of the quantity; `total` for the whole boot.
    pub name: String,
}

impl What {
    /// The total of the boot.
    pub fn total() -> What {
        What { kind: Kind::Total, name: TOTAL.to_owned() }
    }

    pub fn metric(metric: &Metric) -> What {
        What::new(if metric.unit == Unit::Bytes { Kind::Memory } else { Kind::Metric }, metric.name)
    }

    pub fn new(kind: Kind, name: &str) -> What {
        What { kind, name: name.to_owned() }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Total => f.write_str("total"),
            Kind::Phase => write!(f, "phase {}", self.name),
            Kind::Function => f.write_str(&self.name),
            Kind::Milestone => write!(f, "milestone {}", self.name),
            Kind::Memory => write!(f, "memory {}", self.name),
            Kind::Metric => write!(f, "metric {}", self.name),
            Kind::Instructions if self.name == TOTAL => f.write_str("instructions"),
            Kind::Instructions => write!(f, "instructions of {}", self.name),
        }
    }
}

/// Name of the total.
const TOTAL: &str = "total";

/// The maximum that a budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// An absolute maximum: ns, bytes or instructions.
    AtMost(f64),
    /// A maximum excess over the baseline, in the same units.
    Over(f64),
    /// A maximum excess over the baseline, as a share of it.
    OverShare(f64),
}

impl Limit {
    /// True if the limit needs a baseline.
    pub fn is_relative(self) -> bool {
        !matches!(self, Limit::AtMost(_))
    }
}

/// A limit of one quantity, as a line of the file gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The limited quantity.
    pub what: What,
    pub limit: Limit,
    /// The unit of an amount that is time or instructions; a share, or bytes, have none.
    pub unit: Option<timeline::Unit>,
    /// The limit as written in the file.
    pub text: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The machines that it is for; `None`: all.
    pub scope: Option<Scope>,
}

/// The machines that a budget is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of a machine type.
    Machine(String),
    /// Those with this hardware, as [`About::hardware`] describes it.
    Hardware(String),
}

impl Scope {
    fn includes(&self, about: &About) -> bool {
        match self {
            Scope::Machine(machine) => about.machine == *machine,
            Scope::Hardware(hardware) => about.hardware() == *hardware,
        }
    }

    fn name(&self) -> &str {
        match self {
            Scope::Machine(name) | Scope::Hardware(name) => name,
        }
    }
}

/// A file of budgets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budgets {
    /// The baseline of relative limits, if the file names one.
    pub baseline: Option<String>,
    /// The kernel that the budgets are for, if the file names one.
    pub kernel: Option<String>,
    /// The budgets, ordered by kind and name.
    pub all: Vec<Budget>,
}

/// An error in a file of budgets, with its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BudgetError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The error and its remedy.
    pub why: String,
}

impl Budgets {
    /// The budgets for these boots. One for their machine replaces those of the same quantity that are for all machines.
    pub fn for_boots<'a>(&'a self, about: &'a About) -> impl Iterator<Item = &'a Budget> {
        let is_special = |budget: &&Budget| budget.scope.as_ref().is_some_and(|scope| scope.includes(about));
        self.all.iter().filter(move |budget| match &budget.scope {
            Some(scope) => scope.includes(about),
            None => !self.all.iter().filter(is_special).any(|special| special.what == budget.what),
        })
    }

    /// The machines that budgets are for.
    pub fn scopes(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.all.iter().filter_map(|budget| Some(budget.scope.as_ref()?.name().to_owned())).collect();
        names.dedup();
        names
    }

    /// True if any limit needs a baseline.
    pub fn needs_baseline(&self) -> bool {
        self.all.iter().any(|budget| budget.limit.is_relative())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
baseline = \"history\"
total = [\"1.2s\", \"+5%\"]
[phase]
initcalls = \"300 ms\"
[function]
\"initcall acpi_init\" = \"+2ms\"
[memory]
vmm_max_rss = \"180M\"
[instructions]
total = \"1.9G\"
";

    #[test]
    fn a_file_is_read() {
        let found = Budgets::parse(WHOLE).unwrap();
        assert_eq!((found.baseline.as_deref(), found.needs_baseline()), (Some("history"), true));
        let all: Vec<(String, Limit, usize)> =
            found.all.iter().map(|b| (b.what.to_string(), b.limit, b.line)).collect();
        let expected = [
            ("total", Limit::AtMost(1.2e9), 2),
            ("total", Limit::OverShare(0.05), 2),
            ("phase initcalls", Limit::AtMost(3e8), 4),
            ("initcall acpi_init", Limit::Over(2e6), 6),
            ("memory vmm_max_rss", Limit::AtMost(f64::from(180 << 20)), 8),
            ("instructions", Limit::AtMost(1.9e9), 10),
        ];
        assert_eq!(all, expected.map(|(what, limit, line)| (what.to_owned(), limit, line)));
    }

    #[test]
    fn a_machine_has_budgets_of_its_own() {
        let text = "total = \"2s\"\n[memory]\nvmm_max_rss = \"180M\"\n[machine.q35]\ntotal = [\"1s\", \"+5%\"]\n\
                    [machine.virt.phase]\nkernel = \"1s\"\n[[reference]]\nname = \"phase kernel\"\nvalue = \"500ms\"\n\
                    margin = \"10%\"\nhardware = \"arm64 virt, 1 CPU\"\n";
        let budgets = Budgets::parse(text).unwrap();
        let of = |arch: &str, machine: &str, cpus| -> Vec<(String, String)> {
            let (arch, machine) = (arch.to_owned(), machine.to_owned());
            let about = About { arch, machine, cpus, ..About::default() };
            budgets.for_boots(&about).map(|budget| (budget.what.to_string(), budget.text.clone())).collect()
        };
        let named = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(what, text)| ((*what).to_owned(), (*text).to_owned())).collect()
        };
        let memory = ("memory vmm_max_rss", "180M");
        assert_eq!(of("", "pc", 1), named(&[("total", "2s"), memory]));
        assert_eq!(of("", "q35", 1), named(&[("total", "1s"), ("total", "+5%"), memory]));
        let kernel = [("total", "2s"), ("phase kernel", "1s"), ("phase kernel", "500ms + 10%"), memory];
        assert_eq!(of("arm64", "virt", 1), named(&kernel));
        let reference = budgets.all.iter().find(|budget| budget.text == "500ms + 10%").unwrap();
        assert_eq!(reference.limit, Limit::AtMost(5.5e8));
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, line, words) in [
            ("total = \"fast\"", 1, "1.2s"),
            ("\ntotal = 7", 2, "text"),
            ("[phase]\n\na = \"5%\"", 3, "+5%"),
            ("[phase]\na = \"-5ms\"", 2, "-5ms"),
            ("[memory]\nvmm_max_rss = \"10ms\"", 2, "180M"),
            ("totl = \"1s\"", 1, "totl"),
            ("", 1, "no budget"),
            ("total = [\"1s\", 3]", 1, "text"),
            ("[phase", 1, ""),
            ("[instructions]\ntotal = \"1s\"", 2, "1.9G"),
            ("[machine.q35]\ntotal = \"fast\"", 2, "1.2s"),
            (
                "total = \"1s\"\n[[reference]]\nname = \"total\"\nvalue = \"1s\"\nmargin = \"x\"\nhardware = \"h\"",
                5,
                "5%",
            ),
            ("[[reference]]\nname = \"totl\"\nvalue = \"1s\"\nmargin = \"5%\"\nhardware = \"h\"", 2, "total"),
        ] {
            let error = Budgets::parse(text).unwrap_err();
            assert!(error.line == line && error.why.contains(words) && !error.why.contains('\n'), "{text}: {error}");
        }
    }
}
