//! `bootscope report`: one page that opens from disk.

use crate::files::{self, write_file};
use crate::output::{Output, Written};
use crate::{Done, benches, boot, findings};
use anyhow::Context;
use report::{Boot, ConsoleLine};
use std::path::{Path, PathBuf};

/// Write one HTML page that opens from disk, without a network
///
/// Of a recording it has the phases, what to do about the slow spots, a flame chart, the tables and the console; of a bench the results and their plots.
#[derive(clap::Args)]
pub struct Args {
    /// A recording (folder or packed file), or a bench's folder
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
    let path = args.output.clone().unwrap_or_else(|| files::beside(&args.recording, ".html"));
    let bytes = if benches::is_bench(&args.recording) {
        let document = benches::read_whole(&args.recording, output)?;
        write_file(&path, args.force, |out| report::bench_page(&document, out))?
    } else {
        of_a_boot(args, &path, output)?
    };
    output.note(&format!("wrote {}: open it in a browser", path.display()));
    output.written(&Written::new("bootscope.report/1", &path, bytes))?;
    Ok(Done::Well)
}

/// The page of a recording; how many bytes it has.
fn of_a_boot(args: &Args, path: &Path, output: &Output) -> anyhow::Result<u64> {
    let opened = boot::open(&args.recording)?;
    let mut boot = Boot::new(&opened.timeline, &opened.facts);
    boot.findings = Some(findings::most_valuable(&opened, output));
    let console = evidence::console(&opened.recording).context("cannot read the console")?;
    let lines: Vec<ConsoleLine> = console.lines().map(|(at, text)| ConsoleLine { at, text }).collect();
    write_file(path, args.force, |out| report::page(&boot, &lines, out))
}
