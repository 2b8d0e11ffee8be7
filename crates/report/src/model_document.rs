//! The document of a machine model, schema `bootscope.model/1`: prices with their ranges and sources.
//!
//! It is read strictly: a model with a wrong or missing price makes wrong figures, so it is refused as a whole.

use analysis::{MachineModel, Price};
use serde::{Deserialize, Serialize};
use timeline::ExitKind;

/// The name and version of the document.
pub const MODEL_SCHEMA: &str = "bootscope.model/1";

/// The bounds of an instruction's price: a CPU that does 100 instructions in a nanosecond, and an interpreter.
const INSTRUCTION_NS: (f64, f64) = (0.01, 100_000.0);
/// The largest price of an access: longer ones are waits.
const MAX_ACCESS_NS: f64 = 100_000_000.0;
/// The most characters of a name.
const MAX_NAME: usize = 64;

/// The models that come with bootscope.
const SHIPPED: &[&str] = &[include_str!("models/published-2016.json")];

/// A machine model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelDocument {
    /// `bootscope.model/1`.
    pub schema: String,
    pub name: String,
    /// The architecture, as QEMU names it.
    pub arch: String,
    /// The machine, and how the prices were found.
    pub source: String,
    pub prices: PricesLine,
}

/// The price of each kind of access. Only x86-64 has ports, MSRs and CPUID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricesLine {
    /// An instruction that leaves no guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_read: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_write: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mmio_read: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mmio_write: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msr_read: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msr_write: Option<PriceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpuid: Option<PriceLine>,
    /// HLT or WFI, and the wake-up from it, beyond the time that the guest slept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<PriceLine>,
    /// A call of the hypervisor or of firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypercall: Option<PriceLine>,
    /// The first access to a page of RAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_touch: Option<PriceLine>,
}

/// One price with its range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceLine {
    pub ns: f64,
    /// The ends of its range.
    pub low_ns: f64,
    pub high_ns: f64,
    /// The way in which it was found, if not as `source` of the model says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// The reason why a text is not a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotAModel {
    #[error("{0}; docs/json.md lists the fields of bootscope.model/1")]
    Json(String),
    #[error("its schema is {0:?}: this bootscope reads {MODEL_SCHEMA}")]
    Schema(String),
    #[error("{field} is {value}: {wanted}")]
    Field { field: String, value: String, wanted: String },
    #[error("prices.{0} is missing: give ns, low_ns and high_ns; 0 if it costs nothing")]
    Missing(&'static str),
    #[error("prices.{field} is given, but {arch} has no such access: leave it out")]
    NotOfArchitecture { field: &'static str, arch: String },
}

impl ModelDocument {
    /// The models that come with bootscope.
    ///
    /// # Panics
    /// If one of them is malformed; a test reads them all.
    pub fn shipped() -> Vec<ModelDocument> {
        SHIPPED.iter().map(|text| ModelDocument::parse(text).expect("a shipped model is well formed").0).collect()
    }

    /// Reads a document, and makes its model.
    ///
    /// # Errors
    /// [`NotAModel`].
    pub fn parse(text: &str) -> Result<(ModelDocument, MachineModel), NotAModel> {
        let document: ModelDocument = serde_json::from_str(text).map_err(|e| NotAModel::Json(e.to_string()))?;
        let model = document.model()?;
        Ok((document, model))
    }

    /// Checks the document, and makes its model.
    ///
    /// # Errors
    /// [`NotAModel`].
    pub fn model(&self) -> Result<MachineModel, NotAModel> {
        if self.schema != MODEL_SCHEMA {
            return Err(NotAModel::Schema(self.schema.clone()));
        }
        for (field, text) in [("name", &self.name), ("arch", &self.arch), ("source", &self.source)] {
            if text.trim().is_empty() {
                return Err(wrong(field, "empty", "write what it is"));
            }
        }
        if self.name.chars().count() > MAX_NAME {
            return Err(wrong("name", "too long", &format!("at most {MAX_NAME} characters")));
        }
        let Some(arch) = arch::ALL.iter().find(|facts| facts.name == self.arch) else {
            let names: Vec<&str> = arch::ALL.iter().map(|facts| facts.name).collect();
            return Err(wrong("arch", &format!("{:?}", self.arch), &format!("give one of {}", names.join(", "))));
        };
        let instruction = self.prices.instruction.as_ref().ok_or(NotAModel::Missing("instruction"))?;
        let mut accesses = Vec::new();
        for (field, kind, price) in self.prices.accesses() {
            match (price, arch.has_ports || !needs_ports(kind)) {
                (Some(price), true) => accesses.push((kind, checked(field, price, (0.0, MAX_ACCESS_NS))?)),
                (None, true) => return Err(NotAModel::Missing(field)),
                (Some(_), false) => return Err(NotAModel::NotOfArchitecture { field, arch: self.arch.clone() }),
                (None, false) => {}
            }
        }
        Ok(MachineModel {
            name: self.name.clone(),
            arch: self.arch.clone(),
            instruction: checked("instruction", instruction, INSTRUCTION_NS)?,
            accesses,
        })
    }
}

impl PricesLine {
    /// The price of each kind of access, with its field.
    fn accesses(&self) -> [(&'static str, ExitKind, Option<&PriceLine>); 10] {
        [
            ("port_read", ExitKind::PortRead, self.port_read.as_ref()),
            ("port_write", ExitKind::PortWrite, self.port_write.as_ref()),
            ("mmio_read", ExitKind::MmioRead, self.mmio_read.as_ref()),
            ("mmio_write", ExitKind::MmioWrite, self.mmio_write.as_ref()),
            ("msr_read", ExitKind::MsrRead, self.msr_read.as_ref()),
            ("msr_write", ExitKind::MsrWrite, self.msr_write.as_ref()),
            ("cpuid", ExitKind::Cpuid, self.cpuid.as_ref()),
            ("halt", ExitKind::Halt, self.halt.as_ref()),
            ("hypercall", ExitKind::Hypercall, self.hypercall.as_ref()),
            ("first_touch", ExitKind::FirstTouch, self.first_touch.as_ref()),
        ]
    }
}

/// True for accesses that only CPUs with ports have.
fn needs_ports(kind: ExitKind) -> bool {
    matches!(kind, ExitKind::PortRead | ExitKind::PortWrite | ExitKind::MsrRead | ExitKind::MsrWrite | ExitKind::Cpuid)
}

/// The price of a field, if it is within these bounds.
fn checked(field: &str, price: &PriceLine, (least, most): (f64, f64)) -> Result<Price, NotAModel> {
    for (part, ns) in [("ns", price.ns), ("low_ns", price.low_ns), ("high_ns", price.high_ns)] {
        if !(least..=most).contains(&ns) {
            let wanted = format!("give {least} to {most} ns");
            return Err(wrong(&format!("prices.{field}.{part}"), &format!("{ns} ns"), &wanted));
        }
    }
    if !(price.low_ns..=price.high_ns).contains(&price.ns) {
        let value = format!("{} ns, and its range is {} to {} ns", price.ns, price.low_ns, price.high_ns);
        return Err(wrong(&format!("prices.{field}"), &value, "the value lies in the range"));
    }
    Ok(Price { ns: price.ns, low: price.low_ns, high: price.high_ns })
}

fn wrong(field: &str, value: &str, wanted: &str) -> NotAModel {
    NotAModel::Field { field: field.to_owned(), value: value.to_owned(), wanted: wanted.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shipped() -> Value {
        serde_json::from_str(SHIPPED[0]).unwrap()
    }

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut document = shipped();
        change(&mut document);
        ModelDocument::parse(&document.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn shipped_models_are_read() {
        let models: Vec<MachineModel> = ModelDocument::shipped().iter().map(|model| model.model().unwrap()).collect();
        assert_eq!(models[0].name, "published-2016");
        assert_eq!(models[0].access(ExitKind::PortRead), Price { ns: 4000.0, low: 1250.0, high: 6000.0 });
        assert_eq!(models[0].access(ExitKind::ClockRead), Price::FREE);
    }

    #[test]
    fn a_wrong_model_is_refused_with_its_place() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 11] = [
            ("prices.cpuid.ns is -1 ns: give 0 to", |m| m["prices"]["cpuid"]["ns"] = json!(-1)),
            ("prices.instruction.low_ns is 0 ns: give 0.01", |m| m["prices"]["instruction"]["low_ns"] = json!(0)),
            ("prices.halt.high_ns is 1000000000", |m| m["prices"]["halt"]["high_ns"] = json!(1e9)),
            ("prices.halt is 1 ns, and its range", |m| m["prices"]["halt"]["ns"] = json!(1)),
            ("missing field `ns`", |m| m["prices"]["halt"] = json!({"low_ns": 1, "high_ns": 2})),
            ("invalid type: string \"NaN\"", |m| m["prices"]["halt"]["ns"] = json!("NaN")),
            ("unknown field `ports`", |m| m["prices"]["ports"] = json!({})),
            ("prices.mmio_read is missing", |m| drop(m["prices"].as_object_mut().unwrap().remove("mmio_read"))),
            ("arch is \"vax\": give one of", |m| m["arch"] = json!("vax")),
            ("its schema is \"bootscope.model/2\"", |m| m["schema"] = json!("bootscope.model/2")),
            ("source is empty", |m| m["source"] = json!(" ")),
        ];
        for (expected, change) in cases {
            let refused = refused(change);
            assert!(refused.contains(expected), "{refused}");
        }
        let not_json = ModelDocument::parse("{\"prices\": {\"halt\": {\"ns\": NaN}}}").unwrap_err().to_string();
        assert!(not_json.contains("line 1 column") && not_json.contains("docs/json.md"), "{not_json}");
    }

    #[test]
    fn other_architectures_have_no_ports() {
        let mut document = shipped();
        let without = arch::ALL.iter().find(|facts| !facts.has_ports).unwrap().name;
        document["arch"] = json!(without);
        let refused = ModelDocument::parse(&document.to_string()).unwrap_err();
        assert_eq!(refused, NotAModel::NotOfArchitecture { field: "port_read", arch: without.to_owned() });
        for field in ["port_read", "port_write", "msr_read", "msr_write", "cpuid"] {
            document["prices"].as_object_mut().unwrap().remove(field);
        }
        let (_, model) = ModelDocument::parse(&document.to_string()).unwrap();
        assert_eq!((model.accesses.len(), model.access(ExitKind::PortRead)), (5, Price::FREE));
    }
}
