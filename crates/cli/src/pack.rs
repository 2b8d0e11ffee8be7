//! `bootscope pack`: packs a recording into one file.

use crate::Done;
use crate::output::{Output, Written};
use anyhow::{Context, bail};
use campaigns::{Notes, files};
use capture::Anonymous;
use recording::{Oddity, Recording};
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
    /// Make tokens of names of hosts and users, serial numbers, addresses, passwords and keys, to give the recording away. Leaves out
    /// files that cannot be read as text, and names them
    #[arg(long)]
    anonymous: bool,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let packed = args.output.clone().unwrap_or_else(|| files::beside(&args.recording, ".tar.zst"));
    if campaigns::benches::journal_path(&args.recording).is_some() {
        let bench = args.recording.display();
        bail!(
            "{bench} is a bench: `bootscope export {bench} --to json -o FILE` makes one file of it, with every boot's figures"
        );
    }
    let recording = Recording::open(&args.recording)?;
    campaigns::opened_boot::check_is_recording(&recording)?;
    let ignored = recording.diagnostics.iter().filter(|diagnostic| diagnostic.kind == Oddity::IgnoredEntry);
    let ignored: Vec<&str> = ignored.map(|diagnostic| diagnostic.detail.as_str()).collect();
    if !ignored.is_empty() {
        output.note(&format!("left out links, folders and devices: {}", ignored.join(", ")));
    }
    if args.anonymous {
        anonymously(args, &recording, &packed, output)?;
    } else {
        recording::pack(&args.recording, &packed, args.force)?;
    }
    output.note(&format!("wrote {}", packed.display()));
    let bytes = packed.metadata().with_context(|| format!("cannot look at {}", packed.display()))?.len();
    output.written(&Written::new("bootscope.pack/1", &packed, bytes))?;
    Ok(Done::Well)
}

fn anonymously(args: &Args, recording: &Recording, packed: &Path, output: &Output) -> anyhow::Result<()> {
    recording::may_be_written(packed, args.force)?;
    let Anonymous { recording, left_out, not_learned, identities } = capture::anonymous(recording)?;
    recording.pack(packed, args.force)?;
    let counted: Vec<String> = identities.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    if !counted.is_empty() {
        output.note(&format!("made tokens of {}", counted.join(", ")));
    }
    if !left_out.is_empty() {
        let files = left_out.join(", ");
        output.note(&format!("left out, because such a file may hold identities that cannot be replaced: {files}"));
    }
    if not_learned > 0 {
        output.warn(&format!(
            "more than {} identities are in it: {not_learned} of them are tokens only where their form shows them. Remove their \
             lines, and pack again",
            capture::IDENTITIES_MAX
        ));
    }
    output.note("look at what it holds before you give it away: a text may say more than names and numbers");
    Ok(())
}
