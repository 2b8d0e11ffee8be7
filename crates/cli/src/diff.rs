//! `bootscope diff`: two recordings side by side.

use crate::boot::{self, Opened};
use crate::{Done, output::Output};
use anyhow::bail;
use report::Diff;
use std::path::PathBuf;

/// Compare two boots: what each function took before and after, what appeared, what vanished
///
/// From whatever evidence the two share. With calls (record --trace calls) every function and every path of calls is
/// compared, and two deterministic boots of one kernel with one command line do not differ at all.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording: its folder, or the packed file
    before: PathBuf,
    /// Another one
    after: PathBuf,
    /// How many rows of each table
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    top: usize,
}

const EXAMPLES: &str = "\
Examples:
  bootscope record --kernel old/vmlinuz --trace calls --deterministic -o boots/old
  bootscope record --kernel new/vmlinuz --trace calls --deterministic -o boots/new
  bootscope diff boots/old boots/new

Rows are in the order of their effect on the boot path. `on the path` is by how much the path became longer in the function
itself, `self` counts what it did off the path as well, `total` also what it called.";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let [before, after] = [boot::open(&args.before)?, boot::open(&args.after)?];
    if before.timeline.unit != after.timeline.unit {
        bail!(
            "the times of one recording are in ticks, and nobody knows how long one is: import it with --tsc-frequency"
        );
    }
    let same = same_inputs(&before, &after);
    let names = [&args.before, &args.after].map(|path| path.display().to_string());
    let diff = Diff::new((&names[0], &before.boot(None)?), (&names[1], &after.boot(None)?), same);
    if output.json {
        output.document(&diff)?;
    } else {
        output.text(&diff.text(output.layout(args.top)))?;
    }
    Ok(Done::Well)
}

/// Whether both recorders say what they booted, and that it was the same, the same way.
fn same_inputs(before: &Opened, after: &Opened) -> bool {
    let [before, after] = [before, after].map(|opened| opened.recording.manifest());
    let hashes = |manifest: &recording::Manifest| -> Vec<(String, String)> {
        manifest.inputs.iter().map(|input| (input.role.clone(), input.sha256.clone())).collect()
    };
    let known = !before.how.is_null() && before.inputs.iter().all(|input| !input.sha256.is_empty());
    known && before.how == after.how && hashes(before) == hashes(after)
}
