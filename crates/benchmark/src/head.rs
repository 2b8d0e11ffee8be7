//! What is known of a bench before its first boot: what is compared, how it is booted, and where.

use crate::claims::Trial;
use crate::runs::Plan;
use statistics::verdict::Ask;

use recording::{InputRole, Sealer};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What `schema` says.
pub const SCHEMA: &str = "bootscope.bench/1";

/// How a bench is run: all that is known before the first boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the bootscope that ran it.
    pub tool_version: String,
    /// When it began, RFC 3339, UTC.
    pub created: String,
    /// What was run.
    pub plan: Plan,
    /// The variants; the first is the baseline.
    pub variants: Vec<Variant>,
    /// What each axis of a sweep's grid is; the variants are its points, the last axis first to change.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Sizes beyond the grid that the scaling models predict.
    #[serde(default)]
    pub at: Vec<f64>,
    /// Whether boots are deterministic, and times guest-virtual: one instruction is one nanosecond.
    pub deterministic: bool,
    /// Whether each deterministic boot of a variant has another dummy argument, so that its layout differs.
    #[serde(default)]
    pub dithered: bool,
    /// The machine that it ran on.
    #[serde(default)]
    pub host: Host,
    /// The CPUs that the boots could run on, as Linux lists them; empty if unknown.
    #[serde(default)]
    pub host_cpus_allowed: String,
    /// The milestone that boots are measured to; none: to the end mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<String>,
    /// What is asked of comparisons.
    pub ask: Ask,
    /// Of a try: what was claimed for each variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Shows the user who began it that it boots what this user's bootscope wrote here on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Variant {
    /// What tells it from the others.
    pub name: String,
    /// How it differs from the options that all share.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// How it is booted, in the recorder's own form.
    pub how: serde_json::Value,
    /// What that is on this host.
    #[serde(default)]
    pub booted: Booted,
}

/// One option of a variant, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setting {
    /// The option: `cpus`, `append`, …
    pub key: String,
    /// Its value.
    pub value: String,
}

/// One axis of a sweep's grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Axis {
    /// The option.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// What a variant is on the host that boots it, as its recordings say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Booted {
    /// Kernel release or file name.
    pub kernel: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// The VMM's version, as it says.
    pub vmm: String,
    /// The files that went into it.
    pub inputs: Vec<InputFile>,
}

/// A file that went into a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InputFile {
    /// `kernel`, `initrd`, `disk`, `symbols`.
    pub role: String,
    /// Its path.
    pub path: String,
    /// SHA-256 of its content; empty where that was not taken.
    pub sha256: String,
}

/// The machine that a bench ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Host {
    /// CPU model name.
    pub cpu: String,
    /// CPUs online.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
}

impl Variant {
    /// A variant of which nothing but this is known.
    pub fn named(name: &str) -> Variant {
        let (settings, booted) = (Vec::new(), Booted::default());
        Variant { name: name.to_owned(), settings, how: serde_json::Value::Null, booted }
    }

    /// What a person calls its kernel: its release, or the name of its file; empty if neither is known.
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
    /// The head of a bench of which nothing but this is known.
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

    /// Seals what it boots and how often, as this user's on this machine.
    pub fn seal_with(&mut self, sealer: &Sealer) {
        let seal = sealer.seal(&self.covered());
        self.seal = Some(seal);
    }

    /// True if this user's bootscope began it on this machine, and nobody changed what it boots.
    pub fn is_sealed_by(&self, sealer: &Sealer) -> bool {
        self.seal.as_ref().is_some_and(|seal| sealer.fits(seal, &self.covered()))
    }

    fn covered(&self) -> impl Serialize {
        let variants: Vec<_> = self.variants.iter().map(|variant| (&variant.how, &variant.booted.inputs)).collect();
        let trial = self.trial.as_ref().map(|trial| {
            let changes: Vec<_> = trial.remedies.iter().map(|remedy| &remedy.changes).collect();
            (&trial.recording, &trial.sources, changes)
        });
        let Plan { variants: count, warm_ups, stop, seed, leaves_out } = &self.plan;
        // JSON does not carry each fraction exactly.
        let width = stop.width.map(|width| format!("{width:.6}"));
        let plan = (count, warm_ups, stop.rounds, width, stop.budget_ns, seed, leaves_out);
        let runs = (self.deterministic, self.dithered, &self.host_cpus_allowed, &self.up_to);
        ("bench", variants, trial, plan, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Remedy;
    use crate::tree::Sources;
    use findings::Change;
    use recording::Key;

    #[test]
    fn a_seal_covers_all_that_is_booted() {
        let sealer = Sealer::with(Key::from_bytes(vec![1; 32]), b"here".to_vec());
        let stop = crate::runs::Stop { rounds: 1, width: None, budget_ns: None };
        let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop, seed: 1 };
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
