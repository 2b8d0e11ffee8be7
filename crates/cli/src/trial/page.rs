//! `try --page`: all tries of a history as a page of Markdown.

use crate::{Done, files::write_file, output::Output};
use anyhow::bail;
use benchmark::History;
use std::path::Path;

/// Writes it.
pub fn write(page: &Path, db: Option<&Path>, force: bool, output: &Output) -> anyhow::Result<Done> {
    let path = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok)?;
    let trials = History::open_existing(&path)?.trials(None)?;
    if trials.is_empty() {
        bail!("{} has no try: `bootscope try RECORDING` makes one", path.display());
    }
    let written = report::proofs_page(&trials);
    let bytes = write_file(page, force, |out| out.write_all(written.as_bytes()))?;
    output.written(&crate::output::Written::new("bootscope.try-page/1", page, bytes))?;
    Ok(Done::Well)
}
