//! `bootscope diff`: compares two recordings.

use crate::boot_view::BootViewArgs;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use anyhow::{Context, bail};
use campaigns::Watcher as _;
use campaigns::diff::compared;
use campaigns::opened_boot::{self, OpenedBoot};
use campaigns::repeat::Repeated;
use machine::RecordOptions;
use recording::{Difference, GuestSpec, OutcomeKind};
use report::{Diff, Direction};
use std::path::{Path, PathBuf};
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
            let scratch = recording::private_folder().context("cannot make a folder for the boots")?;
            let mut boot = |name: &str, recording| {
                boot_again(recording, boots, args.trust_recording, &scratch.path().join(name), &mut watcher, output)
            };
            let [(before, of_before), (after, of_after)] = [boot("before", &args.before)?, boot("after", &args.after)?];
            watcher.clear();
            let first = between((&names[0], &before), (&names[1], &after))?;
            first.dithered(&of_before, &of_after)
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

/// Compares two open recordings, and how they were run.
pub fn between(before: (&str, &OpenedBoot), after: (&str, &OpenedBoot)) -> anyhow::Result<Diff> {
    let diff = compared(before, after, same_inputs(before.1, after.1))?;
    Ok(Diff { how_differs: how_differs(before.1, after.1), ..diff })
}

/// Boots again as recorded, with dummy arguments, into a folder. Returns the first of these boots, and its differences
/// from each other one.
fn boot_again(
    recording: &Path,
    boots: u32,
    is_trusted: bool,
    into: &Path,
    watcher: &mut Watcher,
    output: &Output,
) -> anyhow::Result<(OpenedBoot, Vec<Diff>)> {
    let name = recording.display();
    let next = "record it here with `bootscope record --like` and options of your own, and compare that";
    let options = Repeated::of(recording, is_trusted, output)?.with_given(|_| false, next)?;
    if !options.guest.deterministic || options.guest.kernel.is_none() {
        bail!(
            "--dither compares deterministic boots of a --kernel, and {name} is none: for others there is `bootscope bench`"
        );
    }
    let mut boot = |round: u32| -> anyhow::Result<OpenedBoot> {
        watcher.announce_boot(&format!("{name}: boot {} of {boots}", round + 1));
        let mut options = RecordOptions { out: into.join(round.to_string()), ..options.clone() };
        options.guest.append = benchmark::dithered(&options.guest.append, round);
        let outcome = machine::record(&options, watcher)?.outcome;
        if outcome.kind != OutcomeKind::Reached {
            bail!("a boot as {name} did not reach its end mark: {}", outcome.detail);
        }
        opened_boot::open(&options.out)
    };
    let first = boot(0)?;
    let mut others = Vec::new();
    for round in 1..boots {
        let other = boot(round)?;
        others.push(compared(("", &first), ("", &other), false)?);
    }
    Ok((first, others))
}

/// The differences in how the two boots were run, as recorded. A changed file name is no difference if the content is
/// known to be the same.
fn how_differs(before: &OpenedBoot, after: &OpenedBoot) -> Vec<Difference> {
    let [before, after] = [before, after].map(|opened| opened.recording.manifest());
    let (Some(guest), Some(other)) = (GuestSpec::of(&before.how), GuestSpec::of(&after.how)) else {
        return Vec::new();
    };
    let mut differences = guest.differences(&other);
    for input in &before.inputs {
        let Some(now) = after.inputs.iter().find(|now| now.role == input.role) else { continue };
        if input.sha256.is_empty() || now.sha256.is_empty() {
            continue;
        }
        if input.sha256 == now.sha256 {
            differences.retain(|difference| difference.what != input.role);
        } else if !differences.iter().any(|difference| difference.what == input.role) {
            let hash = |input: &recording::Input| format!("sha256 {:.12}", input.sha256);
            differences.push(Difference { what: input.role.clone(), before: hash(input), after: hash(now) });
        }
    }
    let around = [("QEMU", &before.vmm.version, &after.vmm.version), ("host", &before.host.cpu, &after.host.cpu)];
    for (what, before, after) in around.into_iter().filter(|(_, before, after)| before != after) {
        differences.push(Difference { what: what.to_owned(), before: before.clone(), after: after.clone() });
    }
    differences
}

/// True if both recordings have the same known inputs and the same guest options, however they were observed.
fn same_inputs(before: &OpenedBoot, after: &OpenedBoot) -> bool {
    let [before, after] = [before, after].map(|opened| opened.recording.manifest());
    let hashes = |manifest: &recording::Manifest| -> Vec<(String, String)> {
        manifest.inputs.iter().map(|input| (input.role.clone(), input.sha256.clone())).collect()
    };
    let guest = GuestSpec::of(&before.how);
    let inputs_are_known = guest.is_some() && before.inputs.iter().all(|input| !input.sha256.is_empty());
    inputs_are_known && guest == GuestSpec::of(&after.how) && hashes(before) == hashes(after)
}
