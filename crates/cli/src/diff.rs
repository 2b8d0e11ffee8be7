//! `bootscope diff`: compares two recordings.

use crate::boot_view::BootViewArgs;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use anyhow::bail;
use campaigns::Watcher as _;
use campaigns::diff::{between, dithered};
use report::{Diff, Direction};
use std::path::PathBuf;
use timeline::Unit;

/// Compare two boots: what each function took before and after, what appeared, what vanished
///
/// diff compares the evidence that both boots have. With calls (record --trace calls), it compares every function and
/// every call path. Two deterministic boots of one kernel with one command line do not differ at all.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording: folder or packed file
    before: PathBuf,
    /// The recording to compare it with
    after: PathBuf,
    /// Boot each side this often, with a dummy argument of another length each time, and list only what changed by more
    /// than that noise; for deterministic recordings
    #[arg(long, value_name = "BOOTS", value_parser = clap::value_parser!(u32).range(2..=50), conflicts_with_all = ["up_to", "model"])]
    dither: Option<u32>,
    /// With --dither: boot a recording that another user or machine made as it says. Its programs, disks and arguments for
    /// QEMU are printed, and taken
    #[arg(long, requires = "dither")]
    trust_recording: bool,
    #[command(flatten)]
    view: BootViewArgs,
    /// List only what became slower, or only what became faster; the rest is one row of each table
    #[arg(long, value_name = "DIRECTION")]
    only: Option<Only>,
    /// Call the two boots so, in place of their paths
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    names: Option<Vec<String>>,
    /// List at most this many rows of each table
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    top: usize,
}

const EXAMPLES: &str = "\
Examples:
  bootscope record --kernel old --trace calls --deterministic -o boots/old
  bootscope record --kernel new --trace calls --deterministic -o boots/new
  bootscope diff boots/old boots/new
  bootscope diff boots/old boots/new --dither 5

The greatest effect on the boot path comes first. `boot path` is the change of
the boot path in the function itself, `self` adds the change off the path, and
`total` adds the functions it called.";

#[derive(Clone, Copy, clap::ValueEnum)]
enum Only {
    Slower,
    Faster,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let [before, after] = [
        args.view.boot_view().open_noting_warnings(&args.before, output)?,
        args.view.boot_view().open_noting_warnings(&args.after, output)?,
    ];
    if (before.timeline.unit == Unit::Ticks) != (after.timeline.unit == Unit::Ticks) {
        bail!(
            "the times of one recording are in ticks, and nobody knows how long one is: import it with --tsc-frequency"
        );
    }
    let paths = [&args.before, &args.after].map(|path| path.display().to_string());
    let names = match args.names.as_deref() {
        Some([before, after]) => [before.clone(), after.clone()],
        _ => paths,
    };
    let diff = match args.dither {
        None => between((&names[0], &before), (&names[1], &after))?,
        Some(boots) => {
            let mut watcher = Watcher::new(output)?;
            let is_trusted = args.trust_recording;
            let sides = [(names[0].as_str(), &*args.before), (names[1].as_str(), &*args.after)];
            let diff = dithered(sides, boots, is_trusted, &mut watcher, output)?;
            watcher.clear();
            diff
        }
    };
    let only = args.only.map(|only| match only {
        Only::Slower => Direction::Slower,
        Only::Faster => Direction::Faster,
    });
    let diff = Diff { only, ..diff };
    if output.json {
        output.document(&diff.without_unlisted())?;
    } else {
        output.text(&diff.text(output.layout(args.top)))?;
    }
    Ok(Done::Well)
}
