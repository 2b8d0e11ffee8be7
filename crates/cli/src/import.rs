//! `bootscope import`: evidence that was taken elsewhere becomes a recording.

use crate::{Done, output::Output};
use anyhow::{Context, bail};
use std::path::PathBuf;

/// Wrap logs taken elsewhere (a serial capture, a dmesg, a trace) into a recording
///
/// Formats are recognised by content; several files of one boot belong into one recording.
#[derive(clap::Args)]
pub struct Args {
    /// The logs
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The folder to make
    #[arg(short, long)]
    output: PathBuf,
    /// Replace the recording that is there
    #[arg(long)]
    force: bool,
}

/// Runs it, and says what was recognised.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let mut any = false;
    for path in &args.files {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let kinds: Vec<String> = evidence::recognise(&bytes);
        output.note(&format!(
            "{}: {}",
            path.display(),
            if kinds.is_empty() { "nothing that is known".to_owned() } else { kinds.join(", ") }
        ));
        any |= !kinds.is_empty();
    }
    if !any {
        bail!(
            "nothing to import: give kernel messages (dmesg, /dev/kmsg, a capture of a serial line, with or without a \
             logger's time stamps), the text of /sys/kernel/tracing/trace, or several of one boot"
        );
    }
    recording::import(&args.files, &args.output, args.force)?;
    output.note(&format!("see it with: bootscope show {}", args.output.display()));
    Ok(Done::Well)
}
