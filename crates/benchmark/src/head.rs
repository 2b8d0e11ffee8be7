//! The header of a bench: the variants, how they are booted, and the host. All of it is known before the first boot.

use crate::remedies::Trial;
use crate::runs::Plan;
use statistics::verdict::Ask;

use recording::{InputRole, Sealer};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The value of the field `schema`.
pub const SCHEMA: &str = "bootscope.bench/1";

/// The header of a bench: everything known before the first boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Head {
    /// Kind and version of the document: [`SCHEMA`].
    pub schema: String,
    /// Version of the bootscope that ran it.
    pub tool_version: String,
    /// Time when the bench began, RFC 3339, UTC.
    pub created: String,
    /// Number, order and limits of the boots.
    pub plan: Plan,
    /// The variants; the first is the baseline.
    pub variants: Vec<Variant>,
    /// The axes of a sweep's grid. The variants are its points; the last axis changes fastest.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Sizes beyond the grid that the scaling models predict.
    #[serde(default)]
    pub at: Vec<f64>,
    /// True if boots are deterministic, so that times are guest time: one instruction is one nanosecond.
    pub deterministic: bool,
    /// True if each deterministic boot of a variant has another dummy argument, so that its layout differs.
    #[serde(default)]
    pub dithered: bool,
    /// The machine that ran the bench.
    #[serde(default)]
    pub host: Host,
    /// The CPUs on which the boots could run, as Linux lists them. Empty if unknown.
    #[serde(default)]
    pub host_cpus_allowed: String,
    /// The milestone to which boots are measured. Missing if they are measured to the end mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<String>,
    /// The margin that matters, and the power wanted of comparisons.
    pub ask: Ask,
    /// The remedies and claims, if the bench is a try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Proof that the same user's bootscope wrote on this machine what the bench boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// One of the compared configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Variant {
    /// Name that distinguishes it from the other variants.
    pub name: String,
    /// The options in which it differs from the others.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Options of the boot, in the recorder's format.
    pub how: serde_json::Value,
    /// The kernel, accelerator, VMM and files that these options gave on this host.
    #[serde(default)]
    pub booted: Booted,
}

/// One option of a variant, as the user gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setting {
    /// Name of the option: `cpus`, `append`, …
    pub key: String,
    /// Value of the option.
    pub value: String,
}

/// One axis of a sweep's grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Axis {
    /// The swept option.
    pub key: String,
    /// The values, in order.
    pub values: Vec<String>,
}

/// The kernel, accelerator, VMM and files of a variant on the host that boots it, as its recordings report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Booted {
    /// Kernel release or file name.
    pub kernel: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// Name and version that the VMM reports.
    pub vmm: String,
    /// The input files of its boots.
    pub inputs: Vec<InputFile>,
}

/// An input file of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InputFile {
    /// Role of the file: `kernel`, `initrd`, `disk`, `symbols`.
    pub role: String,
    /// Path on the host.
    pub path: String,
    /// SHA-256 of the content. Empty if it was not computed.
    pub sha256: String,
}

/// The machine that ran a bench.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Host {
    /// CPU model name.
    pub cpu: String,
    /// Number of CPUs online.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
}

impl Variant {
    /// A variant of which only the name is known.
    pub fn named(name: &str) -> Variant {
        let (settings, booted) = (Vec::new(), Booted::default());
        Variant { name: name.to_owned(), settings, how: serde_json::Value::Null, booted }
    }

    /// Name of its kernel for the user: the release, or the file name. Empty if neither is known.
    pub fn kernel_name(&self) -> String {
        if !self.booted.kernel.is_empty() {
            return self.booted.kernel.clone();
        }
        let kernel = self.booted.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
        let name = kernel.and_then(|kernel| Path::new(&kernel.path).file_name());
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Head {
    /// The header of a bench of which only the plan and the variants are known.
    pub fn of(plan: Plan, variants: Vec<Variant>) -> Head {
        Head {
            schema: SCHEMA.to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created: String::new(),
            plan,
            variants,
            sweep: Vec::new(),
            at: Vec::new(),
            deterministic: false,
            dithered: false,
            host: Host::default(),
            host_cpus_allowed: String::new(),
            up_to: None,
            ask: Ask::default(),
            trial: None,
            seal: None,
        }
    }

    /// Seals what the bench boots and how often, for this user on this machine.
    pub fn seal_with(&mut self, sealer: &Sealer) {
        let seal = sealer.seal(&self.covered());
        self.seal = Some(seal);
    }

    /// True if this user's bootscope sealed it on this machine, and what it boots has not changed since.
    pub fn is_sealed_by(&self, sealer: &Sealer) -> bool {
        self.seal.as_ref().is_some_and(|seal| sealer.fits(seal, &self.covered()))
    }

    fn covered(&self) -> impl Serialize {
        let variants: Vec<_> = self.variants.iter().map(|variant| (&variant.how, &variant.booted.inputs)).collect();
        let trial = self.trial.as_ref().map(|trial| {
            let changes: Vec<_> = trial.remedies.iter().map(|remedy| &remedy.changes).collect();
            (&trial.recording, &trial.sources, changes)
        });
        let Plan { variants: count, warm_ups, stop, seed, leaves_out, leaves_out_first } = &self.plan;
        let leaves_out = leaves_out | leaves_out_first;
        // JSON does not preserve every fraction exactly.
        let width = stop.width.map(|width| format!("{width:.6}"));
        let plan = (count, warm_ups, stop.rounds, width, stop.budget_ns, seed, leaves_out);
        let runs = (self.deterministic, self.dithered, &self.host_cpus_allowed, &self.up_to);
        ("bench", variants, trial, plan, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedies::Remedy;
    use crate::tree::Sources;
    use findings::Change;
    use recording::Key;

    #[test]
    fn a_seal_covers_all_that_is_booted() {
        let sealer = Sealer::with(Key::from_bytes(vec![1; 32]), b"here".to_vec());
        let stop = crate::runs::Stop { rounds: 1, ..crate::runs::Stop::default() };
        let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let remedy = Remedy { changes: vec![Change::Cpus(2)], ..Remedy::default() };
        let trial = Trial { remedies: vec![remedy], sources: Some(Sources::default()), ..Trial::default() };
        let variant = Variant { how: serde_json::json!({"extra": ["-s"]}), ..Variant::named("a") };
        let mut sealed = Head { trial: Some(trial), ..Head::of(plan, vec![variant]) };
        assert!(!sealed.is_sealed_by(&sealer));
        sealed.seal_with(&sealer);
        let read: Head = serde_json::from_str(&serde_json::to_string(&sealed).unwrap()).unwrap();
        assert!(read.is_sealed_by(&sealer), "as it comes back from its file");
        let changes: [fn(&mut Head); 9] = [
            |head| head.variants[0].how["qemu"] = "/tmp/q".into(),
            |head| head.variants[0].booted.inputs.push(InputFile::default()),
            |head| head.trial.as_mut().unwrap().sources.as_mut().unwrap().tree = "/tmp/tree".into(),
            |head| head.trial.as_mut().unwrap().remedies[0].changes.clear(),
            |head| head.trial.as_mut().unwrap().recording = "/other".into(),
            |head| head.plan.stop.rounds = u32::MAX,
            |head| head.plan.warm_ups = 1,
            |head| head.plan.stop.budget_ns = Some(1),
            |head| head.host_cpus_allowed = "0".into(),
        ];
        for change in changes {
            let mut other = read.clone();
            change(&mut other);
            assert!(!other.is_sealed_by(&sealer), "{other:?}");
        }
    }
}
