//! Machine models by name: those that come with bootscope, and files.

use analysis::MachineModel;
use anyhow::{Context, bail};
use report::ModelDocument;
use std::path::Path;

/// The model of this name: a shipped one, or a file with one.
///
/// # Errors
/// If there is no such model, or if it is malformed.
pub fn open(name: &str) -> anyhow::Result<(ModelDocument, MachineModel)> {
    let shipped = ModelDocument::shipped();
    if let Some(document) = shipped.iter().find(|document| document.name == name) {
        return Ok((document.clone(), document.model()?));
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<&str> = shipped.iter().map(|document| document.name.as_str()).collect();
        bail!(
            "--as {name}: there is no such model and no such file; models that come with bootscope: {}",
            names.join(", ")
        );
    }
    let text = recording::read_regular_text(path, recording::SMALL_BYTES_MAX)
        .with_context(|| format!("--as: cannot read {name}"))?;
    ModelDocument::parse(&text).with_context(|| format!("--as: {name} is not a machine model"))
}
