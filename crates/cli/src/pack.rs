//! `bootscope pack`: one file of a recording.

use crate::output::{self, Output, Written};
use crate::{Done, files};
use anyhow::{Context, bail};
use capture::Anonymous;
use recording::Recording;
use std::path::{Path, PathBuf};

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
    /// Make tokens of host names, serial numbers, addresses and users' folders, to give the recording away. Leaves out binary
    /// files that may hold such names
    #[arg(long)]
    anonymous: bool,
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
    crate::boot::refuse_other_folders(&Recording::open(&args.recording)?)?;
    if args.anonymous {
        anonymously(args, &packed, output)?;
    } else {
        recording::pack(&args.recording, &packed, args.force)?;
    }
    output.note(&format!("wrote {}", packed.display()));
    let bytes = packed.metadata().with_context(|| format!("cannot look at {}", packed.display()))?.len();
    output.written(&Written::new("bootscope.pack/1", &packed, bytes))?;
    Ok(Done::Well)
}

fn anonymously(args: &Args, packed: &Path, output: &Output) -> anyhow::Result<()> {
    recording::may_be_written(packed, args.force)?;
    let Anonymous { recording, left_out, hosts_left } = capture::anonymous(&Recording::open(&args.recording)?)?;
    recording.pack(packed, args.force)?;
    if !left_out.is_empty() {
        output.note(&format!("left out, because such a file may hold names: {}", left_out.join(", ")));
    }
    if hosts_left > 0 {
        output::warn(&format!(
            "more than {} host names are in it: {hosts_left} of them are no tokens. Remove their lines, and pack again",
            capture::NAMES_MAX
        ));
    }
    output.note("look at what it holds before you give it away: a text may say more than names and numbers");
    Ok(())
}
