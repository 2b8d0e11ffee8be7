//! `bootscope lake page`: writes one page of a lake that opens from disk.

use super::engine;
use crate::Done;
use crate::output::{Output, Written};
use anyhow::{Context, bail};
use campaigns::files::{self, write_file};
use report::LakePage;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Write one HTML page of a lake that opens from disk, without a network
///
/// It has the totals over time by kernel and kind of machine, and marks what became slower. Each regression leads to the boots
/// behind it. It also says which rows take most time, which machines are slow or silent, and which remedy pays most.
#[derive(clap::Args)]
pub struct PageArgs {
    /// The lake: a folder, or the address of one
    lake: PathBuf,
    /// The file to write [default: the lake's name with .html]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Only boots since then: a day such as 2026-01-31, or a length of time before now such as 30d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Let a cluster work it out: the address of its scheduler
    #[arg(long, value_name = "URL")]
    cluster: Option<String>,
}

/// The most bytes read from the engine. A lake of 200 kinds of machine gives five million.
const MAX_DOCUMENT_BYTES: u64 = 1 << 28;

/// Runs the command.
pub fn run(args: &PageArgs, output: &Output) -> anyhow::Result<Done> {
    let path = args.output.clone().unwrap_or_else(|| default_name(&args.lake));
    // Check the output before reading the lake, which may take minutes.
    files::refuse_existing(&path, args.force)?;
    let program = engine::program()?;
    let document = query(&program, args)?;
    let page = LakePage::read(&document).with_context(|| format!("cannot use what {} printed", program.display()))?;
    let bytes = write_file(&path, args.force, |out| report::lake_page(&page, out))?;
    output.note(&format!("wrote {}: open it in a browser", path.display()));
    output.written(&Written::new("bootscope.lake-page-written/1", &path, bytes))?;
    Ok(Done::Well)
}

/// The default path of the page: beside the lake's folder, or in the current folder for a lake with a URL.
fn default_name(lake: &Path) -> PathBuf {
    let is_elsewhere = lake.to_str().is_some_and(|text| text.contains("://"));
    let name =
        if is_elsewhere { lake.file_name().map_or_else(|| "lake".into(), PathBuf::from) } else { lake.to_owned() };
    files::beside(&name, ".html")
}

/// Makes the engine query the lake. The engine prints its own errors.
fn query(program: &Path, args: &PageArgs) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.arg("page-data");
    let options = [("--since", &args.since), ("--cluster", &args.cluster)];
    options.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?))).for_each(|(flag, value)| {
        command.arg(format!("{flag}={value}"));
    });
    command.arg("--").arg(&args.lake).stdin(Stdio::null()).stdout(Stdio::piped());
    let cannot = || format!("cannot run {}", program.display());
    let mut child = command.spawn().with_context(cannot)?;
    let mut document = Vec::new();
    let stdout = child.stdout.take().expect("it was asked for");
    let read = stdout.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut document);
    let is_too_large = document.len() as u64 > MAX_DOCUMENT_BYTES;
    if read.is_err() || is_too_large {
        let _ = child.kill();
    }
    let status = child.wait().with_context(cannot)?;
    read.with_context(|| format!("cannot read what {} prints", program.display()))?;
    if is_too_large {
        bail!("{} printed more than {MAX_DOCUMENT_BYTES} bytes: ask for fewer boots with --since", program.display());
    }
    if !status.success() {
        bail!("{} could not look at {}: {status}", program.display(), args.lake.display());
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_beside_its_lake_or_here() {
        for (lake, page) in [
            ("lake", "lake.html"),
            ("a/lake/", "a/lake.html"),
            ("s3://bucket/fleet", "fleet.html"),
            ("s3://", "s3:.html"),
        ] {
            assert_eq!(default_name(Path::new(lake)), Path::new(page), "{lake}");
        }
    }
}
