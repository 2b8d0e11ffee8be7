//! `bootscope pack`: one file of a recording.

use crate::output::{Output, Written};
use crate::{Done, files};
use anyhow::{Context, bail};
use std::path::PathBuf;

/// Make one .tar.zst file of a recording; every command reads it too
#[derive(clap::Args)]
pub struct Args {
    /// The recording's folder
    recording: PathBuf,
    /// The file to write [default: the folder's name with .tar.zst]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let packed = args.output.clone().unwrap_or_else(|| files::beside(&args.recording, ".tar.zst"));
    if crate::benches::journal_of(&args.recording).is_some() {
        let bench = args.recording.display();
        bail!(
            "{bench} is a bench: `bootscope export {bench} --to json -o FILE` makes one file of it, with every boot's figures"
        );
    }
    crate::boot::refuse_other_folders(&recording::Recording::open(&args.recording)?)?;
    recording::pack(&args.recording, &packed, args.force)?;
    output.note(&format!("wrote {}", packed.display()));
    let bytes = packed.metadata().with_context(|| format!("cannot look at {}", packed.display()))?.len();
    output.written(&Written::new("bootscope.pack/1", &packed, bytes))?;
    Ok(Done::Well)
}
