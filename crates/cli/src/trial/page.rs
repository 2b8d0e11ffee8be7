//! `try --page`: writes all trials of a history as a page of Markdown.

use crate::{Done, output::Output};
use anyhow::bail;
use benchmark::History;
use campaigns::files::write_file;
use std::path::Path;

/// Writes the page.
pub fn write(page: &Path, db: Option<&Path>, force: bool, output: &Output) -> anyhow::Result<Done> {
    let path = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok)?;
    let trials = History::open_existing(&path)?.trials(None)?;
    if trials.is_empty() {
        bail!("{} has no try: `bootscope try RECORDING` makes one", path.display());
    }
    let written = report::proofs_page(&trials, &page.display().to_string());
    let notes = notes(page);
    let bytes = write_file(page, force, |out| {
        out.write_all(written.as_bytes())?;
        out.write_all(notes.as_bytes())
    })?;
    output.written(&crate::output::Written::new("bootscope.try-page/1", page, bytes))?;
    Ok(Done::Well)
}

/// The notes that a user wrote at the end of the existing page.
fn notes(page: &Path) -> String {
    let before = if page.is_file() { std::fs::read_to_string(page).unwrap_or_default() } else { String::new() };
    before.find(report::PROOFS_NOTES).map(|at| before[at..].to_owned()).unwrap_or_default()
}
