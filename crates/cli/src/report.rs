//! `bootscope report`: one page that opens from disk.

use crate::files::write_file;
use crate::output::{Output, Written};
use crate::{Done, boot};
use anyhow::Context;
use report::{Boot, ConsoleLine};
use std::path::PathBuf;

/// Write one self-contained HTML page: phases, flame chart, tables, console
#[derive(clap::Args)]
pub struct Args {
    /// A recording: its folder, or the packed file
    recording: PathBuf,
    /// The file to write [default: the recording's name with .html]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let opened = boot::open(&args.recording)?;
    let boot = Boot::new(&opened.timeline, &opened.facts);
    let console = evidence::console(&opened.recording).context("cannot read the console")?;
    let lines: Vec<ConsoleLine> = console.lines().map(|(at, text)| ConsoleLine { at, text }).collect();
    let path = args.output.clone().unwrap_or_else(|| {
        let mut name = args.recording.components().as_path().as_os_str().to_owned();
        name.push(".html");
        name.into()
    });
    let bytes = write_file(&path, args.force, |out| report::page(&boot, &lines, out))?;
    output.note(&format!("wrote {}: open it in a browser", path.display()));
    output.written(&Written::new("bootscope.report/1", &path, bytes))?;
    Ok(Done::Well)
}
