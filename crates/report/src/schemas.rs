//! The JSON schemas of the documents, generated from the types that are written.

use crate::check::Check;
use crate::commit_range::{Bisected, CommitRange};
use crate::diff::Diff;
use crate::findings::{Findings, Rule};
use crate::fit::Fit;
use crate::history::PastBenches;
use crate::lab::Lab;
use crate::ledger::Ledger;
use crate::machine_boots::MachineBoots;
use crate::model_document::ModelDocument;
use crate::summary::Summary;
use crate::trial::Proofs;
use benchmark::Document;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};

/// The schema of each written document, by the name in the document's field `schema`.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("bootscope.bench/1", of::<Document>()),
        ("bootscope.bisect/1", of::<Bisected>()),
        ("bootscope.check/1", of::<Check>()),
        ("bootscope.diff/1", of::<Diff>()),
        ("bootscope.findings/1", of::<Findings>()),
        ("bootscope.fit/1", of::<Fit>()),
        ("bootscope.history-boots/1", of::<MachineBoots>()),
        ("bootscope.history/1", of::<PastBenches>()),
        ("bootscope.lab/1", of::<Lab>()),
        ("bootscope.model/1", of::<ModelDocument>()),
        ("bootscope.range/1", of::<CommitRange>()),
        ("bootscope.rule/1", of::<Rule>()),
        ("bootscope.show/1", of::<Summary>()),
        ("bootscope.try/1", of::<Proofs>()),
        ("bootscope.what-if/1", of::<Ledger>()),
    ]
}

fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    // `docs/json.md` describes the fields. Without descriptions, rewording a comment does not change a schema.
    let settings =
        settings.with_transform(RecursiveTransform(|schema: &mut Schema| drop(schema.remove("description"))));
    settings.into_generator().into_root_schema_for::<T>()
}
